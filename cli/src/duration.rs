//! Durations on the command line: `10s`, `250ms`, `2m`.

use std::time::Duration;

/// Reads a whole number with a unit: `ms`, `s` or `m`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return Err("a duration is a whole number with a unit: 250ms, 10s, 2m".into()),
    };
    let number: u64 = number.parse().map_err(|_| "a duration begins with a whole number".to_owned())?;
    number.checked_mul(scale).map(Duration::from_millis).ok_or_else(|| "that is too long".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        assert_eq!(parse("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "10", "s", "-1s", "1.5s", "10h", "99999999999999999999s", "18446744073709551615m"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
