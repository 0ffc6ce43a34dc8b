/* The two-phase commit of <zkrecipes/two_phase_commit.hpp>: one transaction, one coordinator, N participants, and ZooKeeper
 * as what its promises make of it: one copy, each request atomic.
 *
 * What may happen at any step:
 *   - a process crashes, and starts again with what is in its log only (CRASHES in all); the coordinator may stay dead
 *   - a request is applied and its reply is lost, so that it is sent again (LOSSES in all)
 *   - a request is still on its way when its sender crashes, and is applied at any later time, or never
 *   - the time is up, for anybody, as long as the transaction is not decided: a deadline may come at any moment
 *
 * Checked (see check.sh), exhaustively:
 *   agreement     no participant commits while another one aborts; nobody does both
 *   validity      committed only if all have voted to commit
 *   termination   no end but that every participant is done; and no way to go on for ever without getting there
 *
 * ALL_TO_ALL: the participants decide as well. BREAK_...: mistakes, each of which the check has to find.
 */

#ifndef N
#define N 3
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif

#define OPEN 0
#define COMMIT 1
#define ABORT 2

/* How far a participant's log is; it survives crashes. */
#define NONE 0
#define BEGUN 1
#define READY 2
#define COMMITTED 3
#define ABORTED 4
#define APPLIED 5
#define ENDED 6

/* --- ZooKeeper -------------------------------------------------------------------------------------------------- */

bool exists;       /* the transaction's node */
bool removed;      /* it did exist */
byte decision;     /* its child */
byte vote[N];      /* its children; ABORT is version 1 of the node */
bool acked[N];     /* its children */
bool inbox[N];     /* the entry in each participant's inbox */

/* Requests of processes that have crashed since. */
bool late_vote[N];
bool late_commit;
bool late_abort;

/* --- The participants' logs, and what they have done ----------------------------------------------------------- */

byte log[N];
byte outcome;      /* what was decided, also after the removal */
bool undone;       /* some participant has aborted */
byte crashes = CRASHES;
byte losses = LOSSES;

#ifdef BREAK_VOTES_NOT_READ
#define VOTED(i) (vote[i] != OPEN)
#else
#define VOTED(i) (vote[i] == COMMIT)
#endif
#if N == 3
#define CHECK_PASSES (VOTED(0) && VOTED(1) && VOTED(2))
#define ALL_VOTED (vote[0] == COMMIT && vote[1] == COMMIT && vote[2] == COMMIT)
#define ALL_ACKED (acked[0] && acked[1] && acked[2])
#else
#define CHECK_PASSES (VOTED(0) && VOTED(1))
#define ALL_VOTED (vote[0] == COMMIT && vote[1] == COMMIT)
#define ALL_ACKED (acked[0] && acked[1])
#endif

inline decide(what) {
  decision = what;
  assert(outcome == OPEN);                    /* decided once */
  assert(what == ABORT || ALL_VOTED);         /* validity */
  assert(what == ABORT || !undone);           /* agreement */
  outcome = what;
}

/* --- Requests: each is one ZooKeeper transaction --------------------------------------------------------------- */

inline request_vote(i) {
  if :: exists && inbox[i] && vote[i] == OPEN -> vote[i] = COMMIT :: else fi
}

inline request_vote_against(i) {
#ifdef BREAK_VOTES_NOT_READ
  if :: exists && inbox[i] && vote[i] == OPEN -> vote[i] = ABORT :: else fi
#else
  if :: exists && inbox[i] && vote[i] == OPEN && decision == OPEN -> vote[i] = ABORT; decide(ABORT) :: else fi
#endif
}

inline request_commit() {
#ifdef BREAK_COMMIT_UNCHECKED
  if :: exists && decision == OPEN -> decide(COMMIT) :: else fi
#else
  if :: exists && decision == OPEN && CHECK_PASSES -> decide(COMMIT) :: else fi
#endif
}

inline request_abort() {
#ifdef BREAK_DECISION_OVERWRITTEN
  if :: exists -> decide(ABORT) :: else fi
#else
  if :: exists && decision == OPEN -> decide(ABORT) :: else fi
#endif
}

inline request_ack(i) {
  if :: exists && inbox[i] -> acked[i] = true; inbox[i] = false :: else fi
}

/* An abort need not be acknowledged by all: who finds nothing takes it for aborted. */
inline request_remove() {
#ifdef BREAK_REMOVED_TOO_EARLY
  if
  :: exists && decision != OPEN ->
#else
  if
  :: exists && (decision == ABORT || (decision == COMMIT && ALL_ACKED)) ->
#endif
    exists = false; removed = true; decision = OPEN;
    vote[0] = OPEN; vote[1] = OPEN; acked[0] = false; acked[1] = false; inbox[0] = false; inbox[1] = false
#if N == 3
    ; vote[2] = OPEN; acked[2] = false; inbox[2] = false
#endif
  :: else
  fi
}

/* --- A participant ---------------------------------------------------------------------------------------------- */

inline apply(what) {
  assert(what == ABORT || outcome == COMMIT);   /* agreement */
  assert(what == COMMIT || outcome != COMMIT);
  if :: what == ABORT -> undone = true :: else fi
}

