//! One message for the mailboxes of many actors of this node.

use std::sync::{Arc, Condvar, Mutex};

use callsign_store::lock::lock;
use ractor::message::SerializedMessage;
use tracing::Span;

use crate::{
    core::shares::{Shares, helpers},
    driver::inner::Inner,
};

/// What all of them get.
#[derive(Clone, Copy)]
pub(super) struct Mail<'a> {
    pub(super) kind: u64,
    pub(super) variant: &'a str,
    pub(super) args: &'a [u8],
}

impl Mail<'_> {
    fn message(&self) -> SerializedMessage {
        SerializedMessage::Cast {
            variant: self.variant.to_owned(),
            args: self.args.to_owned(),
            metadata: None,
        }
    }
}

/// Puts a message into the mailboxes of actors of this node, which handle it in this span. Returns how many there are: some may have ended.
/// When it returns, the message is in every mailbox, so that what the same sender sends next comes behind it.
pub(super) fn cast_here(inner: &Arc<Inner>, actors: &[u64], mail: Mail<'_>, span: &Span) -> usize {
    let mut shares = Shares::of(actors.len());
    if !span.is_disabled() {
        // Messages are read here, which is the application's code: only the thread that sends runs it.
        return std::iter::from_fn(|| shares.take())
            .map(|share| inner.exports.send_each_in(span, &actors[share], mail.kind, || mail.message()))
            .sum();
    }
    let helpers = helpers(actors.len(), inner.runtime.metrics().num_workers());
    if helpers == 0 {
        return std::iter::from_fn(|| shares.take())
            .map(|share| inner.exports.send_each(&actors[share], mail.kind, || mail.message()))
            .sum();
    }
    let Mail { kind, variant, args } = mail;
    let fan_out = Arc::new(FanOut {
        inner: inner.clone(),
        actors: actors.into(),
        kind,
        variant: variant.into(),
        args: args.into(),
        shares: Mutex::new(shares),
        is_done: Condvar::new(),
    });
    for _ in 0..helpers {
        let helped = fan_out.clone();
        inner.start_task("a share of a broadcast", async move { helped.work() });
    }
    fan_out.work();
    fan_out.wait()
}

/// A message that several threads send.
struct FanOut {
    inner: Arc<Inner>,
    actors: Box<[u64]>,
    kind: u64,
    variant: Box<str>,
    args: Box<[u8]>,
    shares: Mutex<Shares>,
    is_done: Condvar,
}

impl FanOut {
    /// Takes shares until there are none. A thread that comes too late finds none.
    fn work(&self) {
        let mail = Mail { kind: self.kind, variant: &self.variant, args: &self.args };
        loop {
            // The lock is held for no longer than this line.
            let share = lock(&self.shares).take();
            let Some(share) = share else { return };
            let mut taken = Taken { of: self, reached: 0 };
            taken.reached = self.inner.exports.send_each(&self.actors[share], mail.kind, || mail.message());
        }
    }

    /// Waits for the shares of the others, a fraction of a millisecond: nobody waits for a helper that has not begun.
    fn wait(&self) -> usize {
        let mut shares = lock(&self.shares);
        loop {
            if let Some(reached) = shares.all_done() {
                return reached;
            }
            shares = self.is_done.wait(shares).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

/// A share that is under way. It is done also if its thread panics: somebody waits for it.
struct Taken<'a> {
    of: &'a FanOut,
    reached: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut shares = lock(&self.of.shares);
        shares.done(self.reached);
        if shares.all_done().is_some() {
            self.of.is_done.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, call};

    use crate::{Endpoint, EndpointConfig, MemoryNetwork, Network, PeerId};

    #[crate::message("test.note/1", crate = crate)]
    #[derive(Debug)]
    enum Note {
        Number(u32),
        Heard(RpcReplyPort<Vec<u32>>),
    }

    struct Listener;

    impl Actor for Listener {
        type Msg = Note;
        type State = Vec<u32>;
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<Note>, (): ()) -> Result<Vec<u32>, ActorProcessingErr> {
            Ok(Vec::new())
        }

        async fn handle(
            &self,
            _: ActorRef<Note>,
            note: Note,
            heard: &mut Vec<u32>,
        ) -> Result<(), ActorProcessingErr> {
            match note {
                Note::Number(number) => heard.push(number),
                Note::Heard(answer) => drop(answer.send(heard.clone())),
            }
            Ok(())
        }
    }

    /// Enough for help by all.
    const MANY: usize = 5000;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn what_is_sent_to_very_many_comes_once_and_before_what_its_sender_sends_next() {
        let mut config = EndpointConfig::new("prod", "a", 1, "127.0.0.1:0".parse().unwrap());
        config.network = Network::Memory(MemoryNetwork::new());
        let endpoint = Endpoint::start(config).await.unwrap();
        let (mut actors, mut all) = (Vec::new(), Vec::new());
        for number in 0..MANY {
            let (actor, running) = Actor::spawn(None, Listener, ()).await.unwrap();
            all.push(endpoint.address_of(&actor).pid);
            // Every hundredth ends, and gets nothing.
            if number % 100 == 0 {
                actor.stop(None);
                running.await.unwrap();
            } else {
                actors.push(actor);
            }
        }
        let mut sent = Vec::new();
        for round in 0..10 {
            let to = vec![(PeerId::new("a", 1), all.clone())];
            let done = endpoint.broadcast(Note::Number(2 * round), to).unwrap();
            // The last ones first: they are sent to last.
            for actor in actors.iter().rev() {
                actor.cast(Note::Number(2 * round + 1)).unwrap();
            }
            sent.push(done.sent);
        }
        for actor in &actors {
            assert_eq!(call!(actor, Note::Heard).unwrap(), (0..20).collect::<Vec<u32>>());
        }
        assert_eq!(sent, [actors.len(); 10]);
    }
}
