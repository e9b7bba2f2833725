//! The files of the page, as they stand in the binary.

use axum::body::Body;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

/// Scripts, styles, pictures and documents from here alone; no markup in a script's hands, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'";
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// A file.
pub(super) struct Asset {
    /// Where it is served, below the server's prefix.
    pub(super) path: &'static str,
    kind: &'static str,
    content: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! asset {
    ($path:literal, $file:literal, $kind:expr) => {
        Asset { path: $path, kind: $kind, content: include_str!(concat!("assets/", $file)) }
    };
}

/// The page itself.
pub(super) const PAGE: Asset = asset!("/", "page.html", HTML);

/// What the page consists of.
pub(super) static PARTS: [Asset; 10] = [
    asset!("/page/page.css", "page.css", "text/css; charset=utf-8"),
    asset!("/page/icon.svg", "icon.svg", "image/svg+xml"),
    asset!("/page/main.js", "main.js", SCRIPT),
    asset!("/page/feed.js", "feed.js", SCRIPT),
    asset!("/page/view.js", "view.js", SCRIPT),
    asset!("/page/dom.js", "dom.js", SCRIPT),
    asset!("/page/list.js", "list.js", SCRIPT),
    asset!("/page/detail.js", "detail.js", SCRIPT),
    asset!("/page/server.js", "server.js", SCRIPT),
    asset!("/page/recent.js", "recent.js", SCRIPT),
];

impl Asset {
    /// The file, or that the browser has it. It is asked again at each visit, so that page and server fit each other.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response<Body> {
        let tag = self.tag();
        let held = headers.get(IF_NONE_MATCH).is_some_and(|held| held == tag);
        let content = if held { Bytes::new() } else { Bytes::from_static(self.content.as_bytes()) };
        let mut answer = Response::new(Body::from(content));
        if held {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = answer.headers_mut();
        headers.insert(ETAG, tag);
        for (name, value) in [
            (CONTENT_TYPE, self.kind),
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (RESOURCE_POLICY, "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        answer
    }

    fn tag(&self) -> HeaderValue {
        let tag = format!("\"{:016x}\"", fingerprint(self.content.as_bytes()));
        HeaderValue::from_str(&tag).expect("invariant: hexadecimal digits are a header")
    }
}

/// FNV-1a: tells two builds' files apart, and nobody who could choose them is asked.
fn fingerprint(content: &[u8]) -> u64 {
    content.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
