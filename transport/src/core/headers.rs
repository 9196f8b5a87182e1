//! What may travel with a call or a cast beside the message itself: a map from names to bytes, for trace context and the like.
//!
//! The map is `MessagePack`, as bytes inside its frame, so that whoever does not need it does not read it. It is checked
//! where it comes in, and bounded. Whoever gets one that it does not know passes it over.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_bytes::Bytes as Blob;

/// The most headers of one message.
pub(crate) const MOST_HEADERS: usize = 16;

/// The most bytes that the headers of one message take together.
pub(crate) const MOST_BYTES: usize = 4096;

/// The headers of one message.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    packed: Option<&'a [u8]>,
}

/// What is wrong with the headers of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// They take too many bytes.
    #[error("{bytes} bytes of headers, {MOST_BYTES} are allowed")]
    TooLong { bytes: usize },
    /// There are too many.
    #[error("more than {MOST_HEADERS} headers")]
    TooMany,
    /// They are no map from names to bytes.
    #[error("headers that are no map from names to bytes")]
    Malformed,
}

impl<'a> Headers<'a> {
    /// No headers. They take one byte of a frame.
    pub const NONE: Self = Self { packed: None };

    /// Checks what came in a frame.
    pub(crate) fn read(packed: &'a [u8]) -> Result<Self, HeaderFault> {
        if packed.len() > MOST_BYTES {
            return Err(HeaderFault::TooLong { bytes: packed.len() });
        }
        if entries(packed, |_, _| {})? > MOST_HEADERS {
            return Err(HeaderFault::TooMany);
        }
        Ok(Self { packed: Some(packed) })
    }

    /// The map as it travels.
    pub(crate) fn packed(self) -> Option<&'a Blob> {
        self.packed.map(Blob::new)
    }

    /// What this node wrote, by [`write()`]. What others put there, such as ractor's own metadata, is none.
    pub(crate) fn written(packed: Option<&'a [u8]>) -> Self {
        packed.and_then(|packed| Self::read(packed).ok()).unwrap_or(Self::NONE)
    }

    /// The value of a header. Of several with one name it is the first.
    pub(crate) fn get(self, name: &str) -> Option<&'a [u8]> {
        let mut found = None;
        let each = |key: &str, value| {
            if key == name && found.is_none() {
                found = Some(value);
            }
        };
        entries(self.packed?, each).ok()?;
        found
    }
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Headers({:02x?})", self.packed.unwrap_or_default())
    }
}

/// Headers as they travel.
pub(crate) fn write<'v>(entries: impl Iterator<Item = (&'v str, &'v [u8])>) -> Vec<u8> {
    let map: BTreeMap<_, _> = entries.map(|(name, value)| (name, Blob::new(value))).collect();
    // Memory takes all that is written to it, and MessagePack has texts and bytes.
    rmp_serde::to_vec(&map).expect("texts and bytes can be written")
}

/// Goes over the entries of a map; returns how many there are. Allocates nothing.
fn entries<'a>(packed: &'a [u8], each: impl FnMut(&'a str, &'a [u8])) -> Result<usize, HeaderFault> {
    struct Each<F>(F);
    impl<'de, F: FnMut(&'de str, &'de [u8])> Visitor<'de> for Each<F> {
        type Value = usize;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map from names to bytes")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<usize, A::Error> {
            let mut count = 0;
            while let Some((name, value)) = map.next_entry::<&str, &Blob>()? {
                (self.0)(name, value);
                count += 1;
            }
            Ok(count)
        }
    }
    let mut reader = rmp_serde::Deserializer::from_read_ref(packed);
    let count = reader.deserialize_map(Each(each)).map_err(|_| HeaderFault::Malformed)?;
    // Bytes behind the map are not ours.
    match IgnoredAny::deserialize(&mut reader) {
        Err(rmp_serde::decode::Error::InvalidMarkerRead(_)) => Ok(count), // there is nothing left
        _ => Err(HeaderFault::Malformed),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What trace context looks like.
    pub(crate) const TRACED: Headers<'static> =
        Headers { packed: Some(b"\x82\xabtraceparent\xc4\x0500-4b\xa1x\xa1y") };

    fn map(count: u16, value: &[u8]) -> Vec<u8> {
        let pairs: std::collections::BTreeMap<String, &Blob> =
            (0..count).map(|n| (n.to_string(), Blob::new(value))).collect();
        rmp_serde::to_vec(&pairs).unwrap()
    }

    #[test]
    fn a_header_is_found_by_its_name_and_others_are_passed_over() {
        let headers = Headers::read(TRACED.packed.unwrap()).unwrap();
        assert_eq!(headers, TRACED);
        assert_eq!(headers.get("traceparent"), Some(&b"00-4b"[..]));
        assert_eq!(headers.get("x"), Some(&b"y"[..]), "text is bytes, too");
        assert_eq!(headers.get("y"), None);
        assert_eq!(Headers::NONE.get("x"), None);
        let twice = Headers::read(b"\x82\xa1x\xc4\x011\xa1x\xc4\x012").unwrap();
        assert_eq!(twice.get("x"), Some(&b"1"[..]));
    }

    #[test]
    fn what_is_written_is_read_and_what_is_no_header_is_none() {
        let packed = write([("y", &b"2"[..]), ("x", b"1")].into_iter());
        let headers = Headers::written(Some(&packed));
        assert_eq!((headers.get("x"), headers.get("y")), (Some(&b"1"[..]), Some(&b"2"[..])));
        assert_eq!(Headers::written(None), Headers::NONE);
        assert_eq!(Headers::written(Some(b"metadata")), Headers::NONE);
    }

    #[test]
    fn more_headers_or_bytes_than_are_allowed_are_refused_as_what_they_are() {
        assert!(Headers::read(&map(16, b"")).is_ok());
        assert_eq!(Headers::read(&map(17, b"")), Err(HeaderFault::TooMany));
        let overhead = map(1, &[0; 300]).len() - 300;
        assert!(Headers::read(&map(1, &[0; MOST_BYTES][overhead..])).is_ok());
        let bytes = MOST_BYTES + 1;
        assert_eq!(
            Headers::read(&map(1, &[0; MOST_BYTES + 1][overhead..])),
            Err(HeaderFault::TooLong { bytes })
        );
    }

    #[test]
    fn what_is_no_map_from_names_to_bytes_is_refused() {
        let malformed: [&[u8]; 7] =
            [b"", b"\xc0", b"\x91\xa1x", b"\x81\x01\xc4\x00", b"\x81\xa1x\x01", b"\x81\xa1x", b"\x80\x80"];
        for packed in malformed {
            assert_eq!(Headers::read(packed), Err(HeaderFault::Malformed), "{packed:02x?}");
        }
    }
}
