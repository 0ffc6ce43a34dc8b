#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/lock.hpp>

namespace zkrecipes {

namespace detail {
struct PermitSpec;
}

struct SemaphoreOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< Shown to operators in the nodes' data; default: host and pid only.
  /// With N in a node: what N is if that node is missing; the first acquirer creates it. (Curator: the seed value.)
  std::optional<int> initial_limit = {};
};

/// At most N leases at a time for all processes that name the same path. N is a constant, the same in all of them, or
/// stands in a node and may change while the semaphore is in use.
/// Source: Apache Curator's InterProcessSemaphoreV2, with which it shares its nodes, and SharedCount.
///
///   path (container)
///    |-- locks (container)                   a fair mutex: its holder may wait for a lease, the others behind it
///    |    '-- _c_<uuid>-lock-0000000003
///    '-- leases (container)
///         |-- _c_<uuid>-lease-0000000011     ephemeral: a lease
///         '-- _c_<uuid>-lease-0000000012     waits for it: watches the list of leases and the node with N
///
/// Invariant: a lease is granted only while there are at most N nodes in `leases`, the asking ones included.
///
/// Guaranteed: never more than N leases are granted and valid(), as told by their own clocks, whatever crashes, unless
/// nodes are deleted by hand; order of arrival; several leases at once all or none. A raised N wakes waiters; a lowered
/// N is honoured as leases return, none is taken back. Not guaranteed: that try_acquire() succeeds while another
/// process is just acquiring; the rest as in Mutex.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// create: request or reply lost            nothing: the nodes are found by their id, or created again
/// parent missing or removed                nothing: created again
/// connection breaks while waiting          nothing: the place is kept
/// a read lost too often (RetryPolicy)      acquire throws connection_loss; the nodes are removed in the background
/// session lost while waiting               acquire throws session_lost
/// own node deleted by hand while waiting   nothing: queued again, at the end
/// session lost while holding               Lease::lost() fires, state() is lost
/// lease deleted by hand while holding      Lease::lost() fires as soon as that is seen; another one may acquire
/// connection breaks while holding          state() is uncertain, then held again, or lost at valid_until()
/// release: request or reply lost           nothing: the deletion is repeated until the node is gone
/// node with N missing                      created with initial_limit; without that acquire throws no_node, which
///                                          names the node
/// node with N is not an int32 from 0 to a  acquire throws foreign_node
///   million (digits are not)
/// holder's process dies                    its leases return when its session ends
/// deadline, stop request while waiting     deadline_exceeded, cancelled; the nodes are removed in the background
/// client closed                            acquire throws closed; leases are lost; the nodes vanish
///
/// Every child of `leases` counts, whatever its name, if a Path can have that.
///
/// contenders(): the holders, one entry for each lease, oldest first; then the waiters, first to last. A process that
/// waits in front is among the former with `holds` unset if the list was long enough when it was read.
///
/// Thread safety: all members.
class ZKRECIPES_API Semaphore : public Acquirable {
 public:
  /// With a constant N >= 1. No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument.
  Semaphore(zkclient::Client client, zkclient::Path path, int leases, SemaphoreOptions options = {});
  /// With N in the node `limit`: an int32, big-endian (Curator's SharedCount). No I/O. Errors: invalid_acl,
  /// invalid_argument (initial_limit is not from 0 to a million).
  Semaphore(zkclient::Client client, zkclient::Path path, zkclient::Path limit, SemaphoreOptions options = {});
  ~Semaphore();
  Semaphore(Semaphore&&) noexcept;
  Semaphore& operator=(Semaphore&&) noexcept;

  // One lease: acquire() and its relatives of Acquirable.

  /// `count` leases, all or none; at most 1,000 at once. With N in a node, a `count` above the present N waits until N
  /// is raised, and all waiters behind it wait as well. Errors: as acquire(), and invalid_argument (less than one, more
  /// than 1,000, or more than a constant N).
  [[nodiscard]] std::vector<Lease> acquire_many(int count, const zkclient::CallOptions& call = {});
  /// The same if they are free now; none when they are not.
  [[nodiscard]] std::vector<Lease> try_acquire_many(int count, const zkclient::CallOptions& call = {});
  void async_acquire_many(int count, zkclient::Handler<std::vector<Lease>> handler,
                          const zkclient::CallOptions& call = {});
  void async_try_acquire_many(int count, zkclient::Handler<std::vector<Lease>> handler,
                              const zkclient::CallOptions& call = {});

  /// N, as the connected server knows it: one that lags behind shows an older one. 0 when its node is missing. Errors:
  /// foreign_node, and those common to all operations of Client.
  int limit(const zkclient::CallOptions& call = {}) const;
  void async_limit(zkclient::Handler<int> handler, const zkclient::CallOptions& call = {}) const;
  /// Writes the node with N, which is created if missing. Errors: invalid_argument (not from 0 to a million, or N is a
  /// constant), in_doubt, and those common to all operations of Client.
  void set_limit(int leases, const zkclient::CallOptions& call = {});
  void async_set_limit(int leases, zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

 private:
  struct Pool;
  Semaphore(std::shared_ptr<const detail::PermitSpec> spec, const zkclient::Client& client, const zkclient::Path& path,
            const SemaphoreOptions& options);
  std::unique_ptr<Pool> pool_;
};

}  // namespace zkrecipes
