//! Self-contained static pages.
//!
//! A page is the same for every caller and needs no authentication. It loads its data through the
//! public endpoints with the token that the user enters. The content security policy allows only
//! these files to run.

use std::collections::HashMap;

use axum::extract::Request;
use axum::http::{HeaderName, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::etag;
use super::problem::ProblemDetails;
use crate::gzip::EncodedBody;

/// Markup of a page without authentication, else replaced by [`TOKEN_REQUIRED`].
const TOKEN_NOT_REQUIRED: &str = r#"name="toolpost-token" content="unneeded""#;
const TOKEN_REQUIRED: &str = r#"name="toolpost-token" content="needed""#;

/// The last two directives prevent scripts from turning text into elements. `'self'` includes a
/// WebSocket to the same host.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of a page: name and text.
pub(super) type PageFile = (&'static str, &'static str);

/// A page and the files below its path.
pub(super) struct StaticPage {
    /// Path of the page. `relative_path` is the same path relative to the files below it.
    path: &'static str,
    relative_path: &'static str,
    open_html: EncodedBody,
    auth_html: EncodedBody,
    files: HashMap<&'static str, EncodedBody>,
}

impl StaticPage {
    /// Creates a page. `relative_path` is its path in the form `../NAME`.
    pub(super) fn new(relative_path: &'static str, html: &str, files: &[PageFile]) -> Self {
        let files = files.iter().map(|(name, text)| (*name, EncodedBody::new((*text).to_owned())));
        Self {
            path: relative_path.trim_start_matches('.'),
            relative_path,
            open_html: EncodedBody::new(html.to_owned()),
            auth_html: EncodedBody::new(html.replace(TOKEN_NOT_REQUIRED, TOKEN_REQUIRED)),
            files: files.collect(),
        }
    }

    pub(super) fn serve(
        &self,
        needs_token: bool,
        request: &Request,
    ) -> Result<Response, ProblemDetails> {
        let path = request.uri().path();
        let below = path.strip_prefix(self.path).and_then(|rest| rest.strip_prefix('/'));
        let (name, file) = match below {
            None if needs_token => ("index.html", &self.auth_html),
            None => ("index.html", &self.open_html),
            // The page uses relative references, so that it works below a path prefix.
            Some("") => return Ok(redirect(self.relative_path)),
            Some(name) => (name, self.files.get(name).ok_or_else(|| self.no_such_file())?),
        };
        if !is_get_or_head(request.method()) {
            return Err(ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed")
                .with_header(header::ALLOW, "GET, HEAD"));
        }
        let caching = ("no-cache", "accept-encoding");
        let response = etag::respond(file, request.headers(), content_type(name), caching);
        let headers = [
            (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ];
        Ok((headers, response).into_response())
    }

    fn no_such_file(&self) -> ProblemDetails {
        ProblemDetails::not_found(format!("no such file; the page is at {}", self.path))
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/javascript; charset=utf-8",
    }
}

pub(super) fn is_get_or_head(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

pub(super) fn redirect(location: &str) -> Response {
    (StatusCode::FOUND, [(header::LOCATION, location)]).into_response()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Asserts that the quoted references in the files match the served files exactly. `base_path`
    /// is the prefix of a page's own files, and `others` are the files of another page that it
    /// uses.
    pub(in crate::endpoint) fn assert_references_match_files(
        base_path: &str,
        html: &str,
        files: &[PageFile],
        others: &[&str],
    ) {
        let texts = files.iter().map(|(_, text)| *text).chain([html]);
        let quoted = texts.flat_map(|text| text.split('"'));
        let of_others =
            |reference: &&str| reference.starts_with("../") || others.contains(reference);
        let (foreign, own): (Vec<_>, Vec<_>) = quoted.partition(of_others);
        let own = own.iter().filter_map(|reference| {
            reference.strip_prefix(base_path).or(reference.strip_prefix("./"))
        });
        let referenced: BTreeSet<_> = own.filter(|name| !name.is_empty()).collect();
        let served: BTreeSet<_> = files.iter().map(|(name, ..)| *name).collect();
        assert_eq!(referenced, served);
        let foreign: BTreeSet<_> =
            foreign.iter().map(|reference| reference.trim_start_matches("../")).collect();
        assert_eq!(foreign, others.iter().copied().collect());
    }

    /// Asserts that a page loads nothing from other hosts and never inserts text as HTML.
    pub(in crate::endpoint) fn assert_self_contained(html: &str, files: &[PageFile]) {
        assert_eq!(html.matches(TOKEN_NOT_REQUIRED).count(), 1);
        for (name, text) in files.iter().chain([&("index.html", html)]) {
            for part in text.split("://").skip(1) {
                let is_example =
                    part.starts_with("example.com") || part.starts_with("www.w3.org/2000/svg");
                assert!(is_example, "{name}: ://{}", part.get(..30).unwrap_or(part));
            }
            for forbidden in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!text.contains(forbidden), "{name}: {forbidden}");
            }
        }
    }

    #[test]
    fn static_page_states_whether_token_is_required() {
        let page = StaticPage::new("../page", &format!("<meta {TOKEN_NOT_REQUIRED}>"), &[]);
        assert_ne!(page.open_html.digest, page.auth_html.digest);
        assert_eq!((page.path, page.relative_path), ("/page", "../page"));
    }
}
