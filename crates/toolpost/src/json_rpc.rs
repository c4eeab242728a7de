//! JSON-RPC 2.0 messages, parsed only as far as routing requires.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::{deserialize_present, error_message};

/// Maximum size of a request id, in bytes.
const MAX_ID_BYTES: usize = 256;
/// Maximum size of an error message in bytes.
const MAX_ERROR_BYTES: usize = 1_000;

/// The members of a message, unparsed. `null` counts as present for `jsonrpc` and `id`.
#[derive(Debug, Default, Deserialize)]
#[non_exhaustive]
pub struct RawMessage<'a> {
    /// The protocol version.
    #[serde(borrow, default, deserialize_with = "deserialize_present")]
    pub jsonrpc: Option<&'a RawValue>,
    /// The request id.
    #[serde(borrow, default, deserialize_with = "deserialize_present")]
    pub id: Option<&'a RawValue>,
    /// The method of a request or notification.
    #[serde(borrow)]
    pub method: Option<&'a RawValue>,
    /// The params of a request or notification.
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
    /// The result of a successful request.
    #[serde(borrow)]
    pub result: Option<&'a RawValue>,
    /// The error of a failed request.
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

/// A message, by its kind.
#[derive(Debug)]
pub enum RpcMessage<'a> {
    /// A message that requires a response.
    Request {
        /// Id of the request, repeated in the response.
        id: &'a RawValue,
        /// The requested method.
        method: Cow<'a, str>,
        /// The params, if any.
        params: Option<&'a RawValue>,
    },
    /// A message without a response.
    Notification {
        /// The method.
        method: Cow<'a, str>,
        /// The params, if any.
        params: Option<&'a RawValue>,
    },
    /// A response: a result or an error object.
    Response {
        /// The id of the request, if present.
        id: Option<&'a RawValue>,
        /// `null` as the error if the response has neither.
        result: Result<&'a RawValue, &'a RawValue>,
    },
}

/// The id of a request: the JSON text of a string or number, as received.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RpcId(Box<str>);

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct RpcError {
    /// The error code.
    #[serde(default)]
    pub code: i64,
    /// Human-readable description.
    #[serde(default)]
    pub message: String,
    /// Additional data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Whether another server returned the error. It is not encoded.
    #[serde(skip)]
    pub is_forwarded: bool,
}

impl<'a> RawMessage<'a> {
    /// Parses an object; `None` for anything else.
    pub fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|_| text.trim_start().starts_with('{'))
    }
}

/// Parses a message from a server. Checks only what is needed to route it.
///
/// # Errors
///
/// Returns an error if the text is not an object, has a duplicate member, or its method is not a
/// string.
pub fn parse_lenient(text: &str) -> serde_json::Result<RpcMessage<'_>> {
    let RawMessage { id, method, params, result, error, .. } = serde_json::from_str(text)?;
    let id = id.filter(|id| id.get() != "null");
    Ok(match (method, id) {
        (Some(method), Some(id)) => {
            RpcMessage::Request { id, method: parse_method(method)?, params }
        }
        (Some(method), None) => RpcMessage::Notification { method: parse_method(method)?, params },
        // `result: null` is invalid in MCP, but it still completes the request.
        (None, id) => {
            let result = error.map(Err).or(result.map(Ok)).unwrap_or(Err(RawValue::NULL));
            RpcMessage::Response { id, result }
        }
    })
}

/// Parses a message from a client.
///
/// # Errors
///
/// Returns the error to respond with, and the id of the message if it has a valid one.
#[expect(clippy::result_large_err, reason = "errors are rare and carry a message")]
pub fn parse_strict(text: &[u8]) -> Result<RpcMessage<'_>, (Option<RpcId>, RpcError)> {
    let unreadable = |error: serde_json::Error| {
        let is_json = error.classify() == serde_json::error::Category::Data;
        let code = if is_json { RpcError::INVALID_REQUEST } else { RpcError::PARSE_ERROR };
        (
            None,
            RpcError::new(code, format!("the message cannot be read: {}", error_message(&error))),
        )
    };
    // Otherwise serde would accept an array with the members in order.
    if text.trim_ascii_start().starts_with(b"[") {
        serde_json::from_slice::<IgnoredAny>(text).map_err(unreadable)?;
        return Err((None, RpcError::invalid_request("a message must be an object")));
    }
    let RawMessage { jsonrpc, id, method, params, result, error } =
        serde_json::from_slice(text).map_err(unreadable)?;
    let known_id = id.map(RpcId::parse).transpose().map_err(|error| (None, error))?;
    let wrong = |message: &str| (known_id.clone(), RpcError::invalid_request(message));
    if jsonrpc.is_none_or(|version| version.get() != r#""2.0""#) {
        return Err(wrong(r#"`jsonrpc` must be "2.0""#));
    }
    let Some(method) = method else {
        let result = error.map(Err).or(result.map(Ok));
        let result = result.filter(|_| id.is_some()).ok_or_else(|| wrong("`method` is missing"))?;
        return Ok(RpcMessage::Response { id, result });
    };
    let method = parse_method(method).map_err(|_| wrong("`method` must be a string"))?;
    if params.is_some_and(|params| !params.get().starts_with('{')) {
        return Err((known_id, RpcError::invalid_params("`params` must be an object")));
    }
    Ok(match id {
        Some(id) => RpcMessage::Request { id, method, params },
        None => RpcMessage::Notification { method, params },
    })
}

fn parse_method(method: &RawValue) -> serde_json::Result<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Method<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str(method.get()).map(|Method(method)| method)
}

