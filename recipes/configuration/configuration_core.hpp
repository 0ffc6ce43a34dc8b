#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/tree_cache.hpp>

#include "recipes/configuration/configuration_decider.hpp"
#include "recipes/configuration/configuration_reports.hpp"
#include "recipes/configuration/configuration_writer.hpp"
#include "recipes/configuration/consider_lock.hpp"
#include "recipes/kernel/listener_set.hpp"
#include "recipes/kernel/waiting_calls.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// Of a node that a cache cannot read.
inline zkclient::Errc errc_of(const std::error_code& unreadable) noexcept {
  const bool ours = unreadable.category() == zkclient::error_category();
  return ours ? static_cast<zkclient::Errc>(unreadable.value()) : zkclient::Errc::system_error;
}

/// What a listener has still to be told: the net difference between the configuration it saw last and the newest.
class ConfigurationBacklog {
 public:
  using News = ConfigurationPtr;

  explicit ConfigurationBacklog(Configuration::Listener call) : call_(std::move(call)) {}
  void note(ConfigurationPtr newest) { newest_ = std::move(newest); }
  bool empty() const { return newest_ == nullptr; }
  ConfigurationPtr take() { return std::exchange(newest_, nullptr); }
  void call(const ConfigurationPtr& newest);

 private:
  Configuration::Listener call_;
  ConfigurationPtr seen_;  // By call().
  ConfigurationPtr newest_;
};

/// The same for refusals: the newest one. Null: what was refused is not there any more.
class RejectionBacklog {
 public:
  using News = std::shared_ptr<const ConfigurationRejection>;

  explicit RejectionBacklog(Configuration::RejectionListener call) : call_(std::move(call)) {}
  void note(News newest) { newest_ = std::move(newest); }
  bool empty() const { return newest_ == nullptr; }
  News take() { return std::exchange(newest_, nullptr); }
  void call(const News& newest) {
    if (newest != nullptr) call_(*newest);
  }

 private:
  Configuration::RejectionListener call_;
  News newest_;
};

/// The calls that wait for news of a follower, until that or its client is closed. It does not own the client, so that no
/// coroutine keeps that open. Loop thread, but for its creation.
struct ConfigurationWaits {
  explicit ConfigurationWaits(std::shared_ptr<zk::ClientCore> of)
      : client(std::move(of)), session_over(client->events()) {}
  bool over() const { return finished || ended->requested() || client->closing(); }

  const std::shared_ptr<zk::ClientCore> client;
  const std::shared_ptr<zk::CancelScope> ended = std::make_shared<zk::CancelScope>();
  bool finished = false;
  zk::Signal session_over;
  WaitingCalls calls;
};

/// A follower of a configuration, and what its publisher has to know of it. What the cache brings is considered on the
/// callback executor, or by who has published, one snapshot at a time, so that the user's validator never runs on the loop.
class ConfigurationCore : public std::enable_shared_from_this<ConfigurationCore> {
 public:
  using Parser = std::function<std::shared_ptr<const void>(const ConfigurationValues&)>;

  static std::shared_ptr<ConfigurationCore> start(const zkclient::Client& client, const zkclient::Path& path,
                                                  ConfigurationOptions options, Parser parser);
  ConfigurationCore(const zkclient::Client& client, const zkclient::Path& path, ConfigurationOptions options,
                    Parser parser);

  // --- Any thread ---

  const zkclient::Path& path() const noexcept { return path_; }
  const std::shared_ptr<zk::ClientCore>& client() const noexcept { return client_; }
  const TreeCache& cache() const noexcept { return cache_; }
  const std::shared_ptr<ConfigurationWriter>& writer() const noexcept { return writer_; }
  zk::CallForm form(const char* operation) const { return zk::CallForm(client_, operation, path_.str()); }
  ConfigurationPtr current() const;
  ConfigurationOrigin origin() const;
  std::optional<zkclient::BootClock::time_point> as_of() const;
  std::optional<zkclient::Error> problem() const;
  zkclient::Subscription on_change(Configuration::Listener listener);
  zkclient::Subscription on_rejected(Configuration::RejectionListener listener);
  /// The view of all followers' reports, which the first one who asks begins. Throws Error (closed, forked).
  std::shared_ptr<const ChildrenCache> reports();
  void close();