proctype Participant(byte i) {
  bool voted, against, gone;
  byte seen;

end_nothing_to_do:
  (exists || removed);
start:
  do
  /* A crash between any two steps; what it was about to send may still arrive. */
  :: atomic { crashes > 0 && log[i] != ENDED ->
       crashes--;
       if
       :: log[i] == NONE -> log[i] = BEGUN   /* while it prepares */
#ifdef BREAK_READY_NOT_DURABLE
       :: log[i] == READY -> log[i] = NONE
#endif
#ifdef BREAK_APPLIED_NOT_DURABLE
       :: log[i] == APPLIED -> log[i] = READY
#endif
       :: log[i] == READY && !voted -> late_vote[i] = true
       :: log[i] == READY && voted -> late_abort = true
       :: true
       fi;
       voted = false; against = false; gone = false; seen = OPEN }

  /* What it sees. Only what is new is looked at, so that nothing goes round in circles. */
  :: atomic { exists && decision != OPEN && seen == OPEN && log[i] <= READY -> seen = decision }
  :: atomic { removed && !gone && seen == OPEN && log[i] <= READY -> gone = true }

  /* First phase. */
  :: atomic { log[i] <= BEGUN && exists && inbox[i] && seen == OPEN && !gone && !against ->
       if :: log[i] = READY :: log[i] = BEGUN; against = true fi }
  :: atomic { log[i] == BEGUN && against && seen == OPEN && !gone && exists && decision == OPEN ->
       request_vote_against(i)
#ifdef BREAK_VOTES_NOT_READ
       ; log[i] = ABORTED
#endif
     }
  :: atomic { log[i] == READY && !voted && seen == OPEN && !gone && exists ->
       request_vote(i);
       if
       :: voted = (vote[i] != OPEN)
       :: losses > 0 -> losses--   /* the reply is lost; it votes again */
       fi }

  /* Waiting: any time may be the deadline. */
  :: atomic { log[i] == READY && voted && exists && decision == OPEN -> request_abort() }
#ifdef ALL_TO_ALL
  :: atomic { log[i] == READY && voted && exists && decision == OPEN && CHECK_PASSES -> request_commit() }
#endif

  /* Second phase. */
  :: atomic { log[i] == READY && seen == COMMIT -> log[i] = COMMITTED }
  :: atomic { (log[i] == READY || log[i] == BEGUN) && seen == ABORT -> log[i] = ABORTED }
  :: atomic { (log[i] == READY || log[i] == BEGUN) && seen == OPEN && gone -> log[i] = ABORTED }
#ifdef BREAK_ABORTS_ALONE
  :: atomic { log[i] == READY && voted && seen == OPEN -> log[i] = ABORTED }
#endif
  :: atomic { log[i] <= BEGUN && seen == COMMIT -> assert(false) }
  :: atomic { log[i] == COMMITTED -> apply(COMMIT); log[i] = APPLIED; voted = false; gone = false; seen = OPEN }
  :: atomic { log[i] == ABORTED -> apply(ABORT); log[i] = APPLIED; voted = false; gone = false; seen = OPEN }
  :: atomic { log[i] == APPLIED && exists && inbox[i] -> request_ack(i) }
  :: atomic { log[i] == APPLIED && (!exists || !inbox[i]) -> log[i] = ENDED }
  :: atomic { log[i] == NONE && seen == ABORT && exists && inbox[i] -> request_ack(i) }
  :: atomic { log[i] == NONE && (gone || (seen == ABORT && !inbox[i])) -> log[i] = ENDED }
  :: log[i] == ENDED -> break
  od
}

/* --- The coordinator, and whoever recovers what it has left ------------------------------------------------------ */

proctype Coordinator() {
  if
  :: crashes > 0 -> crashes--; goto dead                        /* before it has begun */
  :: atomic {
       exists = true; inbox[0] = true; inbox[1] = true
#if N == 3
       ; inbox[2] = true
#endif
     }
  fi;
drive:
  do
  :: atomic { crashes > 0 ->
       crashes--;
       if
       :: CHECK_PASSES -> late_commit = true
       :: late_abort = true
       :: true
       fi;
       if :: goto drive :: goto dead fi }
  :: atomic { exists && decision == OPEN && CHECK_PASSES -> request_commit() }
#ifdef BREAK_COMMIT_UNCHECKED
  :: atomic { exists && decision == OPEN -> request_commit() }
#endif
  :: atomic { exists && decision == OPEN -> request_abort() }
#ifdef BREAK_DECISION_OVERWRITTEN
  :: atomic { exists && decision == COMMIT -> request_abort() }
#endif
#ifdef BREAK_REMOVED_TOO_EARLY
  :: atomic { exists && decision != OPEN -> request_remove() }
#else
  :: atomic { exists && (decision == ABORT || (decision == COMMIT && ALL_ACKED)) -> request_remove() }
#endif
  :: removed -> break
  od;
dead:
  skip
}

/* --- What was on its way when its sender crashed ----------------------------------------------------------------- */

proctype Network() {
end_idle:
  do
  :: atomic { late_vote[0] -> late_vote[0] = false; if :: request_vote(0) :: true fi }
  :: atomic { late_vote[1] -> late_vote[1] = false; if :: request_vote(1) :: true fi }
#if N == 3
  :: atomic { late_vote[2] -> late_vote[2] = false; if :: request_vote(2) :: true fi }
#endif
  :: atomic { late_commit -> late_commit = false; if :: request_commit() :: true fi }
  :: atomic { late_abort -> late_abort = false; if :: request_abort() :: true fi }
  od
}

init {
  byte i;
  atomic {
    for (i : 0 .. N - 1) { run Participant(i) }
    run Coordinator();
    run Network()
  }
}
