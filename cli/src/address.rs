//! Where others reach something, as people type it: `HOST:PORT`.

use std::num::NonZeroU16;

/// Takes an address as it is. The host may be a name, which nobody looks up here; the port is a number from 1.
pub(crate) fn parse(text: &str) -> Result<String, String> {
    let is_port = |port: &str| port.parse::<NonZeroU16>().is_ok();
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && is_port(port) => Ok(text.to_owned()),
        _ => Err("it is not of the form HOST:PORT".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for right in ["db:5432", "127.0.0.1:80", "[::1]:80", "pod-1.callsign:7000"] {
            assert_eq!(parse(right).as_deref(), Ok(right));
        }
        for wrong in ["", "db", ":80", "db:", "db:http", "db:65536", "db:0"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
