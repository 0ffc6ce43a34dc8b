#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/participant_log.hpp>

namespace zkrecipes {

inline constexpr std::size_t max_commit_payload = 512U * 1024U;  ///< Bytes.
/// How many may take part in one transaction.
inline constexpr std::size_t max_commit_participants = 256;
inline constexpr std::size_t max_commit_name = 128;  ///< Bytes of a participant's name.

/// Two-phase commit: all participants do their part of a transaction, or none does, whichever process dies at whatever
/// time. Source: "Two-phased Commit" in ZooKeeper's recipes, in both its variants; Gray, "Notes on Data Base Operating
/// Systems"; presumed abort: Mohan, Lindsay, Obermarck, "Transaction Management in the R* Distributed Database
/// Management System".
///
///   path
///    |-- participants/<name>       ephemeral: it serves; data: the identity of its log
///    |-- inbox/<name>              data: the id of the newest transaction; watched by the participant
///    |    '-- <id>                 a transaction that the participant has not acknowledged
///    '-- transactions/<id>         data: variant, timeout, retention, participants, payload
///         |-- coordinator          ephemeral: the coordinator waits for the outcome, and will tidy up
///         |-- vote-<name>          version 0: commit, never changed; version 1: abort
///         |-- decision             "commit" or "abort <reason>"; created once, never changed
///         '-- ack-<name>
///
/// Invariant: the decision is one node, created once. `commit` is created in a transaction that checks every vote, a
/// vote to abort creates `abort` with itself. So there is one outcome, and it is commit only if all voted for it.
///
/// What textbook two-phase commit lacks: no participant is blocked by the death of others while ZooKeeper has a quorum.
/// Any process (coordinator, participant, recoverer) may create `abort` when the time is up.
///
/// State of a transaction  Next        By                           When
/// ----------------------  ----------  ---------------------------  ---------------------------------------------------
/// (none)                  open        coordinator                  run(): node, inboxes in one ZooKeeper transaction
/// open                    open        a participant                votes, once, for commit
/// open                    committed   coordinator, one who         every vote is there: checked by the server
///                                     recovers; all-to-all: any
///                                     participant
/// open                    aborted     a participant                votes for abort (with the vote)
/// open                    aborted     any process                  time is up; run() was cancelled; a participant that
///                                                                  has not voted was gone for absence_grace
/// committed               removed     coordinator, any recoverer   all have acknowledged, and retention is over
/// aborted                 removed     coordinator, any recoverer   the same, or the timeout has passed once more
///
/// All other transitions are refused by the server: each is a create of a node that exists, or a failing check. The
/// states of a participant are in <zkrecipes/participant_log.hpp>.
///
/// What goes wrong                               What happens
/// --------------------------------------------  ----------------------------------------------------------------------
/// coordinator dies before the decision          participants abort at the deadline; recover() finishes it earlier
/// coordinator dies after the decision           participants apply it; recover() or a participant's sweep removes it
/// participant dies before its vote              aborted after absence_grace; it takes nothing up when it is back
/// participant dies after its vote               decided without it; it applies the decision when it is back
/// participant dies while it applies             commit() or abort() is called again, with the same id
/// begin: request or reply lost                  nothing: looked for, and begun again in the same session only
/// begin in doubt and the session lost           run throws in_doubt if it is not found; it is not begun a second time
/// vote, decision, acknowledgement lost          nothing: written again; what is there already is as good
/// session of the coordinator lost               nothing: it goes on in the next one; in_doubt, if others have finished and
///                                               removed the transaction in the meantime
/// session of a participant lost                 nothing: it is present again and goes on; its log is intact
/// time is up                                    aborted, by the first process to notice; counted from when each of them saw
///                                               the transaction first, so that no two clocks are compared
/// prepare throws                                a vote to abort, with the message as the reason
/// commit or abort throws                        called again, after a second; until then it is in doubt
/// the participant's log fails                   serve throws; nothing that was not logged was done
/// the participant's log was lost                a transaction that was committed with its vote is in_doubt(): resolve()
/// two processes of one name                     the second waits until the first one's session is over; a transaction for which
///                                               the first has voted is aborted, or if it is committed, in_doubt(): resolve()
/// participant that never served                 run throws no_node, which names it
/// run: stop request, deadline                   cancelled or deadline_exceeded if nothing was begun; otherwise in_doubt,
///                                               and the transaction is aborted in the background, if it is still open
/// client of a coordinator closed                the same, but left to the participants
/// quota of the servers full                     run throws quota_exceeded, which names it; what has begun is aborted, or
///                                               committed if all have voted (mediated), and removed. See docs/quotas.md
/// tree removed by hand                          transactions that are prepared are in_doubt(): resolve()
/// foreign node                                  ignored; a transaction whose data is not ours is not touched
///
/// Not guaranteed: that a process, once told `committed`, finds all participants to have applied it already (see
/// CommitOptions::wait), and anything at all if votes, decisions or transactions are changed or deleted by hand.
///
/// Requests: each participant of a transaction makes six to ZooKeeper, the coordinator a few more, however long it
/// takes.

/// Which process decides. Both survive the death of any process; a transaction carries its variant with it.
enum class CommitVariant {
  mediated,    ///< The coordinator collects the votes; participants look at the decision only.
  all_to_all,  ///< Participants look at the votes as well, and decide: no coordinator is needed once it has begun.
};

/// One transaction, as the participants' functions are given it.
struct CommitTransaction {
  std::string id;       ///< Unique for ever: the key by which to recognise what was done already.
  std::string payload;  ///< The same for all participants.
};

/// How a transaction ended.
struct CommitOutcome {
  std::string id;          ///< The transaction's.
  bool committed = false;  ///< False: it was aborted.
  std::string reason;      ///< Why it was aborted.

