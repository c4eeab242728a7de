//! Request options in the query and the headers: envelope, deadline, idempotency key.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, StatusCode};
use toolpost::QueryEncoding;

use super::query_string::{QueryPair, parse_query_string};
use crate::endpoint::problem::ProblemDetails;
use crate::units::parse_seconds;

const REQUEST_TIMEOUT: HeaderName = HeaderName::from_static("request-timeout");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Options of a request.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RequestOptions<'a> {
    /// Whether to return the envelope; `None` if the query does not specify it.
    pub(super) envelope: Option<bool>,
    /// The requested timeout of the call.
    pub(super) timeout: Option<Duration>,
    pub(super) idempotency_key: Option<Arc<str>>,
    /// Query parameters that are not options.
    pub(super) params: Vec<QueryPair<'a>>,
}

impl<'a> RequestOptions<'a> {
    /// Parses the query and the headers. An input property takes precedence over an option with the
    /// same name; the option can then be set by a header.
    pub(super) fn parse(
        query: &'a str,
        headers: &HeaderMap,
        input: Option<&QueryEncoding<'_>>,
    ) -> Result<Self, ProblemDetails> {
        let mut options = Self {
            timeout: parse_header_timeout(headers)?,
            idempotency_key: parse_idempotency_key(headers)?,
            ..Self::default()
        };
        if query.is_empty() {
            return Ok(options);
        }
        let mut seen = [false; 2];
        for (name, text) in parse_query_string(query)? {
            let option = match &*name {
                _ if input.is_some_and(|input| input.has_parameter(&name)) => None,
                "envelope" => Some(0),
                "timeout" => Some(1),
                _ => None,
            };
            if option.is_some_and(|option| std::mem::replace(&mut seen[option], true)) {
                return Err(bad_request(format!("duplicate query parameter `{name}`")));
            }
            match option {
                Some(0) => options.envelope = Some(parse_bool(&text)?),
                Some(_) => options.limit_timeout(parse_query_timeout(&text)?),
                None => options.params.push((name, text)),
            }
        }
        Ok(options)
    }

    /// Lowers the timeout to `timeout` if that is shorter.
    fn limit_timeout(&mut self, timeout: Duration) {
        self.timeout = Some(self.timeout.map_or(timeout, |known| known.min(timeout)));
    }

    /// Rejects parameters that are not options, for requests whose input is the body.
    pub(super) fn reject_params(&self) -> Result<(), ProblemDetails> {
        match self.params.first() {
            Some((name, _)) => {
                let name: String = name.chars().take(100).collect();
                Err(bad_request(format!(
                    "unknown query parameter `{name}`; the input is the body, and the options are \
                     `envelope` and `timeout`"
                )))
            }
            None => Ok(()),
        }
    }
}

fn bad_request(message: impl Into<String>) -> ProblemDetails {
    ProblemDetails::new(StatusCode::BAD_REQUEST, message)
}

fn parse_bool(text: &str) -> Result<bool, ProblemDetails> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(bad_request("`envelope` must be true or false")),
    }
}

/// Parses `500ms`, `10s`, `2m` or `1h`. A number without a unit is in seconds.
fn parse_query_timeout(text: &str) -> Result<Duration, ProblemDetails> {
    let text = &text[..text.floor_char_boundary(100)];
    match parse_seconds(text) {
        Ok(_) if is_zero(text) => Err(bad_request("timeout must be greater than zero")),
        Ok(seconds) => Ok(clamp_duration(seconds)),
        Err(message) => Err(bad_request(format!("timeout: {message}"))),
    }
}

/// Parses the `Request-Timeout` header, in seconds.
fn parse_header_timeout(headers: &HeaderMap) -> Result<Option<Duration>, ProblemDetails> {
    let mut values = headers.get_all(REQUEST_TIMEOUT).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let number = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
    let number = number.filter(|text| !is_zero(text));
    match number.and_then(|text| text.parse::<f64>().ok()) {
        Some(seconds) => Ok(Some(clamp_duration(seconds))),
        None => {
            Err(bad_request("Request-Timeout must be a single number of seconds greater than zero"))
        }
    }
}

