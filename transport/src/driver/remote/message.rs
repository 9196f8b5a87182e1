//! What [`message`](callsign_macros::message) expands to: how variants, their fields and answers become bytes, and back.

pub use ractor::message::{BoxedDowncastErr, SerializedMessage};
pub use {ractor, serde};

use ractor::{
    RpcReplyPort,
    concurrency::{oneshot, spawn, timeout},
};
use serde::{Serialize, de::DeserializeOwned};
use tracing::{Span, debug_span, field::Empty};

use crate::driver::trace::{SPANS, context_of};

/// What travels with a message of whoever is in this span: its trace, if that goes on elsewhere.
fn metadata(span: &Span) -> Option<Vec<u8>> {
    context_of(span).map(|context| context.to_headers())
}

fn write<T: Serialize>(value: &T) -> Result<Vec<u8>, BoxedDowncastErr> {
    rmp_serde::to_vec_named(value).map_err(|_| BoxedDowncastErr)
}

/// What was written of a variant's fields, or of an answer.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BoxedDowncastErr> {
    rmp_serde::from_slice(bytes).map_err(|_| BoxedDowncastErr)
}

/// Something that an actor is told.
pub fn told<T: Serialize>(
    message: &str,
    variant: &str,
    fields: &T,
) -> Result<SerializedMessage, BoxedDowncastErr> {
    let span = debug_span!(target: SPANS, "cast", message_type = message, variant);
    Ok(SerializedMessage::Cast {
        variant: variant.to_owned(),
        args: write(fields)?,
        metadata: metadata(&span),
    })
}

/// Something that an actor is asked. The answer comes as bytes.
pub fn question<T, A>(
    message: &str,
    variant: &str,
    fields: &T,
    port: RpcReplyPort<A>,
) -> Result<SerializedMessage, BoxedDowncastErr>
where
    T: Serialize,
    A: DeserializeOwned + Send + 'static,
{
    let args = write(fields)?;
    let span = debug_span!(target: SPANS, "call", message_type = message, variant, answered = Empty);
    let metadata = metadata(&span);
    let reply = passed_on(port, span, |bytes: Vec<u8>| read(&bytes));
    Ok(SerializedMessage::Call { variant: variant.to_owned(), args, reply, metadata })
}

/// Where an actor of this node answers what another node asks.
pub fn answers<A: Serialize + Send + 'static>(port: RpcReplyPort<Vec<u8>>) -> RpcReplyPort<A> {
    passed_on(port, Span::none(), |answer: A| write(&answer))
}

