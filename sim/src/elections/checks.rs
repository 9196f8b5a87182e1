//! The checks, by the names of the design, and how often each was exercised.

use crate::counted::{self, counted};

// Inv15, that no acknowledged name is lost in a hand-over, is the registry's: `Kept` in the world beside this one.
counted! {
    /// A check, or something that a sweep must have met. Inv11 and Inv12 must hold when all is at rest, Inv13 and Inv14 within a
    /// bound after everything was healed, all others after each action. What is to be met has to be met: a sweep that never
    /// saw it proves too little.
    Check, spared: [Panics, Overlap];

    Inv1 "Inv1 ballots strictly increase in commit order",
    Inv2 "Inv2 one incarnation of one member per epoch",
    Inv3 "Inv3 no sink accepts a token below its maximum, and the newest is accepted",
    Inv4 "Inv4 who is not the current holder, or is over, refreshes and resigns nothing",
    Inv5 "Inv5 the holder is registered, eligible, and of the current incarnation",
    Inv6 "Inv6 at most one check says yes",
    Inv7 "Inv7 the work has ended before its own release commits",
    Inv8 "Inv8 subscribers hear the state and then every transition, in turns",
    Inv9 "Inv9 two that believe that they lead have different epochs",
    Inv10 "Inv10 a disabled election makes no grant",
    Inv11 "Inv11 all members agree on leader and epoch",
    Inv12 "Inv12 the leader is who the durable record decides for",
    Inv13 "Inv13 there is a leader in time",
    Inv14 "Inv14 with stable membership the leader stays",
    Waited "a lease that was not given back is waited out",
    Tenure "a term is preempted only by policy, and after its least tenure",
    Heir "a seat that was vacated for a better one is left to its like for a lease",
    Trusted "a grant that comes too late is not trusted",
    NoIsNo "a denial ends trust at once, and a fault does not",
    OwnRequest "a request to resign ends the term that it is about",
    OneCall "a campaign waits for one call at a time",
    Removed "a candidate's row is removed by itself, or by a holder that saw it silent for long",
    LeavesNothing "who ends in good order leaves no row",
    NothingIsLeft "no row is left of a candidate that is gone for long",
    Yields "nothing is swept while a refresh is due",
    ToldOnce "each election is told once, before its grant is used, and so is its end",
    Panics "nothing panics",
    Expiry "Inv16 (met) a lease ended without a word",
    Takeover "Inv16 (met) another took over",
    LateGrant "Inv16 (met) a grant came too late",
    StaleRefresh "Inv16 (met) a stale refresh",
    StaleResign "Inv16 (met) a stale resignation",
    StaleWrite "Inv16 (met) a stale write was refused",
    Preempted "Inv16 (met) a holder was preempted",
    Forced "Inv16 (met) a holder was asked to resign, and did",
    Slept "Inv16 (met) a holder slept through its lease",
    UnknownDone "Inv16 (met) a commit of unknown outcome was done",
    OrphanLanded "(met) a transaction that was given up was done late",
    Aborted "(met) a role was aborted",
    RoleFailed "(met) a role did not get going",
    Namesake "(met) a namesake was told so",
    Disabled "(met) a disabled election refused",
    Evicted "(met) a silent candidate was evicted",
    Swept "(met) a row of a candidate that was gone was swept",
    CameBack "(met) a candidate came back whose row had been swept",
    SeatLost "(met) the seat's record was lost",
    Overlap "(only with clocks beyond the rate) two checks said yes at once",
}

/// How often each was exercised.
pub type ElectionCounts = counted::Counts<Check>;
