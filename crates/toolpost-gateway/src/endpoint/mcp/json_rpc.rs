//! Parsing and encoding of JSON-RPC messages.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

/// Maximum length of a request id, in bytes.
const MAX_ID_BYTES: usize = 256;
/// Maximum length of an error message in bytes.
const MAX_ERROR_BYTES: usize = 1_000;

/// The id of a request: the JSON text of a string or number, as received.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct JsonRpcId(Box<str>);

/// A message received from a client.
#[derive(Debug)]
pub(super) enum ClientMessage<'a> {
    Request {
        id: JsonRpcId,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    /// A response to a server request: a result or an error.
    Response {
        id: JsonRpcId,
        result: Result<&'a RawValue, &'a RawValue>,
    },
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JsonRpcError {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
    /// Whether the error was returned by a source and is not about this server.
    pub(super) is_from_source: bool,
}

#[derive(Deserialize)]
struct RawMessage<'a> {
    #[serde(borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "deserialize_present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Deserializes a member that is present, even if it is `null`: a message with `"id": null` is not
/// a notification.
fn deserialize_present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Parses one message.
///
/// # Errors
///
/// Returns the error, and the id of the message if it has one.
#[expect(clippy::result_large_err, reason = "what is refused is rare, and named at length")]
pub(super) fn parse(text: &[u8]) -> Result<ClientMessage<'_>, (Option<JsonRpcId>, JsonRpcError)> {
    let unreadable = |error: serde_json::Error| {
        let is_json = error.classify() == serde_json::error::Category::Data;
        let code = if is_json { JsonRpcError::INVALID_REQUEST } else { JsonRpcError::PARSE_ERROR };
        (None, JsonRpcError::new(code, format!("the message cannot be read: {error}")))
    };
    // Otherwise serde would accept an array with the members in order.
    if text.trim_ascii_start().starts_with(b"[") {
        serde_json::from_slice::<IgnoredAny>(text).map_err(unreadable)?;
        return Err((
            None,
            JsonRpcError::new(JsonRpcError::INVALID_REQUEST, "a message must be an object"),
        ));
    }
    let members: RawMessage<'_> = serde_json::from_slice(text).map_err(unreadable)?;
    let id = members.id.map(JsonRpcId::parse).transpose().map_err(|rpc_error| (None, rpc_error))?;
    let wrong =
        |message: &str| (id.clone(), JsonRpcError::new(JsonRpcError::INVALID_REQUEST, message));
    if members.jsonrpc.is_none_or(|version| version.get() != r#""2.0""#) {
        return Err(wrong(r#"`jsonrpc` must be "2.0""#));
    }
    let Some(method) = members.method else {
        let reply = members.error.map(Err).or(members.result.map(Ok));
        let response =
            id.clone().zip(reply).map(|(id, reply)| ClientMessage::Response { id, result: reply });
        return response.ok_or_else(|| wrong("`method` is missing"));
    };
    let method =
        serde_json::from_str(method.get()).map_err(|_| wrong("`method` must be a string"))?;
    let params = members.params;
    if params.is_some_and(|params| !params.get().starts_with('{')) {
        return Err((id, JsonRpcError::invalid_params("`params` must be an object")));
    }
    Ok(match id {
        Some(id) => ClientMessage::Request { id, method, params },
        None => ClientMessage::Notification { method, params },
    })
}

impl JsonRpcId {
    fn parse(raw: &RawValue) -> Result<Self, JsonRpcError> {
        let text = raw.get();
        let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let fits = text.len() <= MAX_ID_BYTES && (is_number || text.starts_with('"'));
        if fits {
            return Ok(Self(text.into()));
        }
        let message = format!("`id` must be a string or a number of at most {MAX_ID_BYTES} bytes");
        Err(JsonRpcError::new(JsonRpcError::INVALID_REQUEST, message))
    }

    /// Parses a request id; `None` if it is not valid.
    pub(super) fn from_raw(raw: &RawValue) -> Option<Self> {
        Self::parse(raw).ok()
    }

    /// Creates the id of a server request.
    pub(super) fn from_number(number: u64) -> Self {
        Self(format!("\"toolpost-{number}\"").into())
    }

    /// Returns an empty id, which no request can have.
    pub(super) fn placeholder() -> Self {
        Self("".into())
    }

    pub(super) fn as_json(&self) -> &str {
        &self.0
    }
}

impl JsonRpcError {
    pub(super) const PARSE_ERROR: i64 = -32_700;
    pub(super) const INVALID_REQUEST: i64 = -32_600;
    pub(super) const METHOD_NOT_FOUND: i64 = -32_601;
    pub(super) const INVALID_PARAMS: i64 = -32_602;
    pub(super) const INTERNAL_ERROR: i64 = -32_603;
    pub(super) const OVERLOADED: i64 = -32_000;
    pub(super) const CANCELED: i64 = -32_800;
    pub(super) const SESSION_NOT_FOUND: i64 = -32_001;
    pub(super) const HEADER_MISMATCH: i64 = -32_020;
    pub(super) const MISSING_CAPABILITY: i64 = -32_021;
    pub(super) const UNSUPPORTED_VERSION: i64 = -32_022;

    /// Creates an error. A long message, such as one that quotes client input, is truncated.
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_ERROR_BYTES {
            message.truncate(message.floor_char_boundary(MAX_ERROR_BYTES));
            message.push('…');
        }
        Self { code, message, data: None, is_from_source: false }
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    pub(super) fn header_mismatch(message: impl Into<String>) -> Self {
        Self::new(Self::HEADER_MISMATCH, message)
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        let displayed: String = method.chars().take(100).collect();
        Self::new(Self::METHOD_NOT_FOUND, format!("unknown method `{displayed}`"))
    }

    /// Encodes the error response. Without an id, `id` is `null`.
    pub(super) fn encode(&self, id: Option<&JsonRpcId>) -> Vec<u8> {
        let mut error = serde_json::json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        let id = id.map_or("null", JsonRpcId::as_json);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into_bytes()
    }
}

/// Finds the id at the start of a message that is too long to parse. Only the text before `params`
/// is searched, since params may contain other ids.
pub(super) fn find_id(head: &[u8]) -> Option<JsonRpcId> {
    let head = String::from_utf8_lossy(head);
    let before = head.find(r#""params""#).map_or(&*head, |end| &head[..end]);
    let (_, rest) = before.split_once(r#""id""#)?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let mut ids = serde_json::Deserializer::from_str(rest).into_iter::<Box<RawValue>>();
    JsonRpcId::parse(&ids.next()?.ok()?).ok()
}

/// Starts the response to a request. The result and `}` follow.
pub(super) fn start_result(id: &JsonRpcId) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_json().as_bytes());
    out.extend_from_slice(br#","result":"#);
    out
}

/// Encodes a server request.
pub(super) fn encode_request(id: &JsonRpcId, method: &str, params: Option<&RawValue>) -> Vec<u8> {
    let (id, method) = (id.as_json(), Value::from(method));
    let params = params.map(|params| format!(r#","params":{params}"#)).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method}{params}}}"#).into_bytes()
}

pub(super) fn encode_notification(method: &str, params: &Value) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#).into_bytes()
}

/// Replaces line breaks by spaces. In JSON, line breaks occur only between tokens.
pub(super) fn to_single_line(message: &mut [u8]) {
    for byte in message {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
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
            let rendered = match parse(text.as_bytes()) {
                Ok(ClientMessage::Request { id, method, params }) => {
                    format!("{} {method} {}", id.as_json(), params.map_or("-", RawValue::get))
                }
                Ok(ClientMessage::Notification { method, params }) => {
                    format!("{method} {}", params.map_or("-", RawValue::get))
                }
                Ok(ClientMessage::Response { id, result: reply }) => {
                    format!("{} {reply:?}", id.as_json())
                }
                Err((id, fault)) => {
                    let error_message = fault.message.split(", expected").next().unwrap();
                    let error_message = error_message.split(" at line").next().unwrap();
                    let id = id.map_or(String::new(), |id| format!(" ({})", id.as_json()));
                    format!("{} {error_message}{id}", fault.code)
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
            assert_eq!(find_id(head.as_bytes()).as_ref().map(JsonRpcId::as_json), id, "{head}");
        }
    }

    #[test]
    fn json_rpc_error_encodes_as_response() {
        let mut rpc_error = JsonRpcError::unknown_method("x\"y");
        rpc_error.data = Some(serde_json::json!({"a": 1}));
        let text = r#"{"jsonrpc":"2.0","id":"q","error":{"code":-32601,"message":"unknown method `x\"y`","data":{"a":1}}}"#;
        let id = JsonRpcId::from_raw(&RawValue::from_string(r#""q""#.to_owned()).unwrap());
        assert_eq!(String::from_utf8(rpc_error.encode(id.as_ref())).unwrap(), text);
        assert!(String::from_utf8(rpc_error.encode(None)).unwrap().contains(r#""id":null"#));
    }
}
