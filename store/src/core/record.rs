//! How records are written.

use rmp_serde::decode::Error;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Value, core::printable::printable};

/// The schema of what this version writes into a store (records, and batches of the log), and the only one that it reads: the
/// first byte.
pub const SCHEMA: u8 = 1;

/// Why a record could not be read. Nothing was changed, and nothing is concluded from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum CorruptRecord {
    /// The record was written by another version.
    #[error("a record has schema {found}, this version reads {SCHEMA}")]
    Schema {
        /// The schema that the record names.
        found: u8,
    },
    /// The record has no bytes.
    #[error("a record is empty")]
    Empty,
    /// The record does not have the form that its schema has.
    #[error("a record cannot be read: {0}")]
    Malformed(String),
}

/// A record that a store holds.
pub trait Record: Serialize + DeserializeOwned {
    /// Writes the record.
    fn to_value(&self) -> Value {
        let mut bytes = vec![SCHEMA];
        // Writing to memory does not fail, and records have no map with keys that MessagePack cannot write.
        rmp_serde::encode::write_named(&mut bytes, self).expect("records are serializable");
        bytes
    }

    /// Reads a record, all of it or an error.
    fn from_value(bytes: &[u8]) -> Result<Self, CorruptRecord> {
        decode(bytes)
    }
}

/// Reads what [`Record::to_value`] wrote, all of it or an error.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CorruptRecord> {
    match bytes.split_first() {
        None => Err(CorruptRecord::Empty),
        Some((&SCHEMA, body)) => {
            // Strings are read where they are: whoever reads a copy of them allocates for each field's name.
            let mut reader = rmp_serde::Deserializer::from_read_ref(body);
            // What it says may quote what is stored.
            let malformed = |error: Error| CorruptRecord::Malformed(printable(&error.to_string()));
            let record = T::deserialize(&mut reader).map_err(malformed)?;
            // Only where there is nothing left, there is no first byte of anything.
            match bool::deserialize(&mut reader) {
                Err(Error::InvalidMarkerRead(_)) => Ok(record),
                _ => Err(CorruptRecord::Malformed("there is more behind it".to_owned())),
            }
        }
        Some((&found, _)) => Err(CorruptRecord::Schema { found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_stays_within_the_line_that_says_that_it_cannot_be_read() {
        #[derive(Debug, Deserialize)]
        enum Word {
            Known,
        }
        assert!(matches!(decode(b"\x01\xa5Known"), Ok(Word::Known)));
        let said = decode::<Word>(b"\x01\xa5x\n\x1bab").unwrap_err().to_string();
        assert!(said.contains("x\\n\\u{1b}ab"), "{said}");
    }
}
