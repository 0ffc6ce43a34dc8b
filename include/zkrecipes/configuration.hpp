#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/clock.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/configuration_values.hpp>

namespace zkrecipes {

namespace detail {
class ConfigurationCore;
}  // namespace detail

/// For publish(): whatever was published meanwhile.
inline constexpr std::int64_t any_revision = -1;

struct ConfigurationOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  /// Shown as part of the publisher; default: host and pid only. With `report` it names the follower.
  std::string id = {};
  /// Tells the others by an ephemeral node which revision is in force here, and why one is not: see wait_applied(). Takes
  /// an id: one component of a path, of no other follower of this configuration.
  bool report = false;
  /// Throws what is wrong with these values: then they do not come into force, or are not published. Called on the
  /// callback executor, one call at a time for what was read; also by the constructor for what is in the fallback file,
  /// and by publish() in its caller's thread (asynchronous forms: on the callback executor), maybe at the same time.
  std::function<void(const ConfigurationValues&)> validate = {};
  /// Where the last accepted configuration is kept, to start with when there is no ensemble. Replaced as a whole after
  /// each acceptance, by a file of mode 0600 that is renamed into its place. Empty: none.
  std::filesystem::path fallback_file = {};
  std::size_t history = 20;  ///< So many revisions can be gone back to. At least 1.
};

/// The configuration of a program: flat keys, which operators may also edit by hand. A program publishes many keys in one
/// transaction; followers see a publication whole or not at all, validate it, and keep the last good one.
///
///   path (persistent)           record: revision, checksum of all keys, who, when, note; "" before the first
///    |-- <key>, <dir>/<key>     persistent: the value. A node with children is a directory; its data means nothing
///    |-- -history (persistent)
///    |    '-- r-<revision>      persistent: the record of that revision, and the values that the next one replaced
///    |-- -applied (persistent)
///    |    '-- <id>              ephemeral: what is in force at the follower of that id, and what is not (`report`)
///    |-- -presence (persistent) an ephemeral node for each of these, by which its follower knows it
///    '-- -writes (container)    ephemeral nodes that make a publication happen once: exactly_once.md
///
/// Invariant: the record changes in every publication, and in the same transaction as the keys.
///
/// A key is one or several components of a path; none of them begins with '-'.
///
/// Guaranteed: the configuration in force is one that was there at one instant, or one that fits its record's checksum,
/// and that `validate` has let pass. A publication is applied once or not at all. It overwrites no edit that
/// came after the last one and that its publisher has not seen (exceptions: see the table). Not guaranteed: that every
/// revision is seen (watches do not queue); that all followers change at once.
///
/// What goes wrong                             What the caller sees
/// ------------------------------------------  ----------------------------------------------------------------------
/// publish: request or reply lost              nothing: it is published once
/// session lost during publish                 nothing: the record tells whether it was published; else it is sent again
/// deadline, stop request during publish       in_doubt if it was sent and not answered; else deadline_exceeded,
///                                               cancelled, and nothing was changed
/// somebody published meanwhile                bad_version; nothing was changed
/// key edited by hand, unseen                  bad_version; nothing was changed. From the next publication on, of whatever
///                                               key, the edit counts as published. One that came while a publication was on
///                                               its way is no error if current() is null or from the fallback file
/// key deleted and made again meanwhile        foreign_node: it was published over the new value, which had as many writes as
///                                               the old one (else bad_version). Not told of a key that is removed, nor if
///                                               the reply was lost
/// publication too large                       too_large; nothing was changed
/// publication is not valid                    invalid_argument, with what the validator said; nothing was sent
/// path missing                                publish creates it; followers go on with what they have
/// connection breaks                           current() stays, origin() is last_known, as_of() ages; then live
/// session of a follower lost                  the same; no call of on_change() if nothing has changed
/// no connection at the start                  current() is what the fallback file holds, if there is one; origin() is file
/// fallback file missing, torn or foreign      as if there were none; problem() is foreign_node until something is accepted
/// fallback file cannot be written             the configuration comes into force; problem() is system_error
/// value is bad                                current() stays, on_rejected() tells why, origin() is last_known
/// edit by hand                                validated, then in force, with `edited` set
/// record is malformed                         current() stays, problem() is foreign_node; publish: foreign_node
/// node cannot be read                         current() stays, problem() is no_auth or the like; publish: the same
/// path removed by hand                        current() stays, problem() is no_node. (Its keys go first, one by one: edits
///                                               by hand, which only the validator can refuse. Followers that report
///                                               make it again, without keys)
/// ensemble lost its data                      what is there now, also with a lower revision
/// report: request or reply lost               nothing: it is told as soon as it can be
/// session of a reporting follower lost        it is missing, until it has reported in its next session
/// report deleted or written by hand           it is made, or written, again at once
/// report cannot be written                    others miss the follower; its problem() is no_auth or the like
/// two followers with one id                   the one that came last reports; the problem() of the other is node_exists
/// wait_applied: a follower refuses it         that one is in `refused`, with the reason; the others are waited for
/// wait_applied: deadline                      no error: who has not answered is in `behind` or `missing`
/// wait_applied: reports cannot be read        no_auth or the like
/// wait_applied: path removed and made again   what a follower has of the former path counts for nothing, although the
///                                               revisions begin again
/// client closed                               calls end with closed; current() stays
///
/// Cost: as a TreeCache of the path. publish(): four round trips, the first one of a session up to eight. `report`: one
/// more write for each revision. wait_applied(): from the first one on, as a ChildrenCache of the reports.
/// A publication, its new values and those that they replace, has to fit into one request: about 1 MB in all.
///
/// Thread safety: all members, also from listeners and validators. The object keeps its client open. A moved-from object
/// may only be destroyed or assigned to. In a forked child there is no configuration, and calls end with Errc::forked.
class ZKRECIPES_API Configuration {
 public:
  /// Gets the changes of one publication, and the configuration with them.
  using Listener =
      zkclient::UniqueFunction<void(const std::vector<ConfigurationChange>& changes, const ConfigurationPtr& now)>;
  /// Gets a configuration that was refused, and why.
  using RejectionListener = zkclient::UniqueFunction<void(const ConfigurationRejection& rejection)>;

