//! Where a node's admin endpoint is, as people type it: `127.0.0.1:7080`, or a URL.

use std::{fmt, net::Ipv4Addr, str::FromStr};

use ureq::http::Uri;

/// Where the first node of a machine answers, unless it was told to do so elsewhere. The next one takes the next port.
pub(crate) const FIRST_PORT: u16 = 7077;

/// The URL of an admin endpoint, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeUrl(String);

/// The first node of this machine.
impl Default for NodeUrl {
    fn default() -> Self {
        Self(format!("http://{}:{FIRST_PORT}", Ipv4Addr::LOCALHOST))
    }
}

impl FromStr for NodeUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("{why}; say HOST:PORT, as in 127.0.0.1:7080"));
        if text.is_empty() {
            return wrong("it is empty");
        }
        let is_url = text.contains("://");
        let url = if is_url { text.to_owned() } else { format!("http://{text}") };
        let Ok(uri) = url.parse::<Uri>() else { return wrong("it is no address") };
        if uri.scheme_str() != Some("http") {
            return wrong("a node answers http:// only");
        }
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if uri.query().is_some() || authority.contains('@') {
            return wrong("the address of a node has no user and no query");
        }
        let port = uri.port_u16();
        // A port that is no number, or too great a one, is none.
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        if uri.host().is_none_or(str::is_empty) || port == Some(0) || (has_port && port.is_none()) {
            return wrong("it is no address");
        }
        if !is_url && port.is_none() {
            return wrong("it has no port");
        }
        if !is_url && uri.path() != "/" {
            return wrong("it has a path, which only a URL may have");
        }
        Ok(Self(url.trim_end_matches('/').to_owned()))
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_enough() {
        for (typed, meant) in [
            ("127.0.0.1:7080", "http://127.0.0.1:7080"),
            ("localhost:7080", "http://localhost:7080"),
            ("[::1]:7080", "http://[::1]:7080"),
            ("http://127.0.0.1:7080", "http://127.0.0.1:7080"),
            ("http://127.0.0.1:7080/", "http://127.0.0.1:7080"),
            ("http://node-a.example", "http://node-a.example"),
            ("http://[::1]", "http://[::1]"),
            ("http://proxy:80/nodes/a/", "http://proxy:80/nodes/a"),
        ] {
            assert_eq!(typed.parse(), Ok(NodeUrl(meant.to_owned())), "{typed}");
        }
    }

    #[test]
    fn what_can_be_no_address_is_refused_before_anybody_is_asked() {
        for wrong in [
            "",
            " ",
            "7080",
            ":7080",
            "localhost",
            "127.0.0.1:0",
            "127.0.0.1:99999",
            "127.0.0.1:http",
            "127.0.0.1:",
            "a b:80",
            "127.0.0.1:7080/status",
            "http://",
            "http://:80",
            "https://127.0.0.1:7080",
            "ftp://127.0.0.1:7080",
            "sqlite:/var/lib/callsign.db",
            "http://user@127.0.0.1:80",
            "http://127.0.0.1:80?x=1",
            "http://127.0.0.1:0",
            "http://127.0.0.1:99999",
            "http://127.0.0.1:",
            "[::1]",
        ] {
            assert!(wrong.parse::<NodeUrl>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said_with_an_example() {
        for (wrong, why) in [
            ("", "it is empty"),
            ("http://127.0.0.1:99999", "it is no address"),
            ("localhost", "it has no port"),
            ("127.0.0.1:7080/status", "it has a path, which only a URL may have"),
            ("https://127.0.0.1:7080", "a node answers http:// only"),
            ("http://user@127.0.0.1:80", "the address of a node has no user and no query"),
            ("http://127.0.0.1:80?x=1", "the address of a node has no user and no query"),
        ] {
            let expected = format!("{why}; say HOST:PORT, as in 127.0.0.1:7080");
            assert_eq!(wrong.parse::<NodeUrl>(), Err(expected), "{wrong:?}");
        }
    }
}
