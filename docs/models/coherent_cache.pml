/* One shard of the coherent cache: ZooKeeper as what its promises make of it (one leader, one lagging server per reader, each
 * transaction atomic), READERS readers that cache the shard's item, and writers that change it.
 *
 * The protocol:
 *   gate       open or closed, and its version g, the epoch. Each write of the item changes g in the same transaction.
 *   a grant    the reader reads gate and item, in that order, then registers itself in a transaction that checks g
 *   a lease    lasts a term from the sending of the newest acknowledged transaction that checked g
 *   a write    without registrations it is one transaction. Otherwise: close the gate; wait until all registrations are
 *              gone, or for the longest term of those that are left, and a margin; write, open the gate
 *   the rest   a reader that hears of a closed gate drops what it has, then removes its registration. A gate that was left
 *              closed by a writer that is gone may be opened by anybody.
 *
 * What may happen at any step:
 *   - time passes, and a reader's clock misses one tick of it (SLOW in all)
 *   - a reader stops, is cut off, crashes: it simply takes no step any more; its session ends when it has been silent for long
 *     enough, and its registrations with it
 *   - a reader's server lags behind, and a new session begins on one that lags further
 *   - the reply of a registration or of its removal is lost (LOSSES in all)
 *   - a writer crashes, or loses its session while the answer to its write is on the way (CRASHES in all); that write may be
 *     applied at any later time that its session lives, or never
 *
 * Checked (see check.sh), exhaustively:
 *   coherence     the item changes only while no reader would answer from its cache; what a reader puts there is the item
 *   freshness     a read that goes to a server answers with nothing older than what was there when it began
 *   once          a write is applied once at most; it is reported as done only if it was, and repeated only if it was not
 *   termination   no end but that every writer has an answer or has crashed, whatever readers do. (Budgets bound every loop,
 *                 so each run has an end.)
 *
 * BREAK_...: rules that are left out, each of which the check has to notice:
 *   RENEWED_BY_ANY      a transaction that does not check the gate renews a lease
 *   LEASE_FROM_ANSWER   the term begins when the transaction is answered
 *   LEASE_IGNORED       a reader answers from its cache until it hears of the closed gate
 *   KEPT_ON_EVENT       a reader removes its registration, and goes on answering until its lease ends
 *   OUTLIVES_SESSION    the term is longer than a silent session lives
 *   GRANT_UNCHECKED     the registration does not check the gate
 *   GRANT_WHILE_CLOSED  a reader registers itself at a closed gate
 *   ITEM_FIRST          the item is read before the gate
 *   STALE_FILL          what was read under an earlier lease is cached under a later one
 *   JOIN_ANY            a read joins a fetch that began before it, without a lease
 *   NO_BARRIER          an uncached read asks the reader's server only
 *   SAME_NAME           all registrations of a reader have one name
 *   NO_WAIT             the writer does not wait for a reader that does not answer
 *   NO_MARGIN           the writer waits for the term, without a margin for slow clocks
 *   WAIT_FROM_SENT      the writer waits from when it sent the close
 *   OWN_TERM            the writer waits for a term of its own, instead of the registered one
 *   WRITE_UNCHECKED     the one transaction of a write does not check that there is no registration
 *   COMMIT_UNCHECKED    the write after the close does not check the gate's version
 *   JUDGED_EARLY        after a lost session the writer reads the gate while its write may still arrive
 */

#ifndef READERS
#define READERS 2
#endif
#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef READS          /* what a reader asks a server for, in all */
#define READS 2
#endif
#ifndef BEATS          /* renewals that a reader sends */
#define BEATS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef SLOW
#define SLOW 1
#endif

#define LONGEST 2
#define TERM(r) (LONGEST - (r))     /* the readers have different ones */

/* --- The ensemble ----------------------------------------------------------------------------------------------- */

byte g;                /* the gate's version */
bool open = true;
byte record;           /* in the gate: whose write opened it; 0: nobody's */
byte node;             /* the writer that has closed the gate, while its session lives */
byte item;             /* a number that grows with each write */

