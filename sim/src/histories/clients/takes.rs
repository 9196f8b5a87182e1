//! Names that are given away, and taken.

use callsign::{RegisterError, RegisterOptions, TakeError, TakeOptions, WhenLapsed, WhenTaken};
use callsign_store::{ids::Position, random::splitmix};
use tokio::time::sleep;

use super::{
    super::{
        acting::{Acting, PANIC},
        event::{Answer, Ask, Event},
    },
    Calls, Client, VERDICT_TIMEOUT,
    moves::Piece,
    word,
};

/// How many gifts of a thousand fail, and how many take their time.
const FAILS: u64 = 150;
const SLOW: u64 = 200;

impl Client {
    /// What an actor of this number says when its name is taken: something that nobody else says.
    pub(super) fn gives(&mut self, number: u64, name: &str) -> WhenTaken {
        let (fails, panics) = (self.rng.per_mille(FAILS), self.rng.per_mille(self.site.panics));
        let slow = if self.rng.per_mille(SLOW) { self.site.act_every * 3 } else { std::time::Duration::ZERO };
        let (site, calls, name) = (self.site.clone(), self.calls.clone(), name.to_owned());
        WhenTaken::give(move |_| {
            let (journal, name) = (site.journal.clone(), name.clone());
            let data = splitmix(splitmix(site.seed) ^ Calls::next(&calls.said));
            async move {
                journal.write(&Event::Gave { at: journal.now(), actor: number, name, data });
                if panics {
                    journal.note("what gives a name panics");
                    panic!("{PANIC}");
                }
                if fails {
                    journal.note("what gives a name fails");
                    return Err("it is to fail".into());
                }
                sleep(slow).await;
                Ok(data.to_be_bytes().to_vec())
            }
        })
    }

    /// What becomes of an actor when its session lapses.
    pub(super) fn lapses(&mut self, acting: &Acting) -> WhenLapsed {
        if self.rng.per_mille(300) { WhenLapsed::Stop } else { self.tells(acting) }
    }

    /// Asks for a name for a fresh actor that gives it to whoever takes it.
    pub(super) async fn hold_to_give(&mut self, name: &str) -> Option<Piece> {
        let acting = self.spawn().await?;
        let mut options = RegisterOptions::default().when_lapsed(self.lapses(&acting)).wait(VERDICT_TIMEOUT);
        options.when_taken = self.gives(acting.number, name);
        self.hold_as(name, acting, options).await
    }

    /// The same, for this actor.
    pub(super) async fn hold_as(
        &mut self,
        name: &str,
        acting: Acting,
        options: RegisterOptions,
    ) -> Option<Piece> {
        let call = self.asked(Ask::Register, name, acting.number);
        match self.site.registry.register_with(name, &acting.actor, options).await {
            Ok(held) => {
                self.begins(&acting, held.clone());
                self.told(call, Answer::Granted(held.token().0));
                Some(Piece::new(acting, held))
            }
            Err(error) => {
                self.told(call, not_registered(&error));
                acting.end();
                None
            }
        }
    }

    /// Takes a name for a fresh actor from the one that holds it under a token.
    pub(super) async fn take(&mut self, name: &str, from: u64) -> Option<Piece> {
        let acting = self.spawn().await?;
        let options = TakeOptions::default()
            .when_lapsed(self.lapses(&acting))
            .when_taken(self.gives(acting.number, name));
        let call = self.asked(Ask::Take { from }, name, acting.number);
        let registry = self.site.registry.clone();
        match registry.take_with(name, &acting.actor, Position(from), VERDICT_TIMEOUT, options).await {
            Ok(taken) => {
                let held = taken.registration;
                self.begins(&acting, held.clone());
                let data = <[u8; 8]>::try_from(&*taken.data).ok().map(u64::from_be_bytes);
                self.told(call, Answer::Moved { token: held.token().0, data });
                Some(Piece::new(acting, held))
            }
            Err(error) => {
                let answer = match &error {
                    TakeError::Register(error) => not_registered(error),
                    TakeError::Refused { why, .. } => Answer::Refused(word(why)),
                    _ => Answer::Refused(word(&error)),
                };
                self.told(call, answer);
                acting.end();
                None
            }
        }
    }
}

/// What it comes to that a name was not registered.
pub(super) fn not_registered(error: &RegisterError) -> Answer {
    match error {
        RegisterError::Taken { holder, .. } => Answer::Taken(holder.token().0),
        RegisterError::Unknown { .. } | RegisterError::SessionLost { .. } | RegisterError::ActorEnded => {
            Answer::Unknown(word(error))
        }
        _ => Answer::Refused(word(error)),
    }
}
