//! Traces go on at other nodes: from the caller to the actor, and no further than their sender says.

use std::time::Duration;

use crate::support::{spans::Collected, *};
use callsign_transport::{
    Carrier, RemoteMessage, message,
    trace::{self, TraceContext},
};
use ractor::{
    Actor, ActorProcessingErr, ActorRef, Message, RpcReplyPort,
    message::{BoxedDowncastErr, SerializedMessage},
    rpc::CallResult,
};
use tracing::{Instrument, info_span};

const ALL: &[&str] = &["call", "cast", "callee"];

const WAIT: Option<Duration> = Some(Duration::from_secs(600));

#[message("test.traced.Note/1", crate = callsign_transport)]
enum Note {
    Word(u64),
    Ask(RpcReplyPort<u64>),
    Ignore(RpcReplyPort<u64>),
}

/// Has a span of its own for what it handles.
struct Noted;

impl Actor for Noted {
    type Msg = Note;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Note>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Note>, message: Note, (): &mut ()) -> Result<(), ActorProcessingErr> {
        info_span!(target: "test", "handles").in_scope(|| match message {
            Note::Word(_) | Note::Ignore(_) => {}
            Note::Ask(reply) => drop(reply.send(7)),
        });
        Ok(())
    }
}

async fn noted() -> ActorRef<Note> {
    Actor::spawn(None, Noted, ()).await.unwrap().0
}

/// "b" has a reference to an actor of "a".
struct Scene {
    linked: Linked,
    actor: ActorRef<Note>,
    remote: ActorRef<Note>,
}

async fn scene() -> Scene {
    let linked = linked_over(&memory(Carrier::Connection).1).await;
    let actor = noted().await;
    let remote = linked.b.resolve(&linked.a.address_of(&actor)).unwrap();
    Scene { linked, actor, remote }
}

async fn asked(remote: &ActorRef<Note>) -> Option<u64> {
    remote.call(Note::Ask, WAIT).await.unwrap().success_or(()).ok()
}

