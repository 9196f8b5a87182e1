use std::time::Duration;

use callsign_store::{
    Transaction,
    ids::{ElectionName, Incarnation, MAX_COUNT, MemberId},
    memory::Fate,
    record::Record,
};
use futures::{StreamExt, stream::BoxStream};

use super::*;
use crate::{
    Validity,
    driver::{
        conformance::{Authority, Bed, Player, attempt, denied, granted},
        lease::{LeaseOracle, tests::beds::Stores},
    },
    tests::stores::{Faulty, on_every_store, only_here},
};

on_every_store! {
    j18_what_is_granted_twice_at_one_time_still_has_fences_that_grow
    j18_a_number_is_drawn_once_although_its_answer_was_lost
    j18_a_counter_that_cannot_be_read_is_no_zero
    j18_signals_speak_of_the_epochs_that_are_known_here
}

fn cluster() -> ClusterName {
    ClusterName::new("rows").unwrap()
}

/// A lease without its fence: exclusive, and only advising.
struct Advisory {
    lease: LeaseOracle,
    fence: Option<Fence>,
}

impl Advisory {
    fn told(&mut self, verdict: Verdict<Fence>) -> Verdict<()> {
        match verdict {
            Verdict::Denied(denial) => Verdict::Denied(denial),
            Verdict::Granted(grant) => {
                self.fence = Some(grant.fence);
                let Grant { term, validity, refresh_in, .. } = grant;
                Verdict::Granted(Grant { term, fence: (), validity, refresh_in })
            }
        }
    }

    fn with_fence(&self, held: &Grant<()>) -> Grant<Fence> {
        let Grant { term, validity, refresh_in, .. } = held.clone();
        let fence = self.fence.unwrap();
        Grant { term, fence, validity, refresh_in }
    }
}

impl Oracle for Advisory {
    type Fence = ();
    type Info = <LeaseOracle as Oracle>::Info;

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        self.lease.init(context).await
    }

    async fn claim(&mut self, attempt: Attempt) -> Result<Verdict<()>, Fault> {
        let verdict = self.lease.claim(attempt).await?;
        Ok(self.told(verdict))
    }

    async fn refresh(&mut self, attempt: Attempt, held: &Grant<()>) -> Result<Verdict<()>, Fault> {
        let held = self.with_fence(held);
        let verdict = self.lease.refresh(attempt, &held).await?;
        Ok(self.told(verdict))
    }

    async fn abdicate(&mut self, held: &Grant<()>) -> Result<bool, Fault> {
        let held = self.with_fence(held);
        self.lease.abdicate(&held).await
    }
}

struct AdvisoryLeases(Stores);

impl Authority for AdvisoryLeases {
    type Oracle = Fenced<Advisory>;

    async fn start(&self, election: &ElectionName, member: &MemberId) -> Player<Self::Oracle> {
        let lease = LeaseOracle::new(self.0.line(election, member), &cluster(), self.0.options());
        let inner = Advisory { lease, fence: None };
        let oracle = Fenced::new(inner, self.0.line(election, member), &cluster());
        Player::new(oracle, election, member)
    }

    async fn pass(&self, time: Duration) {
        Authority::pass(&self.0, time).await;
    }

    async fn cut(&self, election: &ElectionName, member: &MemberId) {
        self.0.cut(election, member).await;
    }

    async fn heal(&self, election: &ElectionName, member: &MemberId) {
        self.0.heal(election, member).await;
    }

    async fn stored(&self, election: &ElectionName) -> Option<Vec<u8>> {
        let key = ClusterKeys::new(&cluster()).election(election).fence();
        self.0.rows(election).await.into_iter().find(|(at, _)| *at == key).map(|(_, value)| value)
    }
}