  friend bool operator==(const CommitOutcome&, const CommitOutcome&) = default;
};

/// A transaction as ZooKeeper tells it, for operators.
struct CommitStatus {
  std::string id;                         ///< The transaction's.
  std::vector<std::string> participants;  ///< Their names.
  std::optional<CommitOutcome> outcome;   ///< None: open.
  std::vector<std::string> voted;         ///< The participants that voted.
  std::vector<std::string> acknowledged;  ///< The participants that are done with it.
  bool coordinated = false;               ///< Its coordinator is there.
  std::int64_t begun_ms = 0;              ///< The server's wall clock, milliseconds since 1970.
};

/// How one transaction is run.
struct CommitOptions {
  /// When it is aborted if it is not decided; 1 ms to a century.
  std::chrono::milliseconds timeout{10'000};
  CommitVariant variant = CommitVariant::mediated;  ///< Which process decides.
  /// When run() returns: as soon as the outcome is certain, or when all participants have applied it as well.
  enum class Wait { decided, applied };
  Wait wait = Wait::decided;  ///< See Wait.
  /// For how long it is kept after that, for audit; by the clocks of the servers and of the process that removes it.
  std::chrono::milliseconds retention{0};
};

struct CommitCoordinatorOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node.
  /// How long a participant that has not voted may be absent before a transaction is aborted: long enough for it to
  /// restart. Not negative.
  std::chrono::milliseconds absence_grace{3'000};
};

/// Runs transactions, any number at once. See the top of the file.
/// Thread safety: all members.
class ZKRECIPES_API CommitCoordinator {
 public:
  /// No I/O. Errors: invalid_acl, invalid_argument.
  CommitCoordinator(zkclient::Client client, zkclient::Path path, CommitCoordinatorOptions options = {});
  /// Transactions that are running go on while the client is open.
  ~CommitCoordinator();
  CommitCoordinator(CommitCoordinator&&) noexcept;
  CommitCoordinator& operator=(CommitCoordinator&&) noexcept;

  /// Runs one transaction. Waits for its outcome as CommitOptions::wait says, by default (no deadline in `call`) as
  /// long as that takes. `deadline` and `stop` end the waiting, `CommitOptions::timeout` the transaction.
  /// Errors: invalid_argument (participants missing, twice, too many; a bad name; a bad time), too_large (the payload:
  /// max_commit_payload), no_node (a participant that never served here), cancelled, deadline_exceeded, closed (nothing
  /// was begun), in_doubt (it was begun; path() of the error names it, status() tells what became of it), no_auth.
  CommitOutcome run(const std::vector<std::string>& participants, std::string_view payload,
                    const CommitOptions& options = {}, const zkclient::CallOptions& call = {});
  /// The same; `handler` is called exactly once, on the callback executor.
  void async_run(const std::vector<std::string>& participants, std::string_view payload, const CommitOptions& options,
                 zkclient::Handler<CommitOutcome> handler, const zkclient::CallOptions& call = {});

  /// Finishes what others have left: decides every open transaction that has no coordinator (commit if all votes are
  /// there, or come in before its timeout, counted from now), waits as long again for the acknowledgements that are
  /// missing, and removes what is finished. Returns what it decided or found decided. Any process may do so, at any
  /// time.
  std::vector<CommitOutcome> recover(const zkclient::CallOptions& call = {});
  /// The same. `outcomes` gets what it decided or found decided, also when the call fails: what it has begun then goes on
  /// while the client is open.
  void recover(std::vector<CommitOutcome>& outcomes, const zkclient::CallOptions& call = {});
  void async_recover(zkclient::Handler<std::vector<CommitOutcome>> handler, const zkclient::CallOptions& call = {});

