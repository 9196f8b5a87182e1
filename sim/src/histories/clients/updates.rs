//! What holders say of themselves, and who reads it.

use callsign::{Meta, UpdateError};
use callsign_store::ids::Position;

use super::{
    super::event::{Answer, Ask},
    Client, VERDICT_TIMEOUT,
    moves::Piece,
    shown, word,
};

impl Client {
    /// Has the holder of a name say something else, if it has said nothing since that revision.
    async fn update(&self, name: &str, piece: &Piece) -> Answer {
        let (token, says) = (piece.held.token().0, self.says());
        let expected = Some(piece.revision);
        let call = self.asked(Ask::Update { token, expected, says }, name, piece.acting.number);
        let meta = Meta::new(&says).ok();
        let answer = match piece.held.update(expected.map(Position), meta).await {
            Ok(revision) => Answer::Updated(revision.0),
            Err(UpdateError::Changed { revision, .. }) => Answer::Changed(revision.0),
            Err(error @ (UpdateError::Unknown { .. } | UpdateError::SessionLost { .. })) => {
                Answer::Unknown(word(&error))
            }
            Err(error) => Answer::Refused(word(&error)),
        };
        self.told(call, answer)
    }

    /// Says something else once, or twice at the same time: then one of the two is refused.
    pub(super) async fn say(&mut self, name: &str, piece: &mut Piece) {
        let twice = self.rng.per_mille(300);
        let second = async { if twice { Some(self.update(name, piece).await) } else { None } };
        let (first, second) = futures::join!(self.update(name, piece), second);
        let all = [Some(first), second];
        let last = all.iter().flatten().filter_map(|answer| match answer {
            Answer::Updated(revision) | Answer::Changed(revision) => Some(*revision),
            _ => None,
        });
        if let Some(last) = last.max() {
            piece.revision = last.max(piece.revision);
        } else if let Answer::Shown(now) = self.show(name).await
            && now.token == piece.held.token().0
        {
            piece.revision = now.revision;
        }
        self.show_here(name);
    }

    /// How a name is held, now.
    pub(super) async fn show(&self, name: &str) -> Answer {
        let call = self.asked(Ask::Consistent, name, 0);
        let answer = match self.site.registry.lookup_consistent(name, VERDICT_TIMEOUT).await {
            Ok(entry) => entry.map_or(Answer::Free, |entry| Answer::Shown(shown(&entry))),
            Err(error) => Answer::Refused(word(&error)),
        };
        self.told(call, answer)
    }

    /// How a name is held, as this node knows.
    pub(super) fn show_here(&self, name: &str) -> Answer {
        let call = self.asked(Ask::Local, name, 0);
        let answer = match self.site.registry.lookup(name) {
            Ok(entry) => entry.map_or(Answer::Free, |entry| Answer::Shown(shown(&entry))),
            Err(error) => Answer::Refused(word(&error)),
        };
        self.told(call, answer)
    }
}
