//! Whoever leads the registry leads.

use callsign_election::{
    Attempt, AuthorityTime, Context, Denial, Fault, Fence, Grant, Init, Oracle, Refusal, Signal, Term,
    Validity, Verdict,
    sink::{Domain, FencedCell, RankedRegister},
};
use callsign_elector::record;
use callsign_store::{Read, ids::MemberId, record::Record};
use futures::stream::{self, BoxStream};

use crate::driver::registry::Registry;

/// Says of a sink that it compares the fence of every write with the greatest that it has seen, and refuses a lesser one, in
/// the transaction of the write.
///
/// To implement it is to promise that. It is what makes an election without a clock safe: the leader need not hear in
/// time that it has been deposed, because nothing that it still does counts.
pub trait ChecksFence {}
impl<D: Domain> ChecksFence for FencedCell<D> {}
impl<D: Domain> ChecksFence for RankedRegister<D> {}

/// This node leads while its member leads the registry.
///
/// The election is the registry's own: sticky, over the durable queue, for all names and for this work alike. The fence is
/// (epoch, ballot) of its term. **No clock ends a grant** ([`Validity::UntilRevoked`]), so a node that is cut off believes
/// itself leader until it hears otherwise: the oracle is made with the sink that checks the fence, and with nothing
/// else.
///
/// Claim and refresh read the term from the store, one read each; they write nothing, as the registry elects by itself.
/// A change of the term that this node's member sees is a signal, and so is the end of the node: one that has left or failed leads
/// nothing, whatever the term says. Giving back resigns the registry's seat
/// ([`Registry::resign`]), which another synced member takes; where there is no other, this node is elected again, in a
/// new epoch. The member of the election is the node: `init` refuses another [`MemberId`] than the node's name.
pub struct QueueOracle {
    registry: Registry,
}

impl QueueOracle {
    /// An oracle over the seat of a registry that this node has joined, for work that writes to `sink` and nowhere else.
    ///
    /// Without a sink that checks the fence there is none:
    ///
    /// ```compile_fail,E0277
    /// struct PlainFile;
    /// fn over(registry: &callsign::Registry) -> callsign::QueueOracle {
    ///     callsign::QueueOracle::new(registry, &PlainFile)
    /// }
    /// ```
    /// ```
    /// struct Ledger; // refuses a write whose fence is below the greatest it has seen
    /// impl callsign::ChecksFence for Ledger {}
    /// fn over(registry: &callsign::Registry) -> callsign::QueueOracle {
    ///     callsign::QueueOracle::new(registry, &Ledger)
    /// }
    /// ```
    pub fn new<S: ChecksFence + ?Sized>(registry: &Registry, sink: &S) -> Self {
        let _ = sink;
        Self { registry: registry.clone() }
    }

    async fn read(&self) -> Result<record::Term, Fault> {
        let read = self.registry.node.store.read(vec![Read::Key(self.registry.shared.keys.term())]);
        let read = read.await.map_err(|error| transient(error.to_string()))?;
        let Some(value) = read.value(0) else { return Ok(record::Term::vacant()) };
        // A record that cannot be read is not a vacant seat.
        record::Term::from_value(value).map_err(|error| transient(error.to_string()))
    }

    fn is_ours(&self, term: &record::Term) -> bool {
        term.leader.as_ref().is_some_and(|leader| {
            leader.node == self.registry.node.name && leader.incarnation == self.registry.node.incarnation
        })
    }

    /// Whether this node has left, or has failed. It sees no change of the term any more.
    fn has_ended(&self) -> bool {
        self.registry.shared.has_ended()
    }

    fn verdict(&self, record: &record::Term, otherwise: Refusal) -> Verdict<Fence> {
        let term = term_of(record);
        match term {
            Some(term) if self.is_ours(record) => Verdict::Granted(Grant {
                fence: Fence { epoch: record.epoch, ballot: record.ballot },
                term,
                validity: Validity::UntilRevoked,
                refresh_in: None,
            }),
            leader => denied(otherwise, leader),
        }
    }
}

fn denied(why: Refusal, leader: Option<Term>) -> Verdict<Fence> {
    Verdict::Denied(Denial { why, leader, retry_in: None })
}

