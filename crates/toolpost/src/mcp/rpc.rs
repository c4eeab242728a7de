//! JSON-RPC messages of an MCP client.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json_rpc;
pub(super) use crate::json_rpc::{RpcError, RpcMessage};
use crate::payload::Payload;

/// Parses a message, or each message of a batch (2025-03-26).
pub(super) fn parse(text: &str, each: &mut dyn FnMut(RpcMessage<'_>)) -> serde_json::Result<()> {
    if text.trim_start().starts_with('[') {
        let all: Vec<&RawValue> = serde_json::from_str(text)?;
        return all.into_iter().try_for_each(|one| parse(one.get(), each));
    }
    each(json_rpc::parse_lenient(text)?);
    Ok(())
}

/// Parses the id of a response. Request ids are numbers; a server may return them as strings.
pub(super) fn parse_request_id(id: &RawValue) -> Option<u64> {
    let text = id.get().trim_matches('"');
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}

/// Parses the error object of a response.
pub(super) fn parse_error(error: &RawValue) -> RpcError {
    if error.get() == "null" {
        return RpcError::new(0, "the response has neither a result nor an error");
    }
    serde_json::from_str(error.get()).unwrap_or_else(|_| RpcError {
        data: serde_json::from_str(error.get()).ok(),
        ..RpcError::new(0, "the server returned an invalid error object")
    })
}

/// A member of the `params` of a request.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub(super) enum Param<'a> {
    Text(&'a str),
    Payload(&'a Payload),
    Value(&'a Value),
    Raw(&'a RawValue),
}

pub(super) type RequestParams<'a> = [(&'a str, Param<'a>)];

/// Encodes a request, or a notification without `id`. `meta` has the members of `_meta`.
pub(super) fn encode_request(
    id: Option<u64>,
    method: &str,
    params: &RequestParams<'_>,
    meta: &str,
) -> Result<String, serde_json::Error> {
    let mut text = Vec::with_capacity(256 + meta.len());
    text.extend_from_slice(br#"{"jsonrpc":"2.0""#);
    if let Some(id) = id {
        text.extend_from_slice(br#","id":"#);
        serde_json::to_writer(&mut text, &id)?;
    }
    text.extend_from_slice(br#","method":"#);
    serde_json::to_writer(&mut text, method)?;
    text.extend_from_slice(br#","params":{"#);
    for (index, (name, param)) in params.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        serde_json::to_writer(&mut text, name)?;
        text.push(b':');
        serde_json::to_writer(&mut text, param)?;
    }
    if !meta.is_empty() {
        if !params.is_empty() {
            text.push(b',');
        }
        text.extend_from_slice(br#""_meta":{"#);
        text.extend_from_slice(meta.as_bytes());
        text.push(b'}');
    }
    text.extend_from_slice(b"}}");
    json_rpc::to_single_line(&mut text);
    Ok(String::from_utf8(text).expect("serialized JSON is UTF-8"))
}

/// Encodes the response to a server request on one line.
pub(super) fn encode_response(
    id: &RawValue,
    response: Result<&impl std::fmt::Display, &RpcError>,
) -> String {
    let mut text = json_rpc::encode_response(id.get(), response).into_bytes();
    json_rpc::to_single_line(&mut text);
    String::from_utf8(text).expect("serialized JSON is UTF-8")
}

/// Whether only servers of 2026-07-28 or later send this error.
pub(super) fn is_modern(error: &RpcError) -> bool {
    matches!(
        error.code,
        RpcError::HEADER_MISMATCH | RpcError::MISSING_CAPABILITY | RpcError::UNSUPPORTED_VERSION
    )
}

/// Finds the id of a response that is too long to parse: before `result`, or as the last member
/// except `jsonrpc`. Ids inside the result are ignored.
pub(super) fn id_from_truncated(head: &[u8], tail: &[u8]) -> Option<u64> {
    let head = String::from_utf8_lossy(head);
    let before = head.find(r#""result""#).map(|end| &head[..end])?;
    if before.contains(r#""method""#) {
        return None;
    }
    let first = || leading_number(before.split_once(r#""id""#)?.1);
    let last = || {
        let tail = String::from_utf8_lossy(tail);
        let end = tail.trim_end().strip_suffix('}')?.trim_end();
        let end = end.strip_suffix(r#","jsonrpc":"2.0""#).unwrap_or(end);
        let (_, id) = end.rsplit_once(r#""id""#)?;
        let is_all = id.trim_start_matches([':', ' ', '"']).trim_end_matches('"');
        is_all.bytes().all(|byte| byte.is_ascii_digit()).then(|| leading_number(id))?
    };
    first().or_else(last)
}

/// Parses the number that follows a member name.
fn leading_number(text: &str) -> Option<u64> {
    let digits = text.trim_start().strip_prefix(':')?.trim_start().trim_start_matches('"');
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn describe(text: &str) -> serde_json::Result<Vec<String>> {
        let mut all = Vec::new();
        parse(text, &mut |message| {
            all.push(match message {
                RpcMessage::Response { id, result } => {
                    let id = id.and_then(parse_request_id);
                    match result.map_err(parse_error) {
                        Ok(result) => format!("{id:?} {result}"),
                        Err(error) => format!("{id:?} {} {}", error.code, error.message),
                    }
                }
                RpcMessage::Request { id, method, .. } => format!("{id}? {method}"),
                RpcMessage::Notification { method, params } => {
                    format!("{method} {}", params.map_or("-", RawValue::get))
                }
            });
        })?;
        Ok(all)
    }

    #[test]
    fn rpc_parse_classifies_messages() {
        let rows = [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"a": 1}}"#, r#"Some(7) {"a": 1}"#),
            (r#"{"result":{},"jsonrpc":"2.0","id":"7"}"#, "Some(7) {}"),
            (r#"{"id":"x","result":1}"#, "None 1"),
            (r#"{"id":7.0,"result":1}"#, "Some(7) 1"),
            (r#"{"id":7.5,"result":1}"#, "None 1"),
            (r#"{"id":1,"error":{"code":-32601,"message":"no"}}"#, "Some(1) -32601 no"),
            (r#"{"id":null,"error":{"code":-32700}}"#, "None -32700 "),
            (r#"{"id":1,"error":"odd"}"#, "Some(1) 0 the server returned an invalid error object"),
            (r#"{"id":1}"#, "Some(1) 0 the response has neither a result nor an error"),
            (r#"{"id":"q","method":"ping"}"#, r#""q"? ping"#),
            (r#"{"method":"notifications/x","params":[1]}"#, "notifications/x [1]"),
            (r#"{"method":"a\u0062"}"#, "ab -"),
        ];
        for (text, expected) in rows {
            assert_eq!(describe(text).unwrap(), [expected], "{text}");
        }
        let batch = r#" [{"id":1,"result":1},{"method":"m"}]"#;
        assert_eq!(describe(batch).unwrap(), ["Some(1) 1", "m -"]);
        for bad in ["", "hello", "{", "[1]", r#"{"id":1,"id":2}"#, "3", "null"] {
            assert!(describe(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rpc_request_is_encoded_on_one_line() {
        let input = Payload::from_json("{\n \"a\": 1\r\n}".to_owned()).unwrap();
        let (list, name) = (json!([1]), "e\"cho");
        let params = [
            ("name", Param::Text(name)),
            ("arguments", Param::Payload(&input)),
            ("list", Param::Value(&list)),
        ];
        let text = encode_request(Some(3), "tools/call", &params, r#""progressToken":3"#).unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap(),
            json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
                "name": "e\"cho", "arguments": {"a": 1}, "list": [1],
                "_meta": {"progressToken": 3}}})
        );
        let notification = encode_request(None, "notifications/initialized", &[], "").unwrap();
        assert_eq!(
            notification,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}"#
        );
    }

    #[test]
    fn rpc_id_is_found_in_truncated_message() {
        let rows: [(&str, &str, Option<u64>); 10] = [
            (r#"{"jsonrpc":"2.0","id":5,"result":{"content":[{"#, "]}}", Some(5)),
            (r#"{"result":{"id":9,"content":"#, r#"]},"jsonrpc":"2.0","id":5}"#, Some(5)),
            (r#"{ "id" : "12" ,"result""#, "", Some(12)),
            (r#"{"result":{"#, r#"no id here"}"#, None),
            (r#"{"jsonrpc":"2.0","result":{"content":[{"id":4,"#, r#"]},"id":5}"#, Some(5)),
            (r#"{"result":{"#, r#"{"id":4}]}}"#, None),
            (r#"{"method":"m","id":4,"params":{"result":1"#, r#""id":4}"#, None),
            (r#"{"method":"m","params":{"#, r#""id":4}"#, None),
            ("", "", None),
            (r#"{"jsonrpc":"2.0","result":{"#, r#""x"},"id":77}"#, Some(77)),
        ];
        for (head, tail, expected) in rows {
            assert_eq!(id_from_truncated(head.as_bytes(), tail.as_bytes()), expected, "{head}");
        }
    }
}
