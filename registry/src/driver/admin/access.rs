//! A request is let in or refused here, and its body is read.
//!
//! Without a token all programs of the machine are let in, and nobody else: whoever asks has to be at a loopback address, and not be passed on by
//! a proxy. Web pages in a browser there reach loopback addresses, too: they name themselves (`Origin`, `Sec-Fetch-Site`), or come by a
//! name that somebody made resolve to one (`Host`). With a token only who presents it is let in, from wherever, by whatever name.
//!
//! The node's own page may read, and do nothing else. Its files say nothing of the node, so that they are served without the token, also
//! to a browser that follows a link from another page. Nor do probes need it, if they do not ask to wait.

use std::{net::SocketAddr, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::{ConnectInfo, Request, State},
    http::{Extensions, HeaderMap, Method, header},
    middleware::Next,
    response::Response,
};

use super::{AdminToken, HttpRefusal, page, routes};

/// The most bytes of a body.
const MAX_BODY: usize = 64 << 10;

/// How long a body may take to arrive.
const BODY: Duration = Duration::from_secs(10);

/// What a proxy says of whom it asks for. It is at a loopback address itself, perhaps.
const PASSED_ON: [&str; 5] = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/// The rule by which a request is let in.
#[derive(Clone, Debug)]
pub(super) enum Access {
    /// All programs of this machine.
    Machine,
    /// Requests that show it.
    Token(AdminToken),
    /// Everyone who comes so far: the application has looked already.
    Everyone,
}

/// Lets a request in, or not, and reads its body.
pub(super) async fn guard(
    State(access): State<Access>,
    request: Request,
    next: Next,
) -> Result<Response, HttpRefusal> {
    let (method, path, headers) = (request.method(), request.uri().path(), request.headers());
    let is_of_page = page::is_file(path);
    is_of_no_other_page(method, is_of_page, headers)?;
    let is_open = is_of_page || routes::is_probe(path, request.uri().query());
    access.admit(is_open, headers, request.extensions())?;
    let (parts, body) = request.into_parts();
    let read = tokio::time::timeout(BODY, to_bytes(body, MAX_BODY)).await;
    let body = match read {
        Ok(Ok(body)) => body,
        // Too long, or cut off; whoever was cut off does not hear it.
        Ok(Err(_)) => return Err(HttpRefusal::too_large(MAX_BODY)),
        Err(_) => return Err(HttpRefusal::too_slow(BODY)),
    };
    Ok(next.run(Request::from_parts(parts, Body::from(body))).await)
}

/// Comes first, so that a page of others learns nothing, not even whether a token is right.
fn is_of_no_other_page(method: &Method, is_of_page: bool, headers: &HeaderMap) -> Result<(), HttpRefusal> {
    let says = |name, text| headers.get(name).is_some_and(|value| value == text);
    let is_followed = is_of_page && says("sec-fetch-dest", "document");
    let is_own = *method == Method::GET && says("sec-fetch-site", "same-origin");
    let from_a_page = headers.get("sec-fetch-site").is_some_and(|site| site != "none");
    if (from_a_page && !is_own && !is_followed) || headers.contains_key(header::ORIGIN) {
        return Err(HttpRefusal::forbidden("not to be asked from a web page"));
    }
    Ok(())
}

impl Access {
    /// `is_open`: whether it needs no token.
    fn admit(&self, is_open: bool, headers: &HeaderMap, of: &Extensions) -> Result<(), HttpRefusal> {
        match self {
            Self::Everyone => Ok(()),
            Self::Token(token) => {
                let presented = headers.get(header::AUTHORIZATION);
                let is_right = presented.is_some_and(|presented| token.is_presented(presented.as_bytes()));
                if is_open || is_right { Ok(()) } else { Err(HttpRefusal::unauthorized()) }
            }
            Self::Machine => {
                let Some(ConnectInfo(from)) = of.get::<ConnectInfo<SocketAddr>>() else {
                    return Err(HttpRefusal::forbidden(
                        "the server does not say who asks: it has to be served with \
                         into_make_service_with_connect_info::<SocketAddr>(), or needs a token",
                    ));
                };
                let is_passed_on = PASSED_ON.iter().any(|name| headers.contains_key(*name));
                if !from.ip().to_canonical().is_loopback() || is_passed_on {
                    return Err(HttpRefusal::forbidden(
                        "without a token only programs of this machine are let in",
                    ));
                }
                let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
                if is_loopback(host) {
                    Ok(())
                } else {
                    Err(HttpRefusal::forbidden("ask by the loopback address"))
                }
            }
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let (name, _port) = host.rsplit_once(':').unwrap_or((host, ""));
    host.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback())
        || name == "localhost"
        || name.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_these_names_and_no_others() {
        for host in ["127.0.0.1:80", "127.0.0.1", "127.9.9.9:1", "[::1]:80", "localhost:80", "localhost"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example:80",
            "localhost.evil.example",
            "10.0.0.1:80",
            "[::2]:80",
            "[::ffff:10.0.0.1]:80",
            "evil@localhost:80",
            "::1",
            "0.0.0.0:80",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn without_a_token_whoever_asks_is_on_this_machine_and_no_proxy() {
        let asked = |from: Option<&str>, header: Option<(&'static str, &str)>| {
            let (mut headers, mut of) = (HeaderMap::new(), Extensions::new());
            headers.insert(header::HOST, "localhost:80".parse().unwrap());
            if let Some((name, value)) = header {
                headers.insert(name, value.parse().unwrap());
            }
            if let Some(from) = from {
                of.insert(ConnectInfo(from.parse::<SocketAddr>().unwrap()));
            }
            [Access::Machine, Access::Everyone].map(|access| access.admit(false, &headers, &of).is_ok())
        };
        for here in ["127.0.0.1:5000", "127.9.9.9:5000", "[::1]:5000", "[::ffff:127.0.0.1]:5000"] {
            assert_eq!(asked(Some(here), None), [true, true], "{here}");
            for name in PASSED_ON {
                assert_eq!(asked(Some(here), Some((name, "10.0.0.1"))), [false, true], "{here}: {name}");
            }
            assert_eq!(asked(Some(here), Some(("host", "evil.example"))), [false, true]);
        }
        for elsewhere in ["10.0.0.1:5000", "[::2]:5000", "[::ffff:10.0.0.1]:5000", "0.0.0.0:5000"] {
            assert_eq!(asked(Some(elsewhere), None), [false, true], "{elsewhere}");
        }
        assert_eq!(asked(None, None), [false, true], "nobody says who asks");
    }
}
