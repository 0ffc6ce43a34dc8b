#include "recipes/configuration/configuration_decider.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace zkrecipes::detail {

using zkclient::Errc;

namespace {

// Of the history, in one publication, which has to fit into one request.
constexpr std::size_t most_dropped = 100;

using Nodes = std::map<std::string_view, const ConfigurationNode*, std::less<>>;

std::string_view parent(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

/// What a subtree means: the nodes that are keys, and those that have some below them.
struct Sorted {
  explicit Sorted(const ConfigurationTree& seen) {
    for (const ConfigurationNode& node : seen.nodes) {
      if (is_outside(node.path)) continue;
      all.emplace(node.path, &node);
      const std::string_view above = parent(node.path);
      if (!above.empty()) ++children[above];
    }
  }
  bool is_key(std::string_view path) const { return all.contains(path) && !children.contains(path); }

  Nodes all;
  std::map<std::string_view, std::size_t, std::less<>> children;
};

void take_record(const ConfigurationRecord& record, ConfigurationValues& values) {
  values.revision = record.revision;
  values.publisher = record.publisher;
  values.note = record.note;
  values.published = decltype(values.published)(std::chrono::milliseconds(record.time_ms));
}

/// What cannot be read; the path itself has an empty name.
std::optional<std::pair<Errc, std::string>> defect_of(const ConfigurationTree& seen, const Sorted& sorted) {
  if (seen.unreadable) return std::pair(*seen.unreadable, std::string());
  for (const auto& [path, node] : sorted.all) {
    if (node->unreadable) return std::pair(*node->unreadable, std::string(path));
  }
  return std::nullopt;
}

ConfigurationValues::Map values_of(const ConfigurationTree& seen, const Sorted& sorted) {
  ConfigurationValues::Map values;
  for (const auto& [path, node] : sorted.all) {
    if (!sorted.is_key(path)) continue;
    values.emplace_hint(values.end(), path, ConfigurationValue{node->data, node->mzxid, node->mzxid > seen.mzxid});
  }
  return values;
}

}  // namespace

bool is_outside(std::string_view relative) noexcept {
  return relative.starts_with('-') || relative.find("/-") != std::string_view::npos;
}

bool same_texts(const ConfigurationValues& one, const ConfigurationValues& other) noexcept {
  if (one.values.size() != other.values.size()) return false;
  auto mine = one.values.begin();
  for (const auto& [key, value] : other.values) {
    if (mine->first != key || mine->second.text != value.text) return false;
    ++mine;
  }
  return true;
}

std::vector<ConfigurationChange> changes_between(const ConfigurationValues* before, const ConfigurationValues& after) {
  const ConfigurationValues nothing;
  const ConfigurationValues& old = before == nullptr ? nothing : *before;
  std::vector<ConfigurationChange> changes;
  for (const auto& [key, value] : old.values) {
    if (!after.values.contains(key)) changes.push_back({key, value.text, std::nullopt});
  }
  for (const auto& [key, value] : after.values) {
    const std::string* former = old.find(key);
    if (former == nullptr) {
      changes.push_back({key, std::nullopt, value.text});
    } else if (*former != value.text) {
      changes.push_back({key, *former, value.text});
    }
  }
  return changes;
}

ConfigurationVerdict decide(const ConfigurationTree& seen, const ConfigurationValues* accepted) {
  ConfigurationVerdict verdict;
  using Kind = ConfigurationVerdict::Kind;
  if (!seen.exists) return verdict;
  const Sorted sorted(seen);
  if (auto defect = defect_of(seen, sorted)) {
    verdict.kind = Kind::unreadable;
    verdict.code = defect->first;
    verdict.where = std::move(defect->second);
    return verdict;
  }
  const auto record = decode_record(seen.record);
  if (!record) {
    verdict.kind = Kind::malformed;
    return verdict;
  }
  auto values = std::make_shared<ConfigurationValues>();
  take_record(*record, *values);
  values->values = values_of(seen, sorted);
  // The path alone: somebody is about to begin.
  if (record->revision == 0 && values->values.empty()) return verdict;
  values->edited = record->revision == 0 || checksum_of(values->values) != record->checksum;
  // A sum that fits is that of the publication, whenever its keys were read.
  if (!seen.exact && values->edited) {
    verdict.kind = Kind::wait;
    return verdict;
  }
  const bool same = accepted != nullptr && accepted->revision == values->revision &&
                    accepted->publisher == values->publisher && accepted->published == values->published &&
                    accepted->values == values->values;
  verdict.kind = same ? Kind::same : Kind::candidate;
  verdict.values = std::move(values);
  return verdict;
}

namespace {

/// Makes a plan, key by key.
class Planner {
 public:
  Planner(const ConfigurationTree& seen, const Sorted& sorted, const ConfigurationValues* known,
          const ConfigurationUpdate& update, const ConfigurationRecord& record, OlderEdits older)
      : seen_(seen),
        sorted_(sorted),
        known_(known),
        update_(update),
        revision_(record.revision),
        keep_older_(older == OlderEdits::keep && known != nullptr && record.revision != 0 &&
                    checksum_of(values_of(seen, sorted)) != record.checksum) {}

