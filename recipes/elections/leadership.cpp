#include <zkrecipes/election.hpp>

#include <atomic>

#include "recipes/elections/leader_record.hpp"
#include "recipes/kernel/lease_core.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes {

using namespace words;
using detail::LeaderRecord;
using detail::LeaseCore;
using detail::Publication;

/// Changed only by the publication that has it.
struct detail::Publication {
  std::atomic<bool> taken{false};
  std::optional<std::string> value = {};
  bool ready = false;
};

namespace {

constexpr const char* proclaiming = "proclaim";
constexpr const char* declaring = "ready";

/// One publication at a time: each repeats what the one before has said.
class Turn {
 public:
  Turn(std::shared_ptr<Publication> publication, const char* operation, const std::string& path)
      : publication_(std::move(publication)) {
    if (publication_->taken.exchange(true)) {
      throw Error(Errc::would_deadlock, operation, path, "another publication is under way");
    }
  }
  ~Turn() { end(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Publication* operator->() const noexcept { return publication_.get(); }
  /// Before the caller is told, which may publish again at once.
  void end() noexcept {
    if (!std::exchange(ended_, true)) publication_->taken = false;
  }

 private:
  const std::shared_ptr<Publication> publication_;
  bool ended_ = false;
};

zk::Awaitable<Result<void>> publish(std::shared_ptr<LeaseCore> lease, std::shared_ptr<Turn> turn, LeaderRecord record,
                                    const char* operation, std::string election, zk::Call call) {
  const std::shared_ptr<zk::ClientCore> client = lease->client();
  const zkclient::Path node(lease->grant().path);
  zk::Request request = zk::make_request(zk::OpType::multi, "/");
  request.operations.emplace_back(zkclient::Check{node});
  request.operations.emplace_back(
      zkclient::Transaction::Set{node.parent(), detail::encode(record), zkclient::any_version});
  call.bound = lease->session();
  zk::Reply reply = co_await client->perform(std::move(request), call);
  if (reply.ok() || reply.failed(Errc::in_doubt)) {  // What may stand there is what the next publication repeats.
    (*turn)->value = std::move(record.value);
    (*turn)->ready = record.ready;
  }
  turn->end();
  if (reply.ok()) co_return Result<void>();
  if (reply.refused(0, zk::rc::no_node) || reply.failed(Errc::session_lost)) reply.error = Errc::not_held;
  co_return zk::to_error(reply, operation, election);
}

/// A publication as it is about to be sent.
struct Prepared {
  zk::CallForm form;
  zk::Work<void> work;
};

template <typename Change>
Prepared prepare(const Leadership& leadership, const std::shared_ptr<Publication>& publication, const char* operation,
                 Change change) {
  const std::shared_ptr<LeaseCore>& lease = leadership.impl();
  if (lease == nullptr) throw Error(Errc::not_held, operation, "", "the leadership is empty");
  std::string election = zkclient::Path(leadership.node()).parent().str();
  if (!leadership.valid()) throw Error(Errc::not_held, operation, election);
  auto turn = std::make_shared<Turn>(publication, operation, election);
  LeaderRecord record{leadership.token().value, (*turn)->ready, (*turn)->value};
  change(record);
  auto work = [lease, turn = std::move(turn), record = std::move(record), operation, election](zk::Call call) {
    return publish(lease, turn, record, operation, election, std::move(call));
  };
  return {zk::CallForm(lease->client(), operation, std::move(election)), std::move(work)};
}

Prepared prepare_value(const Leadership& leadership, const std::shared_ptr<Publication>& publication,
                       std::string_view value) {
  return prepare(leadership, publication, proclaiming,
                 [&](LeaderRecord& record) { record.value = std::string(value); });
}

Prepared prepare_ready(const Leadership& leadership, const std::shared_ptr<Publication>& publication) {
  return prepare(leadership, publication, declaring, [](LeaderRecord& record) { record.ready = true; });
}

}  // namespace

Leadership::Leadership(Lease lease) : Lease(std::move(lease)), publication_(std::make_shared<Publication>()) {}

void Leadership::proclaim(std::string_view value, const CallOptions& call) {
  Prepared prepared = prepare_value(*this, publication_, value);
  prepared.form.wait(call, std::move(prepared.work));
}

void Leadership::ready(const CallOptions& call) {
  Prepared prepared = prepare_ready(*this, publication_);
  prepared.form.wait(call, std::move(prepared.work));
}

void Leadership::async_proclaim(std::string_view value, zkclient::Handler<void> handler, const CallOptions& call) {
  zk::require_handler(handler, proclaiming, node());
  Prepared prepared = prepare_value(*this, publication_, value);
  prepared.form.start(call, std::move(prepared.work), std::move(handler));
}

void Leadership::async_ready(zkclient::Handler<void> handler, const CallOptions& call) {
  zk::require_handler(handler, declaring, node());
  Prepared prepared = prepare_ready(*this, publication_);
  prepared.form.start(call, std::move(prepared.work), std::move(handler));
}

}  // namespace zkrecipes