fn transient(cause: String) -> Fault {
    // It only reads.
    Fault::Transient { maybe_committed: false, cause }
}

fn term_of(record: &record::Term) -> Option<Term> {
    let leader = record.leader.as_ref()?;
    Some(Term {
        leader: MemberId::new(leader.node.as_str()).ok()?,
        incarnation: leader.incarnation,
        epoch: record.epoch,
        elected_at: AuthorityTime(record.elected_at.0),
    })
}

impl Oracle for QueueOracle {
    type Fence = Fence;
    type Info = ();

    async fn init(&mut self, context: &Context) -> Result<Init, Fault> {
        super::init(&self.registry, context)
    }

    async fn claim(&mut self, _attempt: Attempt) -> Result<Verdict<Fence>, Fault> {
        if self.has_ended() {
            return Ok(denied(Refusal::Ineligible, None));
        }
        let record = self.read().await?;
        Ok(self.verdict(&record, Refusal::Held))
    }

    async fn refresh(&mut self, _attempt: Attempt, held: &Grant<Fence>) -> Result<Verdict<Fence>, Fault> {
        if self.has_ended() {
            return Ok(denied(Refusal::TermOver, None));
        }
        let record = self.read().await?;
        let leader = term_of(&record);
        // Not the epoch alone: another registry's has the same numbers.
        if leader.as_ref() != Some(&held.term) {
            return Ok(denied(Refusal::TermOver, leader));
        }
        Ok(self.verdict(&record, Refusal::TermOver))
    }

    async fn abdicate(&mut self, held: &Grant<Fence>) -> Result<bool, Fault> {
        let epoch = held.term.epoch;
        let record = self.read().await?;
        // Another's term is not this node's to give: its member would be asked in vain, and this would wait for ever.
        if term_of(&record).as_ref() != Some(&held.term) || !self.is_ours(&record) {
            return Ok(false);
        }
        self.registry.resign(epoch);
        // Said in the queue, applied by whoever comes first. The campaign limits how long this may take.
        loop {
            let changed = self.registry.changed();
            if self.registry.shared.term.load().epoch > epoch {
                return Ok(true);
            }
            if self.has_ended() {
                return Ok(false); // the seat went with the session
            }
            changed.await;
        }
    }

    async fn rivals(&mut self) -> Result<bool, Fault> {
        let me = &self.registry.node.name;
        Ok(self.registry.members().iter().any(|member| member.synced && member.node != *me))
    }

    fn signals(&mut self) -> BoxStream<'static, Signal> {
        let state = (Self { registry: self.registry.clone() }, None::<record::Term>, false);
        Box::pin(stream::unfold(state, |(oracle, mut last, mut told)| async move {
            let signal = loop {
                let changed = oracle.registry.changed();
                let now = (**oracle.registry.shared.term.load()).clone();
                if last.as_ref() != Some(&now) {
                    match last.replace(now) {
                        Some(before) if oracle.is_ours(&before) => {
                            break Signal::Revoked { epoch: before.epoch };
                        }
                        _ => break Signal::Wakeup,
                    }
                }
                if oracle.has_ended() && !std::mem::replace(&mut told, true) {
                    break match &last {
                        Some(term) if oracle.is_ours(term) => Signal::Revoked { epoch: term.epoch },
                        // A term may have been granted that this node's member has not seen.
                        _ => Signal::Wakeup,
                    };
                }
                changed.await;
            };
            Some((signal, (oracle, last, told)))
        }))
    }
}

#[cfg(test)]
mod tests {
    use callsign_store::{
        Store, Transaction,
        ids::{Incarnation, Nonce},
    };

    use futures::{FutureExt, StreamExt};

    use super::*;
    use crate::tests::driver::Cluster;

    /// A leader, and the signals of its oracle, of which none waits.
    async fn leader(cluster: &Cluster) -> (Registry, QueueOracle, Grant<Fence>, BoxStream<'static, Signal>) {
        let node = cluster.node("a").await;
        let mut oracle = QueueOracle::new(&node, &Ledger);
        let mut signals = oracle.signals();
        assert_eq!(
            signals.next().now_or_never(),
            Some(Some(Signal::Wakeup)),
            "it says at first what there is"
        );
        let Ok(Verdict::Granted(grant)) = oracle.claim(ATTEMPT).await else { panic!("it leads") };
        assert_eq!(signals.next().now_or_never(), None, "nothing has changed");
        (node, oracle, grant, signals)
    }

