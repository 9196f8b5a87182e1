//! Which peers are to be told when an actor of this node ends.
//!
//! A peer asks for each actor to which it makes a reference. It is answered at once, and told once of the actor's end.
//!
//! Takes as given: one monitor for each actor of [`Effect::Monitor`], which reports its end once. Not given: that a peer
//! reads. So what is to be said waits here, and goes out as the link takes it: a link carries other things, too.
//!
//! Promises: an end is told once over each link that was told `Watching` and is still up, and over no other; an actor is
//! monitored while somebody is to be told, and no longer; a peer has at most `limit` actors watched, and is refused the next
//! one; what waits to be said to a peer that does not read is bounded, and then ends its link.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use callsign_store::planted;

use crate::core::{
    frame::{Frame, How, NotDelivered},
    peer::LinkId,
};

/// The most bytes of a reason that travel.
pub const MOST_REASON: usize = 200;

/// How an actor ended, or why nobody will say when it does. Texts are cut to 200 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    Stopped(Option<Arc<str>>),
    Failed(Arc<str>),
    Not(NotDelivered),
    TooMany(u32),
}

impl End {
    /// It was stopped.
    pub fn stopped(reason: Option<&str>) -> Self {
        Self::Stopped(reason.map(|reason| cut(reason).into()))
    }

    /// It panicked, or a handler of it returned an error.
    pub fn failed(text: &str) -> Self {
        Self::Failed(cut(text).into())
    }

    /// As it came over a link.
    pub fn of(how: How<'_>) -> Self {
        match how {
            How::Stopped(reason) => Self::stopped(reason),
            How::Failed(text) => Self::failed(text),
            How::Not(why) => Self::Not(why),
            How::TooMany(limit) => Self::TooMany(limit),
        }
    }

    /// As it goes over a link.
    pub fn how(&self) -> How<'_> {
        match self {
            Self::Stopped(reason) => How::Stopped(reason.as_deref()),
            Self::Failed(text) => How::Failed(text),
            Self::Not(why) => How::Not(*why),
            Self::TooMany(limit) => How::TooMany(*limit),
        }
    }

    /// Whether the actor is gone for good: numbers of actors are not used twice.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Stopped(_) | Self::Failed(_) | Self::Not(NotDelivered::Gone))
    }
}

/// At most as much of a text as travels.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MOST_REASON);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    LinkUp {
        link: LinkId,
    },
    LinkDown {
        link: LinkId,
    },
    /// A peer asks to be told of the end of an actor, which is there and for the peer, or is not.
    Asked {
        link: LinkId,
        actor: u64,
        kind: u64,
        is_there: Result<(), NotDelivered>,
    },
    /// The monitor of an actor says that it has ended.
    Ended {
        actor: u64,
        how: End,
    },
}

/// What the driver is to do, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Have the end of this actor reported, once. If it has ended meanwhile, say so at once.
    Monitor { actor: u64 },
    /// Nobody is to be told any more.
    Unmonitor { actor: u64 },
    /// There is something to say over this link: see [`Ends::next`].
    Speak { link: LinkId },
    /// The peer asks, and does not read what it is answered.
    Overrun { link: LinkId },
}

/// What is said over a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Word {
    actor: u64,
    kind: u64,
    /// `None`: it lives.
    end: Option<End>,
}

impl Word {
    /// Of which actor.
    #[cfg(feature = "cores")]
    pub fn actor(&self) -> u64 {
        self.actor
    }

    /// What became of it. `None`: it lives.
    #[cfg(feature = "cores")]
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// As it travels.
    pub fn frame(&self) -> Frame<'_> {
        let (to, kind) = (self.actor, self.kind);
        match &self.end {
            None => Frame::Watching { to, kind },
            Some(end) => Frame::Ended { to, kind, how: end.how() },
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Peer {
    /// The actors of which it is to be told, with the kind that it asked for; and whether the end of one waits to be told.
    watched: BTreeMap<u64, (u64, bool)>,
    words: VecDeque<Word>,
}

/// Who is to be told of the ends of this node's actors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    limit: usize,
    peers: BTreeMap<LinkId, Peer>,
    /// The links over which the end of an actor is to be told. No set is empty.
    actors: BTreeMap<u64, BTreeSet<LinkId>>,
}

impl Ends {
    /// Each peer may have so many actors watched.
    pub fn new(limit: usize) -> Self {
        Self { limit, peers: BTreeMap::new(), actors: BTreeMap::new() }
    }

