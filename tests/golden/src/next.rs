//! What the next version may write.

use rmpv::Value;

/// Of a value in `MessagePack`, with structs as maps: one copy for each struct in it, with a field more that nobody knows.
///
/// # Panics
/// If it is no `MessagePack`.
pub fn with_unknown_fields(bytes: &[u8]) -> Vec<Vec<u8>> {
    let value = rmpv::decode::read_value(&mut &*bytes).unwrap();
    (0..structs(&value))
        .map(|nth| {
            let mut value = value.clone();
            add(&mut value, &mut { nth });
            let mut out = Vec::new();
            rmpv::encode::write_value(&mut out, &value).unwrap();
            out
        })
        .collect()
}

/// A map from a variant's name to what it carries is no struct of ours, nor is a `Duration`, which never has more fields.
fn is_struct(map: &[(Value, Value)]) -> bool {
    let other = |key: &str| key.starts_with(char::is_uppercase) || key == "nanos";
    !map.iter().any(|(key, _)| key.as_str().is_some_and(other))
}

fn structs(value: &Value) -> usize {
    match value {
        Value::Map(map) => {
            usize::from(is_struct(map)) + map.iter().map(|(_, value)| structs(value)).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(structs).sum(),
        _ => 0,
    }
}

fn add(value: &mut Value, nth: &mut usize) -> bool {
    match value {
        Value::Map(map) => {
            if is_struct(map) {
                if *nth == 0 {
                    let new = Value::Map(vec![("of".into(), "the future".into())]);
                    map.insert(0, ("zz_new".into(), new));
                    return true;
                }
                *nth -= 1;
            }
            map.iter_mut().any(|(_, value)| add(value, nth))
        }
        Value::Array(items) => items.iter_mut().any(|item| add(item, nth)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_struct_gets_its_field_and_variants_get_none() {
        // {"a": {"Join": {"b": [{}]}}}
        let bytes = b"\x81\xa1a\x81\xa4Join\x81\xa1b\x91\x80";
        let next: Vec<String> = with_unknown_fields(bytes)
            .iter()
            .map(|bytes| rmpv::decode::read_value(&mut &**bytes).unwrap().to_string())
            .collect();
        let new = r#""zz_new": {"of": "the future"}"#;
        assert_eq!(
            next,
            [
                format!(r#"{{{new}, "a": {{"Join": {{"b": [{{}}]}}}}}}"#),
                format!(r#"{{"a": {{"Join": {{{new}, "b": [{{}}]}}}}}}"#),
                format!(r#"{{"a": {{"Join": {{"b": [{{{new}}}]}}}}}}"#),
            ]
        );
    }
}