impl RpcId {
    fn parse(raw: &RawValue) -> Result<Self, RpcError> {
        Self::from_raw(raw).ok_or_else(|| {
            RpcError::invalid_request(format!(
                "`id` must be a string or a number of at most {MAX_ID_BYTES} bytes"
            ))
        })
    }

    /// Parses an id; `None` if it is not a string or number, or too long.
    pub fn from_raw(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        let is_id = text.starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit());
        (is_id && text.len() <= MAX_ID_BYTES).then(|| Self(text.into()))
    }

    /// Returns the id as JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

/// Creates the id for a string.
impl From<&str> for RpcId {
    fn from(text: &str) -> Self {
        Self(Value::from(text).to_string().into())
    }
}

impl RpcError {
    /// The text is not JSON.
    pub const PARSE_ERROR: i64 = -32_700;
    /// The message is not a valid request.
    pub const INVALID_REQUEST: i64 = -32_600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32_601;
    /// The params are invalid.
    pub const INVALID_PARAMS: i64 = -32_602;
    /// The server failed.
    pub const INTERNAL: i64 = -32_603;
    /// A limit is reached.
    pub const OVERLOADED: i64 = -32_000;
    /// The request was canceled.
    pub const CANCELED: i64 = -32_800;
    /// The session does not exist.
    pub const SESSION_NOT_FOUND: i64 = -32_001;
    /// A header contradicts the body.
    pub const HEADER_MISMATCH: i64 = -32_020;
    /// The client lacks a capability.
    pub const MISSING_CAPABILITY: i64 = -32_021;
    /// The protocol version is not supported.
    pub const UNSUPPORTED_VERSION: i64 = -32_022;

    /// Creates an error. A long message, such as one that quotes input, is truncated.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_ERROR_BYTES {
            message.truncate(message.floor_char_boundary(MAX_ERROR_BYTES));
            message.push('…');
        }
        Self { code, message, data: None, is_forwarded: false }
    }

    /// Creates an `INVALID_REQUEST` error.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_REQUEST, message)
    }

    /// Creates an `INVALID_PARAMS` error.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    /// Creates a `HEADER_MISMATCH` error.
    pub fn header_mismatch(message: impl Into<String>) -> Self {
        Self::new(Self::HEADER_MISMATCH, message)
    }

    /// Creates a `METHOD_NOT_FOUND` error.
    pub fn unknown_method(method: &str) -> Self {
        let displayed: String = method.chars().take(100).collect();
        Self::new(Self::METHOD_NOT_FOUND, format!("unknown method `{displayed}`"))
    }

    /// Encodes the error response. Without an id, `id` is `null`.
    pub fn encode(&self, id: Option<&RpcId>) -> Vec<u8> {
        encode_response(id.map_or("null", RpcId::as_json), Err::<&str, _>(self)).into_bytes()
    }
}

/// Encodes a response. `id` and the result are JSON text.
pub fn encode_response(id: &str, response: Result<impl std::fmt::Display, &RpcError>) -> String {
    match response {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Err(error) => {
            let error = serde_json::to_string(error).expect("an error object serializes");
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
        }
    }
}

