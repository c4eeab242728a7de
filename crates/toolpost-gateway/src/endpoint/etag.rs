//! Cacheable responses: `ETag`, `If-None-Match` and compression.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::accept::{accepts_gzip, list_items};
use crate::gzip::EncodedBody;

/// Responds with a body in the encoding that the client accepts, or with 304 if the client has it.
pub(super) fn respond(
    body: &EncodedBody,
    request: &HeaderMap,
    content_type: &'static str,
    (cache_control, vary): (&'static str, &'static str),
) -> Response {
    let gzip = body.gzip.as_ref().filter(|_| accepts_gzip(request));
    let suffix = if gzip.is_some() { "-gzip" } else { "" };
    let etag = Bytes::from(format!("\"{}{suffix}\"", body.digest));
    let etag = HeaderValue::from_maybe_shared(etag).expect("digits are a valid header value");
    let caching = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, cache_control),
        (header::VARY, vary),
    ];
    let is_known = matches_etag(request, &etag);
    let etag = [(header::ETAG, etag)];
    match gzip {
        _ if is_known => (StatusCode::NOT_MODIFIED, caching, etag).into_response(),
        None => (caching, etag, Body::from(body.plain.clone())).into_response(),
        Some(gzip) => {
            let encoding = [(header::CONTENT_ENCODING, "gzip")];
            (encoding, caching, etag, Body::from(gzip.clone())).into_response()
        }
    }
}

/// Whether `If-None-Match` matches this ETag, by weak comparison.
fn matches_etag(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let expected = without_weak_prefix(tag.to_str().unwrap_or_default());
    list_items(headers, header::IF_NONE_MATCH)
        .any(|candidate| candidate == "*" || without_weak_prefix(candidate) == expected)
}

fn without_weak_prefix(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_none_match_matches_any_listed_etag() {
        for (if_none_match, tag, expected) in [
            (vec![r#""a""#], r#""a""#, true),
            (vec![r#"W/"a""#], r#""a""#, true),
            (vec![r#""a""#], r#"W/"a""#, true),
            (vec![r#""b", "a""#], r#""a""#, true),
            (vec![r#""b""#, r#""a""#], r#""a""#, true),
            (vec!["*"], r#""a""#, true),
            (vec![r#""b""#], r#""a""#, false),
            (vec!["a"], r#""a""#, false),
            (vec![], r#""a""#, false),
        ] {
            let headers =
                if_none_match.iter().map(|value| (header::IF_NONE_MATCH, value.parse().unwrap()));
            let headers: HeaderMap = headers.collect();
            assert_eq!(
                matches_etag(&headers, &tag.parse().unwrap()),
                expected,
                "{if_none_match:?} {tag}"
            );
        }
    }
}
