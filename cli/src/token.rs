//! The token of an admin endpoint: who has it may do everything.

use std::{fmt, path::Path};

use anyhow::{Context, Result, bail};
use subtle::ConstantTimeEq;

/// The least and the most bytes of a token.
const LENGTH: std::ops::RangeInclusive<usize> = 16..=1024;

/// A token. Never printed.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// Reads a file that holds 16 to 1024 visible ASCII characters, and a newline perhaps.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::new(text.trim_ascii_end()).with_context(|| format!("{} holds no token", path.display()))
    }

    pub(crate) fn new(text: &str) -> Result<Self> {
        if !LENGTH.contains(&text.len()) {
            bail!("a token has {} to {} characters, not {}", LENGTH.start(), LENGTH.end(), text.len());
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            bail!("a token has visible ASCII characters only, and no spaces");
        }
        Ok(Self(text.to_owned()))
    }

    /// What to send as `Authorization`.
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether that is this token as `Authorization`. Takes as long for every wrong one of the same length.
    pub(crate) fn is_presented(&self, authorization: &[u8]) -> bool {
        let Some((scheme, token)) = authorization.split_at_checked("Bearer ".len()) else { return false };
        scheme.eq_ignore_ascii_case(b"Bearer ") && token.trim_ascii().ct_eq(self.0.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_token_passes() {
        let token = Token::new("0123456789abcdef").unwrap();
        for right in ["Bearer 0123456789abcdef", "bearer 0123456789abcdef", "Bearer  0123456789abcdef "] {
            assert!(token.is_presented(right.as_bytes()), "{right}");
        }
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
            "Bearer 0123456789abcdeF",
            "Bearer\u{a0}0123456789abcdef",
        ] {
            assert!(!token.is_presented(wrong.as_bytes()), "{wrong}");
        }
        assert!(token.is_presented(token.header().as_bytes()));
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn what_cannot_protect_or_travel_is_no_token() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Token::read(&file)
        };
        assert!(read("0123456789abcdef\n").unwrap().is_presented(b"Bearer 0123456789abcdef"));
        for wrong in
            ["", "\n", "fifteen-letters", "with a space in it, and more", "\u{fc}".repeat(20).as_str()]
        {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        assert!(read(&"x".repeat(1025)).is_err());
        assert!(Token::read(&directory.path().join("none")).is_err());
    }
}
