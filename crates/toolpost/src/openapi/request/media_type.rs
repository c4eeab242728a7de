//! Media types of requests.

/// Whether a media type is valid in a header: `text/plain`, `image/*; q=1`.
pub(super) fn is_valid(media_type: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let is_written = media_type.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let parts = essence(media_type).split_once('/');
    is_written && parts.is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

/// Returns the media type without parameters.
pub(super) fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

/// Whether a media type contains a wildcard.
pub(super) fn is_range(media_type: &str) -> bool {
    essence(media_type).contains('*')
}

/// Whether a media type or range includes another media type.
pub(super) fn covers(range: &str, media_type: &str) -> bool {
    let (range, media_type) = (essence(range), essence(media_type));
    match range.split_once('/') {
        Some(("*", "*")) => true,
        Some((kind, "*")) => {
            let own = media_type.split('/').next().unwrap_or_default();
            own.eq_ignore_ascii_case(kind)
        }
        _ => range.eq_ignore_ascii_case(media_type),
    }
}

/// Whether a media type is JSON: `application/json`, `text/json` or a `+json` suffix.
pub(super) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type).to_ascii_lowercase();
    essence == "application/json" || essence == "text/json" || essence.ends_with("+json")
}

pub(super) fn is_form(media_type: &str) -> bool {
    essence(media_type).eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

/// Returns the value of a parameter without quotes.
pub(super) fn parameter<'m>(media_type: &'m str, name: &str) -> Option<&'m str> {
    let mut parameters = media_type.split(';').skip(1).filter_map(|piece| piece.split_once('='));
    let (_, value) = parameters.find(|(key, _)| key.trim().eq_ignore_ascii_case(name))?;
    Some(value.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_classified() {
        let rows = [
            // Each row: a media type; whether it is valid, a range, JSON, and included in
            // `image/*`.
            ("application/json", true, false, true, false),
            ("Application/Problem+JSON; charset=utf-8", true, false, true, false),
            ("image/*", true, true, false, true),
            ("IMAGE/png", true, false, false, true),
            ("*/*", true, true, false, false),
            ("json", false, false, false, false),
            ("text/", false, false, false, false),
            ("text/plain\r\nx: y", false, false, false, false),
            ("", false, false, false, false),
        ];
        for (text, valid, range, json, image) in rows {
            let found = (is_valid(text), is_range(text), is_json(text), covers("image/*", text));
            assert_eq!(found, (valid, range, json, image), "{text}");
        }
        assert!(covers("*/*", "a/b") && covers("a/B;x=y", "A/b") && !covers("a/b", "a/c"));
        assert_eq!(parameter("text/x; a=b; Charset=\"utf-8\"", "charset"), Some("utf-8"));
    }
}