bool listed[READERS];  /* the registration of the reader's newest attempt */
bool old[READERS];     /* one that it has given up, and whose removal is on its way */
bool again[READERS];   /* the removal of one that is gone is on its way */
bool over[READERS];    /* the reader's session has ended, and it does not know yet */
byte silent[READERS];  /* ticks since the sending of the youngest that the leader has heard */
byte server_gate[READERS];      /* what the reader's server has: g */
bool server_open[READERS];
byte server_item[READERS];

byte crashes = CRASHES;
byte losses = LOSSES;
byte slow = SLOW;

/* --- What the readers and writers know -------------------------------------------------------------------------- */

bool cached[READERS];
byte value[READERS];
byte epoch[READERS];   /* of the lease */
byte left[READERS];    /* ticks, by the reader's clock */

mtype = { idle, gate_unread, gate_read, registering, registered, barrier };
mtype miss[READERS] = idle;
byte miss_gate[READERS];   /* what it has read */
byte miss_value[READERS];
byte miss_since[READERS];  /* the item when the read began */
byte miss_age[READERS];    /* of the registration's transaction, by the reader's clock */

mtype = { asked, answered };
mtype fetch[READERS] = idle;   /* of an item, under a lease */
byte fetch_epoch[READERS];
byte fetch_value[READERS];
byte fetch_since[READERS];

mtype = { sent, passed, refused };
mtype beat[READERS] = idle;
byte beat_epoch[READERS];
byte beat_age[READERS];

bool waiting[WRITERS];
byte waited[WRITERS];      /* ticks */
byte applied[WRITERS];     /* how often its write was */
bool late[WRITERS];        /* its write is on its way, and nobody waits for the answer */
byte late_gate[WRITERS];   /* the version that it expects */
bool dead[WRITERS];
bool started;              /* writers are alike: the first one begins first */

#ifdef BREAK_LEASE_IGNORED
#define SERVES(r) (cached[r])
#else
#define SERVES(r) (cached[r] && left[r] > 0)
#endif
#if READERS == 2
#define NOBODY_SERVES (!SERVES(0) && !SERVES(1))
#define NONE_LISTED (!listed[0] && !old[0] && !listed[1] && !old[1])
#else
#define NOBODY_SERVES (!SERVES(0))
#define NONE_LISTED (!listed[0] && !old[0])
#endif

#ifdef BREAK_NO_MARGIN
#define MARGIN 0
#else
#define MARGIN SLOW
#endif
#ifdef BREAK_OUTLIVES_SESSION
#define SESSION(r) (TERM(r))
#else
#define SESSION(r) (TERM(r) + SLOW)
#endif
#define PATIENCE (LONGEST + SLOW)

/* The longest term that is listed, and the margin, have passed. */
#if defined(BREAK_NO_WAIT)
#define WAITED_FOR(r, w) true
#elif defined(BREAK_OWN_TERM)
#define WAITED_FOR(r, w) (waited[w] >= 1 + MARGIN)
#else
#define WAITED_FOR(r, w) (waited[w] >= TERM(r) + MARGIN)
#endif
#define SETTLED(r, w) ((!listed[r] && !old[r]) || WAITED_FOR(r, w))
#if READERS == 2
#define ALL_SETTLED(w) (SETTLED(0, w) && SETTLED(1, w))
#else
#define ALL_SETTLED(w) (SETTLED(0, w))
#endif

#ifdef BREAK_WRITE_UNCHECKED
#define FREE true
#else
#define FREE NONE_LISTED
#endif

inline catch_up(r) {
  server_gate[r] = g;
  server_open[r] = open;
  server_item[r] = item
}

inline turn_gate(to_open, by) {
  g++;
  open = to_open;
  record = by
}

inline apply_write(w) {
  assert(NOBODY_SERVES);          /* coherence */
  assert(applied[w] == 0);        /* once */
  applied[w]++;
  item++;
  turn_gate(true, w + 1)
}

/* The transaction behind a closed gate also removes what is still registered. */
inline apply_commit(w) {
  apply_write(w);
  node = 0;
  listed[0] = false; old[0] = false
#if READERS == 2
  ; listed[1] = false; old[1] = false
#endif
}

/* --- A reader --------------------------------------------------------------------------------------------------- */

inline give_up_registration(r) {
  if :: listed[r] -> listed[r] = false; old[r] = true :: else fi
}

inline drop_all(r) {
  cached[r] = false; value[r] = 0; left[r] = 0; epoch[r] = 0
}

