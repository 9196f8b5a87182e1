//! The token of an admin endpoint: whoever has it is let in.

use std::fmt;

use subtle::ConstantTimeEq;

/// The least and the most bytes of a token.
const LENGTH: std::ops::RangeInclusive<usize> = 16..=1024;

/// A token, which whoever asks shows as `Authorization: Bearer TOKEN`. It is never printed.
#[derive(Clone)]
pub struct AdminToken(String);

/// Why a text is no token. The text is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadAdminToken {
    /// It is too short to protect anything, or too long to be one.
    #[error("a token has 16 to 1024 characters, not {length}")]
    Length {
        /// Its length in bytes.
        length: usize,
    },
    /// A header cannot carry it.
    #[error("a token has visible ASCII characters only, and no spaces")]
    Invisible,
}

impl AdminToken {
    /// Takes 16 to 1024 visible ASCII characters. They should be random.
    pub fn new(text: &str) -> Result<Self, BadAdminToken> {
        if !LENGTH.contains(&text.len()) {
            return Err(BadAdminToken::Length { length: text.len() });
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadAdminToken::Invisible);
        }
        Ok(Self(text.to_owned()))
    }

    /// What a program that asks sends as `Authorization`.
    pub fn authorization(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether that is this token as `Authorization`. It takes as long for every wrong one of the same length.
    pub(super) fn is_presented(&self, authorization: &[u8]) -> bool {
        let Some((scheme, token)) = authorization.split_at_checked("Bearer ".len()) else { return false };
        scheme.eq_ignore_ascii_case(b"Bearer ") && token.trim_ascii().ct_eq(self.0.as_bytes()).into()
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_token_passes() {
        let token = AdminToken::new("0123456789abcdef").unwrap();
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
        assert!(token.is_presented(token.authorization().as_bytes()));
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn what_cannot_protect_or_travel_is_no_token() {
        let length = |length| BadAdminToken::Length { length };
        for (wrong, why) in [
            ("", length(0)),
            ("fifteen-letters", length(15)),
            ("with a space in it, and more", BadAdminToken::Invisible),
            ("\u{fc}".repeat(20).as_str(), BadAdminToken::Invisible),
            ("0123456789abcdef\n", BadAdminToken::Invisible),
            ("x".repeat(1025).as_str(), length(1025)),
        ] {
            assert_eq!(AdminToken::new(wrong).unwrap_err(), why, "{wrong:?}");
        }
        assert!(AdminToken::new(&"x".repeat(1024)).is_ok());
    }
}
