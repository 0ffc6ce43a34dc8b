#include "recipes/views/name_filter.hpp"

#include <utility>

namespace zkrecipes::detail {

bool NameFilter::add(DirectoryId directory, const std::string& name, std::uint64_t number) {
  const bool is_new = directories_[directory].try_emplace(name, Entry{State::waiting, number}).second;
  if (is_new) waiting_.emplace(number, directory, name);
  return is_new;
}

NameFilter::Numbers NameFilter::keep(DirectoryId directory, const std::vector<std::string>& listed) {
  Numbers ended;
  const auto known = directories_.find(directory);
  if (known == directories_.end()) return ended;
  Entries& entries = known->second;
  auto name = listed.begin();
  for (auto entry = entries.begin(); entry != entries.end();) {
    while (name != listed.end() && *name < entry->first)
      ++name;
    if (name != listed.end() && *name == entry->first) {
      ++entry;
      continue;
    }
    const auto [state, number] = entry->second;
    if (state == State::waiting) waiting_.erase({number, directory, entry->first});
    if (state != State::excluded) ended.push_back(number);
    entry = entries.erase(entry);
  }
  if (entries.empty()) directories_.erase(known);
  return ended;
}

const std::vector<NameFilter::Name>& NameFilter::take() {
  static const std::vector<Name> none;
  if (!asked_.empty() || waiting_.empty()) return none;
  while (asked_.size() < max_batch && !waiting_.empty()) {
    auto [number, directory, name] = std::move(waiting_.extract(waiting_.begin()).value());
    asked_.push_back({directory, std::move(name), number});
    find(asked_.back())->state = State::asked;
  }
  return asked_;
}

std::vector<NameFilter::Verdict> NameFilter::answer(const std::vector<bool>& included) {
  std::vector<Verdict> verdicts;
  std::vector<Name> asked = std::exchange(asked_, {});
  for (std::size_t i = 0; i < asked.size() && i < included.size(); ++i) {
    Name& name = asked[i];
    Entry* entry = find(name);
    // It has gone, and may have come again: then that one is asked for.
    if (entry == nullptr || entry->state != State::asked) continue;
    entry->state = State::excluded;
    if (included[i]) {
      const auto directory = directories_.find(name.directory);
      directory->second.erase(name.name);
      if (directory->second.empty()) directories_.erase(directory);
    }
    verdicts.push_back({std::move(name), included[i]});
  }
  return verdicts;
}

NameFilter::Entry* NameFilter::find(const Name& name) {
  const auto directory = directories_.find(name.directory);
  if (directory == directories_.end()) return nullptr;
  const auto entry = directory->second.find(name.name);
  return entry == directory->second.end() ? nullptr : &entry->second;
}

}  // namespace zkrecipes::detail