inline lease_of(r, what, age) {
#ifdef BREAK_LEASE_FROM_ANSWER
  left[r] = TERM(r);
#else
  left[r] = (age < TERM(r) -> TERM(r) - age : 0);
#endif
  epoch[r] = what
}

inline end_miss(r) {
  miss[r] = idle; miss_gate[r] = 0; miss_value[r] = 0; miss_since[r] = 0; miss_age[r] = 0
}

/* The leader has heard of the session, as of the time at which this was sent. A slow clock may have taken a tick off its age. */
inline heard(r, age) {
  if :: silent[r] > age + SLOW - slow -> silent[r] = age + SLOW - slow :: else fi
}

inline read_gate(r) {
  miss_gate[r] = server_gate[r];
#ifdef BREAK_GRANT_WHILE_CLOSED
  miss[r] = gate_read
#else
  miss[r] = (server_open[r] -> gate_read : barrier)
#endif
}

inline register(r) {
  listed[r] = true;
  miss[r] = registered;
  silent[r] = miss_age[r] + SLOW - slow
}

proctype Reader(byte r) {
  byte reads = READS;
  byte beats = BEATS;

end_idle:
  do
  /* A miss: read the gate, the item, then register. */
  :: atomic { miss[r] == idle && left[r] == 0 && reads > 0 && !over[r] ->
       reads--; give_up_registration(r); drop_all(r);
       miss_since[r] = item;
#ifdef BREAK_ITEM_FIRST
       miss_value[r] = server_item[r];
       miss[r] = gate_unread
#else
       read_gate(r)
#endif
     }
#ifdef BREAK_ITEM_FIRST
  :: atomic { miss[r] == gate_unread -> read_gate(r) }
#endif
  :: atomic { miss[r] == gate_read ->
#ifndef BREAK_ITEM_FIRST
       miss_value[r] = server_item[r];
#endif
       miss[r] = registering; miss_age[r] = 0 }
  :: atomic { miss[r] == registering ->
       if
       :: over[r] -> miss[r] = barrier
#ifdef BREAK_GRANT_UNCHECKED
       :: !over[r] -> register(r)
#else
       :: !over[r] && g == miss_gate[r] -> register(r)
       :: !over[r] && g != miss_gate[r] -> miss[r] = barrier
#endif
       fi }
  :: atomic { miss[r] == registered ->
       if
       :: over[r] -> miss[r] = barrier
       :: !over[r] ->
            assert(miss_value[r] >= miss_since[r]);     /* freshness */
            lease_of(r, miss_gate[r], miss_age[r]);
            cached[r] = true; value[r] = miss_value[r];
            if :: SERVES(r) -> assert(value[r] == item) :: else fi;    /* coherence */
            end_miss(r)
       :: !over[r] && losses > 0 -> losses--; give_up_registration(r); miss[r] = barrier
       fi }
  /* An uncached read: a quorum write, and the item behind it. */
  :: atomic { miss[r] == barrier && !over[r] ->
#ifndef BREAK_NO_BARRIER
       catch_up(r);
#endif
       assert(server_item[r] >= miss_since[r]);       /* freshness */
       end_miss(r) }
  /* It opens a gate that was left closed. */
  :: atomic { miss[r] == idle && !open && node == 0 && reads > 0 && !over[r] -> reads--; turn_gate(true, 0) }

  /* Under a lease: an item that was not asked for so far, or was evicted. */
  :: atomic { fetch[r] == idle && left[r] > 0 && reads > 0 && !over[r] ->
       reads--; cached[r] = false; value[r] = 0;
       fetch[r] = asked; fetch_since[r] = item; fetch_epoch[r] = epoch[r] }
  :: atomic { fetch[r] == asked -> fetch_value[r] = server_item[r]; fetch[r] = answered }
  /* Another read joins it. */
#ifdef BREAK_JOIN_ANY
  :: atomic { fetch[r] != idle && fetch_since[r] != item -> fetch_since[r] = item }
#else
  :: atomic { fetch[r] != idle && fetch_since[r] != item && left[r] > 0 && epoch[r] == fetch_epoch[r] ->
       fetch_since[r] = item }
#endif
  :: atomic { fetch[r] == answered ->
       assert(fetch_value[r] >= fetch_since[r]);        /* freshness */
       if
#ifdef BREAK_STALE_FILL
       :: left[r] > 0 ->
#else
       :: left[r] > 0 && epoch[r] == fetch_epoch[r] ->
#endif
            cached[r] = true; value[r] = fetch_value[r];
            assert(value[r] == item)                    /* coherence */
       :: else
       fi;
       fetch[r] = idle; fetch_epoch[r] = 0; fetch_value[r] = 0; fetch_since[r] = 0 }

  /* Renewals. */
  :: atomic { beat[r] == idle && left[r] > 0 && beats > 0 && !over[r] ->
       beats--; beat[r] = sent; beat_epoch[r] = epoch[r]; beat_age[r] = 0 }
  :: atomic { beat[r] == sent ->
       if
       :: over[r] -> beat[r] = refused
#ifdef BREAK_RENEWED_BY_ANY
       :: !over[r] -> beat[r] = passed; heard(r, beat_age[r])
#else
       :: !over[r] && g == beat_epoch[r] -> beat[r] = passed; heard(r, beat_age[r])
       :: !over[r] && g != beat_epoch[r] -> beat[r] = refused; heard(r, beat_age[r])
#endif
       fi }
  :: atomic { beat[r] == passed ->
       if
       :: left[r] > 0 && epoch[r] == beat_epoch[r] -> lease_of(r, epoch[r], beat_age[r])
       :: else
       fi;
       beat[r] = idle; beat_epoch[r] = 0; beat_age[r] = 0 }
  :: atomic { beat[r] == refused ->
       if
       :: epoch[r] == beat_epoch[r] && left[r] > 0 -> drop_all(r); give_up_registration(r)
       :: else
       fi;
       beat[r] = idle; beat_epoch[r] = 0; beat_age[r] = 0 }

  /* Its server has told it that the gate has changed. */
  :: atomic { left[r] > 0 && listed[r] && server_gate[r] != epoch[r] ->
#ifndef BREAK_KEPT_ON_EVENT
       drop_all(r);
#endif
       give_up_registration(r) }
  /* It hears that its session is over, and so are all requests of that session. The next one may begin on a server that
   * lags behind. */
  :: atomic { over[r] && miss[r] != registered && miss[r] != registering && beat[r] != sent ->
       over[r] = false; drop_all(r);
       if :: miss[r] == gate_unread || miss[r] == gate_read -> miss[r] = barrier :: else fi;
       if :: fetch[r] == asked -> fetch[r] = idle; fetch_epoch[r] = 0; fetch_since[r] = 0 :: else fi;
       if :: true :: server_gate[r] = 0; server_open[r] = true; server_item[r] = 0 fi }
  od
}

