//! The page for people: `GET /`. It has no data of its own: its script asks the routes of this node, and only reads.
//!
//! Nothing of it comes from elsewhere, and a browser runs no script that this node does not serve. Its links are relative, so that it is at home below
//! any path.

use axum::{
    Router,
    extract::OriginalUri,
    http::{HeaderName, header},
    response::{IntoResponse, Response},
    routing::get,
};

/// A path, its type, and what is there.
type File = (&'static str, &'static str, &'static str);

const HTML: &str = include_str!("page/index.html");

/// What the page itself needs.
const FILES: [File; 3] = [
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/rates.js", "text/javascript; charset=utf-8", include_str!("page/rates.js")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
];

/// Where the links of the page begin, as it is written.
const BASE: &str = "{base}";

/// What a browser may do with the page.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    // After an upgrade the new script is run.
    (header::CACHE_CONTROL, "no-cache"),
];

/// Whether a path is one of the page's own files, which say nothing of the node.
pub(super) fn is_file(path: &str) -> bool {
    path == "/" || FILES.iter().any(|(file, ..)| *file == path)
}

/// The routes of the page's own files.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let page = async |OriginalUri(uri): OriginalUri| {
        file("text/html; charset=utf-8", HTML.replace(BASE, &base(uri.path())))
    };
    FILES.into_iter().fold(Router::new().route("/", get(page)), |router, (path, kind, text)| {
        router.route(path, get(async move || file(kind, text)))
    })
}

fn file(kind: &'static str, text: impl IntoResponse) -> Response {
    (HEADERS, [(header::CONTENT_TYPE, kind)], text).into_response()
}

/// From the page to its files. A browser takes links to be beside the last part of the path: behind `/callsign` they begin with that, and behind a
/// slash with nothing.
fn base(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or_default();
    if last.is_empty() {
        return String::new();
    }
    // What was asked for is text here, too.
    let text = last.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;");
    format!("./{text}/")
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt;

    use super::*;

    async fn asked(routes: Router, uri: &str) -> (Response, String) {
        let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
        let (head, body) = routes.oneshot(request).await.unwrap().into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        (Response::from_parts(head, Body::empty()), String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn each_file_comes_with_its_type_and_with_what_a_browser_may_do() {
        let html = HTML.replace(BASE, "");
        for (path, kind, text) in FILES.into_iter().chain([("/", "text/html; charset=utf-8", &*html)]) {
            let (answer, body) = asked(routes(), path).await;
            let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
            assert_eq!(header("content-type"), kind);
            let policy = header("content-security-policy");
            assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
            assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
            assert_eq!(
                (&*header("x-content-type-options"), &*header("referrer-policy")),
                ("nosniff", "no-referrer")
            );
            assert_eq!(header("cache-control"), "no-cache");
            assert_eq!(body, text);
        }
        assert!(is_file("/") && is_file("/page.js") && !is_file("/status") && !is_file("/page.js/"));
    }

    #[tokio::test]
    async fn below_a_path_the_page_finds_its_files() {
        let nested = |at: &str| Router::new().nest(at, routes());
        for (router, at, file) in [
            (nested("/callsign"), "/callsign", "\"./callsign/page.js\""),
            (nested("/ops/callsign"), "/ops/callsign?x=/y", "\"./callsign/page.js\""),
            (nested("/callsign/"), "/callsign/", "\"page.js\""),
            (Router::new().nest_service("/callsign", routes::<()>()), "/callsign/", "\"page.js\""),
            (nested("/{of}"), "/%22%3E", "\"./%22%3E/page.js\""),
            (nested("/{of}"), "/a\"b", "\"./a&quot;b/page.js\""),
        ] {
            let (_, html) = asked(router.clone(), at).await;
            assert!(html.contains(file) && !html.contains(BASE), "{at}: {html}");
        }
        let (answer, _) = asked(nested("/callsign"), "/callsign/page.js").await;
        assert_eq!(answer.status(), 200);
    }

    #[test]
    fn the_page_needs_nothing_that_its_policy_forbids() {
        let [(.., css), (.., rates), (.., js)] = FILES;
        for text in [HTML, css, rates, js] {
            assert!(
                !text.replace("http://www.w3.org/2000/svg", "").contains("://"),
                "nothing comes from elsewhere"
            );
            assert!(!text.contains("=\"/"), "every link is relative");
        }
        for forbidden in ["style=", "onclick=", "<style", "<script>"] {
            assert!(!HTML.contains(forbidden), "{forbidden}");
        }
        // What nodes say is text, and the page only reads.
        for forbidden in ["innerHTML", "outerHTML", "insertAdjacent", "eval(", "method:", ".style"] {
            assert!(!js.contains(forbidden) && !rates.contains(forbidden), "{forbidden}");
        }
    }
}
