//! In which traces the requests of a message are. That travels behind the message, where nodes do not look that know nothing of it.
//!
//! No core acts on it. It is text of another node's, and whoever wants it has to check it. What a later version adds comes behind it.

use serde::{Deserialize, Serialize};

use crate::core::table::RequestNumber;

/// The most requests of one message, or of one commit, whose traces go on.
pub(crate) const MOST_TRACED: usize = 64;

/// A request, and the `traceparent` and `tracestate` of whoever waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traced<'a> {
    pub(crate) number: RequestNumber,
    pub(crate) parent: &'a str,
    pub(crate) state: Option<&'a str>,
}

/// What is behind a message, by whoever reads on. Something else than traces is none: a later version may have it there.
pub(crate) fn behind<'a, D: serde::Deserializer<'a>>(rest: D) -> Vec<Traced<'a>> {
    Vec::deserialize(rest).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use callsign_store::ids::Epoch;

    use crate::core::message::Message;

    #[test]
    fn what_is_behind_a_message_and_is_no_list_of_traces_is_passed_over() {
        let message = Message::HandoffDone { epoch: Epoch(1) };
        for other in
            [&b"\x91\xc0"[..], b"\x91\x93\x01\x02\xc0", b"\xdd\xff\xff\xff\xff", b"\xc1", b"\x92\x93\x01"]
        {
            let bytes = [&message.encode()[..], other].concat();
            assert_eq!(Message::decode_with(&bytes, true), Ok((message.clone(), Vec::new())), "{other:02x?}");
        }
    }
}
