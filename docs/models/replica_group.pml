/* A replica group: ZooKeeper as what its promises make of it (each transaction atomic; members may know an old state), three
 * members with a log of two entries, which one of them at a time may write.
 *
 * The protocol:
 *   state        epoch, primary, in-sync members (each with the incarnation of its storage); its version orders all changes
 *   take over    one transaction: create the primary's node, and set the state (epoch + 1) that it has read, by its version.
 *                Who does so is in sync in that state, with the storage that is named there.
 *   before its first acknowledgement, the new primary makes the log of each in-sync member equal its own, or takes that
 *                member out of the state
 *   a write      goes to the members, with the primary's epoch. A member refuses what is older than the newest epoch that it
 *                has accepted; it keeps that epoch with its log. The primary acknowledges when ALL that count have it.
 *   shrink       one transaction, by the version, while the primary's node is there. The member counts until that is
 *                committed, and until its right to serve reads has ended.
 *   expand       the same, for a member that has all that the primary has. It counts from when that is sent.
 *   read lease   a member that is in sync serves reads for a term from each transaction that checked the state's version. The
 *                state names those that were taken out and may have one still: a new primary waits for that, too.
 *
 * What may happen at any step:
 *   - a primary's lease ends; only later its node may go (what the lease clock promises); what it has sent may arrive later
 *   - a member crashes, and comes back with its log; what it has sent may be applied meanwhile (CRASHES in all)
 *   - a transaction that takes over is applied, and the member does not get its lease
 *   - a member's disk is emptied (WIPES in all)
 *   - a member is cut off, stops, is slow: it simply takes no step
 *
 * Checked (see check.sh), exhaustively:
 *   one writer   at most one primary may write, at every instant; an acknowledgement is that of the present epoch's primary
 *   no loss      each in-sync member whose storage is the one that is named in the state has each acknowledged entry, always;
 *                and what was in a new primary's log when it began to acknowledge
 *   reads        when an entry is acknowledged, each member that may serve reads has it
 *
 * BREAK_...: rules that are left out, each of which the check has to notice:
 *   SHRINK_EARLY      a member does not count any more when the shrink is sent
 *   EXPAND_LATE       a member counts only when the expand is answered
 *   EXPAND_LAGGING    a member is taken in that lacks the newest entries
 *   TAKE_UNCHECKED    the take-over does not check the state's version
 *   CHOOSE_ALIVE      any member that is alive takes over, in sync or not
 *   CHANGE_UNCHECKED  a primary's shrink or expand checks neither the version nor its node
 *   NOT_EQUAL         the new primary acknowledges before the logs are equal
 *   OLD_EPOCH         a member takes entries of an older epoch
 *   EPOCH_FORGOTTEN   a member forgets in a crash which epoch it has accepted
 *   EMPTY_DISK        a member with an emptied disk counts as before
 *   LEASE_IGNORED     the primary's node may go before its lease has ended
 *   MAJORITY          it is acknowledged when two of the three have it
 *   READS_UNCHECKED   the read lease does not check the state's version
 *   LEAVING_FORGOTTEN a new primary does not wait for the read leases of those that were taken out
 */

#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef WIPES
#define WIPES 0
#endif
#ifndef TERMS        /* epochs, in all */
#define TERMS 3
#endif
#ifndef CHANGES      /* shrinks and expands, in all */
#define CHANGES 2
#endif
#ifndef READS        /* read leases that are granted or renewed, in all */
#define READS 0
#endif
#ifndef WRITES
#define WRITES 2
#endif

#define N 3
#define ALL 7
#define BIT(r) (1 << (r))
#define HAS(set, r) (((set) >> (r)) & 1)
#define NONE 3

/* --- The ensemble ----------------------------------------------------------------------------------------------- */

byte epoch = 1;
byte version = 1;
byte in_sync = ALL;
byte leaving;          /* taken out of the state, with a read lease perhaps */
byte owner;            /* whose primary's node is there; NONE */

/* --- The logs. An entry is the epoch in which it was written; 0: there is none. ------------------------------------ */