  /// What to publish, validated. Throws Error.
  std::shared_ptr<const PublicationPlan> plan(const Snapshot& nodes, const ConfigurationUpdate& update,
                                              std::int64_t expected_revision, const char* operation,
                                              OlderEdits older = OlderEdits::keep) const;
  /// The revision that a snapshot shows. Throws Error (foreign_node).
  std::int64_t revision_of(const Snapshot& nodes, const char* operation) const;

  /// What the cache has read comes into force, or is refused, before this returns, unless the validator takes longer than
  /// until `deadline`. Not on the loop thread.
  void consider_by(zk::Op::TimePoint deadline);

  // --- Calls ---

  enum class Wanted { any, live, revision };
  /// What a call waits for, as its coroutine holds it.
  zk::Work<ConfigurationPtr> wait_work(Wanted wanted, std::int64_t revision);

 private:
  using WaitsPtr = std::shared_ptr<ConfigurationWaits>;
  using RejectionPtr = std::shared_ptr<const ConfigurationRejection>;

  static zk::Awaitable<zkclient::Result<ConfigurationPtr>> wait(std::weak_ptr<ConfigurationCore> weak, WaitsPtr waits,
                                                                Wanted wanted, std::int64_t revision, zk::Call call);
  ConfigurationTree seen_of(const Snapshot& nodes) const;
  void begin();
  void read_file();
  void consider_newest();
  /// A newer one than `nodes` was considered. Under considering_.
  bool is_overtaken(const Snapshot& nodes) const;
  void consider_soon();
  void consider();
  void wait_for_exact();
  void accept(std::shared_ptr<ConfigurationValues> values, const Snapshot& nodes);
  void reject(const std::shared_ptr<ConfigurationValues>& values, std::string why, const Snapshot& nodes);
  /// Of a snapshot: whether what it shows is in force, else why not, if that is to be said.
  void conclude(const Snapshot& nodes, bool live, std::optional<zkclient::Error> problem);
  void keep_in_file(const ConfigurationValues& values);
  /// Tells the others what is in force here, and what is not.
  void report(std::int64_t epoch);
  void wake();
  /// What is wrong with them; nullopt: nothing, and they are parsed.
  std::optional<std::string> defect_of(ConfigurationValues& values) const;
  ConfigurationPtr wanted(Wanted wanted, std::int64_t revision) const;
  std::string wait_story(Wanted wanted, std::int64_t revision) const;
  /// What is in force, if it was read from the ensemble: a file does not tell which node held a value.
  ConfigurationPtr known() const;
  zkclient::Error error(zkclient::Errc code, const char* operation, std::string_view detail = {}) const;

  const zkclient::Client owner_;  // Stays open for as long as it is used here.
  const std::shared_ptr<zk::ClientCore> client_;
  const zkclient::Path path_;
  const ConfigurationOptions options_;
  const Parser parser_;
  const zk::ProcessGeneration process_;
  const std::shared_ptr<ConfigurationWriter> writer_;
  const std::shared_ptr<zk::SerialQueue> queue_;  // Where snapshots are considered.
  const WaitsPtr waits_;
  const std::shared_ptr<ListenerSet<ConfigurationBacklog>> listeners_ =
      std::make_shared<ListenerSet<ConfigurationBacklog>>();
  const std::shared_ptr<ListenerSet<RejectionBacklog>> rejection_listeners_ =
      std::make_shared<ListenerSet<RejectionBacklog>>();

  std::shared_ptr<KeptNode> report_;  // Null: this follower does not report.

  ConsiderLock considering_;  // A validator may publish.
  // Guarded by considering_.
  bool awaiting_exact_ = false;
  RejectionPtr rejected_;
  std::string reported_;
  std::int64_t accepted_epoch_ = 0;  // Of the path, when current_ was read from it.
  std::int64_t rejected_epoch_ = 0;

  std::atomic<bool> closed_{false};

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::shared_ptr<ChildrenCache> reports_;
  ConfigurationPtr current_;
  bool from_file_ = false;
  bool live_ = false;    // What considered_ shows is in force.
  Snapshot considered_;  // The newest.
  std::optional<zkclient::Error> problem_;
  std::optional<zkclient::Error> file_problem_;
  mutable std::optional<zkclient::BootClock::time_point> as_of_;

  TreeCache cache_;
  zkclient::Subscription changes_;
  zkclient::Subscription states_;
};

}  // namespace zkrecipes::detail
