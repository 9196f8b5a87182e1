//! An error with all that it comes from, in one line.

use std::{
    error::Error,
    fmt::{self, Write as _},
};

/// Writes an error and the errors that it comes from, as in `the node has failed: a timer panicked: boom`.
///
/// The text of an error of Callsign does not repeat what it comes from: that is its [`source`](Error::source). So print errors with this, or
/// with the `{:#}` of a report such as `anyhow::Error`. A cause whose text the errors above it give already is left out.
pub fn in_full<'a>(error: &'a (dyn Error + 'static)) -> impl fmt::Display + 'a {
    InFull(error)
}

struct InFull<'a>(&'a (dyn Error + 'static));

impl fmt::Display for InFull<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut next = self.0.source();
        while let Some(cause) = next {
            let said = cause.to_string();
            if !text.contains(&said) {
                write!(text, ": {said}")?;
            }
            next = cause.source();
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Nested {
        #[error("the inner one")]
        Inner,
        #[error("the outer one")]
        Outer(#[source] Box<Self>),
        #[error("'{0}' said twice")]
        Repeats(#[source] Box<Self>),
    }

    #[test]
    fn every_cause_is_said_and_none_twice() {
        let outer = |inner| Nested::Outer(Box::new(inner));
        assert_eq!(in_full(&Nested::Inner).to_string(), "the inner one");
        assert_eq!(in_full(&outer(Nested::Inner)).to_string(), "the outer one: the inner one");
        let repeats = Nested::Repeats(Box::new(Nested::Inner));
        assert_eq!(in_full(&outer(repeats)).to_string(), "the outer one: 'the inner one' said twice");
    }
}
