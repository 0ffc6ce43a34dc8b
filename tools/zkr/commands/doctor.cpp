// doctor: what may go wrong with the servers, the session, this host, and a path.

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <thread>

#include <fmt/format.h>

#include <zkrecipes/inspect.hpp>

#include "tools/zkr/cli/acl_text.hpp"
#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/commands/inspection_parts.hpp"
#include "tools/zkr/doctor/host_checks.hpp"
#include "tools/zkr/doctor/server_probe.hpp"
#include "zkclient/detail/servers/hosts.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using zkclient::Client;
using zkclient::Path;

struct DoctorOptions {
  std::string path;
  ProbeOptions probe;
  std::optional<std::chrono::nanoseconds> timer_time = 2s;
  std::optional<std::chrono::nanoseconds> takeover_time = 3s;
};

/// All findings, told one by one.
class Report {
 public:
  explicit Report(const Context& context) : context_(context) {}

  void add(const Finding& finding) {
    worst_ = std::max(worst_, finding.gravity);
    if (context_.json) {
      write_line(
          json::object{{"result", to_string(finding.gravity)}, {"check", finding.check}, {"text", finding.text}});
    } else if (!context_.quiet || finding.gravity >= Gravity::warning) {
      write_line(fmt::format("{:7}  {}: {}", to_string(finding.gravity), finding.check, finding.text));
    }
  }
  void add(const std::vector<Finding>& findings) {
    for (const Finding& finding : findings)
      add(finding);
  }
  /// 0, 1: warnings, 2: failures.
  int code() const { return worst_ == Gravity::failure ? 2 : worst_ == Gravity::warning ? 1 : 0; }

 private:
  const Context& context_;
  Gravity worst_ = Gravity::good;
};

// --- The servers --------------------------------------------------------------------------------------------------

/// Sessions that are connected anywhere; nothing, unless every server of the list tells.
using Connected = std::optional<ConnectedSessions>;

Connected look_at_servers(const std::string& hosts, const ProbeOptions& options, Report& report) {
  const std::vector<Probed> all = probe_all(hosts, options);
  std::vector<ServerState> states;
  Connected connected = ConnectedSessions();
  bool reached = false;
  for (const Probed& probed : all) {
    report.add(probed.findings);
    reached = reached || probed.reached;
    if (probed.state) states.push_back(*probed.state);
    if (!probed.sessions) connected.reset();
    if (connected) connected->insert(probed.sessions->begin(), probed.sessions->end());
  }
  if (!reached) report.add({Gravity::failure, "ensemble", "no server can be reached"});
  if (reached) report.add(judge_ensemble(all.size(), states));
  return connected;
}

// --- The session --------------------------------------------------------------------------------------------------

std::vector<std::chrono::nanoseconds> take_round_trips(const Client& client) {
  constexpr int count = 100;
  std::vector<std::chrono::nanoseconds> taken;
  zkclient::Transaction nothing;
  nothing.check("/");
  for (int i = 0; i < count; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    client.commit(nothing);
    taken.emplace_back(std::chrono::steady_clock::now() - begun);
  }
  return taken;
}

// As it stood when the session connected.
std::optional<std::chrono::system_clock::time_point> clock_of_server(const Client& client, std::int64_t session,
                                                                     const ProbeOptions& options) {
  const auto name = client.server();
  if (!name) return std::nullopt;
  const auto host = zkclient::detail::parse_hosts(*name).at(0);
  return connected_since({host.name, host.port}, session, options);
}

// The result: the timeout that was granted.
std::chrono::milliseconds look_at_session(const Client& client, std::chrono::milliseconds asked,
                                          const ProbeOptions& options, Report& report) {
  const auto begun = std::chrono::steady_clock::now();
  const auto before = std::chrono::system_clock::now();
  const zkclient::Session session = client.connect();
  const auto after = std::chrono::system_clock::now();
  const auto taken = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun);
  const bool as_asked = session.timeout() == asked;
  std::string text = fmt::format("opened in {} ms at {}, timeout {} ms", taken.count(), client.server().value_or("?"),
                                 session.timeout().count());
  if (!as_asked) text += fmt::format(" instead of {} ms: the servers' limits", asked.count());
  report.add({as_asked ? Gravity::good : Gravity::note, "session", text});
  if (const auto server = clock_of_server(client, session.id(), options)) {
    report.add(judge_clock(*server, before, after));
  }
  report.add(judge_round_trips(take_round_trips(client), session.timeout()));
  return session.timeout();
}

