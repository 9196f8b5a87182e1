//! Texts that came from elsewhere.

/// A text that somebody else wrote, safe to print and to log: control characters are escaped, so that it stays within its line.
pub fn printable(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_nothing_else_is() {
        assert_eq!(printable("a\u{1b}[2Jü\n\"\\"), "a\\u{1b}[2Jü\\n\"\\");
    }
}