mod conformance {
    use super::{AdvisoryLeases, Stores};
    mod memory {
        use super::{AdvisoryLeases, Stores};
        crate::election_rows!({ Stores::memory().map(AdvisoryLeases) });
    }
    mod sqlite {
        use super::{AdvisoryLeases, Stores};
        crate::election_rows!({ Stores::sqlite().map(AdvisoryLeases) });
    }
    #[cfg(feature = "postgres")]
    mod postgres {
        use super::{AdvisoryLeases, Stores};
        crate::election_rows!({ Stores::postgres().map(AdvisoryLeases) });
    }
    #[cfg(feature = "etcd")]
    mod etcd {
        use super::{AdvisoryLeases, Stores};
        crate::election_rows!({ Stores::etcd().map(AdvisoryLeases) });
    }
}

/// Grants to everybody, always: as a system that two believe to lead.
struct Yes {
    me: Option<Context>,
    terms: u64,
}

impl Yes {
    fn grant(&self) -> Verdict<()> {
        let me = self.me.clone().unwrap();
        let term = Term {
            leader: me.member,
            incarnation: me.incarnation,
            epoch: Epoch(self.terms),
            elected_at: crate::AuthorityTime(0),
        };
        let validity = Validity::For(Duration::from_secs(10));
        Verdict::Granted(Grant { term, fence: (), validity, refresh_in: None })
    }
}

impl Oracle for Yes {
    type Fence = ();
    type Info = ();

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        self.me = Some(context.clone());
        Ok(Init::Ready)
    }

    async fn claim(&mut self, _: Attempt) -> Result<Verdict<()>, Fault> {
        Ok(self.grant())
    }

    async fn refresh(&mut self, _: Attempt, _: &Grant<()>) -> Result<Verdict<()>, Fault> {
        Ok(self.grant())
    }

    async fn abdicate(&mut self, _: &Grant<()>) -> Result<bool, Fault> {
        self.terms += 1;
        Ok(true)
    }

    fn signals(&mut self) -> BoxStream<'static, Signal> {
        let epochs = [Some(Epoch(5)), None, Some(Epoch(4))];
        let requests = epochs.map(|epoch| Signal::ResignRequested { epoch });
        futures::stream::iter(requests).chain(futures::stream::pending()).boxed()
    }
}

async fn player(store: &SharedStore, member: &str) -> Player<Fenced<Yes>> {
    let context = Context {
        election: ElectionName::new(only_here("e")).unwrap(),
        member: MemberId::new(member).unwrap(),
        incarnation: Incarnation(rand::random()),
    };
    let oracle = Fenced::new(Yes { me: None, terms: 5 }, store.clone(), &cluster());
    let mut player = Player { oracle, context };
    player.init().await;
    player
}

async fn j18_what_is_granted_twice_at_one_time_still_has_fences_that_grow(store: SharedStore) {
    let (mut a, mut b) = (player(&store, "a").await, player(&store, "b").await);
    let first = a.win().await;
    let kept = granted(a.refresh(&first).await);
    let second = b.win().await;
    assert!(first.fence.epoch == kept.fence.epoch && first.fence.ballot < kept.fence.ballot);
    assert!(second.fence.epoch > kept.fence.epoch && second.fence.ballot > kept.fence.ballot);
    // The inner oracle would have both; the former is behind the fence, and is told.
    let denial = denied(a.refresh(&kept).await);
    assert_eq!((denial.why, denial.leader), (Refusal::TermOver, Some(second.term.clone())));
    granted(b.refresh(&second).await);
    assert!(!a.abdicate(&kept).await, "there is nothing left to give");
    // A claim gets a number of its own; a restart and a new term of the same process, too.
    let third = a.win().await;
    assert!(a.abdicate(&third).await);
    let fourth = a.win().await;
    let fifth = player(&store, "a").await.win().await;
    assert!(second.fence.epoch < third.fence.epoch && third.fence.epoch < fourth.fence.epoch);
    assert!(fourth.fence.epoch < fifth.fence.epoch);
}