// --- The path -----------------------------------------------------------------------------------------------------

// The newest number that the server has given to a child.
std::optional<std::int64_t> newest_number(const std::vector<std::string>& names) {
  std::optional<std::int64_t> newest;
  for (const std::string& name : names) {
    const std::size_t digits = name.find_last_not_of("0123456789");
    const std::string number = name.substr(digits == std::string::npos ? 0 : digits + 1);
    if (number.size() == 10) newest = std::max<std::int64_t>(newest.value_or(0), std::stoll(number));
  }
  return newest;
}

std::string names_of(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, names.size()); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > shown ? text + fmt::format(" and {} more", names.size() - shown) : text;
}

void look_at_contenders(const Path& path, const zkrecipes::Inspection& found, const Connected& connected,
                        Report& report) {
  using zkrecipes::RecipeKind;
  const bool may_last = found.kind == RecipeKind::barrier || found.kind == RecipeKind::persistent_node ||
                        found.kind == RecipeKind::persistent_ttl_node;
  std::vector<std::string> persistent;
  std::vector<std::string> foreign;
  std::vector<std::string> cut_off;
  for (const zkrecipes::Contender& one : found.contenders) {
    if (one.foreign) foreign.push_back(one.node);
    if (one.session_id == 0 && !may_last) persistent.push_back(one.node);
    if (connected && one.session_id != 0 && !connected->contains(one.session_id)) cut_off.push_back(one.node);
  }
  if (!persistent.empty()) {
    report.add(
        {Gravity::failure, path.str(),
         "nodes of no session stand in the queue, and block it until they are removed: " + names_of(persistent)});
  }
  if (!foreign.empty()) {
    report.add({Gravity::warning, path.str(),
                "contenders of other libraries, which exclude none of ours: " + names_of(foreign)});
  }
  if (!cut_off.empty()) {
    report.add({Gravity::warning, path.str(),
                "sessions without a connection, whose processes are cut off or gone: " + names_of(cut_off)});
  }
}

void look_at_children(const Client& client, const Path& path, Report& report) {
  constexpr std::size_t many = 10'000;
  constexpr std::int64_t near_the_end = std::numeric_limits<std::int32_t>::max() - 10'000'000;
  const zkclient::Children children = client.children(path);
  if (children.names.size() > many) {
    report.add(
        {Gravity::warning, path.str(), fmt::format("{} children: lists of them are slow", children.names.size())});
  }
  const auto newest = newest_number(children.names);
  if (newest && *newest > near_the_end) {
    report.add({Gravity::warning, path.str(),
                fmt::format("the server's counter of nodes stands at {}, and wraps at 2147483647; this library and "
                            "Curator go on, others do not",
                            *newest)});
  }
}

// False: this client lacks the right. The servers do nothing of it: no node has the last condition's version.
bool may(const Client& client, zkclient::Transaction trial, const Path& path) {
  trial.check(path, std::numeric_limits<std::int32_t>::max());
  try {
    client.commit(trial);
  } catch (const zkclient::Error& error) {
    if (const auto refused = error.refused()) return refused->reason != zkclient::Errc::no_auth;
    throw;
  }
  return true;
}

void look_at_rights(const Client& client, const Path& path, Report& report) {
  std::vector<std::string> entries;
  for (const zkclient::Acl& entry : client.get_acl(path).acl)
    entries.push_back(acl_text(entry));
  const std::string access = fmt::format("access: {}", fmt::join(entries, ", "));
  const Path child = path / fmt::format("zkr-doctor-{:x}", static_cast<std::uint64_t>(client.session().id()));
  zkclient::Transaction trial;
  trial.create(child, "", {.mode = zkclient::CreateMode::ephemeral});
  std::string missing;
  if (!may(client, trial, path)) {
    missing = "create";
  } else if (!may(client, trial.remove(child), path)) {
    missing = "delete";
  }
  if (missing.empty()) return report.add({Gravity::good, path.str(), access});
  report.add(
      {Gravity::warning, path.str(),
       fmt::format("{}; the right to {} nodes is missing here: whoever is to hold or wait needs it", access, missing)});
}

