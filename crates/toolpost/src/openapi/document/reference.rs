//! References and why they cannot be resolved.

use url::Url;

use crate::http::redact_url;

/// Why a reference cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReferenceError {
    #[error("`{0}` is not a valid URL")]
    InvalidUrl(String),
    #[error("`{0}` is in a file that was not read")]
    FileNotLoaded(String),
    #[error("`{0}` does not exist")]
    TargetNotFound(String),
    #[error("no anchor `{0}` in the file")]
    AnchorNotFound(String),
    #[error("`{0}` is a circular reference")]
    Circular(String),
}

/// Formats a reference without user, password and query, which may contain secrets.
pub(crate) fn redact_reference(reference: &str) -> String {
    let (base, fragment) = reference.split_at(reference.find('#').unwrap_or(reference.len()));
    let base = base.split_once('?').map_or(base, |(base, _)| base);
    let base = match Url::parse(base) {
        Ok(url) if url.has_authority() => redact_url(&url),
        _ => base.to_owned(),
    };
    base + fragment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redact_reference_removes_user_and_query() {
        let rows = [
            ("#/a/b", "#/a/b"),
            ("../a.yaml#/b", "../a.yaml#/b"),
            ("a.yaml?token=secret#/b", "a.yaml#/b"),
            ("https://me:secret@example.com/a?key=secret#/b", "https://example.com/a#/b"),
            ("http://[broken?secret", "http://[broken"),
        ];
        for (reference, expected) in rows {
            assert_eq!(redact_reference(reference), expected);
        }
    }
}
