//! Query string parsing. Invalid percent-encoding and invalid UTF-8 are rejected.

use std::borrow::Cow;

use axum::http::StatusCode;
use percent_encoding::percent_decode_str;

use crate::endpoint::problem::ProblemDetails;

/// A decoded query parameter: name and value.
pub(super) type QueryPair<'a> = (Cow<'a, str>, Cow<'a, str>);

pub(super) fn parse_query_string(query: &str) -> Result<Vec<QueryPair<'_>>, ProblemDetails> {
    let pieces = query.split('&').filter(|piece| !piece.is_empty());
    let decoded = pieces.map(|piece| {
        let (name, text) = piece.split_once('=').unwrap_or((piece, ""));
        Ok((decode_component(name)?, decode_component(text)?))
    });
    decoded.collect()
}

/// Decodes a form-encoded component, in which `+` is a space.
fn decode_component(text: &str) -> Result<Cow<'_, str>, ProblemDetails> {
    if !text.contains('+') {
        return percent_decode(text, "query");
    }
    Ok(percent_decode(&text.replace('+', " "), "query")?.into_owned().into())
}

/// Decodes a part of a URL, in which `%` must precede two hexadecimal digits.
pub(super) fn percent_decode<'t>(
    text: &'t str,
    part: &str,
) -> Result<Cow<'t, str>, ProblemDetails> {
    let is_valid_escape = |rest: &str| {
        rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let decoded = match text.split('%').skip(1).all(is_valid_escape) {
        true => percent_decode_str(text).decode_utf8().map_err(|_| "is not UTF-8"),
        false => Err("has an invalid percent-encoding"),
    };
    decoded.map_err(|problem| {
        ProblemDetails::new(StatusCode::BAD_REQUEST, format!("the {part} {problem}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::type_complexity, reason = "a row is a tuple")]
    fn query_string_decodes_or_is_rejected() {
        let rows: [(&str, Option<&[(&str, &str)]>); 10] = [
            ("", Some(&[])),
            ("a=1&b=2", Some(&[("a", "1"), ("b", "2")])),
            ("a", Some(&[("a", "")])),
            ("&&a=&", Some(&[("a", "")])),
            ("a=b=c", Some(&[("a", "b=c")])),
            ("a+b=c%20d%2B", Some(&[("a b", "c d+")])),
            ("%C3%A9=%e2%82%ac", Some(&[("é", "€")])),
            ("a=%", None),
            ("a=%4", None),
            ("a=%C3", None),
        ];
        for (query, expected) in rows {
            let read = parse_query_string(query).ok();
            let read = read
                .as_ref()
                .map(|read| read.iter().map(|(name, text)| (&**name, &**text)).collect::<Vec<_>>());
            assert_eq!(read.as_deref(), expected, "{query}");
        }
    }
}
