#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

namespace zkrecipes {

struct SharedValueOptions {
  /// For every node that the recipe creates.
  zkclient::AclList acl = zkclient::open_acl();
  /// Each change is exactly once although the session is lost in its very instant: a persistent node, the marker, tells
  /// what became of it. Costs one more operation in each transaction, and a round trip before the first change. All
  /// objects of a path may differ in this.
  bool durable = false;
  /// A marker that was written for the last time so long ago is one of a writer that is gone. The next durable writer that
  /// begins removes it. Longer than any outage that a change should survive.
  std::chrono::milliseconds max_marker_age = std::chrono::hours(1);
};

/// Which state of the node a value is. A node that was deleted and made again has another `czxid`, although its versions
/// begin again.
struct ValueVersion {
  std::int64_t czxid = 0;    ///< 0: there is no node.
  std::int32_t version = 0;  ///< The node's, which counts its writes.

  bool operator==(const ValueVersion&) const = default;
};

/// What the node held at one moment.
struct VersionedValue {
  bool exists = false;        ///< Whether there was a node.
  std::string data = {};      ///< "" if it does not exist.
  ValueVersion version = {};  ///< For compare_set().

  bool operator==(const VersionedValue&) const = default;
};

/// Bytes that many clients share, and write on condition of what they have read. Interoperates with Curator's SharedValue
/// (and SharedCount, whose bytes are an integer of 32 bits, big-endian), which itself may write twice when a reply is
/// lost. Not possible beside one: a value that nobody has set, because a SharedValue that starts writes its seed.
///
///   parent (container, if it was missing)
///    |-- <path>                persistent; data: the value
///    |-- _c_writes (container) ephemeral nodes that make writes happen once: exactly_once.md
///    '-- _c_markers (container, `durable`)
///         '-- <uuid>           persistent: its version counts the changes of one object
///
/// Invariant: each change is one transaction that expects the version of the node that was there.
///
/// Guaranteed: the changes of all clients have one order, in which each one that succeeded is there once; it lies between
/// the call and its return. No write is applied twice, or reported as failed although it was applied. A version that
/// compare_set() has accepted was that of the value until then.
/// Not guaranteed: progress of one caller while others keep changing the value (somebody always succeeds); that get()
/// knows of a change that another client has just made; that listeners see each value.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// get: request or reply lost               nothing: it is asked again
/// set: request or reply lost               nothing: it is written once, and never over what came after it
/// first set: request or reply lost         nothing: the node is made once
/// compare_set: request or reply lost       nothing: true if it was ours, although the value is another one now
/// update: request or reply lost            nothing: it is written once
/// another client changes it meanwhile      set, update: nothing, it is tried again; compare_set: false
/// session lost during a change             in_doubt if it was sent and not answered; else nothing: it goes on with the
///                                          next session
/// durable: session lost during a change    nothing: the marker tells whether it was applied; if not, it is sent again
/// deadline, stop request during a change   in_doubt if it was sent and not answered; else deadline_exceeded, cancelled,
///                                          and nothing was done
/// node deleted by hand                     it does not exist; set() makes it again
/// node deleted and made again              another version, though the server counts alike: compare_set of the former one
///                                          is false. If that happens in the very instant of a compare_set that may have
///                                          hit the new node, foreign_node, or in_doubt if its reply was lost, too
/// node written by another program          the new value counts
/// the node's version is about to be -1     nothing: -1 means any version, so it is skipped
/// the node's version is -1                 compare_set and update: bad_version, since no change can be conditional;
///                                          set() writes it, and ends that
/// connection or session lost: listeners    one call with the value that is there afterwards, if it is another one
/// client closed                            calls end with closed, or in_doubt likewise; no listener is called any more
///
/// Changes of one object go one after another. The object remembers what the node holds for as long as a watch says so,
/// or for 10 ms after its own change. So the next change takes one round trip, and so does an update.
///
/// Thread safety: all members. The object keeps its client open. A moved-from object may only be destroyed or assigned
/// to.
class ZKRECIPES_API SharedValue {
 public:
  /// Gets the value, returns the data that is to replace it, or nullopt: it shall stay. May be called several times.
  using Function = std::function<std::optional<std::string>(const VersionedValue&)>;
  /// Gets the new value.
  using Listener = zkclient::UniqueFunction<void(const VersionedValue& now)>;

  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument (`path` is the root, `max_marker_age` is not
  /// positive).
  SharedValue(zkclient::Client client, zkclient::Path path, SharedValueOptions options = {});
  /// As Cache::close(), for the listeners.
  ~SharedValue();
  SharedValue(SharedValue&&) noexcept;
  SharedValue& operator=(SharedValue&&) noexcept;

  /// The value, as the connected server knows it: not older than what a call of this object returned before in the same
  /// session. Blocks for one round trip. Errors: those common to all operations of Client.
  VersionedValue get(const zkclient::CallOptions& call = {}) const;
  void async_get(zkclient::Handler<VersionedValue> handler, const zkclient::CallOptions& call = {}) const;

  /// Makes it `data`, whatever it was. Blocks for one round trip; for two if another client has changed the value since
  /// this object's last change, and one more for each change that comes in between; up to three more for the first
  /// change of a session (if durable, five for the first one of the object). Errors: see the table, too_large, and those
  /// common to all operations of Client.
  void set(std::string_view data, const zkclient::CallOptions& call = {});
  void async_set(std::string_view data, zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  /// Makes it `data` if it still has the version `expected` (a default one: it does not exist, which gives a value that
  /// nobody has set yet its first data); false if it has not, by the word of the leader. Blocks and fails as set().
  [[nodiscard]] bool compare_set(const ValueVersion& expected, std::string_view data,
                                 const zkclient::CallOptions& call = {});
  void async_compare_set(const ValueVersion& expected, std::string_view data, zkclient::Handler<bool> handler,
                         const zkclient::CallOptions& call = {});

  /// Replaces it by what the function makes of it, again if another client was faster. Returns the data that was written;
  /// nullopt if the function declined. The function gets what the object remembers, else what a read tells. Blocks as
  /// set(); for two round trips more after each change of another client that comes in between. A function that declined
  /// or threw has seen the answer of a read which this call has sent, or the same version: one round trip more, and
  /// maybe another run of the function. Clients that update all the time take turns, as those of a Counter do. The
  /// function runs in the calling thread, or, for the asynchronous form, on the callback executor. Errors: as set(); what
  /// the function throws (in the asynchronous form an Error; anything else is invalid_argument with its message), and
  /// nothing was written.
  std::optional<std::string> update(const Function& function, const zkclient::CallOptions& call = {});
  void async_update(Function function, zkclient::Handler<std::optional<std::string>> handler,
                    const zkclient::CallOptions& call = {});

  /// Calls `listener` with the value as soon as it is known, then with each newer one, not with each of those in between;
  /// on the callback executor, one call at a time. Not while the node cannot be read. The first call of this
  /// begins to watch the node, with a NodeCache; see there for what is guaranteed. Does not block. Errors:
  /// invalid_argument (no listener), closed.
  zkclient::Subscription on_change(Listener listener) const;

  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zkrecipes