/// Encodes a request, or a notification if `id` is `None`. `params` is JSON text.
pub fn encode_request(
    id: Option<&RpcId>,
    method: &str,
    params: Option<impl std::fmt::Display>,
) -> Vec<u8> {
    let id = id.map(|id| format!(r#""id":{},"#, id.as_json())).unwrap_or_default();
    let params = params.map(|params| format!(r#","params":{params}"#)).unwrap_or_default();
    let method = Value::from(method);
    format!(r#"{{"jsonrpc":"2.0",{id}"method":{method}{params}}}"#).into_bytes()
}

/// Starts the response to a request. The result and `}` follow.
pub fn start_result(id: &RpcId) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_json().as_bytes());
    out.extend_from_slice(br#","result":"#);
    out
}

/// Finds the id at the start of a message that is too long to parse. Only the text before `params`
/// is searched, since params may contain other ids.
pub fn find_id(head: &[u8]) -> Option<RpcId> {
    let head = String::from_utf8_lossy(head);
    let before = head.find(r#""params""#).map_or(&*head, |end| &head[..end]);
    let (_, rest) = before.split_once(r#""id""#)?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let mut ids = serde_json::Deserializer::from_str(rest).into_iter::<Box<RawValue>>();
    RpcId::from_raw(&ids.next()?.ok()?)
}

/// Replaces line breaks by spaces. In JSON, line breaks occur only between tokens.
pub fn to_single_line(message: &mut [u8]) {
    let mut from = 0;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &message[from..]) {
        message[from + found] = b' ';
        from += found + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_parse_by_kind_or_return_error() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "1 ping -"),
            (r#"{"jsonrpc":"2.0","id":"a","method":"p","params":{"x": 1}}"#, r#""a" p {"x": 1}"#),
            (r#" {"method":"\u0061","jsonrpc":"2.0"} "#, "a -"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "1 Ok(RawValue({}))"),
            (r#"{"jsonrpc":"2.0","id":"a","error":[]}"#, "\"a\" Err(RawValue([]))"),
            ("", "-32700 the message cannot be read: EOF while parsing a value"),
            ("hello", "-32700 the message cannot be read: expected value"),
            ("[]", "-32600 a message must be an object"),
            ("[[", "-32700 the message cannot be read: EOF while parsing a list"),
            (r#"["2.0",1,"ping",{},{},{}]"#, "-32600 a message must be an object"),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"p"}"#,
                "-32600 `id` must be a string or a number of at most 256 bytes",
            ),
            ("3", "-32600 the message cannot be read: invalid type: integer `3`"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "-32600 `method` is missing (1)"),
            (r#"{"id":1,"method":"ping"}"#, r#"-32600 `jsonrpc` must be "2.0" (1)"#),
            (r#"{"jsonrpc":2.0,"id":1,"method":"p"}"#, r#"-32600 `jsonrpc` must be "2.0" (1)"#),
            (r#"{"jsonrpc":"2.0","id":1,"method":3}"#, "-32600 `method` must be a string (1)"),
            (
                r#"{"jsonrpc":"2.0","id":[1],"method":"p"}"#,
                "-32600 `id` must be a string or a number of at most 256 bytes",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"p","params":[]}"#,
                "-32602 `params` must be an object (1)",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"p"}"#,
                "-32600 the message cannot be read: duplicate field `id`",
            ),
        ] {
            let rendered = match parse_strict(text.as_bytes()) {
                Ok(RpcMessage::Request { id, method, params }) => {
                    format!("{id} {method} {}", params.map_or("-", RawValue::get))
                }
                Ok(RpcMessage::Notification { method, params }) => {
                    format!("{method} {}", params.map_or("-", RawValue::get))
                }
                Ok(RpcMessage::Response { id, result }) => format!("{} {result:?}", id.unwrap()),
                Err((id, error)) => {
                    let message = error.message.split(", expected").next().unwrap();
                    let message = message.split(" at line").next().unwrap();
                    let id = id.map_or(String::new(), |id| format!(" ({})", id.as_json()));
                    format!("{} {message}{id}", error.code)
                }
            };
            assert_eq!(rendered, expected, "{text}");
        }
    }

    #[test]
    fn find_id_reads_id_from_truncated_message() {
        for (head, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"x":""#, Some("7")),
            (r#"{"id" : "a\"b" ,"method""#, Some(r#""a\"b""#)),
            (r#"{"method":"m","params":{"id":3"#, None),
            (r#"{"id":{"#, None),
            ("", None),
        ] {
            assert_eq!(find_id(head.as_bytes()).as_ref().map(RpcId::as_json), id, "{head}");
        }
    }

    #[test]
    fn error_encodes_as_response() {
        let mut error = RpcError::unknown_method("x\"y");
        error.data = Some(serde_json::json!({"a": 1}));
        let text = r#"{"jsonrpc":"2.0","id":"q","error":{"code":-32601,"message":"unknown method `x\"y`","data":{"a":1}}}"#;
        let id = RpcId::from("q");
        assert_eq!(String::from_utf8(error.encode(Some(&id))).unwrap(), text);
        assert!(String::from_utf8(error.encode(None)).unwrap().contains(r#""id":null"#));
    }
}
