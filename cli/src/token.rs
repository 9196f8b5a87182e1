//! The file with the token of an admin endpoint: who has it may do everything.

use std::path::Path;

use anyhow::{Context, Result};
use callsign::admin::AdminToken;

/// Reads a file that holds 16 to 1024 visible ASCII characters, and a newline perhaps.
pub(crate) fn read(path: &Path) -> Result<AdminToken> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    AdminToken::new(text.trim_ascii_end()).with_context(|| format!("{} holds no token", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_a_token_and_a_newline_perhaps() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        for (text, is_token) in [
            ("0123456789abcdef\n", true),
            ("0123456789abcdef", true),
            ("", false),
            ("\n", false),
            ("0123456789abcdef\n0123456789abcdef", false),
        ] {
            std::fs::write(&file, text).unwrap();
            let read = read(&file);
            assert_eq!(read.is_ok(), is_token, "{text:?}: {read:?}");
            if let Ok(token) = read {
                assert_eq!(token.authorization(), "Bearer 0123456789abcdef");
            }
        }
        assert!(read(&directory.path().join("none")).is_err());
    }
}