byte first[N];
byte second[N];
byte accepted[N];      /* the newest epoch that the member has accepted */
bool blank[N];         /* its storage is not the one that the state names */
byte acked_first;
byte acked_second;

/* --- What the members know ---------------------------------------------------------------------------------------- */

bool down[N];
byte seen_version[N];
byte seen_in_sync[N];
bool primary[N];
bool lease[N];
bool ready[N];
byte term[N];          /* the epoch of its latest term: what it has sent may still arrive */
byte counts[N];        /* whose copies it waits for */
byte equal[N];         /* who has all that it has, but perhaps for the open entry */
byte open_entry[N];    /* 1, 2: the entry that it is about to write; 0: none */
byte copies[N];        /* who has that */
mtype = { none, shrinking, shrunk, expanding };
mtype change[N] = none;
byte whom[N];
byte sent_version[N];  /* what it is based on */
byte sent_in_sync[N];
byte granted_at[N];    /* the version that its own newest change has made */
bool reads[N];         /* it may serve reads */
byte reads_at[N];      /* by a check of this version */

byte crashes = CRASHES;
byte wipes = WIPES;
byte changes = CHANGES;
byte read_grants = READS;
byte writes = WRITES;

#define KEEPS(r) ((acked_first == 0 || first[r] == acked_first) && (acked_second == 0 || second[r] == acked_second))
#define SAFE(r) (!HAS(in_sync, r) || blank[r] || KEEPS(r))
#define MAY_WRITE(r) (primary[r] && lease[r] && ready[r])
#define COUNTED(r) (blank[r] -> 0 : BIT(r))

hidden byte no_loss;   /* names for what is asserted; no part of the state */
hidden byte one_writer;
hidden byte reads_are_whole;

inline check_all() {
  no_loss = SAFE(0) && SAFE(1) && SAFE(2);
  assert(no_loss);
  one_writer = MAY_WRITE(0) + MAY_WRITE(1) + MAY_WRITE(2) <= 1;
  assert(one_writer)
}

/* The read lease of s ends at the latest when the primary has waited for a term after `made`. */
#define READS_BEFORE(s, made) (reads[s] && reads_at[s] < made)

inline end_change(r) {
  change[r] = none; whom[r] = 0; sent_version[r] = 0; sent_in_sync[r] = 0
}

inline stop_term(r) {
  primary[r] = false; lease[r] = false; ready[r] = false; counts[r] = 0; equal[r] = 0; copies[r] = 0; granted_at[r] = 0;
  if :: change[r] == shrunk -> end_change(r) :: else fi      /* One that is on its way may still arrive. */
}

inline look(r) {
  seen_version[r] = version; seen_in_sync[r] = in_sync;
  if :: !HAS(in_sync, r) -> reads[r] = false; reads_at[r] = 0 :: else fi
}

/* At the server: by the version, and while the primary's node is there. (For safety the version is enough; the other check
 * makes an old primary fail before another one has taken over.) */
#ifdef BREAK_CHANGE_UNCHECKED
#define STANDS(r) true
#else
#define STANDS(r) (owner == r && epoch == term[r] && version == sent_version[r])
#endif
#define APPLICABLE(r) ((change[r] == shrinking || change[r] == expanding) && STANDS(r))

inline send_change(r) {
  sent_version[r] = seen_version[r]; sent_in_sync[r] = seen_in_sync[r]
}

inline apply_change(r) {
  version++;
  if
  :: change[r] == shrinking -> in_sync = sent_in_sync[r] & (ALL - BIT(whom[r])); leaving = leaving | BIT(whom[r])
  :: else -> in_sync = sent_in_sync[r] | BIT(whom[r])
  fi;
  check_all()
}

#ifdef BREAK_OLD_EPOCH
#define ACCEPTS(s, r) true
#else
#define ACCEPTS(s, r) (accepted[s] <= term[r])
#endif
#if defined(BREAK_CHOOSE_ALIVE)
#define MAY_TAKE_OVER(r) (!blank[r])
#elif defined(BREAK_EMPTY_DISK)
#define MAY_TAKE_OVER(r) HAS(seen_in_sync[r], r)
#else
#define MAY_TAKE_OVER(r) (HAS(seen_in_sync[r], r) && !blank[r])
#endif
#ifdef BREAK_TAKE_UNCHECKED
#define SEES_NEWEST(r) true
#else
#define SEES_NEWEST(r) (seen_version[r] == version)
#endif
#ifdef BREAK_READS_UNCHECKED
#define READS_CHECKED(r) true
#else
#define READS_CHECKED(r) (seen_version[r] == version)
#endif

