//! The checks, and how often each was exercised.

macro_rules! checks {
    ($($name:ident $text:literal,)*) => {
        /// A check, or something that a search should have met.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Check { $(#[doc = $text] $name,)* }

        impl Check {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What it says.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

checks! {
    OneHolder "one trusted holder of each name",
    TrustIsOpen "a trusted session is open",
    OneCommitter "one committing leader per epoch, and it is the elected one",
    EpochGrows "epochs only grow",
    PositionGrows "positions are written once, in order",
    ReplicaGrows "a replica only goes forward",
    ReplicaPrefix "replicas are prefixes of the log",
    Kept "what was granted is there after quiescence",
    NobodyWaits "nobody waits for ever",
    Quiescent "the cluster serves again",
    StaleDown "a stale Down removes nobody",
    DownIsClosed "only a closed session removes a member",
    QueueOrder "queue entries are applied once, in order",
    LockClears "the lock always clears",
    JoinToken "a join never brings back a spent token",
    SessionRecord "session records only go forward",
    BeatRace "a close does not overtake a beat",
    FloorSafe "the log is cut behind all synced members",
    AnswerOnce "a call is answered once",
    AnswerTrue "an answer was true when it was given",
    ReadTrue "a consistent read saw the end of the log",
    FreedTrue "an unregister is in the log when it is acknowledged",
    RequestOnce "a request is granted once",
    OneOpPerName "one operation per name and batch",
    ActHeld "whoever acts after a check holds the name",
    ActClaimed "a claim that has ended is flagged",
    FlaggedFirst "a claim is flagged before its name is given up",
    HolderWatched "an actor that holds a name is watched",
    Linearizable "the history is linearizable",
    HistoryTooLong "(may be 0) histories too long to be put in order",
    LocalMonotonic "local reads are monotonic",
    OwnRegister "a register is seen by its own node at once",
    LapseTold "who is to be told of a lapse is watched",
    NewerLink "a link is to the newest incarnation",
    SentAsAsked "a message goes over the link for which it was asked",
    StaleEntry "a stale entry does nothing",
    LeaderIsMember "who leads is a member",
    Silenced "silence deposes a leader by a majority",
    Electable "who is elected is synced, and its session is open",
    SeatGivenUp "who gives up the seat leaves it to another",
    NamesLast "who drains holds its names until it leaves",
    TurnedAway "who drains registers nothing new",
    DrainerElected "who drains is elected only if nobody stays",
    DeadLeader "the seat of a closed session falls vacant in time",
    LockOwner "a lock is cleared and replaced by who may",
    LockHolds "under a lock only votes, settings and what vacates the seat is applied",
    Configured "what is set is what a member asked for, and the rest stays",
    RankedFirst "by rank a vacant seat goes to the greatest priority",
    AuthorOrder "an author's entries come in order",
    FloorGrows "the floor only grows",
    NumbersGrow "floors of numbers are never lowered",
    SweptIsOver "what is swept is of no use any more, and its number is below the floor",
    ResetSafe "a reset empties nobody who has a base",
    SyncedAtEnd "who says that it is synced has the end of the log",
    EmptyHandsOff "who says that it has no base claims nothing",
    ReadOpen "a leader decides for sessions that it read open in its term",
    OwnEpoch "a leader decides requests of its own epoch",
    GrantTrusted "a grant is told in a trusted session",
    AskedAgain "who waits for trust is asked for again when it is back",
    NoMeansNo "what was refused is not granted",
    BacksOff "a store that refuses is not asked at once again and again",
    NoSpin "nobody is woken again and again in vain",
    EveryName "every name can be had, and every call is answered in its time",
    AllTold "every holder is stopped or told at every lapse",
    Looked "a leader has the store read when a session asks that it has not read open",
    Retired "who left leads no more",
    DrainKnown "who has drained is known to drain",
    DrainSaid "who drains says so again after each join",
    LeaveSaid "who says that it left is a member no more",
    LeavesForGood "who leaves opens no other session",
    NamesThenSession "who leaves drops its names and says so before it closes its session",
    FailedClosed "a node that has failed closes its session, unless the store does not answer",
    RaisedForALoss "a lineage is raised only where the store went back",
    CountedOn "what is counted in a lineage is greater than all that was counted before, and its log begins with a reset",
    WaitedOut "a registry begins anew only when nobody acts by what was lost",
    Watched "a session is closed by who watched it for its lease, trusted all the while",
    NonceOnce "every batch has a nonce of its own",
    FreedInTurn "names of the dead are freed however much is asked for",
    OrphanLanded "(met) an abandoned commit landed",
    SnapshotSent "(met) a snapshot was sent",
    QueueFull "(met) a message found its lane full",
    LogCut "(met) the log was cut",
    SessionClosed "(met) a session was closed by another",
    Elected "(met) a leader was elected",
    Reset "(met) a registry was reset",
    HostGone "(met) the names of a session were freed",
    Granted "(met) a name was granted",
    Refused "(met) a name was refused as taken",
    Unknown "(met) an outcome was unknown",
    Lapsed "(met) a session lapsed and resumed, or was lost",
    DrainedLed "(met) a node drained, and another served",
    DrainedAlone "(met) a node drained, and nobody else could serve",
    DrainedLate "(met) a node drained, and was not followed in time",
    LockBroken "(met) a lock was taken over",
    BuiltOnNewer "(met) a node built on a record of a newer version",
    Swept "(met) a closed session was swept away",
    AuthorSwept "(met) an author was swept away",
    WentBack "(met) the store went back",
    CameBack "(met) a node came back that was swept away",
}

/// How often each was exercised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts(Vec<u64>);

impl Default for Counts {
    fn default() -> Self {
        Self(vec![0; Check::ALL.len()])
    }
}

impl Counts {
    /// Adds to one.
    pub fn add(&mut self, check: Check, by: u64) {
        self.0[check as usize] += by;
    }

    /// One of them.
    pub fn get(&self, check: Check) -> u64 {
        self.0[check as usize]
    }

    /// Adds all of another's.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }

    /// Those that were never exercised.
    pub fn never(&self) -> Vec<Check> {
        Check::ALL
            .iter()
            .copied()
            .filter(|check| self.get(*check) == 0 && *check != Check::HistoryTooLong)
            .collect()
    }
}

impl crate::simulated::Merge for Counts {
    fn merge(&mut self, other: &Self) {
        Self::merge(self, other);
    }
}
