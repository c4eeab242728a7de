//! References as they are written, and why one leads nowhere.

use std::borrow::Cow;

use url::Url;

/// Why a reference leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReferenceError {
    #[error("`{reference}` is no address")]
    NoAddress { reference: String },
    #[error("`{reference}` is in a file that was not read")]
    UnknownFile { reference: String },
    #[error("there is nothing at `{reference}`")]
    Nothing { reference: String },
    #[error("nothing in the file says that it is `{reference}`")]
    NoAnchor { reference: String },
    #[error("`{reference}` leads back to itself")]
    Circle { reference: String },
}

/// A reference as it may be shown: who asks, and what for, may be secret.
pub(crate) fn shown(reference: &str) -> String {
    let (place, fragment) = match reference.split_once('#') {
        Some((place, fragment)) => (place, Some(fragment)),
        None => (reference, None),
    };
    let place = place.split_once('?').map_or(place, |(place, _)| place);
    let place = match Url::parse(place) {
        Ok(url) if url.has_authority() => shown_url(&url),
        _ => place.to_owned(),
    };
    fragment.map_or_else(|| place.clone(), |fragment| format!("{place}#{fragment}"))
}

/// An address as it may be shown.
pub(crate) fn shown_url(url: &Url) -> String {
    let mut url = url.clone();
    // Addresses without a host have none of this, and refuse.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.into()
}

/// A fragment as it was before it was written into an address.
pub(super) fn percent_decoded(fragment: &str) -> Cow<'_, str> {
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
    fn references_are_shown_without_what_may_be_secret() {
        let rows = [
            ("#/a/b", "#/a/b"),
            ("../a.yaml#/b", "../a.yaml#/b"),
            ("a.yaml?token=secret#/b", "a.yaml#/b"),
            ("https://me:secret@example.com/a?key=secret#/b", "https://example.com/a#/b"),
            ("http://[broken?secret", "http://[broken"),
        ];
        for (reference, expected) in rows {
            assert_eq!(shown(reference), expected);
        }
    }

    #[test]
    fn fragments_are_decoded_as_far_as_they_are_encoded() {
        let rows = [("/a", "/a"), ("/%20%C3%A9", "/ é"), ("/100%", "/100%"), ("/%zz", "/%zz")];
        for (fragment, expected) in rows {
            assert_eq!(percent_decoded(fragment), expected);
        }
    }
}