proctype Member(byte r) {
  byte s;
end_idle:
  do
  /* It reads the state. */
  :: atomic { !down[r] && !primary[r] && seen_version[r] != version -> look(r) }

  /* It takes over. */
  :: atomic { !down[r] && !primary[r] && owner == NONE && epoch < TERMS && MAY_TAKE_OVER(r) && SEES_NEWEST(r) ->
       owner = r; epoch++; version++; in_sync = seen_in_sync[r];
       look(r);
       if
       :: stop_term(r); end_change(r);
          primary[r] = true; lease[r] = true; term[r] = epoch; accepted[r] = epoch;
          counts[r] = in_sync; equal[r] = BIT(r); open_entry[r] = 0; granted_at[r] = version;
          reads[r] = false; reads_at[r] = 0
       :: true         /* The lease is not granted. */
       fi;
       check_all() }

  /* It makes the log of another member equal its own. */
  :: atomic { primary[r] && lease[r] && open_entry[r] == 0 && (equal[r] | BIT(r)) != ALL ->
       if :: s = 0 :: s = 1 :: s = 2 fi;
       if
       :: s != r && !HAS(equal[r], s) && !down[s] && accepted[s] <= term[r] && (!blank[s] || !HAS(counts[r], s)) ->
            first[s] = first[r]; second[s] = second[r]; accepted[s] = term[r]; equal[r] = equal[r] | BIT(s)
       :: else
       fi;
       s = 0;
       check_all() }
  :: atomic { primary[r] && !ready[r] &&
#ifndef BREAK_NOT_EQUAL
       (counts[r] & equal[r]) == counts[r] &&
#endif
#ifndef BREAK_LEAVING_FORGOTTEN
       (!HAS(leaving, 0) || !READS_BEFORE(0, granted_at[r])) && (!HAS(leaving, 1) || !READS_BEFORE(1, granted_at[r])) &&
       (!HAS(leaving, 2) || !READS_BEFORE(2, granted_at[r])) &&
#endif
       true ->
       ready[r] = true;
       /* What is in its log may be read from now on: that counts as acknowledged. */
       if :: first[r] != 0 -> acked_first = first[r] :: else fi;
       if :: second[r] != 0 -> acked_second = second[r] :: else fi;
       check_all() }

  /* It writes an entry. */
  :: atomic { primary[r] && lease[r] && ready[r] && open_entry[r] == 0 && writes > 0 && second[r] == 0 ->
       writes--;
       if
       :: first[r] == 0 -> first[r] = term[r]; open_entry[r] = 1
       :: else -> second[r] = term[r]; open_entry[r] = 2
       fi;
       copies[r] = BIT(r);
       check_all() }
  /* The entry arrives, perhaps when the term is over. */
  :: atomic { open_entry[r] != 0 ->
       if :: s = 0 :: s = 1 :: s = 2 fi;
       if
       :: s != r && !down[s] && !HAS(copies[r], s) && ACCEPTS(s, r) && (!primary[r] || HAS(equal[r], s)) ->
            if
            :: open_entry[r] == 1 -> first[s] = term[r]
            :: else -> second[s] = term[r]
            fi;
            if :: accepted[s] < term[r] -> accepted[s] = term[r] :: else fi;
#ifdef BREAK_EMPTY_DISK
            if :: primary[r] -> copies[r] = copies[r] | BIT(s) :: else fi
#else
            if :: primary[r] -> copies[r] = copies[r] | COUNTED(s) :: else fi
#endif
       :: else
       fi;
       s = 0;
       check_all() }
  /* It acknowledges. */
#ifdef BREAK_MAJORITY
  :: atomic { MAY_WRITE(r) && open_entry[r] != 0 && copies[r] != BIT(r) ->
#else
  :: atomic { MAY_WRITE(r) && open_entry[r] != 0 && (copies[r] & counts[r]) == counts[r] ->
#endif
       one_writer = owner == r && epoch == term[r];
       assert(one_writer);
       if
       :: open_entry[r] == 1 -> acked_first = term[r]
       :: else -> acked_second = term[r]
       fi;
       equal[r] = equal[r] & copies[r]; open_entry[r] = 0; copies[r] = 0;
       check_all();
       reads_are_whole = (!reads[0] || KEEPS(0)) && (!reads[1] || KEEPS(1)) && (!reads[2] || KEEPS(2));
       assert(reads_are_whole) }

  /* It takes a member out. */
  :: atomic { primary[r] && lease[r] && change[r] == none && changes > 0 ->
       if :: s = 0 :: s = 1 :: s = 2 fi;
       if
       :: s != r && HAS(counts[r], s) ->
            changes--; change[r] = shrinking; whom[r] = s; send_change(r);
#ifdef BREAK_SHRINK_EARLY
            counts[r] = counts[r] & (ALL - BIT(s))
#endif
       /* It takes one in that has all. */
#ifdef BREAK_EXPAND_LAGGING
       :: s != r && !HAS(counts[r], s) && ready[r] && !blank[s] ->
#else
       :: s != r && !HAS(counts[r], s) && ready[r] && HAS(equal[r], s) ->
#endif
            changes--; change[r] = expanding; whom[r] = s; send_change(r); blank[s] = false;
#ifndef BREAK_EXPAND_LATE
            counts[r] = counts[r] | BIT(s)
#endif
       :: else
       fi;
       s = 0 }
  :: atomic { APPLICABLE(r) ->
       apply_change(r);
       if
       :: !primary[r] -> end_change(r)
       :: primary[r] && change[r] == shrinking -> look(r); granted_at[r] = version; change[r] = shrunk
       :: primary[r] && change[r] == expanding -> look(r); counts[r] = counts[r] | BIT(whom[r]); end_change(r)
       fi }
  :: atomic { change[r] != none && !primary[r] -> end_change(r) }
  :: atomic { change[r] == shrunk && !READS_BEFORE(whom[r], granted_at[r]) ->
       counts[r] = counts[r] & (ALL - BIT(whom[r])); end_change(r);
       check_all() }

  /* It may serve reads. */
  :: atomic { !down[r] && !primary[r] && HAS(seen_in_sync[r], r) && read_grants > 0 && !blank[r] && READS_CHECKED(r) ->
       read_grants--; reads[r] = true; reads_at[r] = version }
  :: atomic { reads[r] -> reads[r] = false; reads_at[r] = 0 }

  /* Its lease ends, or it crashes. */
  :: atomic { primary[r] -> stop_term(r) }
  :: atomic { !down[r] && crashes > 0 ->
       crashes--;
       stop_term(r);
       reads[r] = false; reads_at[r] = 0; seen_version[r] = 0; seen_in_sync[r] = 0;
       down[r] = true;
#ifdef BREAK_EPOCH_FORGOTTEN
       accepted[r] = 0;
#endif
       if
       :: wipes > 0 ->
            wipes--; first[r] = 0; second[r] = 0; accepted[r] = 0; blank[r] = true;
            for (s : 0 .. N - 1) {
              equal[s] = equal[s] & (ALL - BIT(r)); copies[s] = copies[s] & (ALL - BIT(r))
            }
            s = 0
       :: true
       fi }
  :: atomic { down[r] -> down[r] = false }

  /* The session behind the primary's node has ended. */
#ifdef BREAK_LEASE_IGNORED
  :: atomic { owner == r -> owner = NONE; check_all() }
#else
  :: atomic { owner == r && !lease[r] -> owner = NONE; check_all() }
#endif
  od
}

init {
  byte i;
  atomic {
    primary[0] = true; lease[0] = true; ready[0] = true; term[0] = 1; counts[0] = ALL; equal[0] = ALL; granted_at[0] = 1;
    for (i : 0 .. N - 1) {
      accepted[i] = 1; seen_version[i] = 1; seen_in_sync[i] = ALL;
      run Member(i)
    }
    i = 0
  }
}