  std::optional<PublicationRefusal> check() const {
    for (const auto& [key, value] : update_.values) {
      if (!update_.overwrite_edits && edited_unseen(key)) {
        return PublicationRefusal{Errc::bad_version,
                                  fmt::format("{} was edited by hand, or may have been, unseen", key)};
      }
    }
    return std::nullopt;
  }

  /// The values as they will be.
  ConfigurationValues::Map result() const {
    ConfigurationValues::Map values = values_of(seen_, sorted_);
    for (const auto& [key, value] : update_.values) {
      if (value) {
        values[key] = ConfigurationValue{*value, 0, false};
      } else {
        values.erase(key);
      }
    }
    return values;
  }

  KeyChanges replaced() const {
    KeyChanges replaced;
    for (const auto& [key, value] : update_.values) {
      const bool there = sorted_.is_key(key);
      if (there || value) replaced[key] = there ? std::optional(sorted_.all.at(key)->data) : std::nullopt;
    }
    return replaced;
  }

  std::vector<PlannedWrite> writes(const ConfigurationValues::Map& result) const {
    const std::set<std::string, std::less<>> wanted = nodes_of(result);
    std::vector<PlannedWrite> writes;
    // Children go before their parents.
    for (auto node = sorted_.all.rbegin(); node != sorted_.all.rend(); ++node) {
      const auto& [path, seen] = *node;
      if (!wanted.contains(path) && is_touched(path)) {
        writes.push_back({PlannedWrite::Kind::remove, std::string(path), {}, seen->version, seen->czxid});
      }
    }
    for (const std::string& path : wanted) {
      const auto there = sorted_.all.find(path);
      const auto changed = update_.values.find(path);
      const bool set = changed != update_.values.end() && changed->second;
      if (there == sorted_.all.end()) {
        writes.push_back({PlannedWrite::Kind::create, path, set ? *changed->second : std::string(), 0});
      } else if (set) {
        const ConfigurationNode& node = *there->second;
        writes.push_back({PlannedWrite::Kind::set, path, *changed->second, node.version, node.czxid});
      }
    }
    return writes;
  }

 private:
  // Was it written after the last publication, and otherwise than the publisher knows? An edit may also have come between
  // the last publisher's look and its transaction. Then it is older than the record, and only the record's checksum shows
  // that there was one. A publisher that knows nothing cannot tell such a key from one that nobody has changed for long.
  bool edited_unseen(const std::string& key) const {
    const bool there = sorted_.is_key(key);
    const std::int64_t now = there ? sorted_.all.at(key)->mzxid : 0;
    const ConfigurationValue* before = nullptr;
    if (known_ != nullptr) {
      const auto found = known_->values.find(key);
      if (found != known_->values.end()) before = &found->second;
    }
    if (there) {
      const bool maybe_edited = now > seen_.mzxid || (now < seen_.mzxid && keep_older_);
      return maybe_edited && (before == nullptr || before->zxid != now);
    }
    // It is not there: unless all is as it was published, only a publisher that knows this very revision can tell whose
    // work that is.
    return before != nullptr && before->zxid != 0 && (known_->revision == revision_ || keep_older_);
  }

