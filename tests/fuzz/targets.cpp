#include "tests/fuzz/targets.hpp"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include <zkclient/error.hpp>
#include <zkclient/log.hpp>
#include <zkclient/path.hpp>
#include <zkclient/reconfig.hpp>
#include <zkrecipes/participant_log.hpp>

#include "recipes/barriers/round_decider.hpp"
#include "recipes/commit/commit_record.hpp"
#include "recipes/discovery/instance_format.hpp"
#include "recipes/elections/leader_record.hpp"
#include "recipes/jobs/job_format.hpp"
#include "recipes/jobs/time_zone.hpp"
#include "recipes/kernel/sequence.hpp"
#include "recipes/locks/permit_decider.hpp"
#include "recipes/migrations/migration_decider.hpp"
#include "recipes/queues/item_format.hpp"
#include "recipes/replication/placement_format.hpp"
#include "recipes/replication/replica_format.hpp"
#include "recipes/values/latch_decider.hpp"
#include "tools/guardian/orders.hpp"
#include "zkclient/detail/log.hpp"
#include "zkclient/detail/servers/hosts.hpp"
#include "zktesting/detail/frames.hpp"

namespace fuzz {
namespace {

using namespace std::string_literals;

void require(bool property, const char* what) {
  if (!property) throw std::logic_error(what);
}

std::optional<zkclient::Path> parse_path(std::string_view text) {
  try {
    return zkclient::Path(text);
  } catch (const zkclient::Error& error) {
    require(error.errc() == zkclient::Errc::invalid_path, "a bad path has a code of its own");
    return std::nullopt;
  }
}

void check_path(std::string_view input) {
  const auto path = parse_path(input);
  if (!path) return;
  require(path->str() == input, "an accepted path is what was written");
  require(input.starts_with('/') && input.find('\0') == std::string_view::npos, "the C client could misread it");
  require(input.find("//") == std::string_view::npos && (input.size() == 1 || !input.ends_with('/')), "no empty parts");
  require(path->starts_with(path->parent()) && path->starts_with({}), "it lies below its parent and the root");
  if (path->is_root()) {
    require(path->parent() == *path && path->name().empty(), "the root is its own parent");
    return;
  }
  require(path->parent() / path->name() == *path, "parent and name make the path again");
  require(path->name() != "." && path->name() != "..", "no relative parts");
  require(!path->parent().starts_with(*path), "nothing lies below its child");
  require(parse_path(path->parent().str()).has_value(), "the parent is valid as well");
}

void check_hosts(std::string_view input) {
  std::vector<zkclient::detail::Host> hosts;
  try {
    hosts = zkclient::detail::parse_hosts(input);
  } catch (const zkclient::Error& error) {
    require(error.errc() == zkclient::Errc::invalid_argument, "a bad list has a code of its own");
    return;
  }
  require(!hosts.empty(), "a list names a host");
  std::string written;
  for (const auto& host : hosts) {
    require(!host.name.empty() && host.port != 0, "a host has a name and a port");
    require(host.name.find_first_of("/,[] \t\n\0"s) == std::string::npos, "nothing foreign is in a name");
    if (!written.empty()) written += ',';
    const bool six = host.name.find(':') != std::string::npos;
    written += (six ? "[" + host.name + "]" : host.name) + ":" + std::to_string(host.port);
  }
  const auto again = zkclient::detail::parse_hosts(written);
  const auto same = [](const auto& a, const auto& b) { return a.name == b.name && a.port == b.port; };
  require(std::equal(hosts.begin(), hosts.end(), again.begin(), again.end(), same), "written and read, it is the same");
}

const std::vector<std::string_view> infixes{"-lock-", "-latch-", "__lock__"};

std::vector<std::string> lines_of(std::string_view input) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin <= input.size() && lines.size() < 64;) {
    const std::size_t end = std::min(input.find('\n', begin), input.size());
    lines.emplace_back(input.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// As the server prints it.
std::string printed(std::int32_t number) {
  std::array<char, 16> digits{};
  std::snprintf(digits.data(), digits.size(), "%010d", number);
  return digits.data();
}

// Lines are names of children.
void check_sequence(std::string_view input) {
  const std::vector<std::string> names = lines_of(input);
  std::vector<std::string> numbered;
  for (const std::string& name : names) {
    const auto number = zkrecipes::detail::sequence_of(name, infixes);
    if (!number) continue;
    numbered.push_back(name);
    require(name.size() >= printed(*number).size(), "the number is in the name");
    const auto alone = zkrecipes::detail::sequence_of("x-lock-" + printed(*number), infixes);
    require(alone == number, "printed and read, it is the same number");
  }
  for (const std::string& name : zkrecipes::detail::foreign_contenders(names, infixes))
    require(has(names, name) && !has(numbered, name), "those of other libraries are there, and not ours");
  const auto ordered = zkrecipes::detail::in_order(names, infixes);
  require(std::is_permutation(ordered.begin(), ordered.end(), numbered.begin(), numbered.end()),
          "ordering loses and adds nothing");
  std::vector<std::string> shuffled(names.rbegin(), names.rend());
  const auto is_near = [](const std::string& a, const std::string& b) {
    const auto x = static_cast<std::uint32_t>(*zkrecipes::detail::sequence_of(a, infixes));
    const auto y = static_cast<std::uint32_t>(*zkrecipes::detail::sequence_of(b, infixes));
    return std::min(x - y, y - x) < 0x4000'0000U;
  };
  const bool near = std::all_of(ordered.begin(), ordered.end(),
                                [&](const std::string& name) { return is_near(name, ordered.front()); });
  if (!near) return;  // Made by hand: the order means nothing, but must not crash.
  require(zkrecipes::detail::in_order(shuffled, infixes) == ordered, "the order does not depend on the listing");
  for (std::size_t i = 1; i < ordered.size(); ++i) {
    const auto before = *zkrecipes::detail::sequence_of(ordered[i - 1], infixes);
    const auto after = *zkrecipes::detail::sequence_of(ordered[i], infixes);
    require(before == after || zkrecipes::detail::precedes(before, after), "older ones come first, across the wrap");
    require(!zkrecipes::detail::precedes(after, before), "and not the other way round");
  }
}

void check_leader_record(std::string_view input) {
  using zkrecipes::detail::decode_leader_record;
  using zkrecipes::detail::LeaderRecord;
  if (const auto record = decode_leader_record(input)) {
    require(decode_leader_record(encode(*record)) == record, "written and read, it is the same");
  }
  // Any value may be proclaimed.
  const LeaderRecord any{static_cast<std::int64_t>(std::hash<std::string_view>()(input)), input.size() % 2 == 0,
                         std::string(input)};
  require(decode_leader_record(encode(any)) == any, "every value comes back whole");
}

void check_replica_state(std::string_view input) {
  using namespace zkrecipes::detail;
  ReplicaDefect defect = ReplicaDefect::none;
  const auto state = decode_replica_state(input, &defect);
  require(state.has_value() == (defect == ReplicaDefect::none), "a refusal has a reason");
  if (state) require(decode_replica_state(encode(*state)) == state, "written and read, it is the same state");
  if (const auto member = decode_replica_member("a", input)) {
    require(decode_replica_member("a", encode(*member)) == member, "written and read, it is the same member");
  }
}

void check_commit_record(std::string_view input) {
  using namespace zkrecipes::detail;
  if (const auto header = decode_transaction(input)) {
    require(decode_transaction(encode(*header)) == header, "written and read, it is the same transaction");
    require(!header->participants.empty(), "a transaction has participants");
    for (const std::string& name : header->participants)
      require(name_defect(name) == nullptr, "a participant's name can be the name of a node");
  }
  if (const auto decision = decode_decision(input)) {
    if (decision->reason.size() <= max_reason) require(encode(*decision) == input, "a decision is what was written");
  }
  if (const auto logged = decode_logged(input)) {
    require(decode_logged(encode(*logged)) == logged, "written and read, it is the same");
  }
  const std::vector<std::string> children = lines_of(input);
  const Ballot ballot = sort_out(children);
  require(ballot.decided == has(children, "decision") && ballot.coordinated == has(children, "coordinator"),
          "what is there is seen, and nothing else");
  for (const std::string& name : ballot.voted)
    require(has(children, "vote-" + name), "a vote is counted for whom it names");
  for (const std::string& name : ballot.acknowledged)
    require(has(children, "ack-" + name), "and so is an acknowledgement");
}

// Lines are names of children; and the whole is a node's data.
void check_item_format(std::string_view input) {
  using namespace zkrecipes::detail;
  using Style = ItemFormat::Style;
  const std::vector<std::string> names = lines_of(input);
  const std::vector<std::string> alone{std::string(input)};
  for (const Style style : {Style::standard, Style::zookeeper, Style::curator, Style::kazoo, Style::kazoo_locking}) {
    for (const QueueKind kind : {QueueKind::plain, QueueKind::prioritized, QueueKind::delayed, QueueKind::identified}) {
      const ItemFormat format(style, kind);
      if (format.defect() != nullptr) continue;
      const std::vector<ItemKey> ordered = in_take_order(names, format);
      const auto items = std::count_if(names.begin(), names.end(),
                                       [&](const std::string& name) { return format.parse(name).has_value(); });
      require(static_cast<std::ptrdiff_t>(ordered.size()) == items, "ordering loses and adds nothing");
      for (const ItemKey& key : ordered) {
        require(has(names, key.name) && format.parse(key.name) == key, "a key keeps its name");
        require(format.defect(key.priority) == nullptr, "a priority that is read can be written");
        const std::string id(format.id_of(key.name));
        require(id.empty() || format.name_with_id(id) == format.name_again(key), "an id comes back");
        require(key.name.starts_with(format.name_again(key)), "the number is what comes last");
        const auto other = format.parse(format.name_again(key) + "0000000007");
        require(other && other->priority == key.priority && other->due_ms == key.due_ms && other->sequence == 7,
                "another node says the same");
        std::string name = format.name(key.priority);
        if (kind == QueueKind::delayed) name = format.name_due(key.due_ms);
        const auto again = format.parse(name + printed(key.sequence));
        require(again && again->priority == key.priority && again->sequence == key.sequence,
                "written and read, it is the same place");
        require(again->due_ms == key.due_ms, "and the same time");
      }
      require(std::is_sorted(ordered.begin(), ordered.end(),
                             [](const ItemKey& a, const ItemKey& b) {
                               return a.priority != b.priority ? a.priority < b.priority : a.due_ms < b.due_ms;
                             }),
              "lower priorities and earlier times come first");
      if (const auto read = format.decode(std::string(input))) {
        const std::string again = format.encode(*read, format.reason(input));
        require(!read->empty() && format.decode(again) == read, "read and written, it is the same item");
        require(format.reason(again) == format.reason(input), "for the same reason");
        if (format.foreign()) require(again == input, "and the same data");
      }
      require(format.decode(format.encode(alone)) == alone, "any bytes come back");
    }
  }
  const ItemFormat curator(Style::curator, QueueKind::plain);
  const std::vector<std::string> several{alone.front(), "", alone.front()};
  require(curator.decode(curator.encode(several)) == several, "and so do several items in one node");
}

// What is between the bars of a name may be any time, and any id.
void check_item_names(std::string_view input) {
  using namespace zkrecipes::detail;
  using Style = ItemFormat::Style;
  const auto any = static_cast<std::int64_t>(std::hash<std::string_view>()(input) >> 1U);
  for (const Style style : {Style::standard, Style::curator}) {
    const ItemFormat delayed(style, QueueKind::delayed);
    for (const std::int64_t due : {any, any >> 24U, any % 1000, std::int64_t{0}}) {
      const auto key = delayed.parse(delayed.name_due(due) + printed(7));
      require(key && key->due_ms == due && key->sequence == 7, "every time comes back");
    }
    const ItemFormat identified(style, QueueKind::identified);
    const std::string name = identified.name_with_id(input) + printed(7);
    if (id_defect(input) == nullptr) {
      const auto key = identified.parse(name);
      require(key && key->sequence == 7, "an item with any good id is an item");
      require(identified.id_of(name) == input, "every good id comes back");
    }
    for (const std::string& line : lines_of(input)) {
      if (line.find('/') != std::string::npos) continue;  // No child has such a name.
      const std::string id(identified.id_of(line));
      require(id.empty() || id_defect(id) == nullptr || line.size() > 1000, "an id that is read can be written");
    }
  }
}

// The data of a latch's node, and what counts make of it.
void check_latch(std::string_view input) {
  using namespace zkrecipes::detail;
  LatchView view{.exists = true, .record = decode_latch(input), .version = 3};
  const LatchRecord before = view.record.value_or(LatchRecord());
  if (view.record && !input.empty())
    require(decode_latch(encode_latch(*view.record)) == view.record, "written and read, it is the same");
  const std::vector<std::int64_t> counts{1, 3, std::numeric_limits<std::int64_t>::max()};
  for (const std::int64_t generation : {std::int64_t{1}, before.generation, before.generation - 1}) {
    if (generation < 1) continue;
    const LatchStep step = decide_latch(view, counts, {generation, std::max<std::int64_t>(1, before.count)});
    require(step.answers.size() == counts.size(), "each count has its answer");
    require(view.record || step.answers.front().error.has_value(), "what is no latch is counted down by nobody");
    if (!view.record) continue;
    require(step.record.left >= 0 && step.record.left <= step.record.count, "it is not below zero");
    const bool began = step.record.generation - 1 == before.generation && before.left == 0;
    const bool same = step.record.generation == before.generation && step.record.left <= before.left;
    require(began || same, "a generation only falls, and the next one begins when it is open");
    for (const LatchAnswer& answer : step.answers)
      require(answer.error || answer.left >= 0, "nobody is told less than zero");
  }
}

// The hosts of the lines, each once, in their order.
zkrecipes::detail::HostIds ids_in(const std::vector<std::string>& lines, std::size_t one_in) {
  zkrecipes::detail::HostIds ids;
  for (std::size_t i = 0; i < lines.size(); i += one_in)
    ids.push_back(lines[i].substr(0, lines[i].find(' ')));
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

bool is_subset(const zkrecipes::detail::HostIds& some, const zkrecipes::detail::HostIds& all) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

void check_placement_step(const zkrecipes::detail::PlacementStep& step, const zkrecipes::detail::PartitionFacts& facts,
                          std::size_t minimum) {
  require(is_subset(step.next.wanted, step.next.assigned), "what is wanted is assigned");
  require(step.next.wanted.size() >= minimum, "no fewer are wanted");
  if (!facts.node) return;
  for (const std::string& id : facts.node->assigned) {
    if (std::binary_search(step.next.assigned.begin(), step.next.assigned.end(), id)) continue;
    require(step.rests_on_state && step.rests_on_ready.size() >= minimum, "a replica goes while others are ready");
    require(is_subset(step.rests_on_ready, facts.ready), "which they are");
    const bool had_all = std::binary_search(facts.in_sync->begin(), facts.in_sync->end(), id);
    require(!had_all || is_subset(step.next.wanted, step.rests_on_ready), "who has all writes goes last");
  }
}

// The data of a host's node, or of a partition's; and what a placer makes of such a partition.
void check_placement(std::string_view input) {
  using namespace zkrecipes::detail;
  if (const auto host = decode_host("a", input)) {
    require(host_defect(*host) == nullptr, "a host that is read can be written");
    require(decode_host("a", encode(*host)) == host, "written and read, it is the same host");
  }
  PartitionFacts facts{"p"};
  facts.node = decode_placement(input);
  if (facts.node) {
    require(encode(*facts.node) == input, "a placement is what was written");
    require(is_subset(facts.node->wanted, facts.node->assigned), "what is wanted is assigned");
    facts.in_sync = facts.node->assigned;
    facts.ready = facts.node->wanted;
  }
  const std::vector<std::string> lines = lines_of(input);
  facts.members = ids_in(lines, 1);
  zkrecipes::Placement goal;
  goal["p"] = ids_in(lines, 2);
  // All are in sync, then one of those that shall go is not, then one of those that are wanted is not there.
  for (int less = 0; less < 3; ++less) {
    if (less == 1 && facts.in_sync && facts.in_sync->size() > facts.ready.size())
      std::erase(*facts.in_sync, *std::find_if(facts.in_sync->begin(), facts.in_sync->end(), [&](const auto& id) {
        return !std::binary_search(facts.ready.begin(), facts.ready.end(), id);
      }));
    if (less == 2 && !facts.ready.empty()) facts.ready.pop_back();
    for (const std::size_t minimum : {1U, 2U}) {
      for (const PlacementStep& step : decide_placement({facts}, goal, {3, minimum, 1}))
        check_placement_step(step, facts, minimum);
    }
  }
}

// Lines are records: a name, a space, a digest.
void check_migration_records(std::string_view input) {
  using namespace zkrecipes::detail;
  zkrecipes::MigrationSet set("app");
  const std::vector<std::string> lines = lines_of(input);
  for (const std::string& line : lines) {
    const auto path = parse_path(line);
    if (!path || path->is_root()) continue;
    zkclient::Transaction changes;
    changes.create(*path, input).set(*path, line, 3).check(path->parent()).remove(*path);
    require(describe_change(changes.operations().front()) == "create " + path->str(), "a change is named");
    set.add("step " + std::to_string(set.steps().size()), changes);
  }
  set.add("function", [](zkrecipes::OptimisticView&) {});
  std::vector<std::string> digests;
  for (const zkrecipes::MigrationStep& step : set.steps()) {
    digests.push_back(digest_of(step));
    require(digests.back().size() == digests.front().size() && digest_of(step) == digests.back(),
            "a step has one digest");
  }
  std::vector<MigrationRecord> written;
  for (const std::string& digest : digests)
    written.push_back({next_record(written), digest});
  const MigrationVerdict good = judge_history(set, digests, written);
  require(good.why.empty() && good.applied == digests.size(), "what was written is found");
  std::vector<MigrationRecord> read;
  for (const std::string& line : lines) {
    const std::size_t space = std::min(line.find(' '), line.size());
    read.push_back({line.substr(0, space), line.substr(space)});
  }
  std::sort(read.begin(), read.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
  const MigrationVerdict verdict = judge_history(set, digests, read);
  require(verdict.applied <= std::min(read.size(), digests.size()), "no more than there are");
  require(!verdict.why.empty() || verdict.applied == read.size(), "records of nobody's are told");
  const std::string next = next_record(read);
  for (const MigrationRecord& record : read) {
    const bool of_server = record.node.size() == next.size() && record.node.starts_with("meta-0") &&
                           record.node.find_first_not_of("0123456789", 5) == std::string::npos;
    require(!of_server || record.node < next, "the next record comes last");
  }
}

// The data of a job's nodes, and the names of its records.
void check_job_record(std::string_view input) {
  using namespace zkrecipes::detail;
  using zkrecipes::JobRun;
  if (const auto time = time_of(input)) require(text_of(*time) == input, "a time is what was written");
  if (const auto name = parse_record_name(input))
    require(record_name(name->firing, name->attempt) == input, "a name is what was written");
  if (const auto run = decode_run(input)) {
    const auto again = decode_run(encode(*run));
    require(again.has_value(), "a run that is read can be written");
    require(run->error.size() > most_error_bytes || again == run, "written and read, it is the same run");
    require(parse_record_name(record_name(run->firing, run->attempt)).has_value(), "it can have a record");
  }
  const zkrecipes::JobTime written{std::chrono::milliseconds(1'700'000'000'000)};
  if (const auto status = decode_status(input, written)) {
    const auto again = decode_status(encode(*status), written);
    require(again && again->settled == status->settled, "written and read, it is the same status");
    require(again->running.has_value() == status->running.has_value(), "and so is its run");
  }
  if (input.size() > 300) return;  // Others would say no more, and cost much.
  JobRun any{.firing = written, .runner = std::string(input), .started = written, .error = std::string(input)};
  const auto once = decode_run(encode(any));
  require(once && once->firing == any.firing, "any text can be written");
  const auto twice = decode_run(encode(*once));
  require(twice && twice->runner == once->runner, "and is the same from then on");
}

// Of a zone that was read, or made by a rule.
void check_clocks(const zkrecipes::detail::TimeZone& zone) {
  using zkrecipes::detail::TimeZone;
  using namespace std::chrono_literals;
  constexpr auto far = 4'000'000'000'000s;
  TimeZone::Time time{-100'000'000'000s};
  for (int i = 0; i < 40; ++i) {
    require(std::chrono::abs(zone.offset_at(time)) < 26h, "no place is so far from UTC");
    for (const auto beside : {-90min, 0min, 30min, 1440min}) {
      const TimeZone::LocalTime local(time.time_since_epoch() + zone.offset_at(time) + beside);
      const TimeZone::Time reached = zone.reaches(local);
      const auto shown = [&](TimeZone::Time at) { return at.time_since_epoch() + zone.offset_at(at); };
      require(shown(reached) >= local.time_since_epoch(), "the clocks show it, or have passed over it");
      require(shown(reached - 1s) < local.time_since_epoch(), "and a second before they did not");
    }
    const auto next = zone.next_change(time);
    if (!next || next->time_since_epoch() > far) return;
    require(*next > time, "changes come one after the other");
    time = *next;
  }
}

std::string big_endian(std::uint64_t value, std::size_t size) {
  std::string bytes;
  for (std::size_t i = size; i > 0; --i)
    bytes += static_cast<char>(value >> 8U * (i - 1) & 0xFFU);
  return bytes;
}

std::string zone_header(std::size_t times, std::size_t types, std::size_t chars) {
  return "TZif2" + std::string(15 + 12, '\0') + big_endian(times, 4) + big_endian(types, 4) + big_endian(chars, 4);
}

// A whole file with two changes of the clocks, and this rule.
std::string zone_with(std::string_view rule) {
  std::string bytes = zone_header(0, 1, 4) + big_endian(3600, 4) + "\0\0CET\0"s;
  bytes += zone_header(2, 2, 8) + big_endian(500'000'000, 8) + big_endian(510'000'000, 8) + "\1\0"s;
  bytes += big_endian(3600, 4) + "\0\0"s + big_endian(7200, 4) + "\1\4"s + "CET\0CES\0"s;
  return bytes.append("\n").append(rule).append("\n");
}

// The bytes of a file of the time zone database, or a rule.
void check_time_zone(std::string_view input) {
  using namespace zkrecipes::detail;
  const ReadZone read = read_zone(input);
  require(read.zone.has_value() == read.defect.empty(), "a zone, or what is wrong with the file");
  if (read.zone) check_clocks(*read.zone);
  if (const auto zone = zone_of_rule(input, 1970, 1980)) {
    check_clocks(*zone);
    require(input.find('\n') != std::string_view::npos || read_zone(zone_with(input)).zone.has_value(),
            "a rule that is good alone is good in a file");
  }
  if (const auto file = zone_file(input))
    require(file->ends_with(input) && input.find("..") == std::string_view::npos, "a name leads to no other folder");
}

// A roster, and a list of children.
void check_roster(std::string_view input) {
  using namespace zkrecipes::detail;
  const std::vector<std::string> roster = decode_roster(input);
  if (!roster.empty()) require(encode_roster(roster) == input, "a roster is what was written");
  const std::vector<std::string> children = lines_of(input);
  const std::vector<std::string> members = members_in_order(children);
  require(decode_roster(encode_roster(members)) == members, "written and read, it is the same");
  for (const std::string& self : children) {
    for (const std::size_t count : {1U, 2U, 5U}) {
      const RoundStep step = decide_round(children, roster, self, count);
      require((step.kind == RoundStep::Kind::vanished) == !has(members, self), "who is there is seen");
      if (step.kind != RoundStep::Kind::begin) continue;
      require(step.roster.size() == count && has(step.roster, self),
              "who begins a round is in it, with all the others");
    }
  }
}

void check_limit(std::string_view input) {
  using namespace zkrecipes::detail;
  if (const auto limit = decode_limit(input)) {
    require(*limit >= 0 && *limit <= most_leases, "a limit is one that can be meant");
    require(encode_limit(*limit) == input, "read and written, it is the same");
  }
  const auto any = static_cast<int>(std::hash<std::string_view>()(input) % (most_leases + 1U));
  require(decode_limit(encode_limit(any)) == any, "every limit comes back");
}

struct Scanned {
  std::vector<std::optional<std::int32_t>> xids;
  bool refused = false;
  friend bool operator==(const Scanned&, const Scanned&) = default;
};

// As the relay does it: what arrives is appended, what was passed on is dropped.
Scanned scan(std::string_view input, std::size_t piece) {
  zktesting::detail::FrameScanner scanner;
  Scanned result;
  std::string buffer;
  for (std::size_t fed = 0; fed < input.size();) {
    const std::size_t count = std::min(piece, input.size() - fed);
    buffer.append(input.substr(fed, count));
    fed += count;
    std::size_t position = 0;
    for (;;) {
      const std::size_t before = position;
      const auto step = scanner.next(buffer, position);
      require(position >= before && position <= buffer.size(), "the position stays inside and never goes back");
      if (step == zktesting::detail::FrameScanner::Step::not_ours) {
        result.refused = true;
        return result;
      }
      if (step == zktesting::detail::FrameScanner::Step::need) break;
      require(scanner.head().first == result.xids.empty(), "only the first frame is the first");
      result.xids.push_back(scanner.head().xid);
      scanner.accept();
    }
    buffer.erase(0, position);
  }
  return result;
}

void check_frames(std::string_view input) {
  const Scanned whole = scan(input, input.size() + 1);
  require(scan(input, 1) == whole, "byte by byte it finds the same frames");
  require(scan(input, 7) == whole, "and in pieces of seven");
}

void check_ensemble_config(std::string_view input) {
  const zkclient::EnsembleConfig config = zkclient::parse_ensemble_config(input);
  require(config.text == input, "the text is kept as it is");
  require(config.version >= -1, "a version, or none");
  std::string members;
  for (const std::string& member : config.members) {
    require(member.starts_with("server.") && member.find('\n') == std::string::npos, "a member is one line");
    require(input.find(member) != std::string_view::npos, "it stands in the text");
    members += member + '\n';
  }
  require(zkclient::parse_ensemble_config(members).members == config.members, "its members are read the same again");
}

// The instance comes back as it was; what cannot be written is refused with a reason.
void check_written_instance(const zkrecipes::ServiceInstance& instance, bool always) {
  const zkrecipes::detail::WrittenInstance written = zkrecipes::detail::write_instance(instance);
  require(written.bytes.has_value() == written.defect.empty(), "it is written, or refused with a reason");
  require(!(written.bytes && written.too_large), "what is written is small enough");
  require(written.bytes || written.too_large || !always, "what was read can be written, unless it is too large");
  if (!written.bytes) return;
  const zkrecipes::detail::ReadInstance again = zkrecipes::detail::read_instance(*written.bytes);
  require(again.instance.has_value(), "what was written can be read");
  require(zkrecipes::detail::write_instance(*again.instance).bytes == written.bytes, "written again, it is the same");
  if (always) require(again.instance == instance, "written and read, it is the same instance");
}

// The data of an instance's node; and each text of an instance.
void check_instance_format(std::string_view input) {
  const zkrecipes::detail::ReadInstance read = zkrecipes::detail::read_instance(input);
  require(read.instance.has_value() == read.defect.empty(), "an instance, or what is wrong with it");
  if (read.instance) {
    require(!read.instance->id.empty(), "an instance has an id");
    (void)read.instance->uri();
    check_written_instance(*read.instance, true);
  }
  const std::string text(input);
  const zkrecipes::ServiceInstance plain{.name = "web", .id = "a"};
  zkrecipes::ServiceInstance any = plain;
  any.payload = text;
  check_written_instance(any, false);
  any = plain;
  any.unknown = text;
  check_written_instance(any, false);
  any = plain;
  any.address = text;
  any.uri_spec = zkrecipes::UriSpec::parse(input);
  for (const zkrecipes::UriPart& part : any.uri_spec->parts)
    require(!part.value.empty(), "no part is empty");
  check_written_instance(any, false);
  const zkrecipes::detail::WrittenInstance written = zkrecipes::detail::write_instance(any);
  if (written.bytes)
    require(zkrecipes::detail::read_instance(*written.bytes).instance == any, "a text comes back as it was");
}

// As participant_log.hpp describes the file of a FileLog.
using zkrecipes::LogEntry;

std::string log_header() { return "zkrecipes 2pc log 1\n" + std::string(36, 'i') + "\n"; }

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc & 1U) != 0 ? crc >> 1U ^ 0x82F63B78U : crc >> 1U;
  }
  return ~crc;
}

std::string little_endian(std::size_t value, std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i)
    bytes += static_cast<char>(value >> 8U * i & 0xFFU);
  return bytes;
}

std::string log_entry(LogEntry kind, std::string_view id, std::string_view data = {}) {
  std::string bytes(1, static_cast<char>(kind));
  return bytes.append(little_endian(id.size(), 2)).append(little_endian(data.size(), 4)).append(id).append(data);
}

std::string log_frame(std::string_view entries) {
  const std::string covered = little_endian(entries.size(), 4).append(entries);
  return "2PCF" + covered.substr(0, 4) + little_endian(crc32c(covered), 4) + covered.substr(4);
}

// In memory where possible: each opening of a log waits for the disk.
class Folder {
 public:
  Folder() {
    for (const std::filesystem::path& parent :
         {std::filesystem::path("/dev/shm"), std::filesystem::temp_directory_path()}) {
      std::string pattern = (parent / "zkrecipes-fuzz-XXXXXX").string();
      if (::mkdtemp(pattern.data()) == nullptr) continue;
      path_ = pattern;
      return;
    }
    throw std::runtime_error("no temporary folder");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// Either all is read, and is there again the next time, or the file is refused and left alone.
void check_opening(const std::string& bytes) {
  static const Folder folder;
  static const std::filesystem::path file = folder / "log";
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  std::string identity;
  std::vector<zkrecipes::LoggedTransaction> open;
  try {
    const zkrecipes::FileLog log(file);
    identity = log.identity();
    open = log.open();
    require(log.size() == std::filesystem::file_size(file), "the log knows its size");
  } catch (const zkclient::Error& error) {
    require(error.errc() == zkclient::Errc::system_error, "a bad log has a code of its own");
    std::ifstream in(file, std::ios::binary);
    require(std::string(std::istreambuf_iterator<char>(in), {}) == bytes, "what is refused is left as it is");
    return;
  }
  const zkrecipes::FileLog again(file);
  const std::vector<zkrecipes::LoggedTransaction> reopened = again.open();
  const auto same = [](const auto& a, const auto& b) { return a.id == b.id && a.state == b.state && a.data == b.data; };
  require(again.identity() == identity, "opened again, it is the same log");
  require(std::equal(open.begin(), open.end(), reopened.begin(), reopened.end(), same), "with the same transactions");
  for (const auto& transaction : open)
    require(transaction.state != zkrecipes::LogState::none, "what has ended is not there");
}

void check_log_file(std::string_view input) {
  check_opening(std::string(input));
  check_opening(log_header() + log_frame(input));
  check_opening(log_header() + log_frame(log_entry(LogEntry::begin, "first", "x")).append(input));
}

// Lines are orders.
void check_guardian(std::string_view input) {
  using guardian::obey;
  guardian::Orders orders;
  const std::vector<std::string> lines = lines_of(input);
  for (const std::string& line : lines)
    obey(line, orders);
  require(orders.servers.size() <= lines.size(), "a line names one server");
  require(!orders.farewell || input.find("farewell") != std::string_view::npos, "nobody leaves unbidden");
  // What the library writes is understood whatever came before.
  const auto id = static_cast<std::int64_t>(std::hash<std::string_view>()(input));
  std::string password(input.substr(0, 16));
  password.resize(16, '\xff');
  std::string digits;
  for (const char byte : password) {
    std::array<char, 3> two{};
    std::snprintf(two.data(), two.size(), "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    digits += two.data();
  }
  obey("session " + std::to_string(id) + " 4000 " + digits, orders);
  require(orders.session && orders.session->id == id && orders.session->timeout_ms == 4000, "a session is understood");
  require(orders.session->password == password, "and so is its password");
  obey("server 2181 ::1", orders);
  // Not as the last one, if the lines before have named it.
  require(std::ranges::count(orders.servers, guardian::Server{"2181", "::1"}) == 1, "a server is understood, once");
  obey("tls 2f 636100 6b " + digits, orders);
  require(orders.tls && orders.tls->ca_file == "/" && orders.tls->certificate_file == std::string("ca\0", 3) &&
              orders.tls->key_file == "k" && orders.tls->key_passphrase == password,
          "how to encrypt is understood");
  obey("tls 2f 2f 2f ", orders);
  require(orders.tls->key_passphrase.empty(), "also without a passphrase");
  obey("none", orders);
  require(!orders.session, "and that there is no session any more");
}

std::pair<zkclient::LogLevel, std::string> logged(const std::string& line) {
  std::vector<std::pair<zkclient::LogLevel, std::string>> said;
  zkclient::set_log_handler([&](zkclient::LogLevel level, std::string_view text) { said.emplace_back(level, text); });
  zkclient::set_log_level(zkclient::LogLevel::debug);
  zkclient::detail::log_library_line(line);
  zkclient::set_log_level(zkclient::LogLevel::error);
  zkclient::set_log_handler({});
  require(said.size() == 1, "a line is one message");
  require(said.front().second.starts_with("C client: "), "which says whose it is");
  said.front().second.erase(0, std::strlen("C client: "));
  return said.front();
}

void check_log_line(std::string_view input) {
  const std::string text = logged(std::string(input)).second;
  require(!text.ends_with('\n') && input.find(text) != std::string_view::npos, "nothing is made up, no line is ended");
  using zkclient::LogLevel;
  const std::pair<const char*, LogLevel> marks[] = {
      {"ZOO_ERROR", LogLevel::info}, {"ZOO_WARN", LogLevel::info}, {"ZOO_INFO", LogLevel::debug}};
  std::string message(input.substr(0, input.find_last_not_of('\n') + 1));
  for (const auto& [mark, level] : marks) {
    const auto told = logged("2026-01-01 10:00:00,000:123(0x7f00):" + std::string(mark) + "@f@1: " + message + "\n");
    require(told.second == message, "the text comes whole, whatever it holds");
    require(told.first == level || message.find(":ZOO_") != std::string::npos, "at its level");
  }
}

std::string frame(std::string_view body) {
  std::string bytes(3, '\0');
  bytes += static_cast<char>(body.size());
  return bytes.append(body);
}

std::vector<Target> make_targets() {
  const std::string six = "\0\0\0\5\0\0\0\4"s;
  return {
      {"path",
       &check_path,
       {"/", "/a", "/a/b", "/a//b", "/a/", "a", "/./a", "/a/..", "/\xc3\xa4", "/\xed\xa0\x80", "/a\0b"s}},
      {"hosts",
       &check_hosts,
       {"a", "a:1", "a:1,b:2", "[::1]:2181", "127.0.0.1:2181 , host", "[fe80::1]", "[::\0x]:1"s, "[::1", "a:0",
        "a:65536", ",", "a/b"}},
      {"commit_record",
       &check_commit_record,
       {"2pc/1 mediated 10000 0 2\na\nb\npayload", "2pc/1 all-to-all 1 7 1\nx\n", "commit", "abort why", "17 data", "",
        "decision\ncoordinator\nvote-a\nvote-b\nack-a"}},
      {"sequence",
       &check_sequence,
       {"_c_0-lock-0000000001", "x-lock-2147483647\ny-lock--2147483648\nz-lock-0000000000", "a__lock__0000000007",
        "_c_0-latch--000000001", "lock-", "-lock--1000000000\n-lock-2147483646",
        "x-72057594037927936-0000000001\nn_0000000002\n7-read-0000000003"}},
      {"leader_record",
       &check_leader_record,
       {"leader/1 7 1 1\nhttp://a", "leader/1 -1 0 0\n", "leader/1 7 1 0\nx", ""}},
      {"replica_state",
       &check_replica_state,
       {"replicas 1 epoch=7 primary=b minimum=2 forced=5 leaving=1500\na disk-1 4666\nb disk-2 0\n",
        "replicas 1 epoch=0 primary=- minimum=1 forced=0 leaving=0\n", "replica 1 disk-1 4666 17 host:80 x",
        "replicas 2 ", ""}},
      {"ensemble_config",
       &check_ensemble_config,
       {"server.1=h:2888:3888:participant;0.0.0.0:2181\nserver.2=i:1:2:observer;3\nversion=100000000", "version=zz",
        "version=-1", "server.", "\n\nversion="}},
      {"frames",
       &check_frames,
       {frame("handshake") + frame(six) + frame(six + "abc"), frame("") + frame("") + frame("x"), "ruok", six}},
      {"guardian",
       &check_guardian,
       {"server 2181 ::1\nserver 1 zk1", "server 2181 zk1\nserver 1 ::1\nsession 72057594037927936 4000 00ff10",
        "session -1 -1 0\nnone\nsession x y z\nfarewell", "session 99999999999999999999 99999999999 0", " farewell x",
        "tls 2f6361 2f63 2f6b\ntls\ntls x 0"}},
      {"item_format",
       &check_item_format,
       {"item-0000000001\nitem-1000000050000000002", "qn-0000000001\nqn--2147483648\nqn-2147483647",
        "queue-0FFFFFFFF0000000001\nqueue-10000000a0000000002", "entry-100-0000000001\nentry-007-0000000001",
        "\0\1\0\1\1\0\0\0\2ab\2"s, "\0\1\0\1\1\0\0\0\1a\1\0\0\0\0\2"s, "\0\1\0\1\1\x7f\xff\xff\xffx"s,
        "\0zkrecipes:rejected\n\0\0\0\2noitem"s, "\0zkrecipes:rejected\n\0\0\0\0x"s, "\0zkrecipes:rejected\n\xff"s}},
      {"instance_format",
       &check_instance_format,
       {R"({"name":"n","id":"i","address":"h","port":80,"sslPort":443,"payload":{"@class":"P","a":[1,-2.5,"x",null]},)"
        R"("registrationTimeUTC":12345,"serviceType":"DYNAMIC","uriSpec":{"parts":[{"value":"scheme","variable":true},)"
        R"({"value":"://","variable":false}]}})",
        R"({"name":"n","id":"i","address":null,"port":null,"payload":null,"serviceType":"PERMANENT","uriSpec":null})",
        R"({"id":7,"port":"80","enabled":false,"zone":{"a":true},"serviceType":"STATIC"})",
        R"({"id":"i","serviceType":"DYNAMIC_SEQUENTIAL","registrationTimeUTC":1e3,"sslPort":-0.5})",
        R"({"id":"\u00e4\ud83d\ude00","payload":"\u0000"})", R"({"id":"i","uriSpec":{"parts":[]},"id":"j"})",
        "{scheme}://{address}:{port}/{[}{ ] }{}", "[[[{}]]]", "1e999", "18446744073709551616", "\xff", "\xc3\xa4"}},
      {"item_names",
       &check_item_names,
       {"", "order-7", "queue-|7|0000000001\nitem-|a b|-000000001\nitem-||0000000001", "item-|\0|0000000001"s, "|",
        "a/b"}},
      {"job_record",
       &check_job_record,
       {"2026-11-29T02:30:00.000Z", "2026-02-30T24:00:60.000Z", "2026-11-29T02:30:00.000Z-2",
        "2026-11-29T02:30:00.000Z-02",
        R"({"firing":"2026-11-29T02:30:00.000Z","attempt":1,"outcome":"failed","runner":"a","token":17,)"
        R"("started":"2026-11-29T02:30:00.001Z","duration_ms":5,"error":"\u00e4\ud83d\ude00",)"
        R"("missed_from":"2026-11-28T02:30:00.000Z"})",
        R"({"settled":"2026-11-29T02:30:00.000Z"})",
        R"({"settled":"2026-11-29T02:30:00.000Z","running":{"firing":"9999-12-31T00:00:00.000Z","attempt":2,)"
        R"("outcome":"running","runner":"","token":0,"started":"1970-01-01T00:00:00.000Z"}})",
        "[[[{}]]]", "18446744073709551615", "1e999", "\xff"}},
      {"latch",
       &check_latch,
       {"generation=1 count=3 left=2", "generation=2 count=1 left=0", "generation=4 count=1 left=0",
        "generation=9223372036854775807 count=9223372036854775807 left=9223372036854775807",
        "generation=01 count=1 left=2", "generation=-1 count=0 left=-1"}},
      {"limit", &check_limit, {"\0\0\0\0"s, "\0\0\0\7"s, "\x7f\xff\xff\xff", "\x80\0\0\0"s, "7", "\0\0\0\0\7"s}},
      {"log_file",
       &check_log_file,
       {log_entry(LogEntry::begin, "a", "payload") + log_entry(LogEntry::ready, "a") + log_entry(LogEntry::commit, "a"),
        log_entry(LogEntry::begin, "b") + log_entry(LogEntry::abort, "b") + log_entry(LogEntry::applied, "b"),
        log_entry(LogEntry::abort, "first") + log_entry(LogEntry::applied, "first") + log_entry(LogEntry::end, "first"),
        log_frame(log_entry(LogEntry::ready, "first")) + log_frame(log_entry(LogEntry::commit, "first")),
        log_header() + log_frame(log_entry(LogEntry::begin, "a")) + log_frame(log_entry(LogEntry::ready, "a")),
        log_header().substr(0, 30), "2PCF\0\0\0\0"s}},
      {"log_line",
       &check_log_line,
       {"2026-01-01 10:00:00,000:123(0x7f00):ZOO_INFO@function@1452: text", "a:ZOO_ERROR@f@1: b: c\n", ":ZOO_WARN@x",
        ": ", "\n\n"}},
      {"migration_records",
       &check_migration_records,
       {"meta-0000000000 a\nmeta-0000000001 b", "/app\n/app/\xc3\xa4\n/a,b/}c%", "meta-0000000009 \nmeta-x\nmeta-00\n",
        "meta-9999999999\nmeta-99999999990"}},
      {"placement",
       &check_placement,
       {"host 1 1 r0", "host 1 4294967295 -", "host 1 0 a b", "placement 1\na wanted\nb wanted\nc leaving\n",
        "placement 1\nb wanted\na wanted\n", "placement 1\n", "placement 1\na wanted\na wanted\n",
        "placement 1\na leaving\nb leaving\nc wanted\nd wanted\ne wanted\n"}},
      {"roster",
       &check_roster,
       {"zkrecipes round\n_c_0-member-0000000001\n_c_1-member--000000002\n", "zkrecipes round\n", "ready",
        "a-member-0000000001\nb-member-0000000002\nc-member-0000000003\nb-member-0000000002"}},
      {"time_zone",
       &check_time_zone,
       {"CET-1CEST,M3.5.0,M10.5.0/3", "UTC0", "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1", "IST-1GMT0,M10.5.0,M3.5.0/1",
        "XXX3EDT4,0/0,J365/23", "AAA100", "AAA-167BBB-24:59:59,J1,J60/167", zone_with("CET-1CEST,M3.5.0,M10.5.0/3"),
        zone_with(""), zone_header(0, 1, 0), "Europe/Berlin", "../etc/passwd", "/UTC"}},
  };
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> all = make_targets();
  return all;
}

}  // namespace fuzz
