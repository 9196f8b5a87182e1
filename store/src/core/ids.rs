//! Who and how many: the identifiers of the protocol, each its own type so that they cannot be mixed up.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, de::Error};

/// The longest node or registry name, in bytes.
pub const MAX_NAME: usize = 100;

/// Why a node or registry name was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The name has no characters.
    #[error("a name must not be empty")]
    Empty,
    /// The name is longer than [`MAX_NAME`] bytes.
    #[error("a name of {length} bytes is too long, {MAX_NAME} is the most")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The name has a character other than ASCII letters, digits, `.`, `_` and `-`.
    #[error("{name:?} has a character that names must not have: use A-Z a-z 0-9 . _ -")]
    BadCharacter {
        /// The refused name.
        name: String,
    },
}

fn validate(name: &str) -> Result<(), InvalidName> {
    if name.is_empty() {
        return Err(InvalidName::Empty);
    }
    if name.len() > MAX_NAME {
        return Err(InvalidName::TooLong { length: name.len() });
    }
    // `/` separates the parts of a key, and names appear in file names and log lines.
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
        return Err(InvalidName::BadCharacter { name: name.to_owned() });
    }
    Ok(())
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes a name of 1 to [`MAX_NAME`] ASCII letters, digits, `.`, `_` and `-`.
            pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidName> {
                validate(name.as_ref())?;
                Ok(Self(name.as_ref().into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(name: String) -> Result<Self, InvalidName> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type! {
    /// The stable name of a node. A node has at most one member in a registry, so this is also the member's id.
    NodeName
}
name_type! {
    /// The name of a registry: a namespace with its own members, leader, log and key prefix.
    RegistryName
}
name_type! {
    /// The name of a cluster: nodes of different clusters refuse each other, and share no key of a store.
    ClusterName
}

name_type! {
    /// The name of an election: a seat, and those who would have it. It shares no key with another.
    ElectionName
}
name_type! {
    /// Whoever takes part in an election. Two processes must not share one; if they do, one of them is told.
    MemberId
}

name_type! {
    /// Something that a candidate has and that an election may ask for: a role, a zone, a kind of machine.
    Tag
}

/// The greatest number that anything is counted by. Who counts one by one does not get there within the life of a store; so a
/// greater one is damage, and is refused before anybody adds to it.
pub const MAX_COUNT: u64 = 1 << 62;

/// The next greater number, if anything is still counted by it.
pub fn next_count(number: u64) -> Option<u64> {
    (number < MAX_COUNT).then(|| number + 1)
}

/// Reads a number that something was counted by: at most [`MAX_COUNT`].
pub fn deserialize_count<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number = u64::deserialize(from)?;
    if number <= MAX_COUNT {
        return Ok(number);
    }
    Err(D::Error::custom(format_args!("{number} was never counted to, {MAX_COUNT} is the most")))
}

macro_rules! number_type {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);
        number_type!(@of $name);
    };
    (count: $(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(#[serde(deserialize_with = "deserialize_count")] pub u64);
        number_type!(@of $name);

        impl $name {
            /// The next greater one. What was read from elsewhere is at most [`MAX_COUNT`], so there always is one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }
    };
    (@of $name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number_type! {
    /// Drawn afresh at each start of a process, so that a restarted node is not taken for its former self.
    Incarnation
}
number_type! { count:
    /// Counts the sessions of a node, over all its incarnations.
    SessionNumber
}
number_type! { count:
    /// Counts the beats of a session. No value is written twice, so an unmoved beat is a silent node.
    Beat
}
number_type! { count:
    /// The sequence number of an author's entry in the membership queue.
    Sequence
}
number_type! { count:
    /// Identifies one join of one member: the sequence number of its `Join`. Greater for a later join.
    Token
}
number_type! { count:
    /// Grows with every new term, and when the seat falls vacant. Never reset.
    Epoch
}
number_type! { count:
    /// Grows with every new term and every refresh of one. Never reset.
    Ballot
}
number_type! { count:
    /// When a candidate registered, among the candidates of its election: smaller is earlier. Never given out twice.
    Seniority
}
number_type! { count:
    /// Index of a batch in a registry's log, from 1; 0 is "before the first". Never reset.
    Position
}
number_type! {
    /// Drawn by whoever writes a record, to recognise its own writing after an unknown outcome.
    Nonce
}

/// One session of one node: what a registration belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId {
    /// The node whose session it is.
    pub node: NodeName,
    /// The incarnation that opened it.
    pub incarnation: Incarnation,
    /// Its number among the sessions of the node.
    pub number: SessionNumber,
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.node, self.number)
    }
}
