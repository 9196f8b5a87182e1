//! What a name says about itself: a few bytes that its holder chooses, and that everybody who finds the name reads.

use std::{borrow::Cow, io::Cursor};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};

/// The most bytes of metadata that a name may have. All nodes hold them in memory, and the log carries each change.
pub const MAX_META_BYTES: usize = 4096;

/// The metadata of a name: one MessagePack value of at most 4 KiB.
///
/// Structs are written as maps from the names of their fields, so that a field can be added later.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Meta(Bytes);

/// Why a value is no metadata, or the metadata no such value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum MetaError {
    /// The value takes too many bytes. Nothing was sent.
    #[error("the metadata has {bytes} bytes, and may have {MAX_META_BYTES}")]
    TooLarge {
        /// How many it takes as MessagePack.
        bytes: usize,
    },
    /// The value cannot be written as MessagePack. Nothing was sent.
    #[error("the metadata cannot be written: {0}")]
    NotWritable(String),
    /// The metadata is a value of another type than the one that was asked for.
    #[error("the metadata is of another type: {0}")]
    WrongType(String),
}

impl Meta {
    /// Writes a value. O(its size).
    ///
    /// # Errors
    /// `TooLarge` above 4096 bytes; `NotWritable` if its `Serialize` fails.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Result<Self, MetaError> {
        let bytes =
            rmp_serde::to_vec_named(value).map_err(|error| MetaError::NotWritable(error.to_string()))?;
        Self::check(bytes.len())?;
        Ok(Self(bytes.into()))
    }

    /// Reads the value.
    ///
    /// # Errors
    /// `WrongType` if it is of another type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, MetaError> {
        rmp_serde::from_slice(&self.0).map_err(|error| MetaError::WrongType(error.to_string()))
    }

    /// The MessagePack.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The value of a field, if this is a map that has it. O(its size).
    pub(crate) fn field(&self, field: &str) -> Option<&[u8]> {
        let mut rest = &self.0[..];
        for _ in 0..rmp::decode::read_map_len(&mut rest).ok()? {
            let (key, behind) = split_value(rest)?;
            let (value, behind) = split_value(behind)?;
            if rmp_serde::from_slice::<&str>(key).is_ok_and(|key| key == field) {
                return Some(value);
            }
            rest = behind;
        }
        None
    }

    /// How many bytes it takes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn check(bytes: usize) -> Result<(), MetaError> {
        if bytes > MAX_META_BYTES { Err(MetaError::TooLarge { bytes }) } else { Ok(()) }
    }
}

/// How many bytes some metadata takes, where there may be none.
pub(crate) fn weight(meta: Option<&Meta>) -> usize {
    meta.map_or(0, Meta::len)
}

/// One MessagePack value, and what is behind it.
fn split_value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = rmp_serde::Deserializer::new(Cursor::new(bytes));
    IgnoredAny::deserialize(&mut reader).ok()?;
    bytes.split_at_checked(usize::try_from(reader.position()).ok()?)
}

impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes: Cow<'de, [u8]> = serde_bytes::deserialize(deserializer)?;
        // A peer, or whoever writes the store, is not believed either.
        Self::check(bytes.len()).map_err(serde::de::Error::custom)?;
        Ok(Self(bytes.into_owned().into()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Zone {
        zone: String,
        weight: u32,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct NewerZone {
        zone: String,
        #[serde(default)]
        rack: Option<u8>,
    }

    #[test]
    fn a_value_is_read_as_it_was_written_also_by_a_later_version_of_its_type() {
        let zone = Zone { zone: "eu".into(), weight: 3 };
        let meta = Meta::new(&zone).unwrap();
        assert_eq!(meta.read(), Ok(zone));
        assert_eq!(meta.read(), Ok(NewerZone { zone: "eu".into(), rack: None }));
        assert!(matches!(meta.read::<u64>(), Err(MetaError::WrongType(_))));
        assert!(matches!(meta.read::<BTreeMap<String, u64>>(), Err(MetaError::WrongType(_))));
    }

    #[test]
    fn one_field_of_a_map_is_found_and_whatever_is_no_map_has_none() {
        let meta = Meta::new(&(Zone { zone: "eu".into(), weight: 300 })).unwrap();
        assert_eq!(meta.field("weight"), Some(Meta::new(&300).unwrap().as_bytes()));
        assert_eq!(meta.field("zone"), Some(Meta::new("eu").unwrap().as_bytes()));
        assert_eq!(meta.field("rack"), None);
        let last = BTreeMap::from([("only", 7)]);
        assert_eq!(Meta::new(&last).unwrap().field("only"), Some(&[7][..]));
        let nested = Meta::new(&BTreeMap::from([("a", vec![(1, "weight")]), ("weight", vec![])])).unwrap();
        assert_eq!(nested.field("weight"), Some(&[0x90][..]));
        assert_eq!(Meta::new(&vec![1, 2]).unwrap().field("zone"), None);
        // Whatever a peer sends: a map that ends too early.
        assert_eq!(Meta(vec![0x82, 0xa1, b'a'].into()).field("b"), None);
    }

    #[test]
    fn the_longest_metadata_has_4096_bytes_also_if_a_peer_says_otherwise() {
        // Its length takes three bytes.
        let longest = Meta::new(&"x".repeat(MAX_META_BYTES - 3)).unwrap();
        assert_eq!(longest.as_bytes().len(), MAX_META_BYTES);
        assert_eq!((weight(Some(&longest)), weight(None)), (MAX_META_BYTES, 0));
        let one_more = Meta::new(&"x".repeat(MAX_META_BYTES - 2));
        assert_eq!(one_more, Err(MetaError::TooLarge { bytes: MAX_META_BYTES + 1 }));

        let sent = rmp_serde::to_vec(&longest).unwrap();
        assert_eq!(rmp_serde::from_slice::<Meta>(&sent).unwrap(), longest);
        let forged = rmp_serde::to_vec(&Meta(vec![0; MAX_META_BYTES + 1].into())).unwrap();
        assert!(rmp_serde::from_slice::<Meta>(&forged).is_err());
    }
}
