//! What fuzzing drives here, and what the crates above need for it.
//!
//! The functions are called by `tests/fuzz/`, and by a test with every file that fuzzing left in `tests/fuzz/corpus/`.
#![allow(missing_docs)] // it is hidden

use std::fmt::Debug;

use crate::{
    Limits, Read, ReadResult, StoreError, Transaction,
    core::{
        ids::{ClusterName, ElectionName, MAX_NAME, NodeName, RegistryName},
        keys::{ClusterKeys, ElectionKeys, RegistryKeys},
        mvcc::Mvcc,
        record::Record,
    },
};

/// How often a core is stepped.
pub const STEPS: usize = 64;

pub fn node(name: &str) -> NodeName {
    NodeName::new(name).expect("a letter is a name")
}

pub fn cluster() -> ClusterName {
    ClusterName::new("c").expect("a letter is a name")
}

pub fn registry() -> RegistryKeys {
    ClusterKeys::new(&cluster()).registry(&RegistryName::new("r").expect("a letter is a name"))
}

pub fn election() -> ElectionKeys {
    ClusterKeys::new(&cluster()).election(&ElectionName::new("e").expect("a letter is a name"))
}

/// What is read is written so that it is read as the same.
pub fn reads_back<R: Record + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(record) = R::from_value(bytes) {
        assert_eq!(R::from_value(&record.to_value()).as_ref(), Ok(&record));
    }
}

/// Bytes in pieces: a byte that says what, two bytes of length, the value. At most 32.
pub fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let next = move || {
        let (&number, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (value, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
        bytes = rest;
        Some((number, value))
    };
    std::iter::from_fn(next).take(32)
}

/// A store that holds this.
pub fn holding(all: &Transaction) -> Mvcc {
    let mut store = Mvcc::new(Limits::FOUNDATIONDB, 1000);
    store.apply(all);
    store
}

pub fn read(store: &Mvcc, reads: &[Read]) -> Result<ReadResult, StoreError> {
    store.read(reads, None).map_err(|_| StoreError::Unavailable("not kept".to_owned()))
}

/// Names, keys, and the URL of a store, which is not opened.
pub fn names(text: &str) {
    if let Ok(name) = NodeName::new(text) {
        assert!(name.as_str() == text && (1..=MAX_NAME).contains(&text.len()));
        let keys = registry();
        assert_eq!(keys.member_node(&keys.member(&name)), Some(name.clone()));
        assert_eq!(keys.cluster().session_node(&keys.cluster().session(&name)), Some(name));
    }
    crate::driver::open::parse(text);
}

/// A key that may be anything.
pub fn any_key(key: &[u8]) {
    let (registry, election) = (registry(), election());
    let _ = registry.member_node(key);
    let _ = registry.log_position(key);
    let _ = registry.cluster().session_node(key);
    let _ = election.candidate_id(key);
}

#[cfg(test)]
mod tests {
    use callsign_golden::corpus;

    #[test]
    fn nothing_in_the_corpus_of_command_lines_panics() {
        corpus("text", |bytes| String::from_utf8_lossy(bytes).lines().for_each(super::names));
    }
}
