#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/periodic_job.hpp>

#include "recipes/kernel/exactly_once_writer.hpp"
#include "recipes/kernel/single_node.hpp"

namespace zkrecipes::detail {

/// The nodes of a periodic job, and what is read and written there. Its coroutines run on the loop; any thread may make
/// and destroy it.
class JobNodes {
 public:
  struct Options {
    std::string id = {};
    std::size_t history = 0;
    zkclient::AclList acl = {};
  };
  JobNodes(zkclient::Client client, zkclient::Path path, Options options);

  /// The state, and the version that the next write of it expects.
  struct Seen {
    JobStatus status = {};
    std::int32_t version = 0;
  };
  /// The lease, and what the server's clock said when it began. An empty one: another process has it (`busy`), or the state is
  /// no longer what was seen.
  struct Claim {
    Lease lease = {};
    JobTime server_time = {};
    bool busy = false;
    bool got() const noexcept { return lease.impl() != nullptr; }
  };
  /// A change of the state, and a record for the history, as one transaction under a lease.
  struct Change {
    std::shared_ptr<LeaseCore> lease;
    std::int32_t version = 0;
    JobStatus status = {};
    std::optional<JobRun> record = {};
  };

  /// All of them: `self` lives as long as the coroutine.
  using Self = std::shared_ptr<const JobNodes>;
  /// Makes the state if it is missing.
  static zk::Awaitable<zkclient::Result<Seen>> read(Self self, zk::Call call);
  static zk::Awaitable<zkclient::Result<Claim>> claim(Self self, std::int32_t version, zk::Call call);
  /// A record that is refused (no right, no room) is left out, and why is the result: the state matters more. Errors:
  /// not_held, session_lost (nothing was changed), bad_version (somebody has changed the state by hand), in_doubt.
  static zk::Awaitable<zkclient::Result<std::optional<zkclient::Error>>> write(Self self, const char* operation,
                                                                               Change change, zk::Call call);
  /// Waits until nobody has the lease, or the session is over.
  static zk::Awaitable<zkclient::Result<void>> wait_until_free(Self self, zk::Call call);
  /// Removes the oldest records beyond the bound, at best.
  static zk::Awaitable<zkclient::Result<void>> prune(Self self, zk::Call call);
  static zk::Awaitable<zkclient::Result<std::optional<JobStatus>>> status(Self self, zk::Call call);
  static zk::Awaitable<zkclient::Result<std::vector<JobRun>>> history(Self self, zk::Call call);

  const std::shared_ptr<zk::ClientCore>& client() const noexcept { return owner_.impl(); }
  const zkclient::Path& path() const noexcept { return path_; }
  const std::string& id() const noexcept { return options_.id; }
  zk::CallForm form(const char* operation) const { return zk::CallForm(client(), operation, path_.str()); }

 private:
  SingleNodeSpecPtr runner_node(std::int32_t version) const;
  std::vector<zkclient::Transaction::Operation> operations(const Change& change, bool record_is_there) const;
  std::string record_node(const std::string& name) const { return zk::child_path(history_, name); }
  zkclient::Error error(const zk::Reply& reply, const char* operation) const;

  const zkclient::Client owner_;  // Stays open for as long as it is used here.
  const zkclient::Path path_;     // As the user wrote it.
  const Options options_;
  const std::string directory_;  // Full paths from here on.
  const std::string state_;
  const std::string history_;
  const std::shared_ptr<ExactlyOnceWriter> writer_;
};

}  // namespace zkrecipes::detail
