//! The page for people: `GET /`. It has no data of its own: its script asks the routes of this node, and only reads.
//!
//! Nothing of it comes from elsewhere, and a browser runs no script that this node does not serve.

use axum::{
    Router,
    http::{HeaderName, header},
    response::IntoResponse,
    routing::get,
};

/// A path, its type, and what is there.
type File = (&'static str, &'static str, &'static str);

const FILES: [File; 3] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
];

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
    FILES.iter().any(|(file, ..)| *file == path)
}

/// The routes of the page's own files.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        router.route(path, get(async move || (HEADERS, [(header::CONTENT_TYPE, kind)], text).into_response()))
    })
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn each_file_comes_with_its_type_and_with_what_a_browser_may_do() {
        for (path, kind, text) in FILES {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            let answer = routes::<()>().oneshot(request).await.unwrap();
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
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
            assert_eq!(body, text.as_bytes());
        }
        assert!(is_file("/") && is_file("/page.js") && !is_file("/status") && !is_file("/page.js/"));
    }

    #[test]
    fn the_page_needs_nothing_that_its_policy_forbids() {
        let [(.., html), (.., css), (.., js)] = FILES;
        for text in [html, css, js] {
            assert!(
                !text.replace("http://www.w3.org/2000/svg", "").contains("://"),
                "nothing comes from elsewhere"
            );
        }
        for forbidden in ["style=", "onclick=", "<style", "<script>"] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
        // What nodes say is text, and the page only reads.
        for forbidden in ["innerHTML", "outerHTML", "insertAdjacent", "eval(", "method:", ".style"] {
            assert!(!js.contains(forbidden), "{forbidden}");
        }
    }
}
