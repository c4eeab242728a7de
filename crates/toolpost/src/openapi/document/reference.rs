//! References and why they cannot be resolved.

use std::borrow::Cow;

use url::Url;

/// Why a reference cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReferenceError {
    #[error("`{reference}` is no address")]
    InvalidUrl { reference: String },
    #[error("`{reference}` is in a file that was not read")]
    FileNotLoaded { reference: String },
    #[error("there is nothing at `{reference}`")]
    TargetNotFound { reference: String },
    #[error("no anchor `{reference}` in the file")]
    AnchorNotFound { reference: String },
    #[error("`{reference}` is a circular reference")]
    Circular { reference: String },
}

/// Formats a reference without user, password and query, which may contain secrets.
pub(crate) fn redact_reference(reference: &str) -> String {
    let (base, fragment) = match reference.split_once('#') {
        Some((base, fragment)) => (base, Some(fragment)),
        None => (reference, None),
    };
    let base = base.split_once('?').map_or(base, |(base, _)| base);
    let base = match Url::parse(base) {
        Ok(url) if url.has_authority() => redact_url(&url),
        _ => base.to_owned(),
    };
    fragment.map_or_else(|| base.clone(), |fragment| format!("{base}#{fragment}"))
}

/// Formats a URL without user, password and query.
pub(crate) fn redact_url(url: &Url) -> String {
    let mut url = url.clone();
    // Fails for URLs without a host, which have no user or password.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.into()
}

/// Decodes a percent-encoded fragment.
pub(super) fn percent_decode(fragment: &str) -> Cow<'_, str> {
    if !fragment.contains('%') {
        return Cow::Borrowed(fragment);
    }
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
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

    #[test]
    fn percent_decode_leaves_invalid_escapes() {
        let rows = [("/a", "/a"), ("/%20%C3%A9", "/ é"), ("/100%", "/100%"), ("/%zz", "/%zz")];
        for (fragment, expected) in rows {
            assert_eq!(percent_decode(fragment), expected);
        }
    }
}
