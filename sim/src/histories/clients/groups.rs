//! Groups that all nodes join and leave.

use callsign::{Membership, Meta, RegisterOptions, UnregisterError};
use tokio::time::sleep;

use super::{
    super::{
        acting::{Act, Acting, Holds},
        event::{Answer, Ask, Event, Seated},
    },
    CALL_AGAIN, Calls, Client, VERDICT_TIMEOUT,
    takes::not_registered,
    word,
};

/// All groups.
const GROUPS: [&str; 2] = ["g0", "g1"];
/// How many memberships a node has, at most.
const MEMBERSHIPS: usize = 2;
/// How much less often their actors act than others: nobody contests what they hold.
const LESS_OFTEN: u32 = 2;

/// A membership that a client has.
struct Seat {
    group: &'static str,
    /// What it is called in the history.
    name: String,
    acting: Acting,
    membership: Membership,
}

impl Client {
    /// Joins groups and leaves them; in the end it keeps what it has.
    pub async fn join_in(mut self) {
        let mut seats: Vec<Seat> = Vec::new();
        while self.works() {
            seats.retain(|seat| {
                let stays = !seat.acting.is_over();
                if !stays {
                    seat.acting.end();
                }
                stays
            });
            if seats.len() < MEMBERSHIPS && self.rng.per_mille(600) {
                seats.extend(self.join().await);
            } else if !seats.is_empty() {
                let seat = seats.swap_remove(self.rng.index(seats.len()));
                self.leave(seat).await;
            }
            for _ in 0..3 {
                self.pause().await;
            }
        }
    }

    async fn join(&mut self) -> Option<Seat> {
        let (number, every) = (Calls::next(&self.calls.actors), self.site.act_every * LESS_OFTEN);
        let acting = Acting::spawn(number, every, &self.site.journal).await.ok()?;
        let says = self.says();
        let group = GROUPS[self.rng.index(GROUPS.len())];
        let name = format!("{group}#{says}");
        let mut options = RegisterOptions::default().when_lapsed(self.lapses(&acting)).wait(VERDICT_TIMEOUT);
        options.meta = Meta::new(&says).ok();
        let call = self.asked(Ask::Join, &name, acting.number);
        match self.site.registry.group::<Act>(group).join_with(&acting.actor, options).await {
            Ok(membership) => {
                self.begins(&acting, Holds::Member(membership.clone(), name.clone()));
                self.told(call, Answer::Granted(membership.token().0));
                self.read_members(group);
                Some(Seat { group, name, acting, membership })
            }
            Err(error) => {
                self.told(call, not_registered(&error));
                acting.end();
                None
            }
        }
    }

    /// In so many words, or by the end of its actor.
    async fn leave(&mut self, seat: Seat) {
        if self.rng.per_mille(600) {
            seat.acting.pause();
            let call = self.asked(Ask::Leave, &seat.name, seat.acting.number);
            let answer = match self.site.registry.group::<Act>(seat.group).leave(&seat.membership).await {
                Ok(_) => Answer::Freed,
                Err(error @ (UnregisterError::Pending { .. } | UnregisterError::Left)) => {
                    Answer::Unknown(word(&error))
                }
                Err(error) => Answer::Refused(word(&error)),
            };
            self.told(call, answer);
            self.read_members(seat.group);
        }
        seat.acting.end();
    }

    /// Whether it was answered.
    fn read_members(&self, group: &str) -> bool {
        let Ok(members) = self.site.registry.group::<Act>(group).members() else { return false };
        let members = members.iter().map(|entry| Seated {
            token: entry.token().0,
            node: entry.node().to_string(),
            says: entry.meta().ok().flatten(),
        });
        let (at, group, members) = (self.now(), group.to_owned(), members.collect());
        self.site.journal.write(&Event::Members { at, group, members });
        true
    }

    /// Reads the members of all groups, until that is answered.
    pub(super) async fn read_groups(&self) {
        for group in GROUPS {
            while !self.read_members(group) {
                sleep(CALL_AGAIN).await;
            }
        }
    }
}
