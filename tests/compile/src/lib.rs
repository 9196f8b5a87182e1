//! What the compiler says to whoever forgot a piece of a message. Each file of `cases/` has one mistake, and the file beside it what is said.
//!
//! After a change of the compiler, or of a text, `TRYBUILD=overwrite cargo test --package callsign-compile` writes the texts anew. Read them then: each has
//! to name the mistake in its first lines.

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests {
    #[test]
    fn whoever_forgets_a_piece_of_a_message_is_told_which() {
        let cases = trybuild::TestCases::new();
        cases.compile_fail("cases/*.rs");
    }
}