async fn j18_a_number_is_drawn_once_although_its_answer_was_lost(store: SharedStore) {
    for fate in [Fate::Applied, Fate::NotApplied, Fate::LandsLater] {
        let faulty = Faulty::over(&store);
        let mut a = player(&faulty.shared(), "a").await;
        let before = a.oracle.counter.read().await.unwrap().1.map_or(0, |last| last.ballot.0);
        faulty.lose(fate);
        let again = attempt();
        let asked = a.oracle.claim(again).await;
        assert!(matches!(asked, Err(Fault::Transient { maybe_committed: true, .. })), "{asked:?}");
        let held = granted(a.oracle.claim(again).await.unwrap());
        assert_eq!((held.fence.epoch.0, held.fence.ballot.0), (before + 1, before + 1), "{fate:?}");
        faulty.lose(fate);
        let again = attempt();
        assert!(a.oracle.refresh(again, &held).await.is_err());
        let kept = granted(a.oracle.refresh(again, &held).await.unwrap());
        assert_eq!((kept.term, kept.fence.ballot), (held.term, held.fence.ballot.next()), "{fate:?}");
        faulty.land().await;
        let last = a.oracle.counter.read().await.unwrap().1.unwrap();
        assert_eq!(last.ballot, kept.fence.ballot, "{fate:?}: nothing landed twice");
    }
}

async fn j18_a_counter_that_cannot_be_read_is_no_zero(store: SharedStore) {
    let faulty = Faulty::over(&store);
    let mut a = player(&faulty.shared(), "a").await;
    faulty.set_down(true);
    assert!(matches!(a.oracle.claim(attempt()).await, Err(Fault::Transient { .. })));
    faulty.set_down(false);
    let held = a.win().await;
    let key = ClusterKeys::new(&cluster()).election(&a.context.election).fence();
    let last = a.oracle.counter.read().await.unwrap().1.unwrap();
    let used_up = Numbered { ballot: Ballot(MAX_COUNT), ..last };
    for (value, words) in [(b"\x01garbage".to_vec(), "record"), (used_up.to_value(), "no more ballots")] {
        let put = Transaction::new().put(key.clone(), value);
        assert!(matches!(store.commit(put).await, CommitOutcome::Committed(_)));
        for asked in [a.oracle.claim(attempt()).await, a.oracle.refresh(attempt(), &held).await] {
            assert!(matches!(&asked, Err(Fault::Fatal(why)) if why.contains(words)), "{asked:?}");
        }
    }
}

async fn j18_signals_speak_of_the_epochs_that_are_known_here(store: SharedStore) {
    let mut a = player(&store, "a").await;
    a.win().await;
    let held = granted(player(&store, "a").await.claim().await);
    let mut b = player(&store, "b").await;
    let now = b.win().await;
    assert!(now.fence.epoch > held.fence.epoch && now.fence.epoch != Epoch(5));
    let heard: Vec<_> = b.oracle.signals().take(2).collect().await;
    let meant = [Some(now.fence.epoch), None].map(|epoch| Signal::ResignRequested { epoch });
    assert_eq!(heard, meant, "and not of one that nobody has here");
}

#[tokio::test]
async fn h4_two_elections_have_counters_of_their_own() {
    let stores = AdvisoryLeases(Stores::memory().unwrap());
    let (one, other) = (Bed::new(&stores), Bed::new(&stores));
    one.player("a").await.win().await;
    let untouched = other.authority.stored(&other.election).await;
    assert!(one.stored().await.is_some() && untouched.is_none(), "{untouched:?}");
}

#[tokio::test]
async fn j18_whoever_leaves_gives_back_the_term_that_it_names_and_no_other() {
    let store = Stores::memory().unwrap().store();
    let mut a = player(&store, "a").await;
    let held = a.win().await;
    assert_eq!(a.oracle.leave(None).await, Ok(false));
    let term = Term { epoch: held.term.epoch.next(), ..held.term.clone() };
    let another = Grant { term, ..held.clone() };
    assert_eq!(a.oracle.leave(Some(&another)).await, Ok(false));
    assert_eq!(a.oracle.leave(Some(&held)).await, Ok(true));
}
