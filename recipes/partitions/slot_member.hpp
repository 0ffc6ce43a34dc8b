#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/group.hpp>

#include "recipes/kernel/slots.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

struct SlotMemberSpec {
  const char* recipe = "";     ///< For error texts: "partitioner",
  const char* operation = "";  ///< and "partition take".
  zkclient::AclList acl;
  std::string id;    ///< "": "host:pid".
  std::string data;  ///< For those who look who holds a slot.
  std::chrono::milliseconds settle{0};
  std::chrono::milliseconds grace{0};
  std::size_t max_moving = 1;
};

/// A member of a group, and its slots: what the recipes share in which members hold places. Its owner decides which slots
/// it wants, whenever there is news; it gives what it has taken to the user. Any thread.
///
///   path
///    |-- members   see group.hpp
///    '-- owners    see slots.hpp
class SlotMember : public std::enable_shared_from_this<SlotMember> {
 public:
  using Given = zkclient::UniqueFunction<void(const std::string& slot, Lease lease)>;
  using News = std::function<void()>;

  /// Errors: invalid_acl, invalid_path, invalid_argument.
  static std::shared_ptr<SlotMember> make(zkclient::Client client, zkclient::Path path, SlotMemberSpec spec,
                                          Given given);
  SlotMember(zkclient::Client client, zkclient::Path path, SlotMemberSpec spec, Given given);

  /// `news`: called when the members, or what is known of the own place, have changed. False: it was started before.
  /// Errors: closed, forked.
  bool start(std::string payload, News news);
  /// Whether a slot can have this name, which another client may have chosen.
  bool can_have(const std::string& slot) const;
  /// In place of what was wanted; see Slots::want().
  void want(std::uint64_t number, SlotWish wish);
  /// It hands over what it holds and is no member any more, or with `at_once` gives up its slots first: what the recipe
  /// calls leave and stop. Idempotent; `at_once` after a call without it ends what that began. `operation`: for errors.
  void leave(const char* operation, bool at_once, const zkclient::CallOptions& call);
  void async_leave(const char* operation, bool at_once, zkclient::Handler<void> handler,
                   const zkclient::CallOptions& call);
  /// Its owner goes: it leaves at once, which is not awaited. No function of the user's is called afterwards, and it has
  /// returned, unless it calls this. Not in a forked child.
  void retire() noexcept;

  const zkclient::Client& client() const noexcept { return client_; }
  const zkclient::Path& path() const noexcept { return path_; }
  const std::string& id() const noexcept { return spec_.id; }
  bool forked() const noexcept { return client_.impl()->loop()->forked(); }
  /// Of the own node. Each taking checks that it is there.
  zkclient::Check own_node() const { return {zkclient::Path(node_)}; }

  /// nullopt: not known yet, or it has left.
  std::optional<std::vector<Member>> members() const;
  /// After start().
  Membership& membership() { return *member_; }
  const Membership& membership() const { return *member_; }
  bool serves() const;  ///< Started, and not left.
  std::vector<std::string> held() const { return forked() ? std::vector<std::string>() : slots_->held(); }
  /// Of its node or of a slot.
  std::optional<zkclient::Error> problem() const;

 private:
  void make_slots();
  void begin_to_leave(bool at_once);
  zk::CallForm leaving_form(const char* operation) const;
  zk::Work<void> until_left() const;
  void give(const std::string& slot, const LeasePtr& lease);

  const zkclient::Client client_;  // Stays open for as long as it is used here.
  const zkclient::Path path_;
  const SlotMemberSpec spec_;
  Given given_;
  const std::string node_;                        // Full path.
  const std::shared_ptr<zk::SerialQueue> calls_;  // On which given_ runs.
  Group group_;
  std::shared_ptr<Slots> slots_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  bool finished_ = false;
  std::optional<std::vector<Member>> members_;
  bool knows_all_ = false;            // No member was missing in them.
  std::optional<Membership> member_;  // Made by start(), for good.
  std::vector<zkclient::Subscription> subscriptions_;
};

}  // namespace zkrecipes::detail
