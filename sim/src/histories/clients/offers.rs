//! Names that nodes offer to each other: when somebody asks for that, and when their node leaves. Each is of one name only, which
//! nobody else asks for.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use callsign::{
    OfferError, OfferedName, Received, Receiving, RegisterOptions, TakeOptions, Taken, WhenTaken,
};
use callsign_store::{ids::NodeName, lock::lock, random::splitmix};
use ractor::ActorProcessingErr;
use tokio::time::sleep;

use super::{
    super::{
        acting::{Act, PANIC},
        event::{Answer, Ask},
    },
    CALL_AGAIN, Client, Duration, VERDICT_TIMEOUT,
    moves::Piece,
    word,
};
use crate::rng::Rng;

/// How these names begin.
pub(super) const OFFERED: &str = "offered-";
/// How many of them a node has before it asks for more.
const ENOUGH: usize = 2;
/// How many receivers of a thousand fail, and how many take their time; and how many actors cannot go on with what they are handed.
const FAILS: u64 = 80;
const SLOW: u64 = 80;
const STOPS: u64 = 80;
/// So long that the name is offered to another node meanwhile.
const LATE: Duration = Duration::from_millis(1500);

/// What has come here, and nobody has in hand yet.
type Arrived = Arc<Mutex<Vec<(String, Piece)>>>;

impl Client {
    /// Holds names that are offered to other nodes when this one leaves, offers some before, and takes what others offer.
    pub async fn pass_on(mut self) {
        let arrived = Arrived::default();
        let receiving = self.receives(&arrived);
        let mut held: BTreeMap<String, Piece> = BTreeMap::new();
        while self.works() {
            held.append(&mut taken(&arrived));
            held.retain(|_, piece| {
                let stays = !piece.acting.is_over();
                if !stays {
                    piece.acting.end();
                }
                stays
            });
            let nth = self.rng.index(held.len().max(1));
            match (held.keys().nth(nth).cloned(), self.rng.below(6)) {
                (Some(name), 0) => {
                    if let Some(piece) = held.remove(&name) {
                        self.let_go(&name, piece).await;
                    }
                }
                (Some(name), 1..4) => {
                    if let Some(from) = held.get(&name).map(|piece| piece.held.token().0) {
                        self.offer(&name, from).await;
                    }
                }
                _ if held.len() < ENOUGH => {
                    let name = format!("{OFFERED}{:x}", self.says());
                    let piece = self.hold_to_offer(&name).await;
                    held.extend(piece.map(|piece| (name, piece)));
                }
                _ => {}
            }
            for _ in 0..3 {
                self.pause().await;
            }
        }
        drop(receiving);
        // What was on its way may arrive yet. In the end nobody has any of these names.
        loop {
            held.append(&mut taken(&arrived));
            for (name, piece) in std::mem::take(&mut held) {
                self.let_go(&name, piece).await;
            }
            let names = self.site.registry.names();
            if names.is_ok_and(|names| !names.iter().any(|name| name.starts_with(OFFERED))) {
                return;
            }
            sleep(CALL_AGAIN).await;
        }
    }

    async fn hold_to_offer(&mut self, name: &str) -> Option<Piece> {
        let acting = self.spawn().await?;
        let mut options = RegisterOptions::default().when_lapsed(self.lapses(&acting)).wait(VERDICT_TIMEOUT);
        options.when_taken = self.offers(acting.number, name);
        self.hold_as(name, acting, options).await
    }

    /// What [`gives`](Self::gives) says, and that the name is offered when the node leaves.
    pub(super) fn offers(&mut self, number: u64, name: &str) -> WhenTaken {
        match self.gives(number, name) {
            WhenTaken::Give(gives) => WhenTaken::Offer(gives),
            other => other,
        }
    }

    /// Has a name of this node go to another one.
    async fn offer(&mut self, name: &str, from: u64) {
        let to = self.site.nodes[self.rng.index(self.site.nodes.len())].clone();
        let Ok(node) = NodeName::new(&to) else { return };
        let call = self.asked(Ask::Offer { from }, name, 0);
        let answer = match self.site.registry.offer(name, &node, VERDICT_TIMEOUT).await {
            Ok(token) => Answer::Went { token: token.0, to },
            Err(error @ (OfferError::Unknown { .. } | OfferError::Silent { .. } | OfferError::Left)) => {
                Answer::Unknown(word(&error))
            }
            Err(error) => Answer::Refused(word(&error)),
        };
        self.told(call, answer);
    }

    /// Takes what other nodes offer, as long as what is returned is there.
    fn receives(&self, arrived: &Arrived) -> Receiving {
        let (site, calls, arrived) = (self.site.clone(), self.calls.clone(), arrived.clone());
        self.site.registry.receive::<Act, _>(move |offered| {
            let rng = Rng::new(splitmix(splitmix(site.seed) ^ offered.token.0));
            let client = Self { site: site.clone(), calls: calls.clone(), rng };
            client.receive(offered, arrived.clone())
        })
    }

    async fn receive(
        mut self,
        offered: OfferedName,
        arrived: Arrived,
    ) -> Result<Received<Act>, ActorProcessingErr> {
        let name = offered.name.to_string();
        if self.rng.per_mille(self.site.panics) {
            self.site.journal.note("a receiver of names panics");
            panic!("{PANIC}");
        }
        if self.rng.per_mille(FAILS) {
            self.site.journal.note("a receiver of names fails");
            return Err("it is to fail".into());
        }
        if self.rng.per_mille(SLOW) {
            self.site.journal.note("a receiver of names is slow");
            sleep(LATE).await;
        }
        let acting = self.spawn().await.ok_or("its actor was not started")?;
        let options = TakeOptions::default()
            .when_lapsed(self.lapses(&acting))
            .when_taken(self.offers(acting.number, &name));
        let stops = self.rng.per_mille(STOPS);
        let call = self.asked(Ask::Take { from: offered.token.0 }, &name, acting.number);
        let actor = acting.actor.clone();
        let moved = move |taken: Taken| async move {
            let held = taken.registration;
            self.begins(&acting, held.clone());
            let data = <[u8; 8]>::try_from(&*taken.data).ok().map(u64::from_be_bytes);
            self.told(call, Answer::Moved { token: held.token().0, data });
            if stops {
                self.site.journal.note("what was handed over is of no use");
                return Err("it is to fail".into());
            }
            lock(&arrived).push((name, Piece::new(acting, held)));
            Ok(())
        };
        Ok(Received::new(actor, moved).options(options))
    }
}

fn taken(arrived: &Arrived) -> BTreeMap<String, Piece> {
    std::mem::take(&mut *lock(arrived)).into_iter().collect()
}
