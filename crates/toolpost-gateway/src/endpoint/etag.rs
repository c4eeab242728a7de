//! Evaluation of `If-None-Match`.

use axum::http::{HeaderMap, HeaderValue, header};

/// Whether `If-None-Match` matches this ETag, by weak comparison.
pub(super) fn matches_etag(headers: &HeaderMap, tag: &HeaderValue) -> bool {
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
