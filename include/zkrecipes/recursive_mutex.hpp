#pragma once

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/lock.hpp>
#include <zkrecipes/mutex.hpp>

namespace zkrecipes {

/// A Mutex that the thread which has it may lock again, like std::recursive_timed_mutex, and must unlock as often.
/// Source: Apache Curator's InterProcessMutex, which is re-entrant by thread; same nodes, so the two exclude each
/// other, and a Mutex as well.
///
///   path (container)
///    '-- _c_<uuid>-lock-0000000007   ephemeral: one node, however often the thread has locked
///
/// Invariant: that of Mutex; and a thread holds from its first lock() until it has unlocked as often as locked.
///
/// Guaranteed: what Mutex guarantees; the inner lock() and unlock() of a thread send nothing and do not wait. Not
/// guaranteed: that tasks of one thread exclude each other (they are one holder); what Mutex does not guarantee.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// unlock by a thread that holds nothing    nothing but a warning in the log; the holder is untouched
/// lost while held                          lease().lost() fires; lock() and try_lock...() throw not_held until all is unlocked
/// thread ends without unlocking            held until this object goes
/// everything else                          as in Mutex
///
/// acquire() and its relatives are contenders of their own, whatever the calling thread has locked: only lock() counts.
///
/// Thread safety: all members.
class ZKRECIPES_API RecursiveMutex : public Lock {
 public:
  /// No I/O. Errors: invalid_acl (see acl_defect()).
  RecursiveMutex(zkclient::Client client, zkclient::Path path, MutexOptions options = {});

  /// How often the calling thread has locked.
  int depth() const;
};

}  // namespace zkrecipes
