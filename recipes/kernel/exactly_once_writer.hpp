#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The outcome of a transaction.
struct Written {
  enum class Outcome {
    done,      ///< Applied, once.
    refused,   ///< Not applied: operation `index` was refused with `code`.
    in_doubt,  ///< Not known: the caller, the deadline, the session or the client ended before the answer came.
    failed,    ///< Not applied, for a reason that is no operation's: `reply.error`.
  };
  Outcome outcome = Outcome::failed;
  std::size_t index = 0;
  int code = 0;  ///< Of the C client.
  /// Of the last attempt. Its `results` are those of the operations, unless the first reply was lost.
  zk::Reply reply;
  /// In doubt because the session ended: the slot. Once it is gone, the transaction cannot be applied any more, so what
  /// it would have changed tells whether it was.
  std::string slot = {};

  bool refused_at(std::size_t operation, int with) const noexcept {
    return outcome == Outcome::refused && index == operation && code == with;
  }
  /// Of what was not done, with the path as the user knows it.
  zkclient::Error error(std::string_view during, std::string_view path) &&;
};

/// Transactions that are applied exactly once although replies get lost. Each one also writes to an ephemeral node of
/// ours (a slot), on condition of its version: so a transaction whose reply was lost can simply be sent again. If the
/// slot's version is no longer the expected one, the first one was applied. Before a refusal of the second one counts,
/// its slot is deleted: the first one may still be on its way, and must not be applied afterwards.
///
///   slots (container)
///    '-- <family><uuid>    ephemeral, empty; its version counts the transactions
///
/// Few transactions are on their way at a time, each with a slot of its own; calls that come meanwhile share the next
/// one. If an operation in it is refused, only the call that it belongs to fails; the others are sent again. Calls are
/// sent in their order, apart from such others. The slots go with the object. Loop thread only.
class ExactlyOnceWriter : public std::enable_shared_from_this<ExactlyOnceWriter> {
 public:
  /// For owners that any thread may destroy: the slots are removed on the loop. Any thread. `directory`: of the slots.
  /// It is made when it is missing, and what is missing above it, as containers. `family`: how the slots' names begin,
  /// which tells them from those of other writers in the same directory.
  static std::shared_ptr<ExactlyOnceWriter> make(std::shared_ptr<zk::ClientCore> client, std::string directory,
                                                 zkclient::AclList acl, std::string family = {});
  /// For owners that are destroyed on the loop.
  ExactlyOnceWriter(std::shared_ptr<zk::ClientCore> client, std::string directory, zkclient::AclList acl,
                    std::string family = {});
  ~ExactlyOnceWriter();
  ExactlyOnceWriter(const ExactlyOnceWriter&) = delete;
  ExactlyOnceWriter& operator=(const ExactlyOnceWriter&) = delete;

  /// Runs `operations`, all or none. A session that ends before they were sent is no outcome: the next one is asked.
  /// For what is right whichever session writes it.
  static zk::Awaitable<Written> write(std::shared_ptr<ExactlyOnceWriter> self,
                                      std::vector<zkclient::Transaction::Operation> operations, zk::Call call);
  /// The same on the session `call.bound`, which must be there: fails with session_lost if it ends before they were
  /// sent. `sent` is called each time they were handed over for sending, before the answer: a read that it launches
  /// goes out behind them, in one flight. The object must outlive the call.
  zk::Awaitable<Written> write_bound(std::vector<zkclient::Transaction::Operation> operations, zk::Call call,
                                     std::function<void()> sent = {});

 private:
  struct Slot {
    std::string path;
    std::shared_ptr<zk::SessionState> session;
    std::int32_t version = 0;
  };
  using SlotPtr = std::unique_ptr<Slot>;
  /// One call's part of a transaction.
  struct Part;
  using Batch = std::vector<std::shared_ptr<Part>>;

  bool may_send() const;
  void send_soon();
  static zk::Awaitable<void> send(std::shared_ptr<ExactlyOnceWriter> self);
  zk::Awaitable<void> apply(Batch batch, SlotPtr slot);
  /// Of an attempt whose answer never came.
  enum class Fate { applied, not_applied, unknown };
  /// Finds out, and makes sure that it stays so. The slot is gone, unless the attempt was applied. `reply`: becomes the
  /// reason why that is not known.
  zk::Awaitable<Fate> shut_out(const Slot& slot, zk::Call call, zk::Reply& reply);
  static bool drop_ended(Batch& batch);
  Batch next_batch(const std::shared_ptr<zk::SessionState>& session);
  static void end_all(Batch batch, const Written& written);
  static void settle_success(Batch batch, zk::Reply reply);
  void split(Batch& batch, std::size_t most);
  void keep_first(Batch& batch, std::size_t count);
  void settle_refusal(Batch& batch, zk::Reply reply, std::size_t index, int code);
  zk::Awaitable<zk::Reply> get_slot(zk::Call call, SlotPtr& slot);

  const std::shared_ptr<zk::ClientCore> client_;
  const std::string directory_;
  const zkclient::AclList acl_;
  const std::string family_;
  std::deque<SlotPtr> free_;
  std::deque<std::shared_ptr<Part>> waiting_;
  std::size_t senders_ = 0;
  bool sending_soon_ = false;
  std::size_t most_;  // Calls in one transaction: fewer when others are often faster.
};

}  // namespace zkrecipes::detail
