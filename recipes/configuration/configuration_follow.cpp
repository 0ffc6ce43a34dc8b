#include <utility>

#include "recipes/configuration/configuration_core.hpp"
#include "recipes/configuration/configuration_file.hpp"

// What becomes of a snapshot, and of the fallback file.
namespace zkrecipes::detail {

namespace {

constexpr const char* following = "configuration follow";

std::optional<Errc> unreadable(const CachedNode& node) {
  if (node.unreadable) return errc_of(node.unreadable);
  return node.has_data ? std::nullopt : std::optional(Errc::too_large);
}

}  // namespace

// --- What the cache brings -------------------------------------------------------------------------------------------

ConfigurationTree ConfigurationCore::seen_of(const Snapshot& nodes) const {
  ConfigurationTree seen;
  seen.exact = nodes.exact();
  const std::size_t skipped = path_.str().size() + 1;
  nodes.for_each([&](const std::string& path, const CachedNode& node) {
    if (path.size() < skipped) {
      seen.exists = true;
      seen.record = node.data;
      seen.version = node.stat.version;
      seen.mzxid = node.stat.mzxid;
      seen.unreadable = unreadable(node);
      return;
    }
    const std::string relative = path.substr(skipped);
    if (is_outside(relative)) return;
    seen.nodes.push_back({relative, node.data, node.stat.version, node.stat.mzxid, node.stat.czxid, unreadable(node)});
  });
  return seen;
}

void ConfigurationCore::consider_soon() {
  queue_->post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->consider();
  });
}

void ConfigurationCore::consider() {
  const std::lock_guard lock(considering_);
  consider_newest();
}

void ConfigurationCore::consider_by(zk::Op::TimePoint deadline) {
  const std::unique_lock lock(considering_, deadline);
  if (lock.owns_lock()) consider_newest();
}

void ConfigurationCore::consider_newest() {
  if (closed_) return;
  const Snapshot nodes = cache_.snapshot();
  ConfigurationVerdict verdict = decide(seen_of(nodes), current().get());
  switch (verdict.kind) {
    case ConfigurationVerdict::Kind::candidate: {
      const bool known = rejected_ != nullptr && rejected_->values->values == verdict.values->values &&
                         rejected_->revision == verdict.values->revision;
      if (known) rejected_epoch_ = epoch_of(nodes);
      if (known) return conclude(nodes, false, error(Errc::invalid_argument, following, rejected_->why));
      auto why = defect_of(*verdict.values);
      if (is_overtaken(nodes)) return;  // The validator has published.
      if (why) return reject(verdict.values, std::move(*why), nodes);
      return accept(std::move(verdict.values), nodes);
    }
    case ConfigurationVerdict::Kind::same: return conclude(nodes, true, std::nullopt);
    case ConfigurationVerdict::Kind::wait: return wait_for_exact();
    case ConfigurationVerdict::Kind::missing: return conclude(nodes, false, error(Errc::no_node, following));
    case ConfigurationVerdict::Kind::malformed:
      return conclude(nodes, false, error(Errc::foreign_node, following, "the record is malformed"));
    case ConfigurationVerdict::Kind::unreadable:
      return conclude(nodes, false, error(verdict.code, following, verdict.where));
  }
}

bool ConfigurationCore::is_overtaken(const Snapshot& nodes) const {
  const std::lock_guard lock(mutex_);
  return considered_.revision() > nodes.revision();
}

// No call of the cache's listener may come: the exact snapshot need not differ.
void ConfigurationCore::wait_for_exact() {
  if (std::exchange(awaiting_exact_, true)) return;
  cache_.async_wait_until([](const Snapshot& nodes) { return nodes.exact(); },
                          [weak = weak_from_this()](Result<Snapshot>) {
                            const auto self = weak.lock();
                            if (self == nullptr) return;
                            self->queue_->post([weak] {
                              const auto again = weak.lock();
                              if (again == nullptr) return;
                              const std::lock_guard lock(again->considering_);
                              again->awaiting_exact_ = false;
                              if (again->cache_.state() != CacheState::closed) again->consider();
                            });
                          });
}