    /// Takes one input and appends what to do about it.
    pub fn step(&mut self, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::LinkUp { link } => drop(self.peers.insert(link, Peer::default())),
            Input::LinkDown { link } => self.on_down(link, effects),
            Input::Asked { link, actor, kind, is_there } => {
                self.on_asked(link, actor, kind, is_there, effects);
            }
            Input::Ended { actor, how } => self.on_ended(actor, &how, effects),
        }
    }

    /// What to say next over a link, which has room for it.
    pub fn next(&mut self, link: LinkId) -> Option<Word> {
        let peer = self.peers.get_mut(&link)?;
        let word = peer.words.pop_front()?;
        if word.end.is_some()
            && let Some((_, true)) = peer.watched.get(&word.actor)
        {
            peer.watched.remove(&word.actor);
        }
        Some(word)
    }

    /// Whether the end of an actor waits to be told over a link. `None`: it was not asked for there.
    pub fn waits(&self, link: LinkId, actor: u64) -> Option<bool> {
        Some(self.peers.get(&link)?.watched.get(&actor)?.1)
    }

    /// How many actors are to be monitored.
    pub fn monitored(&self) -> usize {
        self.actors.len()
    }

    fn on_down(&mut self, link: LinkId, effects: &mut Vec<Effect>) {
        if planted!("link-down-unheard") {
            return;
        }
        let Some(peer) = self.peers.remove(&link) else { return };
        for (actor, _) in peer.watched {
            let Some(links) = self.actors.get_mut(&actor) else { continue };
            links.remove(&link);
            if links.is_empty() || planted!("unmonitored-for-all") {
                self.actors.remove(&actor);
                effects.push(Effect::Unmonitor { actor });
            }
        }
    }

    fn on_asked(
        &mut self,
        link: LinkId,
        actor: u64,
        kind: u64,
        is_there: Result<(), NotDelivered>,
        effects: &mut Vec<Effect>,
    ) {
        if planted!("asked-of-a-link-that-is-down") {
            self.peers.entry(link).or_default();
        }
        // What was asked over a link that is down is not for the next one.
        let Some(peer) = self.peers.get_mut(&link) else { return };
        // Answers, and the ends of as many as may be watched.
        if peer.words.len() >= self.limit.saturating_mul(2) {
            effects.push(Effect::Overrun { link });
            return;
        }
        let is_full = peer.watched.len() >= self.limit && !peer.watched.contains_key(&actor);
        let end = match is_there {
            Err(why) => Some(End::Not(why)),
            Ok(()) if is_full && !planted!("watches-without-bound") => {
                Some(End::TooMany(u32::try_from(self.limit).unwrap_or(u32::MAX)))
            }
            Ok(()) => None,
        };
        let is_watched = end.is_none();
        peer.words.push_back(Word { actor, kind, end });
        effects.push(Effect::Speak { link });
        if is_watched {
            peer.watched.insert(actor, (kind, false));
            let links = self.actors.entry(actor).or_default();
            let is_first = links.is_empty();
            links.insert(link);
            if is_first {
                effects.push(Effect::Monitor { actor });
            }
        }
    }

    fn on_ended(&mut self, actor: u64, end: &End, effects: &mut Vec<Effect>) {
        // Nobody, if it is told twice, or was to be told a moment ago.
        for link in self.actors.remove(&actor).into_iter().flatten() {
            let Some(peer) = self.peers.get_mut(&link) else { continue };
            let Some((kind, has_ended)) = peer.watched.get_mut(&actor) else { continue };
            *has_ended = true;
            peer.words.push_back(Word { actor, kind: *kind, end: Some(end.clone()) });
            effects.push(Effect::Speak { link });
            if planted!("one-peer-is-told") {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
