//! Pages for people, as files that need nothing from elsewhere.
//!
//! A page is the same for everybody and so is served to everybody. What it shows it fetches as the
//! caller whose token is typed into it, through the doors that are there for everybody. A browser is told
//! to run nothing that is not one of these files.

use std::collections::HashMap;

use axum::body::{Body, Bytes};
use axum::extract::Request;
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
pub(super) const CSS: &str = "text/css; charset=utf-8";
pub(super) const SVG: &str = "image/svg+xml";
pub(super) const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What stands in a page before it is known whether callers need a token, and then.
const TOKEN_UNNEEDED: &str = r#"name="toolpost-token" content="unneeded""#;
const TOKEN_NEEDED: &str = r#"name="toolpost-token" content="needed""#;

/// The last two make a browser refuse to turn text into elements, whoever wrote the script. A
/// WebSocket to the same host is `'self'` as well.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// What a page asks for by name: the name, the type, the text.
pub(super) type Named = (&'static str, &'static str, &'static str);

/// A page and the files below its address.
pub(super) struct Page {
    /// Its address, and the same as seen from below it.
    address: &'static str,
    upwards: &'static str,
    open: File,
    closed: File,
    files: HashMap<&'static str, File>,
}

impl Page {
    /// `upwards` is its address as `../NAME`.
    pub(super) fn new(upwards: &'static str, html: &str, files: &[Named]) -> Self {
        let files = files.iter();
        Self {
            address: upwards.trim_start_matches('.'),
            upwards,
            open: File::new(HTML, html.to_owned()),
            closed: File::new(HTML, html.replace(TOKEN_UNNEEDED, TOKEN_NEEDED)),
            files: files
                .map(|(name, kind, text)| (*name, File::new(kind, (*text).to_owned())))
                .collect(),
        }
    }

    pub(super) fn serve(&self, gateway: &Gateway, request: &Request) -> Response {
        self.answer(gateway, request).unwrap_or_else(Problem::into_response)
    }

    fn answer(&self, gateway: &Gateway, request: &Request) -> Result<Response, Problem> {
        guard::check_page(gateway, request)?;
        let path = request.uri().path();
        let below = path.strip_prefix(self.address).and_then(|rest| rest.strip_prefix('/'));
        let file = match below {
            None if gateway.authenticator().is_open() => &self.open,
            None => &self.closed,
            // The page names everything as seen from beside it, so that it may stand below a prefix.
            Some("") => return Ok(moved(self.upwards)),
            Some(file) => self.files.get(file).ok_or_else(|| self.no_such_file())?,
        };
        if is_reading(request.method()) {
            return Ok(file.respond(request.headers()));
        }
        let allowed = HeaderValue::from_static("GET, HEAD");
        Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this address answers to GET")
            .with_header(header::ALLOW, allowed))
    }

    fn no_such_file(&self) -> Problem {
        Problem::not_found(format!("the page has no such file; it is at {}", self.address))
    }
}

pub(super) fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

pub(super) fn moved(place: &'static str) -> Response {
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
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What the files name, in quotes, is what is served, and nothing else. `place` is how a page names
    /// its own files, and `others` are those of another page that it uses.
    pub(in crate::door) fn check_names(place: &str, html: &str, files: &[Named], others: &[&str]) {
        let texts = files.iter().map(|(_, _, text)| *text).chain([html]);
        let quoted = texts.flat_map(|text| text.split('"'));
        let of_others = |word: &&str| word.starts_with("../") || others.contains(word);
        let (foreign, own): (Vec<_>, Vec<_>) = quoted.partition(of_others);
        let own =
            own.iter().filter_map(|word| word.strip_prefix(place).or(word.strip_prefix("./")));
        let named: BTreeSet<_> = own.filter(|name| !name.is_empty()).collect();
        let served: BTreeSet<_> = files.iter().map(|(name, ..)| *name).collect();
        assert_eq!(named, served);
        let foreign: BTreeSet<_> =
            foreign.iter().map(|word| word.trim_start_matches("../")).collect();
        assert_eq!(foreign, others.iter().copied().collect());
    }

    /// Nothing is fetched from elsewhere, and no text becomes an element.
    pub(in crate::door) fn check_texts(html: &str, files: &[Named]) {
        assert_eq!(html.matches(TOKEN_UNNEEDED).count(), 1);
        for (name, _, text) in files.iter().chain([&("index.html", HTML, html)]) {
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

    #[test]
    fn a_page_tells_whether_a_token_is_needed() {
        let page = Page::new("../page", &format!("<meta {TOKEN_UNNEEDED}>"), &[]);
        assert_ne!(page.open.tag, page.closed.tag);
        assert_eq!((page.address, page.upwards), ("/page", "../page"));
    }
}