/* --- A writer, with one write ----------------------------------------------------------------------------------- */

proctype Writer(byte w) {
  byte seen;           /* the version that the write expects */

  atomic { w == 0 || started -> started = true };
start:
  assert(applied[w] == 0);
  if
  :: atomic { open && FREE ->
       seen = g;
       if
       :: apply_write(w); goto done
       :: crashes > 0 -> crashes--; late[w] = true; late_gate[w] = g; if :: goto judge :: goto crashed fi
       fi }
  :: atomic { open && !NONE_LISTED -> seen = g;
#ifdef BREAK_WAIT_FROM_SENT
       waiting[w] = true
#endif
     }
  :: atomic { !open && node == 0 -> turn_gate(true, 0); goto start }
  fi;
  /* The close is on its way. */
  atomic {
    if
    :: open && g == seen -> turn_gate(false, 0); node = w + 1; waiting[w] = true; seen = g
    :: else -> waiting[w] = false; waited[w] = 0; goto start
    fi
  };
wait:
  if
  :: atomic { ALL_SETTLED(w) ->
       waiting[w] = false; waited[w] = 0;
       if
#ifdef BREAK_COMMIT_UNCHECKED
       :: apply_commit(w); goto done
#else
       :: g == seen -> apply_commit(w); goto done
       :: g != seen -> goto start
#endif
       :: crashes > 0 ->
            crashes--; late[w] = true; late_gate[w] = seen;
            if :: node == w + 1 -> node = 0 :: else fi;
            if :: goto judge :: goto crashed fi
       fi }
  /* It loses its session, and does not know; or it crashes. */
  :: atomic { crashes > 0 -> crashes--; node = (node == w + 1 -> 0 : node); if :: goto wait :: goto crashed fi }
  fi;

judge:
  /* The old slot is removed: from here on nothing of the old session can be applied. */
#ifndef BREAK_JUDGED_EARLY
  atomic { late[w] = false; late_gate[w] = 0 };
#endif
  atomic {
    if
    :: record == w + 1 -> goto done
    :: record != w + 1 && (g == seen || g == seen + 1) -> goto start
    :: else -> goto in_doubt
    fi
  };

done:
  assert(applied[w] == 1);
  goto ended;
crashed:
  dead[w] = true;
in_doubt:
  skip;
ended:
  atomic { waiting[w] = false; waited[w] = 0; seen = 0 }
}

