//! The secret that a cluster shares.

use std::fmt;

use snow::{
    params::HashChoice,
    resolvers::{CryptoResolver, DefaultResolver},
};

/// How many secrets may be valid at once. A stranger's first message is tried against each.
pub const MAX_SECRETS: usize = 4;

/// A cluster's shared secret. Whoever has it is a node of the cluster, under any name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

/// A secret was too short to protect anything, or too long to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret has 16 to 1024 bytes, not {length}")]
pub struct BadSecret {
    /// Its length in bytes.
    pub length: usize,
}

impl Secret {
    /// Takes 16 to 1024 bytes. They should be random (`head -c 32 /dev/urandom | base64`): a recorded handshake lets a
    /// guess be checked offline, so a word from a dictionary protects nothing.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, BadSecret> {
        let bytes = bytes.as_ref();
        if !(16..=1024).contains(&bytes.len()) {
            return Err(BadSecret { length: bytes.len() });
        }
        Ok(Self(blake2s(&[b"callsign transport secret, version 1\0", bytes])))
    }

    /// Takes a secret from each line of a file, the one to be shown first. White space around a line is no part of it, and
    /// empty lines are none.
    pub fn from_lines(bytes: impl AsRef<[u8]>) -> Result<Vec<Self>, BadSecret> {
        let lines = bytes.as_ref().split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        lines.filter(|line| !line.is_empty()).map(Self::new).collect()
    }

    pub(crate) fn key(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

pub(crate) fn blake2s(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash =
        DefaultResolver.resolve_hash(&HashChoice::Blake2s).expect("snow is built with its own BLAKE2s");
    for part in parts {
        hash.input(part);
    }
    let mut result = <[u8; 32]>::default();
    hash.result(&mut result);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_secret_and_one_line_is_what_it_was() {
        let secret = |text: &str| Secret::new(text).unwrap();
        let (old, new) = ("an old secret of sixteen", "a new one, as long as that");
        assert_eq!(Secret::from_lines(format!("{old}\n")).unwrap(), [secret(old)]);
        assert_eq!(Secret::from_lines(old).unwrap(), [secret(old)]);
        let both = Secret::from_lines(format!("\r\n{new}\r\n\n {old}\n")).unwrap();
        assert_eq!(both, [secret(new), secret(old)]);
        assert_eq!(Secret::from_lines("\n").unwrap(), []);
        assert_eq!(Secret::from_lines(format!("{old}\nshort")), Err(BadSecret { length: 5 }));
    }

    #[test]
    fn a_secret_is_neither_too_short_nor_too_long() {
        for (length, is_good) in [(15, false), (16, true), (1024, true), (1025, false)] {
            let expected = if is_good { Ok(()) } else { Err(BadSecret { length }) };
            assert_eq!(Secret::new(vec![7; length]).map(drop), expected);
        }
    }
}
