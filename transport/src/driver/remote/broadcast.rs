//! One message for many actors: it travels once for each node.

use ractor::message::SerializedMessage;
use tracing::Span;

use super::{
    kind::{Kind, RemoteMessage},
    many::{Mail, actors_of_a_frame, cast_here},
};
use crate::{
    core::{frame::Frame, headers::Headers, peer::PeerId},
    driver::endpoint::Endpoint,
};

/// What a broadcast came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broadcasted {
    /// To how many actors it is on its way, those of this node included. Whether it arrives nobody says.
    pub sent: usize,
    /// The nodes to which it is not, or not for all of their actors: with them there is no link, or its queue is full.
    pub unreached: Vec<String>,
}

/// Why a message was sent to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BroadcastError {
    /// The message asks for an answer, and only one actor can give that.
    #[error("a message that is to be answered cannot be sent to many actors")]
    IsCall,
    /// The message cannot be written.
    #[error("the message cannot be written")]
    NotWritable,
}

impl Endpoint {
    /// Sends one message to many actors, which are given by their nodes: once to each node. Such messages of a node come in their order. They may
    /// overtake what was sent to references before, which takes a step more.
    pub fn broadcast<M: RemoteMessage>(
        &self,
        message: M,
        to: Vec<(PeerId, impl AsRef<[u64]>)>,
    ) -> Result<Broadcasted, BroadcastError> {
        let (variant, args, metadata) = match message.serialize() {
            Ok(SerializedMessage::Cast { variant, args, metadata }) => (variant, args, metadata),
            Ok(_) => return Err(BroadcastError::IsCall),
            Err(_) => return Err(BroadcastError::NotWritable),
        };
        let headers = Headers::written(metadata.as_deref());
        let mut done = Broadcasted::default();
        let (here, there): (Vec<_>, Vec<_>) = to.into_iter().partition(|(node, _)| *node == self.inner.me);
        // The others first: they fill their mailboxes while this node fills its own.
        for (node, actors) in there {
            let actors = actors.as_ref();
            let sent = self.cast_there(&node, actors, M::kind(), headers, (&variant, &args));
            done.sent += sent;
            if sent < actors.len() {
                done.unreached.push(node.node.to_string());
            }
        }
        // In the trace of whoever sends, if that goes on elsewhere, too.
        let span = if metadata.is_some() { Span::current() } else { Span::none() };
        let mail = Mail { kind: M::kind().0, variant: &variant, args: &args };
        for (_, actors) in here {
            done.sent += cast_here(&self.inner, actors.as_ref(), mail, &span);
        }
        Ok(done)
    }

    /// Returns to how many actors it is on its way. Fewer than all: there is no link, or its queue is full.
    fn cast_there(
        &self,
        node: &PeerId,
        actors: &[u64],
        Kind(kind): Kind,
        headers: Headers<'_>,
        (variant, args): (&str, &[u8]),
    ) -> usize {
        let up = self.link_to(&node.node).filter(|(_, peer)| peer == node);
        let handle = up.and_then(|(link, _)| self.inner.handles.get(&link).map(|handle| handle.clone()));
        let Some(handle) = handle else { return 0 };
        let is_sent = |actors: &&[u64]| {
            // Memory takes all that is written to it, and MessagePack has all numbers.
            let to = rmp_serde::to_vec(actors).expect("numbers can be written");
            let frame = Frame::CastAll { to: &to, kind, headers, variant, args };
            handle.queue(|outbox| outbox.send_frame(&frame)).is_ok()
        };
        actors.chunks(actors_of_a_frame(variant, args)).take_while(is_sent).map(<[u64]>::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, call, message::BoxedDowncastErr};

    use super::*;
    use crate::{EndpointConfig, MemoryNetwork, Network};

    #[crate::message("test.note/1", crate = crate)]
    #[derive(Debug)]
    enum Note {
        Number(u32),
        Heard(RpcReplyPort<Vec<u32>>),
    }

    struct NoteTaker;

    impl Actor for NoteTaker {
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

    /// More than are found in the table at once, and than a frame is for.
    const MANY: usize = 5000;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn what_is_sent_to_very_many_comes_once_and_before_what_its_sender_sends_next() {
        let mut config = EndpointConfig::new("prod", "a", 1, "127.0.0.1:0".parse().unwrap());
        config.network = Network::Memory(MemoryNetwork::new());
        let endpoint = Endpoint::start(config).await.unwrap();
        let (mut actors, mut all) = (Vec::new(), Vec::new());
        for number in 0..MANY {
            let (actor, running) = Actor::spawn(None, NoteTaker, ()).await.unwrap();
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

    /// Cannot be written.
    struct Unwritable;

    impl ractor::Message for Unwritable {
        fn serializable() -> bool {
            true
        }

        fn serialize(self) -> Result<SerializedMessage, BoxedDowncastErr> {
            Err(BoxedDowncastErr)
        }
    }

    impl RemoteMessage for Unwritable {
        const TAG: &'static str = "test.unwritable/1";
    }

    #[tokio::test]
    async fn a_message_that_cannot_be_written_is_sent_to_nobody() {
        let mut config = EndpointConfig::new("prod", "a", 1, "127.0.0.1:0".parse().unwrap());
        config.network = Network::Memory(MemoryNetwork::new());
        let endpoint = Endpoint::start(config).await.unwrap();
        let to = vec![(endpoint.peer_id().clone(), vec![1_u64])];
        assert_eq!(endpoint.broadcast(Unwritable, to), Err(BroadcastError::NotWritable));
    }
}
