//! The checks, by the names of the design, and how often each was exercised.

/// When a check must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum When {
    /// After each action.
    Always,
    /// When all is at rest.
    AtRest,
    /// Within a bound, after everything was healed.
    AfterHeal,
    /// It has to be met: a sweep that never saw it proves too little.
    Met,
}

macro_rules! checks {
    ($($name:ident $when:ident $text:literal,)*) => {
        /// A check, or something that a sweep must have met.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Check { $(#[doc = $text] $name,)* }

        impl Check {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What it says.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// When it must hold.
            pub const fn when(self) -> When {
                match self { $(Self::$name => When::$when,)* }
            }
        }
    };
}

// Inv15, that no acknowledged name is lost in a hand-over, is the registry's: `Kept` in the world beside this one.
checks! {
    Inv1 Always "Inv1 ballots strictly increase in commit order",
    Inv2 Always "Inv2 one incarnation of one member per epoch",
    Inv3 Always "Inv3 no sink accepts a token below its maximum, and the newest is accepted",
    Inv4 Always "Inv4 who is not the current holder, or is over, refreshes and resigns nothing",
    Inv5 Always "Inv5 the holder is registered, eligible, and of the current incarnation",
    Inv6 Always "Inv6 at most one check says yes",
    Inv7 Always "Inv7 the work has ended before its own release commits",
    Inv8 Always "Inv8 subscribers hear the state and then every transition, in turns",
    Inv9 Always "Inv9 two that believe that they lead have different epochs",
    Inv10 Always "Inv10 a disabled election makes no grant",
    Inv11 AtRest "Inv11 all members agree on leader and epoch",
    Inv12 AtRest "Inv12 the leader is who the durable record decides for",
    Inv13 AfterHeal "Inv13 there is a leader in time",
    Inv14 AfterHeal "Inv14 with stable membership the leader stays",
    Waited Always "a lease that was not given back is waited out",
    Tenure Always "a term is preempted only by policy, and after its least tenure",
    Heir Always "a seat that was vacated for a better one is left to its like for a lease",
    Trusted Always "a grant that comes too late is not trusted",
    NoIsNo Always "a denial ends trust at once, and a fault does not",
    OwnRequest Always "a request to resign ends the term that it is about",
    OneCall Always "a campaign waits for one call at a time",
    ToldOnce Always "each election is told once, before its grant is used, and so is its end",
    Panics Always "nothing panics",
    Expiry Met "Inv16 (met) a lease ended without a word",
    Takeover Met "Inv16 (met) another took over",
    LateGrant Met "Inv16 (met) a grant came too late",
    StaleRefresh Met "Inv16 (met) a stale refresh",
    StaleResign Met "Inv16 (met) a stale resignation",
    StaleWrite Met "Inv16 (met) a stale write was refused",
    Preempted Met "Inv16 (met) a holder was preempted",
    Forced Met "Inv16 (met) a holder was asked to resign, and did",
    Slept Met "Inv16 (met) a holder slept through its lease",
    UnknownDone Met "Inv16 (met) a commit of unknown outcome was done",
    OrphanLanded Met "(met) a transaction that was given up was done late",
    Aborted Met "(met) a role was aborted",
    RoleFailed Met "(met) a role did not get going",
    Namesake Met "(met) a namesake was told so",
    Disabled Met "(met) a disabled election refused",
    Evicted Met "(met) a silent candidate was evicted",
    SeatLost Met "(met) the seat's record was lost",
    Overlap Met "(only with clocks beyond the rate) two checks said yes at once",
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
    /// Once more.
    pub fn add(&mut self, check: Check) {
        self.0[check as usize] += 1;
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

    /// Those that were never exercised, of those that sound worlds must exercise.
    pub fn never(&self) -> Vec<Check> {
        let spared = [Check::Panics, Check::Overlap];
        let never = |check: &&Check| self.get(**check) == 0 && !spared.contains(check);
        Check::ALL.iter().filter(never).copied().collect()
    }
}

impl crate::simulated::Merge for Counts {
    fn merge(&mut self, other: &Self) {
        Self::merge(self, other);
    }
}
