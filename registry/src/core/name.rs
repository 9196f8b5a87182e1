//! Names of actors.

use serde::{Deserialize, Serialize};

/// A registered name: 1 to [`MAX_NAME_BYTES`] bytes of UTF-8 that do not begin with a NUL character, compared byte by byte.
pub type Name = arcstr::ArcStr;

/// The longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 512;

/// How the names begin that nobody can register: those of the rows of [groups](crate::core::group).
pub(crate) const RESERVED: char = '\0';

/// Why a name was refused. Nothing was sent or changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// The name has no characters.
    #[error("a name must not be empty")]
    Empty,
    /// The name has more than [`MAX_NAME_BYTES`] bytes.
    #[error("a name of {length} bytes is too long, {MAX_NAME_BYTES} is the most")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The name begins with a NUL character. Such names are those of members of groups.
    #[error("a name must not begin with a NUL character")]
    Reserved,
}

/// Checks whether an actor can be registered under a name, without asking anybody.
///
/// # Errors
/// The rule that the name breaks.
pub fn check_name(name: &str) -> Result<(), BadName> {
    match name.len() {
        0 => Err(BadName::Empty),
        _ if name.starts_with(RESERVED) => Err(BadName::Reserved),
        length if length > MAX_NAME_BYTES => Err(BadName::TooLong { length }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_from_one_to_512_bytes_and_does_not_begin_with_a_nul() {
        assert_eq!(check_name(""), Err(BadName::Empty));
        for name in ["x".to_owned(), "x\0".to_owned(), "x".repeat(512), "ö".repeat(256)] {
            assert_eq!(check_name(&name), Ok(()));
        }
        assert_eq!(check_name(&"x".repeat(513)), Err(BadName::TooLong { length: 513 }));
        assert_eq!(check_name(&format!("\0{}", "x".repeat(600))), Err(BadName::Reserved));
    }
}