// A job whose runner has died is without one until another process has taken it over. That is no failure, and no node
// tells who stands by, so it gets time for it.
zkrecipes::Inspection inspect_past_takeover(const Client& client, const Path& path, std::chrono::nanoseconds time) {
  constexpr auto pause = 100ms;
  const auto begun = std::chrono::steady_clock::now();
  zkrecipes::Inspection found = zkrecipes::inspect(client, path);
  while (found.job && found.job->abandoned && std::chrono::steady_clock::now() - begun < time) {
    std::this_thread::sleep_for(pause);
    found = zkrecipes::inspect(client, path);
  }
  return found;
}

void look_at_path(const Client& client, const Path& path, std::chrono::nanoseconds takeover_time,
                  const Connected& connected, Report& report) {
  using zkrecipes::NodeNaming;
  const zkrecipes::Inspection found = inspect_past_takeover(client, path, takeover_time);
  if (found.kind == zkrecipes::RecipeKind::nothing) {
    report.add({Gravity::note, path.str(), "there is no such node yet"});
    return;
  }
  const std::string parts = parts_text(found);
  report.add({Gravity::good, path.str(),
              fmt::format("{}, {}", zkrecipes::to_string(found.kind),
                          parts.empty() ? fmt::format("{} contenders", found.contenders.size()) : parts)});
  if (found.naming == NodeNaming::mixed) {
    report.add({Gravity::failure, path.str(),
                "names of Curator and of stock kazoo: they do not exclude each other, see docs/locks.md"});
  }
  look_at_rights(client, path, report);
  look_at_children(client, path, report);
  look_at_contenders(path, found, connected, report);
  report.add(judge_parts(path.str(), found));
}

// --- All of it ----------------------------------------------------------------------------------------------------

// What ends it early is a finding, too.
void look_with_session(const Context& context, const Connection& connection, const DoctorOptions& options,
                       const Connected& connected, Report& report) {
  auto timeout = connection.options.session_timeout;
  try {
    zkclient::ClientOptions whole = connection.options;
    whole.prefix = Path();  // It may not exist yet.
    const Client client(connection.hosts, whole);
    timeout = look_at_session(client, timeout, options.probe, report);
    prove(client, connection.identities);
    const Path& prefix = connection.options.prefix;
    if (!prefix.is_root() && !client.exists(prefix)) {
      report.add({Gravity::warning, "prefix", prefix.str() + " does not exist: nothing creates it by itself"});
    } else if (!options.path.empty()) {
      const Path path(options.path);
      look_at_path(client, prefix.is_root() ? path : Path(prefix.str() + path.str()), *options.takeover_time, connected,
                   report);
    }
  } catch (const zkclient::Error& error) {
    report.add({Gravity::failure, "session", explain(error, context.identities)});
  }
  report.add(judge_lateness(measure_lateness(*options.timer_time), timeout));
}

int run_doctor(const Context& context, const DoctorOptions& options) {
  const Connection connection = connection_of(context.connection);
  if (!options.path.empty()) (void)Path(options.path);  // Refuses what is none.
  Report report(context);
  ProbeOptions probe = options.probe;
  probe.patience = connection.options.operation_timeout;
  const Connected connected = look_at_servers(connection.hosts, probe, report);
  look_with_session(context, connection, options, connected, report);
  report.add(look_at_host());
  return report.code();
}

}  // namespace

void add_doctor(CLI::App& app, Context& context) {
  const auto command = add_subcommand(
      app, context, "doctor", "What may go wrong with servers, session, this host and a path: 1 warnings, 2 failures",
      run_doctor);
  DoctorOptions& options = *command.options;
  command->add_option("PATH", options.path, "A recipe's path");
  command->add_option("--admin-port", options.probe.admin_port, "Of the servers' admin.serverPort; 8080")
      ->type_name("PORT");
  add_duration(*command.app, "--timer-time", options.timer_time, "For how long timers of this host are measured; 2s");
  add_duration(*command.app, "--takeover-time", options.takeover_time,
               "A job may be so long without a runner, while another process takes it over; 3s");
}

}  // namespace zkr