void ConfigurationCore::conclude(const Snapshot& nodes, bool live, std::optional<Error> problem) {
  Snapshot shown = nodes;
  {
    const std::lock_guard lock(mutex_);
    std::swap(considered_, shown);  // The former one is not destroyed under the lock.
    live_ = live;
    problem_ = std::move(problem);
  }
  if (live && std::exchange(rejected_, nullptr) != nullptr) rejection_listeners_->tell(nullptr);
  if (live) accepted_epoch_ = epoch_of(nodes);
  report(epoch_of(nodes));
  wake();
}

// What is in force, or was refused, of a path that is no more says nothing about the present one.
void ConfigurationCore::report(std::int64_t epoch) {
  if (report_ == nullptr) return;
  ConfigurationReport now;
  {
    const std::lock_guard lock(mutex_);
    if (current_ != nullptr && !from_file_ && accepted_epoch_ == epoch) now.applied = current_->revision;
  }
  if (rejected_ != nullptr && rejected_epoch_ == epoch) {
    now.refused = rejected_->revision;
    now.why = rejected_->why;
  }
  std::string text = encode(now, epoch);
  if (text == reported_) return;
  reported_ = text;
  client_->loop()->post([node = report_, text = std::move(text)]() mutable { node->want(std::move(text)); });
}

void ConfigurationCore::accept(std::shared_ptr<ConfigurationValues> values, const Snapshot& nodes) {
  ConfigurationPtr before;
  bool kept = false;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(current_, values);
    kept = !from_file_ && !file_problem_;
    from_file_ = false;
  }
  conclude(nodes, true, std::nullopt);
  const bool news = before == nullptr || before->revision != values->revision || !same_texts(*before, *values);
  if (news) listeners_->tell(values);
  if (news || !kept) keep_in_file(*values);
}

void ConfigurationCore::reject(const std::shared_ptr<ConfigurationValues>& values, std::string why,
                               const Snapshot& nodes) {
  rejected_ = std::make_shared<const ConfigurationRejection>(ConfigurationRejection{values->revision, why, values});
  rejected_epoch_ = epoch_of(nodes);
  conclude(nodes, false, error(Errc::invalid_argument, following, why));
  rejection_listeners_->tell(rejected_);
}

std::optional<std::string> ConfigurationCore::defect_of(ConfigurationValues& values) const {
  try {
    if (options_.validate) options_.validate(values);
    if (parser_) values.parsed = parser_(values);
    return std::nullopt;
  } catch (const Error& error) {
    return error.detail().empty() ? std::string(error.what()) : error.detail();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

// --- The fallback file -----------------------------------------------------------------------------------------------

void ConfigurationCore::read_file() {
  if (options_.fallback_file.empty()) return;
  std::error_code failure;
  const std::optional<std::string> text = read_whole_file(options_.fallback_file, failure);
  if (failure) file_problem_ = error(Errc::system_error, "configuration fallback file", failure.message());
  if (!text) return;
  auto decoded = decode_file(client_->full(path_), *text);
  if (!decoded) {
    file_problem_ = error(Errc::foreign_node, "configuration fallback file", "it is torn, or another configuration's");
    return;
  }
  const auto values = std::make_shared<ConfigurationValues>(std::move(*decoded));
  if (auto why = defect_of(*values)) {
    file_problem_ = error(Errc::invalid_argument, "configuration fallback file", *why);
    rejected_ = std::make_shared<const ConfigurationRejection>(ConfigurationRejection{values->revision, *why, values});
    rejection_listeners_->tell(rejected_);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    current_ = values;
    from_file_ = true;
  }
  listeners_->tell(values);
}

void ConfigurationCore::keep_in_file(const ConfigurationValues& values) {
  if (options_.fallback_file.empty()) return;
  const std::error_code failure = replace_file(options_.fallback_file, encode_file(client_->full(path_), values));
  std::optional<Error> problem;
  if (failure) problem = error(Errc::system_error, "configuration fallback file", failure.message());
  const std::lock_guard lock(mutex_);
  file_problem_ = std::move(problem);
}

}  // namespace zkrecipes::detail
