//! What an actor takes, in a form that travels.

use callsign_store::hash::{FNV_BASIS, fnv1a};
use ractor::BytesConvertable;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::tags;

/// Identifies a message type across nodes: a hash of a tag that its author chose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kind(pub u64);

impl Kind {
    /// The kind of a tag such as `"app.Counter"` (FNV-1a, 64 bit: the same in every version and on every machine).
    /// Change the tag when the messages change beyond what old nodes can decode.
    pub const fn of(tag: &str) -> Self {
        Self(fnv1a(FNV_BASIS, tag.as_bytes()))
    }

    /// The kind of a message type, whose tag this process knows from now on.
    pub fn of_messages<M: RemoteMessage>() -> Self {
        let kind = M::kind();
        tags::used(kind.0, M::TAG);
        kind
    }

    /// The tag of the kind. `None`: this process has not used messages of this kind yet, so it knows only their number.
    #[must_use]
    pub fn tag(self) -> Option<&'static str> {
        tags::of(self.0)
    }
}

/// The tag, where this process has used messages of the kind; otherwise words for a kind that it does not know.
impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.tag().unwrap_or("a kind that this program does not know"))
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "kind {:016x}", self.0)
    }
}

/// A message type that actors of other nodes can be sent. Put [`#[callsign::message("app.Type/1")]`](crate::message) on it. Or derive
/// [`crate::RactorClusterMessage`] for it, and say [`crate::remote_message!`]`(Type, "app.Type/1")`.
///
/// ```compile_fail,E0277
/// fn sends<M: callsign_transport::RemoteMessage>() {}
/// enum Forgotten { Set(u64) }
/// sends::<Forgotten>(); // "`Forgotten` is no message that actors of other nodes can be sent"
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no message that actors of other nodes can be sent",
    label = "these messages cannot travel",
    note = "put `#[callsign::message(\"app.Type/1\")]` on the enum"
)]
pub trait RemoteMessage: ractor::Message {
    /// The type's tag, such as `"app.Counter/1"`, the same on all nodes.
    const TAG: &'static str;

    /// The type's kind: what travels in place of the tag.
    #[must_use]
    fn kind() -> Kind {
        const { Kind::of(Self::TAG) }
    }
}

/// Implements [`RemoteMessage`] for a type under a tag: `remote_message!(Counter, "app.Counter");`
#[macro_export]
macro_rules! remote_message {
    ($type:ty, $tag:expr) => {
        impl $crate::RemoteMessage for $type {
            const TAG: &'static str = $tag;
        }
    };
}

/// Makes any serde type a field of a remote message, or an answer, by `MessagePack`: `Add(P<i64>)`.
///
/// Decoding bytes that are no `T` panics, which is the only way to say so that ractor has: it catches the panic, drops
/// the message and goes on (see the `remote` module on `panic = "abort"`). Encoding panics for types that
/// `MessagePack` cannot hold; ractor does not catch that, it happens where the message is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct P<T>(pub T);

impl<T: Serialize + DeserializeOwned> BytesConvertable for P<T> {
    fn into_bytes(self) -> Vec<u8> {
        rmp_serde::to_vec_named(&self.0).expect("a message's fields are types that MessagePack can hold")
    }

    fn from_bytes(bytes: Vec<u8>) -> Self {
        P(rmp_serde::from_slice(&bytes).expect("the sender and this node agree on the message's fields"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_the_published_hash_so_that_all_builds_agree() {
        assert_eq!(Kind::of(""), Kind(0xcbf2_9ce4_8422_2325));
        assert_eq!(Kind::of("foobar"), Kind(0x8594_4171_f739_67e8)); // test vector of FNV-1a
    }

    #[test]
    fn a_payload_reads_back() {
        let bytes = P(vec![(1, "one".to_owned())]).into_bytes();
        assert_eq!(P::<Vec<(i32, String)>>::from_bytes(bytes).0, [(1, "one".to_owned())]);
    }
}
