//! One message for many actors of this node.

use ractor::message::SerializedMessage;
use tracing::Span;

use crate::driver::inner::Inner;

/// The most actors of one frame.
const ACTORS_OF_A_FRAME: usize = 4096;

/// The most bytes that one frame brings to all mailboxes together. More actors: another frame.
const DELIVERED_BY_A_FRAME: usize = 8 << 20;

/// What a message takes in a mailbox beside its content.
const MAIL: usize = 128;

/// How many actors of this node are found at once. A thread that changes the table of actors waits no longer than it takes to send to so many.
const ACTORS_OF_A_LOOK: usize = 128;

/// How many actors a frame of such a message may be for.
pub(super) fn actors_of_a_frame(variant: &str, args: &[u8]) -> usize {
    (DELIVERED_BY_A_FRAME / (variant.len() + args.len() + MAIL)).clamp(1, ACTORS_OF_A_FRAME)
}

/// Takes a frame for many actors. Those that have ended get nothing, and nobody is told: the sender knows of members of a group, and hears of
/// their ends by the log. An error is what the peer did wrong.
pub(super) fn deliver(
    inner: &Inner,
    to: &[u8],
    kind: u64,
    variant: &str,
    args: &[u8],
    span: &Span,
) -> Result<(), String> {
    let actors: Vec<u64> = rmp_serde::from_slice(to).map_err(|_| "a list of actors that is none")?;
    if actors.len() > actors_of_a_frame(variant, args) {
        return Err("a message for too many actors".into());
    }
    cast_here(inner, &actors, Mail { kind, variant, args }, span);
    Ok(())
}

/// What actors of this node get.
#[derive(Clone, Copy)]
pub(super) struct Mail<'a> {
    pub(super) kind: u64,
    pub(super) variant: &'a str,
    pub(super) args: &'a [u8],
}

/// Puts a message into the mailboxes of actors of this node, which handle it in this span. Returns how many there are: some may have ended.
pub(super) fn cast_here(
    inner: &Inner,
    actors: &[u64],
    Mail { kind, variant, args }: Mail<'_>,
    span: &Span,
) -> usize {
    let message =
        || SerializedMessage::Cast { variant: variant.to_owned(), args: args.to_owned(), metadata: None };
    let cast = |actors| {
        if span.is_disabled() {
            return inner.exports.send_each(actors, kind, message);
        }
        inner.exports.send_each_in(span, actors, kind, message)
    };
    actors.chunks(ACTORS_OF_A_LOOK).map(cast).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_for_so_many_actors_that_their_mailboxes_get_8_mib_of_it() {
        // A message of 8 KiB, with what a mailbox has beside it.
        let args = vec![0; 8192 - MAIL - 100];
        assert_eq!(actors_of_a_frame(&"x".repeat(100), &args), 1024);
        assert_eq!(actors_of_a_frame("", b""), ACTORS_OF_A_FRAME, "nor more than that");
        assert_eq!(actors_of_a_frame("x", &vec![0; 9 << 20]), 1, "nor less than one");
    }
}