/* --- What else happens ------------------------------------------------------------------------------------------ */

inline age_one(r) {
  if :: left[r] > 0 -> left[r]-- :: else fi;
  if :: (miss[r] == registering || miss[r] == registered) && miss_age[r] < LONGEST -> miss_age[r]++ :: else fi;
  if :: beat[r] != idle && beat_age[r] < LONGEST -> beat_age[r]++ :: else fi
}

inline age_session(r) {
  if :: (listed[r] || old[r]) && silent[r] < PATIENCE -> silent[r]++ :: else fi
}

inline age_wait(w) {
  if :: waiting[w] && waited[w] < PATIENCE -> waited[w]++ :: else fi
}

#define COUNTS(r) (left[r] > 0 || ((listed[r] || old[r]) && silent[r] < PATIENCE) || \
                   ((miss[r] == registering || miss[r] == registered) && miss_age[r] < LONGEST) || \
                   (beat[r] != idle && beat_age[r] < LONGEST))
#define WAITS(w) (waiting[w] && waited[w] < PATIENCE)
#if READERS == 2
#define READERS_COUNT (COUNTS(0) || COUNTS(1))
#else
#define READERS_COUNT (COUNTS(0))
#endif
#if WRITERS == 2
#define TIME_MATTERS (READERS_COUNT || WAITS(0) || WAITS(1))
#else
#define TIME_MATTERS (READERS_COUNT || WAITS(0))
#endif

inline age_others() {
#if READERS == 2
  age_one(1)
#else
  skip
#endif
}

proctype Clock() {
end_idle:
  do
  :: atomic { TIME_MATTERS ->
       if
       :: age_one(0); age_others()
       :: slow > 0 && COUNTS(0) -> slow--; age_others()
#if READERS == 2
       :: slow > 0 && COUNTS(1) -> slow--; age_one(0)
#endif
       fi;
       age_session(0); age_wait(0);
#if READERS == 2
       age_session(1);
#endif
#if WRITERS == 2
       age_wait(1)
#endif
     }
  od
}

proctype Network(byte r) {
end_idle:
  do
  :: atomic { server_gate[r] != g -> catch_up(r) }
  :: atomic { old[r] && !over[r] ->
       old[r] = false;
       if :: true :: losses > 0 -> losses--; again[r] = true fi }
  :: atomic { again[r] ->
       again[r] = false;
#ifdef BREAK_SAME_NAME
       listed[r] = false
#endif
     }
  /* The session of a silent reader ends. */
  :: atomic { (listed[r] || old[r]) && !over[r] && silent[r] >= SESSION(r) ->
       listed[r] = false; old[r] = false; again[r] = false; over[r] = true }
  od
}

proctype Remains(byte w) {
end_idle:
  do
  :: atomic { late[w] ->
       late[w] = false;
       if
       :: g == late_gate[w] && !open -> apply_commit(w)
       :: g == late_gate[w] && open && FREE -> apply_write(w)
       :: true
       fi;
       late_gate[w] = 0 }
  :: atomic { dead[w] && node == w + 1 -> node = 0 }
  od
}

init {
  byte i;
  atomic {
    for (i : 0 .. READERS - 1) { server_open[i] = true; run Reader(i); run Network(i) }
    for (i : 0 .. WRITERS - 1) { run Writer(i); run Remains(i) }
    run Clock();
    i = 0
  }
}
