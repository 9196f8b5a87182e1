//! What is known of an enum's variant that this version does not have: its name.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};

/// The name of a variant, of whatever enum, whatever it carries. Read in place of an enum that cannot be read, it tells
/// what a newer version says from garbage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariantName(String);

impl VariantName {
    /// The name, unless `T` has such a variant. A `T` that has it, and cannot be read, is damaged and not new.
    pub fn unknown_to<'de, T: Deserialize<'de>>(self) -> Option<String> {
        // Serde's derived code looks at the name first. It is asked with no value behind it.
        let asked = serde::de::value::StringDeserializer::<Probe>::new(self.0.clone());
        match T::deserialize(asked) {
            Err(Probe::UnknownVariant) => Some(self.0),
            _ => None,
        }
    }
}

/// What an enum says when it is shown a name only.
#[derive(Debug)]
enum Probe {
    UnknownVariant,
    Other,
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownVariant => "an unknown variant",
            Self::Other => "something else",
        })
    }
}

impl std::error::Error for Probe {}

impl Error for Probe {
    fn custom<M: fmt::Display>(_: M) -> Self {
        Self::Other
    }

    fn unknown_variant(_: &str, _: &'static [&'static str]) -> Self {
        Self::UnknownVariant
    }
}

impl<'de> Deserialize<'de> for VariantName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = VariantName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a variant: its name, or a map from it to what it carries")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<VariantName, E> {
        Ok(VariantName(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<VariantName, A::Error> {
        let name = map.next_key()?.ok_or_else(|| A::Error::custom("a variant without a name"))?;
        map.next_value::<IgnoredAny>()?;
        if map.next_key::<IgnoredAny>()?.is_some() {
            return Err(A::Error::custom("more than one name"));
        }
        Ok(VariantName(name))
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[derive(Serialize, Deserialize)]
    enum Now {
        Unit,
        Many { count: u64 },
    }

    #[derive(Serialize)]
    enum Newer {
        Unit,
        Many { count: String },
        NewUnit,
        NewMany { count: u64, what: Vec<Option<String>> },
    }

    fn unknown(next: &Newer) -> Option<String> {
        let bytes = rmp_serde::to_vec(next).unwrap();
        rmp_serde::from_slice::<VariantName>(&bytes).unwrap().unknown_to::<Now>()
    }

    #[test]
    fn what_is_new_is_named_and_what_is_damaged_is_not_new() {
        assert_eq!(unknown(&Newer::NewUnit).as_deref(), Some("NewUnit"));
        let new = Newer::NewMany { count: 1, what: vec![None, Some("x".into())] };
        assert_eq!(unknown(&new).as_deref(), Some("NewMany"));
        assert_eq!(unknown(&Newer::Unit), None);
        assert_eq!(unknown(&Newer::Many { count: "none".into() }), None);
        for garbage in [&b"\x93\x01\x02\x03"[..], b"\x80", b"\xc1", b"", b"\x82\xa1a\x01\xa1b\x02"] {
            assert!(rmp_serde::from_slice::<VariantName>(garbage).is_err(), "{garbage:?}");
        }
    }
}