  // The keys, and the directories above them.
  static std::set<std::string, std::less<>> nodes_of(const ConfigurationValues::Map& values) {
    std::set<std::string, std::less<>> nodes;
    for (const auto& [key, value] : values) {
      for (std::string_view path = key; !path.empty(); path = parent(path))
        nodes.emplace(path);
    }
    return nodes;
  }

  // Removed by this update, or emptied by it.
  bool is_touched(std::string_view path) const {
    const auto first = update_.values.lower_bound(std::string(path));
    if (first == update_.values.end()) return false;
    for (auto one = first; one != update_.values.end() && one->first.starts_with(path); ++one) {
      if (one->first.size() == path.size() || one->first[path.size()] == '/') return true;
    }
    return false;
  }

  const ConfigurationTree& seen_;
  const Sorted& sorted_;
  const ConfigurationValues* const known_;
  const ConfigurationUpdate& update_;
  const std::int64_t revision_;
  const bool keep_older_;  // What was read does not fit the record, so there may be edits that are older.
};

// A key below another key: the upper one would be a directory.
std::optional<std::string> key_below_key(const ConfigurationValues::Map& values) {
  for (const auto& [key, value] : values) {
    for (std::string_view above = parent(key); !above.empty(); above = parent(above)) {
      if (values.contains(above)) return fmt::format("{} is a key, so {} cannot be one", above, key);
    }
  }
  return std::nullopt;
}

PublicationDecision refuse(Errc code, std::string detail) {
  PublicationDecision decision;
  decision.refusal = {code, std::move(detail)};
  return decision;
}

}  // namespace

std::vector<std::string> outdated_history(std::vector<std::string> listed, std::int64_t revision, std::size_t kept) {
  std::erase_if(listed, [&](const std::string& name) {
    const auto one = revision_of_history(name);
    // The difference cannot overflow: neither of them is negative.
    return !one || *one >= revision || std::cmp_less_equal(revision - *one, kept);
  });
  const std::size_t dropped = std::min(listed.size(), most_dropped);
  const auto end = listed.begin() + static_cast<std::ptrdiff_t>(dropped);
  std::partial_sort(listed.begin(), end, listed.end(), [](const std::string& one, const std::string& other) {
    return *revision_of_history(one) < *revision_of_history(other);
  });
  listed.resize(dropped);
  return listed;
}

PublicationDecision plan_publication(const ConfigurationTree& seen, const ConfigurationValues* known,
                                     const ConfigurationUpdate& update, std::int64_t expected_revision,
                                     OlderEdits older) {
  if (update.values.empty()) return refuse(Errc::invalid_argument, "there is nothing to publish");
  const Sorted sorted(seen);
  if (seen.exists) {
    if (auto defect = defect_of(seen, sorted)) return refuse(defect->first, "cannot read " + defect->second);
  }
  const auto record = decode_record(seen.record);
  if (!record || record->revision == last_revision) return refuse(Errc::foreign_node, "the record is malformed");
  if (expected_revision != any_revision && expected_revision != record->revision) {
    return refuse(Errc::bad_version, fmt::format("the newest revision is {}", record->revision));
  }
  const Planner planner(seen, sorted, known, update, *record, older);
  if (auto refusal = planner.check()) return refuse(refusal->code, std::move(refusal->detail));
  PublicationPlan plan;
  plan.exists = seen.exists;
  plan.version = seen.version;
  plan.result.values = planner.result();
  if (auto defect = key_below_key(plan.result.values)) return refuse(Errc::invalid_argument, std::move(*defect));
  plan.record.revision = record->revision + 1;
  plan.record.checksum = checksum_of(plan.result.values);
  plan.record.note = update.note;
  plan.result.revision = plan.record.revision;
  plan.result.note = update.note;
  plan.undo.record = *record;
  plan.undo.replaced = planner.replaced();
  plan.writes = planner.writes(plan.result.values);
  PublicationDecision decision;
  decision.plan = std::move(plan);
  return decision;
}

}  // namespace zkrecipes::detail