#[tokio::test(start_paused = true)]
async fn an_actor_handles_a_call_in_the_trace_of_its_caller() {
    let spans = Collected::only(ALL);
    let scene = scene().await;
    let outer = info_span!(target: "test", "outer");
    assert_eq!(asked(&scene.remote).instrument(outer).await, Some(7));
    let over = || spans.all().iter().all(|span| span.is_over).then_some(());
    until("all spans are over", over).await;
    let [outer, call, callee, handles] = ["outer", "call", "callee", "handles"].map(|name| spans.one(name));
    assert_eq!(
        (call.parent, callee.parent, handles.parent),
        (Some(outer.id), Some(call.id), Some(callee.id))
    );
    assert!([&call, &callee, &handles].iter().all(|span| span.trace == outer.trace));
    let fields = |fields: &[(&'static str, &str)]| {
        fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    };
    let of_call = [("message_type", "test.traced.Note/1"), ("variant", "Ask"), ("answered", "true")];
    assert_eq!(call.fields, fields(&of_call));
    assert_eq!(callee.fields, fields(&[("peer", "b@2"), ("variant", "Ask"), ("answered", "true")]));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_says_so_on_both_sides() {
    let spans = Collected::only(ALL);
    let scene = scene().await;
    let answer = scene.remote.call(Note::Ignore, WAIT).await.unwrap();
    assert!(matches!(answer, CallResult::SenderError));
    for span in ["call", "callee"] {
        let answered = || spans.one(span).fields.get("answered").cloned();
        assert_eq!(until("it says so", answered).await, "false");
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_handles_a_cast_in_the_trace_of_its_sender() {
    let spans = Collected::only(ALL);
    let scene = scene().await;
    info_span!(target: "test", "outer").in_scope(|| scene.remote.cast(Note::Word(1)).unwrap());
    let handles = until("it is handled", || spans.named("handles").pop()).await;
    let [outer, cast, callee] = ["outer", "cast", "callee"].map(|name| spans.one(name));
    assert_eq!(
        (cast.parent, callee.parent, handles.parent),
        (Some(outer.id), Some(cast.id), Some(callee.id))
    );
    assert_eq!(handles.trace, outer.trace);
}

#[tokio::test(start_paused = true)]
async fn actors_of_both_nodes_handle_a_broadcast_in_the_trace_of_its_sender() {
    let spans = Collected::only(ALL);
    let scene = scene().await;
    let Linked { a, b, .. } = &scene.linked;
    let own = noted().await;
    b.address_of(&own);
    let to = [(a, &scene.actor), (b, &own)]
        .map(|(node, actor)| (node.peer_id().clone(), vec![actor.get_id().pid()]));
    let sent =
        info_span!(target: "test", "outer").in_scope(|| b.broadcast(Note::Word(1), to.to_vec()).unwrap());
    assert_eq!(sent.sent, 2);
    until("both have it", || (spans.named("handles").len() == 2).then_some(())).await;
    let outer = spans.one("outer");
    assert!(spans.named("handles").iter().all(|span| span.trace == outer.trace), "{:?}", spans.all());
    assert_eq!(spans.one("callee").parent, Some(spans.one("cast").id));
}

#[tokio::test(start_paused = true)]
async fn where_nobody_listens_to_calls_the_span_of_the_caller_is_the_parent() {
    let spans = Collected::only(&["callee"]);
    let scene = scene().await;
    let outer = info_span!(target: "test", "outer");
    assert_eq!(asked(&scene.remote).instrument(outer).await, Some(7));
    assert_eq!(spans.one("callee").parent, Some(spans.one("outer").id));
}

#[tokio::test(start_paused = true)]
async fn nothing_travels_where_no_span_is_current() {
    let spans = Collected::only(&["callee"]);
    let metadata = |message: Note| match message.serialize().unwrap() {
        SerializedMessage::Cast { metadata, .. } | SerializedMessage::Call { metadata, .. } => metadata,
        SerializedMessage::CallReply(..) => panic!("it is none"),
    };
    assert_eq!(metadata(Note::Word(1)), None);
    let scene = scene().await;
    assert_eq!(asked(&scene.remote).await, Some(7));
    assert_eq!(spans.named("callee"), []);
    let (handles, outer) = (spans.one("handles"), info_span!(target: "test", "outer"));
    assert_eq!(handles.parent, None);
    let packed = outer.in_scope(|| metadata(Note::Word(1))).unwrap();
    assert!(packed.starts_with(b"\x81\xabtraceparent\xc47"), "{packed:02x?}");
}

#[tokio::test(start_paused = true)]
async fn where_nobody_listens_to_what_comes_the_actor_handles_it_as_ever() {
    let spans = Collected::only(&["call"]);
    let scene = scene().await;
    assert_eq!(asked(&scene.remote).await, Some(7));
    assert_eq!((spans.one("handles").parent, spans.named("callee").len()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn of_an_actor_whose_messages_are_not_known_the_span_is_there_but_not_in_the_actor() {
    let spans = Collected::only(ALL);
    let scene = scene().await;
    scene.linked.a.export(&scene.actor.get_cell(), Note::kind());
    assert_eq!(asked(&scene.remote).await, Some(7));
    assert_eq!(spans.one("callee").parent, Some(spans.one("call").id));
    assert_eq!(spans.one("handles").parent, None);
}

#[tokio::test(start_paused = true)]
async fn a_propagator_that_panics_costs_the_trace_only() {
    let spans = Collected::only(ALL);
    let scene = scene().await;
    spans.panics();
    assert_eq!(asked(&scene.remote).await, Some(7));
    assert_eq!((spans.named("call").len(), spans.named("callee").len()), (1, 0));
}

#[test]
fn what_a_span_has_to_do_with_beside_its_parent_the_propagator_is_told() {
    let spans = Collected::only(ALL);
    let span = info_span!(target: "test", "commit");
    for (of_trace, of_span) in [(9, 8), (7, 6)] {
        trace::link(&span, &TraceContext::new([of_trace; 16], [of_span; 8], 1).unwrap());
    }
    let seen = spans.one("commit");
    assert_eq!((seen.parent, seen.links), (None, vec![(9, 8), (7, 6)]));
}

/// What another node may send: a message with any metadata, which it has in its hands.
struct Raw {
    variant: &'static str,
    metadata: Option<Vec<u8>>,
    reply: Option<RpcReplyPort<Vec<u8>>>,
}

impl Message for Raw {
    fn serializable() -> bool {
        true
    }

    fn serialize(self) -> Result<SerializedMessage, BoxedDowncastErr> {
        let (variant, metadata, reply) = (self.variant.to_owned(), self.metadata, self.reply.unwrap());
        Ok(SerializedMessage::Call { variant, args: Vec::new(), reply, metadata })
    }

    fn deserialize(message: SerializedMessage) -> Result<Self, BoxedDowncastErr> {
        match message {
            SerializedMessage::Call { variant, reply, .. } => match variant.as_str() {
                "fine" => Ok(Self { variant: "fine", metadata: None, reply: Some(reply) }),
                "unread" => Err(BoxedDowncastErr),
                _ => panic!("a decoder that panics"),
            },
            _ => Err(BoxedDowncastErr),
        }
    }
}

impl RemoteMessage for Raw {
    const TAG: &'static str = "test.traced.Raw/1";
}

struct Answers;

impl Actor for Answers {
    type Msg = Raw;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Raw>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Raw>, message: Raw, (): &mut ()) -> Result<(), ActorProcessingErr> {
        let _ = message.reply.unwrap().send(b"yes".to_vec());
        Ok(())
    }
}

/// A call of "b" to an actor of "a". Whether it is answered.
async fn raw(remote: &ActorRef<Raw>, variant: &'static str, metadata: &[u8]) -> bool {
    let metadata = Some(metadata.to_vec());
    let answer = remote.call(|reply| Raw { variant, metadata, reply: Some(reply) }, WAIT).await.unwrap();
    assert!(!matches!(answer, CallResult::Timeout));
    answer.is_success()
}

fn traceparent(value: &str) -> Vec<u8> {
    let length = u8::try_from(value.len()).unwrap();
    [b"\x81\xabtraceparent\xc4", &[length][..], value.as_bytes()].concat()
}

const PARENT: &str = "00-0909090909090909090909090909aaaa-0808080808080808-01";

#[tokio::test(start_paused = true)]
async fn a_trace_that_is_none_is_counted_and_costs_nothing_else() {
    let spans = Collected::only(ALL);
    let Linked { a, b, to_a, .. } = linked_over(&memory(Carrier::Connection).1).await;
    let actor = Actor::spawn(None, Answers, ()).await.unwrap().0;
    let remote = b.resolve::<Raw>(&a.address_of(&actor)).unwrap();
    let zeros = "0".repeat(32);
    let long = "x".repeat(200);
    for (times, bad) in (1..).zip([&*PARENT.replace("0909090909090909090909090909aaaa", &zeros), "", &long]) {
        assert!(raw(&remote, "fine", &traceparent(bad)).await, "it is answered all the same");
        assert_eq!(a.refusal_counts().get("bad-trace-context"), Some(&times), "{bad}");
    }
    // Metadata of somebody else's are no headers.
    assert!(raw(&remote, "fine", b"something of another library").await);
    assert_eq!((spans.named("callee"), a.refusal_counts().get("bad-trace-context")), (vec![], Some(&3)));
    assert!(raw(&remote, "fine", &traceparent(PARENT)).await);
    let callee = spans.one("callee");
    assert_eq!((callee.trace, callee.parent), (9, Some(8)));
    assert_eq!(b.link_to("a").map(|(link, _)| link), Some(to_a), "the link has stayed");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_in_a_trace_is_dropped_as_it_is_without_one() {
    let _spans = Collected::only(ALL);
    let Linked { a, b, to_a, .. } = linked_over(&memory(Carrier::Connection).1).await;
    let actor = Actor::spawn(None, Answers, ()).await.unwrap().0;
    let remote = b.resolve::<Raw>(&a.address_of(&actor)).unwrap();
    for metadata in [&traceparent(PARENT)[..], b""] {
        for variant in ["unread", "panics"] {
            assert!(!raw(&remote, variant, metadata).await, "{variant}");
        }
        assert!(raw(&remote, "fine", metadata).await);
    }
    assert_eq!(b.link_to("a").map(|(link, _)| link), Some(to_a), "the link has stayed");
}
