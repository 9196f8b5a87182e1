//! Which names and numbers are taken.

use crate::core::ids::{InvalidName, MAX_COUNT, MAX_NAME, NodeName, Position, next_count};

#[test]
fn a_name_is_taken_up_to_its_longest_and_only_of_characters_that_keys_and_files_bear() {
    for name in ["a", "Az09._-", &"n".repeat(MAX_NAME)] {
        assert_eq!(NodeName::new(name).map(String::from).as_deref(), Ok(name));
    }
    assert_eq!(NodeName::new(""), Err(InvalidName::Empty));
    let length = MAX_NAME + 1;
    assert_eq!(NodeName::new("n".repeat(length)), Err(InvalidName::TooLong { length }));
    for name in ["a/b", "a b", "a:b", "\u{e4}", "a\n"] {
        assert_eq!(NodeName::new(name), Err(InvalidName::BadCharacter { name: name.to_owned() }));
    }
}

#[test]
fn nothing_is_counted_beyond_the_greatest_number_and_none_beyond_it_is_read() {
    assert_eq!(next_count(0), Some(1));
    assert_eq!(next_count(MAX_COUNT - 1), Some(MAX_COUNT));
    assert_eq!(next_count(MAX_COUNT), None);
    let read = |number: u64| rmp_serde::from_slice::<Position>(&rmp_serde::to_vec(&number).unwrap());
    assert_eq!(read(MAX_COUNT).unwrap(), Position(MAX_COUNT));
    assert!(read(MAX_COUNT + 1).is_err(), "it is damage");
}