/// A port whose answer goes to another one as something else; within the same time. What cannot be that is no answer. The span ends then.
fn passed_on<From: Send + 'static, To: Send + 'static>(
    port: RpcReplyPort<To>,
    span: Span,
    as_other: impl FnOnce(From) -> Result<To, BoxedDowncastErr> + Send + 'static,
) -> RpcReplyPort<From> {
    let (sender, answer) = oneshot();
    let limit = port.get_timeout();
    spawn(async move {
        let answer = match limit {
            Some(limit) => timeout(limit, answer).await.ok().and_then(Result::ok),
            None => answer.await.ok(),
        };
        let answer = answer.map(as_other).and_then(Result::ok);
        span.record("answered", answer.is_some());
        if let Some(answer) = answer {
            // Nobody may wait for it any more.
            let _ = port.send(answer);
        }
    });
    match limit {
        Some(limit) => (sender, limit).into(),
        None => sender.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ractor::{Message, RpcReplyPort};

    use super::{BoxedDowncastErr, SerializedMessage, read, write};
    use crate::{Kind, RemoteMessage};

    #[crate::message("test.counter/1", crate = crate)]
    #[derive(Debug)]
    enum Counter {
        Reset,
        Add(i64, String),
        Set {
            to: i64,
            #[serde(default)]
            why: Option<String>,
        },
        Get(RpcReplyPort<i64>),
        Ask {
            what: String,
            answer: RpcReplyPort<Option<String>>,
        },
        /// With fields that are called as what comes is.
        Odd {
            reply: u8,
            args: RpcReplyPort<u8>,
        },
    }

    fn parts(message: Counter) -> (String, Vec<u8>, Option<RpcReplyPort<Vec<u8>>>) {
        match message.serialize().unwrap() {
            SerializedMessage::Cast { variant, args, metadata: None } => (variant, args, None),
            SerializedMessage::Call { variant, args, reply, metadata: None } => (variant, args, Some(reply)),
            other => panic!("{other:?}"),
        }
    }

    fn cast(variant: &str, args: Vec<u8>) -> Result<Counter, BoxedDowncastErr> {
        Counter::deserialize(SerializedMessage::Cast { variant: variant.into(), args, metadata: None })
    }

    #[test]
    fn what_an_actor_is_told_comes_as_it_was_sent() {
        assert_eq!((Counter::kind(), Counter::serializable()), (Kind::of("test.counter/1"), true));
        let comes = |message| {
            let (variant, args, reply) = parts(message);
            assert!(reply.is_none());
            cast(&variant, args).unwrap()
        };
        assert!(matches!(comes(Counter::Reset), Counter::Reset));
        assert!(matches!(comes(Counter::Add(-5, "x".into())), Counter::Add(-5, x) if x == "x"));
        let set = comes(Counter::Set { to: 7, why: Some("y".into()) });
        assert!(matches!(set, Counter::Set { to: 7, why: Some(y) } if y == "y"));
    }

    #[test]
    fn what_a_later_version_left_out_or_added_is_read_and_what_is_no_message_is_not() {
        let of_map = |fields: &[(&str, i64)]| {
            write(&fields.iter().copied().collect::<std::collections::BTreeMap<_, _>>()).unwrap()
        };
        assert!(matches!(cast("Set", of_map(&[("to", 7)])).unwrap(), Counter::Set { to: 7, why: None }));
        assert!(matches!(
            cast("Set", of_map(&[("new", 1), ("to", 7)])).unwrap(),
            Counter::Set { to: 7, why: None }
        ));
        assert!(cast("Set", of_map(&[])).is_err(), "a field is missing");
        assert!(cast("Unknown", write(&()).unwrap()).is_err());
        assert!(cast("Get", write(&()).unwrap()).is_err(), "nobody waits for the answer");
        assert!(cast("Add", vec![0xc1]).is_err(), "bytes that are nothing");
        assert!(Counter::deserialize(SerializedMessage::CallReply(1, Vec::new())).is_err());
        let (tx, _rx) = ractor::concurrency::oneshot();
        let told = SerializedMessage::Call {
            variant: "Reset".into(),
            args: write(&()).unwrap(),
            reply: tx.into(),
            metadata: None,
        };
        assert!(Counter::deserialize(told).is_err(), "it is no question");
    }

    /// A question as it comes to the other node, the caller's end, and what was asked.
    fn asked(limit: Option<Duration>) -> (Counter, ractor::concurrency::OneshotReceiver<Option<String>>) {
        let (tx, rx) = ractor::concurrency::oneshot();
        let answer = match limit {
            Some(limit) => (tx, limit).into(),
            None => tx.into(),
        };
        let (variant, args, reply) = parts(Counter::Ask { what: "x".into(), answer });
        let reply = reply.expect("it is a question");
        assert_eq!(reply.get_timeout(), limit);
        let call = SerializedMessage::Call { variant, args, reply, metadata: None };
        (Counter::deserialize(call).unwrap(), rx)
    }

    #[tokio::test(start_paused = true)]
    async fn the_answer_to_a_question_comes_back() {
        for limit in [None, Some(Duration::from_secs(1))] {
            let (question, answered) = asked(limit);
            let Counter::Ask { what, answer } = question else { panic!("{question:?}") };
            assert_eq!((what.as_str(), answer.get_timeout()), ("x", limit));
            answer.send(Some("y".into())).unwrap();
            assert_eq!(answered.await.unwrap(), Some("y".to_owned()));
        }
        let (tx, rx) = ractor::concurrency::oneshot();
        let (variant, args, reply) = parts(Counter::Get(tx.into()));
        assert_eq!((variant.as_str(), read::<()>(&args)), ("Get", Ok(())));
        reply.unwrap().send(write(&7_i64).unwrap()).unwrap();
        assert_eq!(rx.await.unwrap(), 7);

        let (tx, rx) = ractor::concurrency::oneshot();
        let (variant, args, reply) = parts(Counter::Odd { reply: 5, args: tx.into() });
        let call = SerializedMessage::Call { variant, args, reply: reply.unwrap(), metadata: None };
        let Counter::Odd { reply, args } = Counter::deserialize(call).unwrap() else {
            panic!("it is another")
        };
        args.send(reply + 1).unwrap();
        assert_eq!(rx.await.unwrap(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gets_no_answer_that_can_be_read_hears_so() {
        // The actor drops the question.
        let (question, answered) = asked(None);
        drop(question);
        assert!(answered.await.is_err());
        // Time is up.
        let (question, answered) = asked(Some(Duration::from_secs(1)));
        assert!(answered.await.is_err());
        drop(question);
        // It answers something else.
        let (tx, rx) = ractor::concurrency::oneshot::<i64>();
        let (_, _, reply) = parts(Counter::Get(tx.into()));
        reply.unwrap().send(write(&"text").unwrap()).unwrap();
        assert!(rx.await.is_err());
    }
}
