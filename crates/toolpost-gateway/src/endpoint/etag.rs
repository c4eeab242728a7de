//! Cacheable responses: `ETag`, `If-None-Match` and compression.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;

use super::accept::accepts_gzip;
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
    let etag = HeaderValue::from_maybe_shared(etag).expect("digits can stand in a header");
    let mut response = Response::new(Body::empty());
    if matches_etag(request, &etag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = Body::from(gzip.unwrap_or(&body.plain).clone());
        if gzip.is_some() {
            let gzip = HeaderValue::from_static("gzip");
            response.headers_mut().insert(header::CONTENT_ENCODING, gzip);
        }
    }
    let headers = response.headers_mut();
    headers.insert(header::ETAG, etag);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control));
    headers.insert(header::VARY, HeaderValue::from_static(vary));
    response
}

/// Whether `If-None-Match` matches this ETag, by weak comparison.
fn matches_etag(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let without_weak_prefix = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    let expected = without_weak_prefix(tag.to_str().unwrap_or_default());
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    let texts = values.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    texts
        .map(str::trim)
        .any(|candidate| candidate == "*" || without_weak_prefix(candidate) == expected)
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
