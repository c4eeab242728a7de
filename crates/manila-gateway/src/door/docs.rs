//! `/docs`: the reference page for people, in files that need nothing from elsewhere.
//!
//! The page is the same for everybody and so is served to everybody. What it shows it fetches from
//! `/openapi.json` as the caller whose token is typed into it, and what it tries goes through `/api`
//! like any other call. A browser is told to run nothing that is not one of these files.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::guard;
use super::http::{gzip, takes_gzip};
use super::problem::Problem;
use super::tag;
use crate::app::Gateway;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What the page is, before it is known whether callers need a token.
const PAGE: &str = include_str!("docs/index.html");
const TOKEN_UNNEEDED: &str = r#"name="manila-token" content="unneeded""#;
const TOKEN_NEEDED: &str = r#"name="manila-token" content="needed""#;

/// What the page asks for by name: the name, the type, the text.
const FILES: &[(&str, &str, &str)] = &[
    ("page.css", CSS, include_str!("docs/page.css")),
    ("icon.svg", SVG, include_str!("docs/icon.svg")),
    ("answer.js", SCRIPT, include_str!("docs/answer.js")),
    ("dom.js", SCRIPT, include_str!("docs/dom.js")),
    ("events.js", SCRIPT, include_str!("docs/events.js")),
    ("example.js", SCRIPT, include_str!("docs/example.js")),
    ("fields.js", SCRIPT, include_str!("docs/fields.js")),
    ("input.js", SCRIPT, include_str!("docs/input.js")),
    ("json.js", SCRIPT, include_str!("docs/json.js")),
    ("main.js", SCRIPT, include_str!("docs/main.js")),
    ("model.js", SCRIPT, include_str!("docs/model.js")),
    ("operation.js", SCRIPT, include_str!("docs/operation.js")),
    ("overview.js", SCRIPT, include_str!("docs/overview.js")),
    ("request.js", SCRIPT, include_str!("docs/request.js")),
    ("schema.js", SCRIPT, include_str!("docs/schema.js")),
    ("search.js", SCRIPT, include_str!("docs/search.js")),
    ("session.js", SCRIPT, include_str!("docs/session.js")),
    ("side.js", SCRIPT, include_str!("docs/side.js")),
    ("stream.js", SCRIPT, include_str!("docs/stream.js")),
    ("tryit.js", SCRIPT, include_str!("docs/tryit.js")),
    ("words.js", SCRIPT, include_str!("docs/words.js")),
];

/// The last two make a browser refuse to turn text into elements, whoever wrote the script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

static OPEN: LazyLock<File> = LazyLock::new(|| File::new(HTML, PAGE.to_owned()));
static CLOSED: LazyLock<File> =
    LazyLock::new(|| File::new(HTML, PAGE.replace(TOKEN_UNNEEDED, TOKEN_NEEDED)));
static BY_NAME: LazyLock<HashMap<&str, File>> = LazyLock::new(|| {
    let files = FILES.iter();
    files.map(|(name, kind, text)| (*name, File::new(kind, (*text).to_owned()))).collect()
});

/// `/docs` and what lies below it.
pub(super) async fn serve(State(gateway): State<Gateway>, request: Request) -> Response {
    answer(&gateway, &request).unwrap_or_else(Problem::into_response)
}

/// `/`, for those who came with a browser.
pub(super) async fn root(State(gateway): State<Gateway>, request: Request) -> Response {
    let accepts = request.headers().get_all(header::ACCEPT).iter();
    let is_browser =
        accepts.filter_map(|value| value.to_str().ok()).any(|a| a.contains("text/html"));
    match guard::check_page(&gateway, &request) {
        Err(problem) => problem.into_response(),
        Ok(()) if is_browser && is_reading(request.method()) => moved("docs"),
        Ok(()) => super::nothing_here().into_response(),
    }
}

fn answer(gateway: &Gateway, request: &Request) -> Result<Response, Problem> {
    guard::check_page(gateway, request)?;
    let file = match request.uri().path().strip_prefix("/docs/") {
        None if gateway.authenticator().is_open() => &*OPEN,
        None => &*CLOSED,
        // The page names everything as seen from `/docs`, so that it may stand below a prefix.
        Some("") => return Ok(moved("../docs")),
        Some(name) => BY_NAME
            .get(name)
            .ok_or_else(|| Problem::not_found("the page has no such file; it is at /docs"))?,
    };
    if is_reading(request.method()) {
        return Ok(file.respond(request.headers()));
    }
    let allowed = HeaderValue::from_static("GET, HEAD");
    Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this address answers to GET")
        .with_header(header::ALLOW, allowed))
}

fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn moved(place: &'static str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(place));
    response
}

/// A file as it is sent: packed once, and known by what it says.
struct File {
    content_type: &'static str,
    plain: Bytes,
    packed: Option<Bytes>,
    tag: HeaderValue,
}

impl File {
    fn new(content_type: &'static str, text: String) -> Self {
        let digest = HEXLOWER.encode(&Sha256::digest(&text)[..12]);
        let tag = HeaderValue::from_maybe_shared(Bytes::from(format!("W/\"{digest}\"")));
        Self {
            content_type,
            packed: gzip(text.as_bytes()).ok().map(Bytes::from),
            plain: Bytes::from(text),
            tag: tag.expect("hexadecimal digits in quotes can stand in a header"),
        }
    }

    fn respond(&self, headers: &HeaderMap) -> Response {
        let mut response = Response::new(Body::empty());
        if tag::is_known(headers, &self.tag) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else if let Some(packed) = self.packed.as_ref().filter(|_| takes_gzip(headers)) {
            *response.body_mut() = Body::from(packed.clone());
            let gzip = HeaderValue::from_static("gzip");
            response.headers_mut().insert(header::CONTENT_ENCODING, gzip);
        } else {
            *response.body_mut() = Body::from(self.plain.clone());
        }
        self.describe(response.headers_mut());
        response
    }

    fn describe(&self, headers: &mut HeaderMap) {
        headers.insert(header::ETAG, self.tag.clone());
        for (name, value) in [
            (header::CONTENT_TYPE, self.content_type),
            (header::CACHE_CONTROL, "no-cache"),
            (header::VARY, "accept-encoding"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_page_has_the_mark_that_tells_whether_a_token_is_needed() {
        assert_eq!(PAGE.matches(TOKEN_UNNEEDED).count(), 1);
        assert_ne!(OPEN.tag, CLOSED.tag);
    }

    /// What the files name, in quotes, is what is served, and nothing else.
    #[test]
    fn every_file_that_is_named_is_there_and_every_file_is_named() {
        let texts = FILES.iter().map(|(_, _, text)| *text).chain([PAGE]);
        let quoted = texts.flat_map(|text| text.split('"'));
        let named =
            quoted.filter_map(|word| word.strip_prefix("docs/").or(word.strip_prefix("./")));
        let named: BTreeSet<_> = named.filter(|name| !name.is_empty()).collect();
        let served: BTreeSet<_> = FILES.iter().map(|(name, ..)| *name).collect();
        assert_eq!(named, served);
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere() {
        for (name, _, text) in FILES.iter().chain([&("index.html", HTML, PAGE)]) {
            for part in text.split("://").skip(1) {
                let is_example =
                    part.starts_with("example.com") || part.starts_with("www.w3.org/2000/svg");
                assert!(is_example, "{name}: ://{}", part.get(..30).unwrap_or(part));
            }
            for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!text.contains(word), "{name}: {word}");
            }
        }
    }
}
