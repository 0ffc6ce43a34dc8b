#include "storm/checkers/operations.hpp"

#include <map>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace storm {
namespace {

using Operations = std::vector<Operation>;

/// The object's name and the operation, without its times.
std::pair<std::string, Operation> told_by(const Entry& entry) {
  std::istringstream text(entry.text);
  std::pair<std::string, Operation> told;
  told.second.kind = static_cast<Operation::Kind>(entry.b);
  text >> told.first >> told.second.value >> told.second.expected >> told.second.version;
  return told;
}

/// By object.
std::map<std::string, Operations> operations_of(const History& history) {
  std::map<std::int64_t, std::pair<std::string, Operation>> open;
  std::map<std::string, Operations> all;
  std::int64_t now = 0;
  for (const Entry& entry : history.entries()) {
    ++now;
    if (entry.what == "fails") open.erase(entry.a);
    const bool begins = entry.what == "begins";
    if (!begins && entry.what != "tries" && entry.what != "ends") continue;
    auto told = told_by(entry);
    told.second.begin = begins ? now : open.at(entry.a).second.begin;
    told.second.end = Operation::never;
    open[entry.a] = told;
    if (entry.what != "ends") continue;
    told.second.end = now;
    all[told.first].push_back(told.second);
    open.erase(entry.a);
  }
  for (const auto& [number, told] : open)
    all[told.first].push_back(told.second);
  return all;
}

/// With the words of the history, not with places in it.
std::string told_of(const History& history, const Operation& operation) {
  const auto& entries = history.entries();
  const Entry& begin = entries[static_cast<std::size_t>(operation.begin) - 1];
  const Entry& end = entries[static_cast<std::size_t>(operation.end) - 1];
  const std::string text = to_string(operation);
  return fmt::format("{} of {}, from {} to {} us", text.substr(0, text.find(" from ")), begin.who,
                     begin.at.count() / 1000, end.at.count() / 1000);
}

Faults judge_object(const History& history, const std::string& object, const Operations& operations,
                    std::int64_t initial) {
  const LinearizabilityVerdict verdict = judge_operations(operations, initial);
  if (verdict.answer == LinearizabilityVerdict::linearizable) return {};
  if (verdict.answer == LinearizabilityVerdict::undecided)
    return {fmt::format("{}: undecided, the judge has given up after {} steps for {} operations", object, verdict.steps,
                        operations.size())};
  return {fmt::format("{}: no order of operations explains: {}", object, told_of(history, verdict.culprit))};
}

}  // namespace

std::string text_of(const std::string& object, const Operation& operation) {
  return fmt::format("{} {} {} {}", object, operation.value, operation.expected, operation.version);
}

Faults check_operations(const History& history, std::int64_t initial) {
  Faults faults;
  for (const auto& [object, operations] : operations_of(history)) {
    for (const std::string& fault : judge_object(history, object, operations, initial))
      faults.push_back(fault);
  }
  return faults;
}

Faults check_additions(const History& history) {
  Operations all;
  std::map<std::string, Operation> open;  // By process.
  const auto give_up = [&](const std::string& who) {
    if (const auto one = open.extract(who)) all.push_back(one.mapped());
  };
  std::int64_t now = 0;
  for (const Entry& entry : history.entries()) {
    ++now;
    const bool adds = entry.what == "adding";
    if (adds || entry.what == "counting" || entry.what == "killed") give_up(entry.who);
    if (adds) open[entry.who] = {Operation::add, now, Operation::never, entry.a};
    if (entry.what == "counting") open[entry.who] = {Operation::read, now, Operation::never, 0};
    if (entry.what == "not added") open.erase(entry.who);
    if (entry.what != "added" && entry.what != "counted") continue;
    Operation one = open.at(entry.who);
    one.end = now;
    one.value = entry.what == "added" ? entry.b : entry.a;
    if (entry.what == "added") one.kind = Operation::change;
    one.expected = entry.a;
    all.push_back(one);
    open.erase(entry.who);
  }
  while (!open.empty())
    give_up(open.begin()->first);
  return judge_object(history, "the count", all, 0);
}

}  // namespace storm