    /// The node has ended, and no change of its term is to be seen.
    async fn is_over(mut oracle: QueueOracle, grant: Grant<Fence>, mut signals: BoxStream<'static, Signal>) {
        let told = signals.next().now_or_never();
        assert_eq!(told, Some(Some(Signal::Revoked { epoch: grant.term.epoch })));
        assert_eq!(signals.next().now_or_never(), None, "it is told once");
        let claimed = oracle.claim(ATTEMPT).await;
        let why = Refusal::Ineligible;
        assert_eq!(claimed, Ok(Verdict::Denied(Denial { why, leader: None, retry_in: None })));
        let refreshed = oracle.refresh(ATTEMPT, &grant).await;
        let why = Refusal::TermOver;
        assert_eq!(refreshed, Ok(Verdict::Denied(Denial { why, leader: None, retry_in: None })));
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_is_over_as_soon_as_its_node_has_failed_and_that_is_told_once() {
        let cluster = Cluster::new();
        let (node, oracle, grant, signals) = leader(&cluster).await;
        node.node.supervisor.fail("a part", "it says so".to_owned());
        is_over(oracle, grant, signals).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_is_over_as_soon_as_its_node_has_left_without_a_word_to_the_store() {
        let cluster = Cluster::new();
        let (node, oracle, grant, signals) = leader(&cluster).await;
        cluster.store.outage_for_all();
        assert!(node.leave().await.is_err(), "the store does not answer");
        is_over(oracle, grant, signals).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_never_led_says_that_there_is_something_to_see_as_it_ends() {
        let cluster = Cluster::new();
        let _leader = cluster.node("a").await;
        let node = cluster.node("b").await;
        let mut signals = QueueOracle::new(&node, &Ledger).signals();
        assert_eq!(
            signals.next().now_or_never(),
            Some(Some(Signal::Wakeup)),
            "it says at first what there is"
        );
        assert_eq!(signals.next().now_or_never(), None, "nothing has changed");
        node.node.supervisor.fail("a part", "it says so".to_owned());
        assert_eq!(signals.next().now_or_never(), Some(Some(Signal::Wakeup)));
        assert_eq!(signals.next().now_or_never(), None, "it is told once");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_given_back_is_gone_with_a_node_that_fails_meanwhile() {
        let cluster = Cluster::new();
        let (node, mut oracle, grant, _) = leader(&cluster).await;
        let failing = async {
            node.node.supervisor.fail("a part", "it says so".to_owned());
        };
        let (given_back, ()) = tokio::join!(oracle.abdicate(&grant), failing);
        assert_eq!(given_back, Ok(false));
    }

    const ATTEMPT: Attempt = Attempt { nonce: Nonce(1) };

    /// A sink that checks the fence, by promise.
    struct Ledger;
    impl ChecksFence for Ledger {}

    #[tokio::test(start_paused = true)]
    async fn the_term_of_a_former_process_of_the_node_is_that_of_another() {
        let cluster = Cluster::new();
        let node = cluster.node("a").await;
        let mut oracle = QueueOracle::new(&node, &Ledger);
        let Ok(Verdict::Granted(grant)) = oracle.claim(ATTEMPT).await else { panic!("it leads") };
        let mut former = oracle.read().await.unwrap();
        former.leader.as_mut().unwrap().incarnation = Incarnation(grant.term.incarnation.0 ^ 1);
        let written = Transaction::new().put(node.shared.keys.term(), former.to_value());
        cluster.store.connect("a").commit(written).await;
        // The node's member has not run since.
        let claimed = oracle.claim(ATTEMPT).await;
        assert!(
            matches!(&claimed, Ok(Verdict::Denied(denial)) if denial.why == Refusal::Held),
            "{claimed:?}"
        );
        let refreshed = oracle.refresh(ATTEMPT, &grant).await;
        assert!(
            matches!(&refreshed, Ok(Verdict::Denied(denial)) if denial.why == Refusal::TermOver),
            "{refreshed:?}"
        );
    }
}
