//! The suite of all oracles, over a system that is followed: as it is, and with a fence.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use callsign_store::ids::ElectionName;

use super::*;
use crate::{
    driver::conformance::{
        Authority, Player, Promise, Withheld,
        advising::{Bare, Dress, Line, Lines, WithFence, withheld},
    },
    election_rows,
};

type Leaders = Arc<Mutex<BTreeMap<ElectionName, MemberId>>>;

/// Somebody else's elections: who leads which, and whom it does not answer.
struct Theirs<D> {
    leaders: Leaders,
    lines: Lines<D>,
}

/// What one member is told of one election.
struct Told {
    leaders: Leaders,
    line: Line,
}

impl Source for Told {
    async fn leader(&mut self) -> Result<Leads, Unclear> {
        if self.line.is_cut() {
            return Err(Unclear("cut off".to_owned()));
        }
        let (election, me) = &self.line.who;
        Ok(match self.leaders.lock().unwrap().get(election) {
            Some(leader) if leader == me => Leads::Here,
            Some(leader) => Leads::Elsewhere(Some(leader.clone())),
            None => Leads::Nobody,
        })
    }
}

impl<D: Dress> Theirs<D> {
    #[allow(clippy::unnecessary_wraps)] // as the others
    fn new() -> Option<Self> {
        Some(Self { leaders: Arc::default(), lines: Lines::new() })
    }
}

impl<D: Dress> Authority for Theirs<D> {
    type Oracle = D::Of<FollowOracle<Told>>;

    async fn start(&self, election: &ElectionName, member: &MemberId) -> Player<Self::Oracle> {
        let leaders = self.leaders.clone();
        let follows = |line| FollowOracle::new(Told { leaders, line }, Duration::from_secs(9));
        self.lines.start(election, member, follows)
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn takeover(&self) -> Duration {
        Duration::from_millis(10)
    }

    async fn cut(&self, election: &ElectionName, member: &MemberId) {
        self.lines.cut(election, member);
    }

    async fn heal(&self, election: &ElectionName, member: &MemberId) {
        self.lines.heal(election, member);
    }

    async fn elect(&self, election: &ElectionName, member: &MemberId) {
        self.leaders.lock().unwrap().insert(election.clone(), member.clone());
    }

    fn withholds(&self) -> Vec<Withheld> {
        withheld::<D>(&[
            (Promise::Exclusive, "the system that is followed decides: see j12 for what that costs"),
            (Promise::FirstCome, "the system that is followed decides; a claim only asks it"),
            (Promise::Expires, "who still leads there leads here; the campaign ends its own trust"),
            (Promise::GivesBack, "there is nothing to give back: see j11"),
            (Promise::Namesakes, "who leads there is the process that is asked, whatever it is called here"),
            (Promise::NamesTheHolder, "of a term elsewhere only the member is known"),
            (Promise::Record, "the system's records are its own"),
        ])
    }
}

mod as_it_is {
    use super::*;
    election_rows!((start_paused = true) { Theirs::<Bare>::new() });
}

mod with_a_fence {
    use super::*;
    election_rows!((start_paused = true) { Theirs::<WithFence>::new() });
}
