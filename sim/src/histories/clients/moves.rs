//! Names that all nodes start actors for, take from each other, and say something of, each for some seconds.

use std::collections::BTreeMap;

use callsign::Registration;
use tokio::time::sleep;

use super::{
    super::{acting::Acting, event::Answer},
    CALL_AGAIN, CONTESTED, Client, window,
};

/// A name that a client has.
pub(super) struct Piece {
    pub(super) acting: Acting,
    pub(super) held: Registration,
    /// Where it was changed last, as the client knows.
    pub(super) revision: u64,
}

impl Piece {
    pub(super) fn new(acting: Acting, held: Registration) -> Self {
        let revision = held.revision().0;
        Self { acting, held, revision }
    }
}

pub(super) fn moving(window: u64, index: impl std::fmt::Display) -> String {
    format!("m{window}.{index}")
}

impl Client {
    /// Starts actors for the names of the moment, takes these from other actors, says something of them, and gives them up.
    pub async fn move_names(mut self) {
        let mut held: BTreeMap<String, Piece> = BTreeMap::new();
        while self.works() {
            let now = window(self.now());
            let is_past = |name: &String| !name.starts_with(&moving(now, ""));
            while let Some(name) = held.keys().find(|name| is_past(name)).cloned() {
                if let Some(piece) = held.remove(&name) {
                    self.let_go(&name, piece).await;
                }
            }
            let name = moving(now, self.rng.below(CONTESTED));
            let piece = match held.remove(&name) {
                Some(piece) if piece.acting.is_over() => {
                    piece.acting.end();
                    None
                }
                Some(piece) => self.go_on(&name, piece).await,
                None => self.get(&name).await,
            };
            held.extend(piece.map(|piece| (name, piece)));
            self.pause().await;
            self.pause().await;
        }
        for (name, piece) in held {
            self.let_go(&name, piece).await;
        }
    }

    /// Asks for a name that this client does not have, in one way or another.
    async fn get(&mut self, name: &str) -> Option<Piece> {
        let here = self.show_here(name);
        let piece = match here {
            Answer::Shown(now) if self.rng.per_mille(650) => self.take(name, now.token).await,
            _ if self.rng.per_mille(650) => self.start(name).await,
            _ => self.hold_to_give(name).await,
        };
        if piece.is_some() {
            self.show_here(name);
        } else {
            self.show(name).await;
        }
        piece
    }

    /// Does something with a name that it has.
    async fn go_on(&mut self, name: &str, mut piece: Piece) -> Option<Piece> {
        match self.rng.below(10) {
            0..4 => self.say(name, &mut piece).await,
            4 => {
                // From one actor of this node to another.
                if let Some(next) = self.take(name, piece.held.token().0).await {
                    piece.acting.end();
                    self.show_here(name);
                    return Some(next);
                }
            }
            5..8 => {
                self.let_go(name, piece).await;
                return None;
            }
            _ => drop(self.show(name).await),
        }
        Some(piece)
    }

    /// Gives a name up, in so many words or by the end of its actor.
    pub(super) async fn let_go(&mut self, name: &str, piece: Piece) {
        if !piece.acting.is_over() && !self.rng.per_mille(250) {
            for _ in 0..3 {
                let told = self.unregister(name, &piece.acting).await;
                if !matches!(told, Answer::Refused(_)) || piece.acting.is_over() {
                    break;
                }
                sleep(CALL_AGAIN).await;
            }
        }
        piece.acting.end();
    }
}
