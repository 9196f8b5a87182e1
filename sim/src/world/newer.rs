//! A newer version beside this one: what it writes has a field more, and what it reads it knows.
//!
//! `docs/compatibility.md` lets every version add fields to records. A node that is the newer one runs these cores, too, and
//! between them and the store its records get the field, and lose it again. All others read it and do not know it.

use callsign_store::{ReadResult, Transaction, Value, Write, mvcc::Mvcc, record::SCHEMA};

/// `"zz_new": {"of": "the future"}`, as a map in `MessagePack` has it.
const FIELD: &[u8] = b"\xa6zz_new\x81\xa2of\xaathe future";

/// A map of fewer than 15 entries begins with this, and their number in the lower four bits.
const MAP: std::ops::RangeInclusive<u8> = 0x80..=0x8e;

/// What a newer version writes in place of this value. What is no record stays as it is.
fn added(value: &[u8]) -> Value {
    match value {
        [SCHEMA, map, fields @ ..] if MAP.contains(map) && !fields.starts_with(FIELD) => {
            [&[SCHEMA, map + 1], FIELD, fields].concat()
        }
        _ => value.to_vec(),
    }
}

/// What it reads, without what only it knows.
fn removed(value: &[u8]) -> Value {
    match value {
        [SCHEMA, map, fields @ ..] => match fields.strip_prefix(FIELD) {
            Some(fields) => [&[SCHEMA, map - 1], fields].concat(),
            None => value.to_vec(),
        },
        _ => value.to_vec(),
    }
}

/// A transaction of this version's cores, as the newer one commits it.
pub(super) fn written(transaction: &Transaction, store: &Mvcc) -> Transaction {
    let mut transaction = transaction.clone();
    for check in &mut transaction.checks {
        // It looks for the bytes that it read: with the field, if they had it.
        let present = store.get(&check.key);
        if let Some(expected) =
            check.expected.as_mut().filter(|expected| present != Some(expected.as_slice()))
        {
            let with_field = added(expected);
            if present == Some(with_field.as_slice()) {
                *expected = with_field;
            }
        }
    }
    for write in &mut transaction.writes {
        match write {
            Write::Put { value, .. } | Write::Append { value, .. } => *value = added(value),
            Write::Clear(_) | Write::ClearRange(_) => {}
        }
    }
    transaction
}

/// What the store answered, as this version's cores are told of it.
pub(super) fn read(mut result: ReadResult) -> ReadResult {
    for (_, value) in result.answers.iter_mut().flatten() {
        *value = removed(value);
    }
    result
}

/// Whether the bytes of a record say more than this version knows.
pub(crate) fn is_newer(value: &[u8]) -> bool {
    removed(value).len() < value.len()
}

#[cfg(test)]
mod tests {
    use callsign_elector::record::AuthorRecord;
    use callsign_store::record::Record;

    use super::*;
    use crate::{
        oracle::Check,
        run::{Templates, run},
        scenario::Scenario,
    };

    #[test]
    fn nodes_serve_beside_a_newer_version() {
        let (mut templates, mut met) = (Templates::default(), 0);
        for seed in 0..100 {
            let ran = run(Scenario::Versions, seed, &mut templates);
            assert!(ran.violation.is_none(), "seed {seed}: {:?}", ran.violation);
            met += ran.counts.get(Check::BuiltOnNewer);
        }
        assert!(met > 0, "nobody built on a record of a newer version");
    }

    #[test]
    fn a_record_gets_the_field_and_loses_it_and_is_read_with_it() {
        let record = AuthorRecord::default();
        let newer = added(&record.to_value());
        assert!(is_newer(&newer) && !is_newer(&record.to_value()));
        assert_eq!((added(&newer), removed(&newer)), (newer.clone(), record.to_value()));
        assert_eq!(AuthorRecord::from_value(&newer), Ok(record));
    }
}