/// Returns the `Idempotency-Key` header. The pipeline checks the length of the key.
fn parse_idempotency_key(headers: &HeaderMap) -> Result<Option<Arc<str>>, ProblemDetails> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match value.to_str() {
        Ok(key) if values.next().is_none() => Ok(Some(key.into())),
        _ => Err(bad_request("Idempotency-Key must be a single key of printable ASCII characters")),
    }
}

/// Whether a number has no nonzero digit. A tiny number that merely parses to zero does not count.
fn is_zero(number: &str) -> bool {
    !number.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

/// Converts seconds to a duration between one nanosecond and [`Duration::MAX`].
fn clamp_duration(seconds: f64) -> Duration {
    let counted = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    counted.max(Duration::from_nanos(1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each row: the query, the `Request-Timeout` header, and the expected timeout in milliseconds
    /// and envelope option, or part of the error.
    #[test]
    #[expect(clippy::type_complexity, reason = "a row is a tuple")]
    fn options_parse_from_query_and_headers() {
        let rows: [(&str, Option<&str>, Result<(Option<u128>, Option<bool>), &str>); 23] = [
            ("", None, Ok((None, None))),
            ("envelope=true", None, Ok((None, Some(true)))),
            ("envelope=false&timeout=500ms", None, Ok((Some(500), Some(false)))),
            ("timeout=10s", Some("2"), Ok((Some(2_000), None))),
            ("timeout=1", Some("2.5"), Ok((Some(1_000), None))),
            ("", Some("0.25"), Ok((Some(250), None))),
            ("envelope=perhaps", None, Err("envelope")),
            ("envelope", None, Err("envelope")),
            ("envelope=true&envelope=true", None, Err("duplicate")),
            ("timeout=1&timeout=2", None, Err("duplicate")),
            ("timeout=soon", None, Err("timeout: invalid duration `soon`")),
            ("timeout=0", None, Err("greater than zero")),
            ("timeout=.", None, Err("timeout: invalid duration `.`")),
            ("timeout=1.5.0s", None, Err("invalid duration")),
            ("timeout=0.00000000000001ms", None, Ok((Some(0), None))),
            ("timeout=99999999999999999999h", Some("100"), Ok((Some(100_000), None))),
            ("", Some("1e2"), Err("Request-Timeout")),
            ("", Some("soon"), Err("Request-Timeout")),
            ("", Some("0"), Err("Request-Timeout")),
            ("", Some("-1"), Err("Request-Timeout")),
            ("", Some("5s"), Err("Request-Timeout")),
            ("envelope=%FF", None, Err("UTF-8")),
            ("envelope=%zz", None, Err("percent")),
        ];
        for (query, header, expected) in rows {
            let values = header.iter().map(|text| (REQUEST_TIMEOUT, text.parse().unwrap()));
            let headers: HeaderMap = values.collect();
            let read = RequestOptions::parse(query, &headers, None).map(|options| {
                (options.timeout.map(|timeout| timeout.as_millis()), options.envelope)
            });
            match (read, expected) {
                (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{query} {header:?}"),
                (Err(problem), Err(expected_error)) => {
                    let text = String::from_utf8(problem.to_json()).unwrap();
                    assert!(text.contains(expected_error), "{query} {header:?}: {text}");
                }
                (read, _) => panic!("{query} {header:?}: {:?}", read.ok()),
            }
        }
    }

    #[test]
    fn input_property_takes_precedence_over_option() {
        let schema = json!({"properties": {"timeout": {"type": "string"}}});
        let form = QueryEncoding::from_schema(&schema);
        let options =
            RequestOptions::parse("timeout=soon&envelope=true&b", &HeaderMap::new(), Some(&form));
        let options = options.unwrap_or_else(|_| panic!("it can be read"));
        assert!(options.envelope == Some(true) && options.timeout.is_none());
        let rest = [("timeout".into(), "soon".into()), ("b".into(), "".into())];
        assert_eq!(options.params, rest);
    }
}
