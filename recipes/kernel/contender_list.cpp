// Which contenders there are, and how a contender describes itself there.

#include <unistd.h>

#include <chrono>
#include <ctime>
#include <iterator>
#include <unordered_set>

#include <fmt/format.h>

#include "recipes/kernel/contend.hpp"
#include "recipes/kernel/sequence.hpp"
#include "recipes/kernel/waiter.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

namespace {

Awaitable<Result<std::vector<Contender>>> read_contenders(const ContendSpec& spec, std::vector<std::string> names,
                                                          std::string operation, Call call) {
  // All of them in flight at once; the client bounds how many really are.
  std::vector<PendingReply> pending;
  pending.reserve(names.size());
  for (const std::string& name : names) {
    pending.push_back(spec.client->launch(zk::make_request(OpType::get, zk::child_path(spec.directory, name)), call));
  }
  const std::vector<std::string> first = holders(names, spec.names);
  const std::unordered_set<std::string> holding(first.begin(), first.end());
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Reply reply = co_await pending[i].get();
    if (reply.failed(Errc::no_node)) continue;  // Gone since the list was read.
    if (!reply.ok()) co_return zk::to_error(reply, operation, spec.path);
    Contender contender;
    contender.node = names[i];
    contender.data = std::move(reply.data);
    contender.session_id = reply.stat.ephemeral_owner;
    contender.since = std::chrono::system_clock::time_point(std::chrono::milliseconds(reply.stat.ctime_ms));
    contender.token = {reply.stat.czxid};
    contender.shared = spec.names.is_shared(names[i]);
    contender.foreign = !sequence_of(names[i], spec.names.all());
    contender.holds = holding.count(names[i]) != 0;
    contenders.push_back(std::move(contender));
  }
  co_return contenders;
}

const std::string& host_name() {
  static const std::string name = [] {
    char buffer[256] = "unknown";
    ::gethostname(buffer, sizeof buffer - 1);
    return std::string(buffer);
  }();
  return name;
}

}  // namespace

Awaitable<Result<std::vector<Contender>>> list_contenders(ContendSpecPtr shared, std::string operation, Call call) {
  const ContendSpec& spec = *shared;
  Reply listed = co_await spec.client->perform(zk::make_request(OpType::children, spec.directory), call);
  if (listed.failed(Errc::no_node)) co_return std::vector<Contender>();
  if (!listed.ok()) co_return zk::to_error(listed, operation, spec.path);
  std::vector<std::string> names = in_order(listed.names, spec.names.all());
  if (spec.lists_foreign) {
    std::vector<std::string> others = foreign_contenders(listed.names, spec.names.all());
    std::move(others.begin(), others.end(), std::back_inserter(names));
  }
  co_return co_await read_contenders(spec, std::move(names), std::move(operation), call);
}

std::string process_name() { return fmt::format("{}:{}", host_name(), ::getpid()); }

std::string describe_process(const std::string& id) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char since[32];
  std::strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &utc);
  const std::string who = id.empty() ? "" : fmt::format("id={} ", id);
  return fmt::format("{}host={} pid={} since={}", who, host_name(), ::getpid(), since);
}

zk::Work<std::vector<Contender>> contenders_work(ContendSpecPtr spec, const char* operation) {
  return
      [spec = std::move(spec), operation](Call limits) { return list_contenders(spec, operation, std::move(limits)); };
}

zk::CallForm form_of(const ContendSpecPtr& spec, const char* operation) {
  return zk::CallForm(spec->client, operation, spec->path);
}

}  // namespace zkrecipes::detail
