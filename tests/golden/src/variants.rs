//! Which variants an enum has.

use serde::Deserialize;

/// The names of an enum's variants, as they are written.
///
/// # Panics
/// If `T` is no enum whose `Deserialize` is derived.
pub fn variants<'de, T: Deserialize<'de>>() -> Vec<String> {
    // Derived code that is shown a name that it does not know lists those that it does.
    let asked = serde::de::value::StrDeserializer::<serde::de::value::Error>::new("?");
    let Err(error) = T::deserialize(asked) else { panic!("an enum with a variant `?`") };
    let text = error.to_string();
    let (_, known) = text.split_once("expected ").unwrap_or_else(|| panic!("no enum: {text}"));
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    #[allow(dead_code)]
    enum Many {
        One,
        Two(u8),
        Three { field: u8 },
    }

    #[derive(Deserialize)]
    enum Few {
        Only,
    }

    #[test]
    fn all_are_listed() {
        assert_eq!(variants::<Many>(), ["One", "Two", "Three"]);
        assert_eq!(variants::<Few>(), ["Only"]);
        let _ = Few::Only;
    }
}
