#include "simulation/servers/server.hpp"

#include <utility>

#include "simulation/servers/four_letter_words.hpp"

namespace zktesting::simulated {

using namespace std::chrono_literals;

namespace {

/// The links that one attempt at following may use.
constexpr LinkId links_of_a_role = 16;
/// How long the elected servers take, at most, until they begin their roles.
constexpr Nanos longest_change_of_role = 80ms;

std::string ensemble_config(int servers) {
  std::string text;
  for (int host = 1; host <= servers; ++host) {
    const std::string number = std::to_string(host);
    text += "server.";
    text += number;
    text += "=10.0.0.";
    text += number;
    text += ":2888:3888:participant\n";
  }
  return text + "version=0";
}

Tree empty_tree(const EnsembleOptions& options) {
  Tree tree(options.tree);
  if (options.servers > 1) tree.set_config(ensemble_config(options.servers), options.epoch);
  return tree;
}

}  // namespace

Server::Server(EventQueue& events, const EnsembleOptions& options, Host host, Peers& peers)
    : events_(events),
      options_(options),
      host_(host),
      peers_(peers),
      process_(events),
      disk_(empty_tree(options)),
      log_(process_, disk_, options.fsync, [this] { disk_refuses(); }),
      clients_(process_, options, host, memory_,
               [this](const std::string& word) { return answer_four_letter_word(*this, word); }),
      machine_{host,     options,  peers,
               process_, disk_,    log_,
               memory_,  clients_, Nanos(events.random().between(0, Nanos(10s).count()))},
      next_link_(static_cast<LinkId>(host) << 32) {}

void Server::start() {
  if (process_.alive()) return;
  process_.begin();
  state_ = ServerState::starting;
  const Nanos jitter(events_.random().between(0, Nanos(50ms).count()));
  process_.after(lane::main, options_.listens_after, [this] { listening_ = true; });
  process_.after(lane::main, options_.runs_after + jitter, [this] { run(); });
}

void Server::run() {
  memory_.tree = disk_.load();
  if (options_.servers == 1) return lead();
  election_ = std::make_unique<Election>(
      process_, host_, options_.servers,
      Election::Hooks{[this](Host to, const Notification& notification) {
                        peers_.send(host_, to, [notification](Server& server) { server.hear(notification); });
                      },
                      [this](const Vote& vote) { elected(vote); }});
  look();
}

void Server::kill(Loss loss) {
  if (!process_.alive()) return;
  process_.end();
  log_.forget();
  disk_.crash(loss, events_.random());
  state_ = ServerState::down;
  listening_ = leaving_ = false;
  clients_.drop_all();
  tell_others([host = host_](Server& server) { server.gone(host); });
  // One of them may have brought this about, and goes on when this returns.
  struct Remains {
    std::unique_ptr<Election> election;
    std::unique_ptr<Leader> leader;
    std::unique_ptr<Follower> follower;
  };
  auto remains = std::make_shared<Remains>(Remains{std::move(election_), std::move(leader_), std::move(follower_)});
  events_.after(Nanos(0), [remains = std::move(remains)] {});
}

// Seen on real servers: a standalone one ends, as if it were asked to. A member of an ensemble lives on. Its main thread sees
// within half a tick that the thread of the log has ended, gives up the role, and tries again; what was written is there.
void Server::disk_refuses() {
  if (options_.servers == 1) return kill(Loss::none);
  log_.forget();
  if (state_ == ServerState::looking) return look();
  const Nanos notices(events_.random().between(0, options_.ticks(0.5).count()));
  process_.after(lane::main, notices, [this, role = roles_] {
    if (role == roles_ && state_ != ServerState::looking) leave();
  });
}

void Server::wipe() {
  kill();
  disk_.wipe();
}

std::shared_ptr<ServerSide> Server::accept(Output output) {
  return listening_ ? clients_.accept(std::move(output)) : nullptr;
}

// Other servers.

void Server::arrive(Host from, const Peers::Message& message, const Peers::Message& refused) {
  if (process_.alive())
    process_.arrive(lane::peer(from), [this, message] { message(*this); });
  else if (refused)
    refused(*this);
}

void Server::hear(const Notification& notification) {
  if (election_) election_->hear(notification);
}

void Server::refuse(Host follower, LinkId link) {
  peers_.send(host_, follower, [link](Server& server) {
    Follower* refused = server.following();
    if (refused != nullptr && refused->link() == link) refused->refused();
  });
}

void Server::gone(Host host) {
  if (Leader* leader = leading()) leader->gone(host);
  if (Follower* follower = following(); follower != nullptr && follower->leader() == host) leave();
}

void Server::tell_others(const Peers::Message& message) {
  for (Host host = 1; host <= options_.servers; ++host) {
    if (host != host_) peers_.send(host_, host, message);
  }
}

// Roles.

void Server::look() {
  state_ = ServerState::looking;
  options_.say(host_, [] { return std::string("looks for a leader"); });
  log_.then([this] {
    take_over_log();
    election_->look({host_, disk_.current_epoch, disk_.last_zxid()});
  });
}

// What is in the log counts, committed or not: the next leader decides.
void Server::take_over_log() {
  for (const TxnPtr& txn : disk_.after(memory_.tree.last_zxid()))
    memory_.tree.apply(*txn);
}

void Server::elected(const Vote& vote) {
  const Nanos change(events_.random().between(0, longest_change_of_role.count()));
  process_.after(lane::main, change, [this, leader = vote.leader] { leader == host_ ? lead() : follow(leader); });
}

void Server::lead() {
  state_ = ServerState::leading;
  ++roles_;
  leader_ = std::make_unique<Leader>(machine_, hooks());
  leader_->begin();
}

void Server::follow(Host leader) {
  state_ = ServerState::following;
  ++roles_;
  follower_ = std::make_unique<Follower>(machine_, leader, next_link_, hooks());
  next_link_ += links_of_a_role;
  follower_->begin();
}

RoleHooks Server::hooks() {
  return {[this] { leave(); },
          [this](std::int64_t epoch) {
            if (election_) election_->begin_epoch(epoch);
          }};
}

void Server::leave() {
  if (leaving_) return;
  leaving_ = true;
  process_.after(lane::main, Nanos(0), [this] {
    retire();
    look();
  });
}

void Server::retire() {
  clients_.drop_all();
  if (leader_) leader_->end();
  if (follower_) follower_->end();
  leader_.reset();
  follower_.reset();
  leaving_ = false;
}

}  // namespace zktesting::simulated
