//! An election of its own, for one check.

use std::time::Duration;

use callsign_store::ids::{ElectionName, MemberId};
use tokio::time::Instant;

use super::{Authority, Player, Promise, TestedFence, attempt, granted};
use crate::{
    core::term::Term,
    oracle::{Attempt, Denial, Grant, Oracle, Refusal, Validity, Verdict},
};

/// An election of its own on the authority.
#[derive(Debug)]
pub struct Bed<'a, A> {
    /// The authority.
    pub authority: &'a A,
    /// The election.
    pub election: ElectionName,
}

/// What the oracle of an authority grants.
pub(super) type Granted<A> = Grant<<<A as Authority>::Oracle as Oracle>::Fence>;

/// For how long a check waits where no clock ends a grant.
const A_WHILE: Duration = Duration::from_secs(10);

impl<'a, A: Authority> Bed<'a, A> {
    /// An election that nobody else has.
    pub fn new(authority: &'a A) -> Self {
        let name = format!("conformance-{:016x}", rand::random::<u64>());
        Self { authority, election: ElectionName::new(name).expect("it is a name") }
    }

    /// A process that takes part under this id, prepared.
    pub async fn player(&self, member: &str) -> Player<A::Oracle> {
        let mut player = self.authority.start(&self.election, &id(member)).await;
        player.init().await;
        player
    }

    /// The same, in place of the process of that id before.
    pub async fn restarted(&self, member: &str) -> Player<A::Oracle> {
        let mut player = self.authority.restart(&self.election, &id(member)).await;
        player.init().await;
        player
    }

    /// The same with an oracle that is there already.
    pub async fn join(&self, oracle: A::Oracle, member: &str) -> Player<A::Oracle> {
        let mut player = Player::new(oracle, &self.election, &id(member));
        player.init().await;
        player
    }

    /// Everything that is stored, if it can be looked at.
    pub async fn stored(&self) -> Option<Vec<u8>> {
        let stored = self.authority.stored(&self.election).await;
        assert!(stored.is_some() || !self.promises(Promise::Record), "there is a record");
        stored
    }

    /// Whether the authority makes a promise.
    pub fn promises(&self, promise: Promise) -> bool {
        self.authority.withholds().iter().all(|withheld| withheld.promise != promise)
    }

    /// Claims, and is granted.
    pub async fn win(&self, player: &mut Player<A::Oracle>) -> Granted<A> {
        self.win_as(player, attempt()).await
    }

    /// Makes this attempt, and is granted.
    pub async fn win_as(&self, player: &mut Player<A::Oracle>, attempt: Attempt) -> Granted<A> {
        let grant = if self.promises(Promise::FirstCome) {
            granted(player.claim_as(attempt).await)
        } else {
            self.authority.elect(&self.election, &player.context.member).await;
            let began = Instant::now();
            loop {
                match player.claim_as(attempt).await {
                    Verdict::Granted(grant) => break grant,
                    Verdict::Denied(denial) => {
                        assert!(began.elapsed() < self.authority.takeover(), "never elected: {denial:?}");
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            }
        };
        self.judge(player, &grant);
        grant
    }

    /// What holds for every grant.
    pub fn judge(&self, player: &Player<A::Oracle>, grant: &Granted<A>) {
        let me = (&player.context.member, player.context.incarnation);
        assert_eq!((&grant.term.leader, grant.term.incarnation), me, "a grant is of whoever asked");
        let ends = matches!(grant.validity, Validity::For(_));
        assert_eq!(ends, self.promises(Promise::EndsByTime), "{:?}", grant.validity);
        let fence = grant.fence.fence();
        assert_eq!(fence.is_some(), self.promises(Promise::Fenced), "{fence:?}");
        if let Some(fence) = fence {
            assert_eq!(fence.epoch, grant.term.epoch, "a sink compares both");
            assert!(fence.epoch.0 <= fence.ballot.0, "the epoch is the ballot at the win: {fence:?}");
        }
    }

    /// Asserts that `next` is another term, and above the former one if there is a fence.
    pub fn assert_follows(&self, next: &Granted<A>, former: &Granted<A>) {
        assert_ne!(next.term, former.term, "a term of its own");
        if let (Some(next), Some(former)) = (next.fence.fence(), former.fence.fence()) {
            assert!(next.epoch > former.epoch && next.ballot > former.ballot, "{next:?} follows {former:?}");
        }
    }

    /// Asserts that a denial is because somebody has the seat, and names this term if denials do.
    pub fn assert_held(&self, denial: &Denial, term: &Term) {
        // Where all are ranked, whoever has the seat is the better one.
        assert!(matches!(denial.why, Refusal::Held | Refusal::Outranked), "{denial:?}");
        if self.promises(Promise::NamesTheHolder) {
            assert_eq!(denial.leader.as_ref(), Some(term));
        }
    }

    /// Cuts a member off, or, where that cannot be done, leaves it silent.
    pub async fn cut(&self, player: &Player<A::Oracle>) {
        if self.promises(Promise::CutsOff) {
            self.authority.cut(&self.election, &player.context.member).await;
        }
    }

    /// Ends that.
    pub async fn heal(&self, player: &Player<A::Oracle>) {
        if self.promises(Promise::CutsOff) {
            self.authority.heal(&self.election, &player.context.member).await;
        }
    }

    /// How long a holder that was just cut off may go on, by what it says itself.
    pub async fn left(&self, player: &mut Player<A::Oracle>, held: &Granted<A>) -> Duration {
        let mut validity = held.validity;
        // Where it is only silent, asking would be no silence.
        if self.promises(Promise::CutsOff)
            && let Ok(verdict) = player.oracle.refresh(attempt(), held).await
        {
            validity = granted(verdict).validity;
        }
        match validity {
            Validity::For(left) => left,
            Validity::UntilRevoked => Duration::ZERO,
        }
    }

    /// Lets a grant's time pass, or some time where it has none.
    pub fn while_of(grant: &Granted<A>) -> Duration {
        match grant.validity {
            Validity::For(lease) => lease,
            Validity::UntilRevoked => A_WHILE,
        }
    }

    /// Silences the holder until its seat is free, and lets it be heard again.
    pub async fn outlast(&self, player: &mut Player<A::Oracle>, held: &Granted<A>) {
        self.cut(player).await;
        let left = self.left(player, held).await;
        self.authority.pass(left + self.authority.takeover()).await;
        self.heal(player).await;
    }

    /// Has somebody claim until it is granted, within the time in which a silent holder is followed.
    pub async fn follow(&self, player: &mut Player<A::Oracle>) -> Granted<A> {
        if !self.promises(Promise::FirstCome) {
            self.authority.elect(&self.election, &player.context.member).await;
        }
        let (takeover, mut passed) = (self.authority.takeover(), Duration::ZERO);
        loop {
            let asked = player.oracle.claim(attempt()).await;
            if let Ok(Verdict::Granted(grant)) = asked {
                self.judge(player, &grant);
                return grant;
            }
            assert!(passed <= takeover, "not followed within {takeover:?}: {asked:?}");
            let step = (takeover / 20).max(Duration::from_millis(1));
            self.authority.pass(step).await;
            passed += step;
        }
    }
}

fn id(member: &str) -> MemberId {
    MemberId::new(member).expect("it is a name")
}