  /// Reads the fallback file, and begins to follow; does not wait for a server. Errors: invalid_acl (see acl_defect()),
  /// invalid_argument (the path is the root, `history` is 0, `report` without an id that can be a node's name), closed.
  Configuration(zkclient::Client client, zkclient::Path path, ConfigurationOptions options = {});
  /// As close().
  ~Configuration();
  Configuration(Configuration&&) noexcept;
  Configuration& operator=(Configuration&&) noexcept;

  /// What is in force: the last one that was accepted. Null: none yet. Does not block; costs the copy of a pointer.
  ConfigurationPtr current() const noexcept;
  /// Does not block.
  ConfigurationOrigin origin() const;
  /// current() contains all that any client had committed before this time; it moves on while origin() is live, as
  /// Cache::as_of() does. nullopt: not known yet. Does not block.
  std::optional<zkclient::BootClock::time_point> as_of() const;
  /// Why what the ensemble has is not in force, or is not in the fallback file, or why this follower cannot report; see
  /// the table. A value that was refused is invalid_argument. nullopt: nothing is wrong. Does not block.
  std::optional<zkclient::Error> problem() const;

  /// Waits until there is a configuration, from the ensemble or from the fallback file, for ever unless `call` has a
  /// deadline or a stop token. Errors: deadline_exceeded, cancelled, closed; their text says what is there instead: nothing
  /// was published, say.
  ConfigurationPtr wait_ready(const zkclient::CallOptions& call = {}) const;
  void async_wait_ready(zkclient::Handler<ConfigurationPtr> handler, const zkclient::CallOptions& call = {}) const;
  /// Waits until origin() is live. Otherwise as wait_ready().
  ConfigurationPtr wait_live(const zkclient::CallOptions& call = {}) const;
  void async_wait_live(zkclient::Handler<ConfigurationPtr> handler, const zkclient::CallOptions& call = {}) const;
  /// Waits until one of the ensemble with this revision, or a later one, is in force: after a publication, say. Otherwise
  /// as wait_ready().
  ConfigurationPtr wait_for_revision(std::int64_t revision, const zkclient::CallOptions& call = {}) const;
  void async_wait_for_revision(std::int64_t revision, zkclient::Handler<ConfigurationPtr> handler,
                               const zkclient::CallOptions& call = {}) const;

  /// Calls `listener` with all keys as added as soon as there is a configuration, then with each net difference, on the
  /// callback executor, one call at a time. No changes, but a call: a new revision of the same values. A slow listener
  /// misses revisions in between, never a difference. Errors: invalid_argument (no listener).
  zkclient::Subscription on_change(Listener listener) const;
  /// Calls `listener` for each configuration that is refused, also for one that is already. A slow one misses some.
  /// Otherwise as on_change().
  zkclient::Subscription on_rejected(RejectionListener listener) const;

