//! What a node knows, as JSON.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Entry, InForce};

/// A number that may be greater than 2^53, as JSON can carry it: parsers that make a `double` of every number round it.
pub fn exact(number: u64) -> String {
    format!("{number:016x}")
}

/// What holds for the elections of a registry.
pub fn settings(in_force: &InForce) -> Value {
    let InForce { lock_timeout, silence, policy, set, .. } = in_force;
    let is_set = [
        ("lock_timeout_ms", set.lock_timeout.is_some()),
        ("silence_ms", set.silence.is_some()),
        ("policy", set.policy.is_some()),
    ];
    let names: Vec<_> = is_set.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
    json!({
        "lock_timeout_ms": whole_millis(*lock_timeout),
        "silence_ms": whole_millis(*silence),
        "policy": policy,
        "set": names,
    })
}

/// A time as JSON carries it.
pub fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Who holds a name.
pub fn holder(entry: &Entry) -> Value {
    let mut value = json!(entry);
    value["incarnation"] = exact(entry.incarnation().0).into();
    value["kind"] = exact(entry.kind().0).into();
    // As JSON, if it can be that. Whatever else it is, is of no use to who reads JSON.
    value["meta"] = entry.raw_meta().and_then(|meta| as_json(meta.as_bytes())).unwrap_or(Value::Null);
    value
}

/// Metadata is deeper than this only to do harm: it takes a reader's stack, and many parsers of JSON refuse it with all that is around it.
const DEEPEST: usize = 64;

fn as_json(meta: &[u8]) -> Option<Value> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(meta);
    reader.set_max_depth(DEEPEST);
    Value::deserialize(&mut reader).ok()
}

/// An entry with its name.
pub fn with_name(name: &str, entry: &Entry) -> Value {
    let mut value = holder(entry);
    value["name"] = name.into();
    value
}
