//! Durations on the command line: `10s`, `250ms`, `2m`, `1m 30s`.

use std::time::Duration;

/// Reads whole numbers with units, as the crate `humantime` does. What comes of it is a whole number of milliseconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let read = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; a duration is a whole number with a unit: 250ms, 10s, 2m"))?;
    let whole = u64::try_from(read.as_millis()).map(Duration::from_millis);
    let whole = whole.map_err(|_| "that is too long".to_owned())?;
    if whole == read { Ok(whole) } else { Err("nothing shorter than a millisecond counts".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_numbers_and_units() {
        assert_eq!(parse("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("10h"), Ok(Duration::from_secs(36_000)));
        for wrong in [
            "",
            "10",
            "s",
            "-1s",
            "10 parsecs",
            "1us",
            "1s1ns",
            "18446744073709551615s",
            "99999999999999999999s",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let error = parse("soon").unwrap_err();
        assert!(error.ends_with("a duration is a whole number with a unit: 250ms, 10s, 2m"), "{error}");
    }
}