  /// Publishes `update`, if `expected_revision` (or any_revision) still is the newest; returns the new revision. current()
  /// of this object contains it then, also that of roll_back(), unless the deadline passed just after it was published, or
  /// validators refuse it now. Other followers see it a moment later. By default blocks for not longer than the client's
  /// operation_timeout. Errors: see the table; invalid_argument (a key, a key below another key, nothing to publish), and
  /// those common to all operations of Client.
  std::int64_t publish(ConfigurationUpdate update, std::int64_t expected_revision,
                       const zkclient::CallOptions& call = {});
  void async_publish(ConfigurationUpdate update, std::int64_t expected_revision,
                     zkclient::Handler<std::int64_t> handler, const zkclient::CallOptions& call = {});
  /// Publishes the values that were replaced since `revision`, as a new revision: keys that no publication has changed since
  /// stay as they are, also if they were edited by hand. An edit of one of the other keys is bad_version, unless it is older
  /// than the newest revision, because it came while that was on its way: then it is replaced, and the history keeps it.
  /// Returns the new revision. Errors: as publish(); no_node (the history does not reach back so far).
  std::int64_t roll_back(std::int64_t revision, const zkclient::CallOptions& call = {});
  void async_roll_back(std::int64_t revision, zkclient::Handler<std::int64_t> handler,
                       const zkclient::CallOptions& call = {});
  /// The revisions that can be gone back to, the oldest first. Blocks for two round trips. Errors: those common to all
  /// operations of Client; foreign_node (one of them is malformed).
  std::vector<ConfigurationRevision> history(const zkclient::CallOptions& call = {}) const;
  void async_history(zkclient::Handler<std::vector<ConfigurationRevision>> handler,
                     const zkclient::CallOptions& call = {}) const;

  /// Waits until each of the followers `ids` has this revision or a later one in force, or has refused it: the end of a
  /// roll-out. Also returns, without an error, when the deadline of `call` has passed; without one it waits for ever. In
  /// force means that current() is it; listeners of that follower may still run. While there is no connection, what was
  /// heard last counts. Errors: invalid_argument (an id is empty or has a slash), no_auth and the like, cancelled, closed.
  ConfigurationRollOut wait_applied(std::int64_t revision, std::vector<std::string> ids,
                                    const zkclient::CallOptions& call = {}) const;
  void async_wait_applied(std::int64_t revision, std::vector<std::string> ids,
                          zkclient::Handler<ConfigurationRollOut> handler,
                          const zkclient::CallOptions& call = {}) const;

  /// No listener or validator is called afterwards, and those that run have returned, unless this is called by one of
  /// them. What waits ends with Errc::closed. current() stays; the report goes, a moment later. Idempotent. Otherwise does not block.
  void close();

  const zkclient::Path& path() const noexcept;

 protected:
  using Parser = std::function<std::shared_ptr<const void>(const ConfigurationValues&)>;
  Configuration(zkclient::Client client, zkclient::Path path, ConfigurationOptions options, Parser parser);

 private:
  std::shared_ptr<detail::ConfigurationCore> core_;
};

/// A Configuration that is parsed into a T before it comes into force.
///
///   TypedConfiguration<Limits> limits(client, "/config/limits", parse_limits);
///   std::shared_ptr<const Limits> now = limits.value();
template <typename T>
class TypedConfiguration : public Configuration {
 public:
  /// Makes the program's own type of the values.
  using Parse = std::function<T(const ConfigurationValues&)>;

  /// `parse` throws what is wrong; it is called as ConfigurationOptions::validate, and after that. Errors: as
  /// Configuration.
  TypedConfiguration(zkclient::Client client, zkclient::Path path, Parse parse, ConfigurationOptions options = {})
      : Configuration(std::move(client), std::move(path), std::move(options),
                      [parse = std::move(parse)](const ConfigurationValues& values) -> std::shared_ptr<const void> {
                        return std::make_shared<const T>(parse(values));
                      }) {}

  /// Of what is in force; null if nothing is. Does not block.
  std::shared_ptr<const T> value() const noexcept { return of(current()); }
  /// Of what current() or a listener got from this object.
  static std::shared_ptr<const T> of(const ConfigurationPtr& values) noexcept {
    return values == nullptr ? nullptr : std::static_pointer_cast<const T>(values->parsed);
  }
};

}  // namespace zkrecipes
