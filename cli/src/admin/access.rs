//! Who may ask, and how much of it is read.
//!
//! Without a token the endpoint listens on loopback addresses only, and all programs of the machine are let in. Web pages in
//! a browser there reach loopback addresses, too: they name themselves (`Origin`, `Sec-Fetch-Site`), or come by a
//! name that somebody made resolve to one (`Host`). With a token only who presents it is let in, by whatever name.
//!
//! The node's own page may read, and do nothing else. Its files say nothing of the node, so that they are served without the token, also
//! to a browser that follows a link from another page.

use std::{net::SocketAddr, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, header},
    middleware::Next,
    response::Response,
};

use crate::{reply::Refusal, token::Token};

/// The most bytes of a body.
const MAX_BODY: usize = 64 << 10;

/// How long a body may take to arrive.
const BODY: Duration = Duration::from_secs(10);

/// Whom to let in.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// `None`: all programs of the machine.
    pub(crate) token: Option<Token>,
}

/// Lets a request in, or not, and reads its body.
pub(crate) async fn guard(
    State(access): State<Access>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    access.admit(request.method(), request.uri().path(), request.headers())?;
    let (parts, body) = request.into_parts();
    let read = tokio::time::timeout(BODY, to_bytes(body, MAX_BODY)).await;
    let body = match read {
        Ok(Ok(body)) => body,
        // Too long, or cut off; whoever was cut off does not hear it.
        Ok(Err(_)) => return Err(Refusal::too_large(MAX_BODY)),
        Err(_) => return Err(Refusal::too_slow(BODY)),
    };
    Ok(next.run(Request::from_parts(parts, Body::from(body))).await)
}

impl Access {
    fn admit(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        let is_of_page = super::page::is_file(path);
        let says = |name, text| headers.get(name).is_some_and(|value| value == text);
        let is_followed = is_of_page && says("sec-fetch-dest", "document");
        let is_own = *method == Method::GET && says("sec-fetch-site", "same-origin");
        let from_a_page = headers.get("sec-fetch-site").is_some_and(|site| site != "none");
        // First, so that a page of others learns nothing, not even whether a token is right.
        if (from_a_page && !is_own && !is_followed) || headers.contains_key(header::ORIGIN) {
            return Err(Refusal::forbidden("not to be asked from a web page"));
        }
        if let Some(token) = &self.token {
            let presented = headers.get(header::AUTHORIZATION);
            if !is_of_page && !presented.is_some_and(|presented| token.is_presented(presented.as_bytes())) {
                return Err(Refusal::unauthorized());
            }
        } else {
            let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            if !is_loopback(host) {
                return Err(Refusal::forbidden("ask by the loopback address"));
            }
        }
        Ok(())
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
}