  /// All transactions that are there. Blocks for a few round trips each. Errors: those of all operations of Client.
  std::vector<CommitStatus> transactions(const zkclient::CallOptions& call = {}) const;
  void async_transactions(zkclient::Handler<std::vector<CommitStatus>> handler,
                          const zkclient::CallOptions& call = {}) const;
  /// What became of a transaction, while it is there (CommitOptions::retention). Of one that this object has run, and
  /// whose outcome it knows, also later, and if no server answers: then the id and the outcome alone are told, for the
  /// newest 64. Errors: no_node (there is none: never begun, or over); otherwise as transactions().
  CommitStatus status(std::string_view id, const zkclient::CallOptions& call = {}) const;
  void async_status(std::string_view id, zkclient::Handler<CommitStatus> handler,
                    const zkclient::CallOptions& call = {}) const;

  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// A participant's answer in the first phase.
struct CommitVote {
  bool commit = false;  ///< False: the transaction is aborted.
  std::string reason;   ///< Of an abort; at most 1 kB is kept.

  /// For and against it.
  static CommitVote yes() { return {true, {}}; }
  static CommitVote no(std::string why) { return {false, std::move(why)}; }
};

/// A participant's code. Called on the callback executor, one at a time; all three must be there.
struct CommitHandlers {
  /// Makes sure that commit() cannot fail, durably, and that abort() can undo it. Called again if the process dies
  /// before the vote.
  zkclient::UniqueFunction<CommitVote(const CommitTransaction&)> prepare;
  /// Makes it so. Called once, and again with the same id only if the process dies (or it throws) before the log knows
  /// that it was done: make it idempotent by the id.
  zkclient::UniqueFunction<void(const CommitTransaction&)> commit;
  /// Undoes what prepare() did. Called as commit(), also for a transaction of which prepare() was begun only, or voted
  /// against it.
  zkclient::UniqueFunction<void(const CommitTransaction&)> abort;
};

/// A transaction that a participant has prepared and whose outcome it does not know (yet).
struct InDoubtTransaction {
  std::string id;                    ///< The transaction's.
  std::string payload;               ///< The transaction's data for this participant.
  LogState state = LogState::ready;  ///< How far the participant is with it.
  /// Empty: it waits for the decision. Otherwise why it waits for resolve(), or what commit() threw.
  std::string problem;
};

struct CommitParticipantOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node.
  /// As in CommitCoordinatorOptions, for all-to-all transactions.
  std::chrono::milliseconds absence_grace{3'000};
  /// How often it looks for transactions that no coordinator finishes; 0: never.
  std::chrono::milliseconds sweep_interval{30'000};
};

/// Takes part in transactions under one name. See the top of the file.
/// Thread safety: all members; the log is used by serve() and, while that does not run, by resolve() and in_doubt().
class ZKRECIPES_API CommitParticipant {
 public:
  /// No I/O. `log` must not be used by another object. Errors: invalid_acl, invalid_argument (the name, the log, a
  /// time).
  CommitParticipant(zkclient::Client client, zkclient::Path path, std::string name, std::shared_ptr<ParticipantLog> log,
                    CommitParticipantOptions options = {});
  /// An async_serve() goes on, and keeps the client open, until its stop token or its deadline ends it, or the client is
  /// closed.
  ~CommitParticipant();
  CommitParticipant(CommitParticipant&&) noexcept;
  CommitParticipant& operator=(CommitParticipant&&) noexcept;

  /// Takes up what the log has open, and serves until the stop token or the deadline of `call` ends it, which is no
  /// error. Open transactions stay in the log for the next time. When it returns, none of the handlers runs.
  /// Errors: closed (the client), would_deadlock (it serves already), invalid_argument (a handler is missing),
  /// system_error and whatever else the log threw, no_auth. Connections that are lost are none.
  void serve(CommitHandlers handlers, const zkclient::CallOptions& call = {});
  void async_serve(CommitHandlers handlers, zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  /// The transactions that this participant has prepared and not applied. Does not block.
  std::vector<InDoubtTransaction> in_doubt() const;
  /// An operator's word on a transaction that has a `problem` and waits for it: applied and logged as if it were the
  /// decision, at once, or when serve() runs the next time. Errors: no_node (there is none that waits for it).
  void resolve(std::string_view id, bool commit);

  /// The name, as it was given.
  const std::string& name() const noexcept;
  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace zkrecipes
