//! Query string parsing. Invalid percent-encoding and invalid UTF-8 are rejected.

use std::borrow::Cow;

use axum::http::StatusCode;

use crate::endpoint::problem::ProblemDetails;

/// A decoded query parameter: name and value.
pub(super) type QueryPair<'a> = (Cow<'a, str>, Cow<'a, str>);

pub(super) fn parse_query_string(query: &str) -> Result<Vec<QueryPair<'_>>, ProblemDetails> {
    let pieces = query.split('&').filter(|piece| !piece.is_empty());
    let decoded = pieces.map(|piece| {
        let (name, text) = piece.split_once('=').unwrap_or((piece, ""));
        Ok((decode_component(name)?, decode_component(text)?))
    });
    decoded
        .collect::<Result<_, &str>>()
        .map_err(|message| ProblemDetails::new(StatusCode::BAD_REQUEST, message))
}

/// Decodes a form-encoded component: `+` is a space, and `%` precedes two hexadecimal digits.
fn decode_component(text: &str) -> Result<Cow<'_, str>, &'static str> {
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return Ok(Cow::Borrowed(text));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                let (Some(high), Some(low)) = (digit(), digit()) else {
                    return Err("invalid percent-encoding in the query");
                };
                u8::try_from(high * 16 + low).map_err(|_| "invalid query")?
            }
            other => other,
        });
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| "the query is not UTF-8")
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
