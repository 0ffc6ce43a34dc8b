#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "zkclient/detail/core.hpp"

namespace zkrecipes::detail {

namespace zk = zkclient::detail;

/// What came out of a transaction.
struct Written {
  enum class Outcome {
    done,      ///< Applied, once.
    refused,   ///< Not applied: operation `index` was refused with `code`.
    in_doubt,  ///< Nobody knows: the caller, the deadline, the session or the client ended before the answer came.
    failed,    ///< Not applied, for a reason that is no operation's: `reply.error`.
  };
  Outcome outcome = Outcome::failed;
  std::size_t index = 0;
  int code = 0;  ///< Of the C client.
  zk::Reply
      reply;  ///< Of the last attempt. Its `results` are those of the operations, unless the first reply was lost.

  bool refused_at(std::size_t operation, int with) const noexcept {
    return outcome == Outcome::refused && index == operation && code == with;
  }
};

/// Transactions that are applied exactly once although replies get lost. Each one also writes to an ephemeral node of
/// ours (a slot), on condition of its version: so a transaction whose reply was lost can simply be sent again. If the
/// slot's version is no longer the expected one, the first one was applied.
///
///   slots (container)
///    '-- <uuid>    ephemeral, empty; its version counts the transactions
///
/// A slot serves one transaction at a time; as many as are needed are made, up to a limit, which is also the limit of
/// what is on its way. Transactions are sent in the order of the calls. The slots go with the object. Loop thread only.
class OnceWriter : public std::enable_shared_from_this<OnceWriter> {
 public:
  static constexpr std::size_t max_slots = 64;

  OnceWriter(std::shared_ptr<zk::ClientCore> client, std::string directory, zkclient::AclList acl);
  ~OnceWriter();
  OnceWriter(const OnceWriter&) = delete;
  OnceWriter& operator=(const OnceWriter&) = delete;

  /// Runs `operations` on the session `call.bound`, which must be there. The object must outlive the call.
  zk::Awaitable<Written> write(std::vector<zkclient::Transaction::Operation> operations, zk::Call call);

 private:
  struct Slot {
    std::string path;
    std::shared_ptr<zk::SessionState> session;
    std::int32_t version = 0;
  };
  using SlotPtr = std::unique_ptr<Slot>;
  /// A transaction that waits for a slot.
  struct Applicant;

  zk::Awaitable<zk::Reply> get_slot(zk::Call call, SlotPtr& slot);
  static zk::Awaitable<void> make_slot(std::shared_ptr<OnceWriter> self, std::shared_ptr<zk::SessionState> session);
  void make_more();
  void put_back(SlotPtr slot);
  void discard(SlotPtr slot);
  void forget(SlotPtr slot);

  const std::shared_ptr<zk::ClientCore> client_;
  const std::string directory_;
  const zkclient::AclList acl_;
  std::deque<SlotPtr> free_;
  std::size_t slots_ = 0;  // All there are, those that are being made included.
  std::size_t making_ = 0;
  std::deque<Applicant*> applicants_;
};

}  // namespace zkrecipes::detail
