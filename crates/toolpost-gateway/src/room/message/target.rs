//! The method and target name of an MCP payload, and whether a kind agrees with them.
//!
//! Capabilities are checked against the kind, but recipients act on the payload. The payload is
//! therefore read first, and a kind that contradicts it is rejected.

use serde::Deserialize;
use serde_json::value::RawValue;
use toolpost::json::error_message;
use toolpost::json_rpc::RawMessage;

use super::base_kind::BaseKind;
use super::draft::{MessageParseError, quoted};
use super::kind::{KindError, MessageKind};
use super::rejection_code::RejectionCode;

/// The method and target name of a request, proposal or notification.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct McpTarget {
    /// The MCP method, such as `tools/call`.
    pub method: Box<str>,
    /// The tool, resource, prompt or completion reference, if the method has one.
    pub name: Option<Box<str>>,
}

/// The error for a kind that contradicts its payload.
fn mismatch(message: String) -> MessageParseError {
    MessageParseError::new(RejectionCode::KindMismatch, message)
}

/// The error for a payload whose target no kind can express.
fn invalid_target(error: &KindError) -> MessageParseError {
    MessageParseError::invalid(format!("invalid method or name in the payload: {error}"))
}

/// Returns the method and name of a payload; `None` if it has no method.
///
/// A name that is not a string counts as absent: such a request needs a capability for every name
/// of its method.
///
/// # Errors
///
/// The payload contains its method or a name twice.
pub fn parse_target(payload: Option<&RawValue>) -> Result<Option<McpTarget>, MessageParseError> {
    read_target(payload)
        .map_err(|error| format!("the payload cannot be read: {}", error_message(&error)))
        .map_err(MessageParseError::invalid)
}

/// Returns the full kind of a request, a proposal or a notification; any other kind is unchanged.
///
/// # Errors
///
/// The kind contradicts its payload, or the payload has a method or name that is not valid in a
/// kind.
pub fn upgrade_kind(
    kind: MessageKind,
    payload: Option<&RawValue>,
) -> Result<MessageKind, MessageParseError> {
    let is_upgraded = |base: BaseKind| base.is_extended() && base != BaseKind::McpResponse;
    if !kind.base().is_some_and(is_upgraded) {
        return Ok(kind);
    }
    match (parse_target(payload)?, kind.method(), payload) {
        (Some(target), ..) => reconcile_kind(kind, &target, "its payload"),
        (None, Some(method), Some(_)) => {
            Err(mismatch(format!("the kind has {}, but its payload has no method", quoted(method))))
        }
        _ => Ok(kind),
    }
}

/// Returns the full kind of a response, given the target of its request.
///
/// # Errors
///
/// The kind contradicts the request.
pub fn upgrade_response_kind(
    kind: MessageKind,
    target: &McpTarget,
) -> Result<MessageKind, MessageParseError> {
    reconcile_kind(kind, target, "the request")
}

fn reconcile_kind(
    kind: MessageKind,
    target: &McpTarget,
    other: &str,
) -> Result<MessageKind, MessageParseError> {
    let name = target.name.as_deref();
    if kind.target() == Some(target) {
        return Ok(kind);
    }
    let is_less_specific =
        kind.method().is_some_and(|method| is_less_specific(method, &target.method));
    if is_less_specific && kind.context().is_none() {
        return kind.with_target(target).map_err(|error| invalid_target(&error));
    }
    if let Some(method) = kind.method().filter(|method| **method != *target.method) {
        let (declared, meant) = (quoted(method), quoted(&target.method));
        return Err(mismatch(format!("the kind has {declared}, but {other} has {meant}")));
    }
    if let Some(context) =
        kind.context().filter(|_| !name.is_some_and(|name| kind.matches_name(name)))
    {
        let (declared, meant) = (quoted(context), name.map_or("no name".into(), quoted));
        return Err(mismatch(format!("the kind has {declared}, but {other} has {meant}")));
    }
    kind.with_target(target).map_err(|error| invalid_target(&error))
}

/// Whether the METHOD of a kind is a less specific form of `method`. Some clients write `unknown`
/// or only the first segments.
fn is_less_specific(kind_method: &str, method: &str) -> bool {
    kind_method == "unknown"
        || method.strip_prefix(kind_method).is_some_and(|rest| rest.starts_with('/'))
}

/// The members of params that matter here; others are skipped.
#[derive(Deserialize)]
struct McpParams<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, rename = "ref")]
    reference: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CompletionRef<'a> {
    #[serde(borrow, rename = "type")]
    ref_type: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
}

fn read_target(payload: Option<&RawValue>) -> serde_json::Result<Option<McpTarget>> {
    let Some(request) = parse_object::<RawMessage<'_>>(payload)? else { return Ok(None) };
    let Some(method) = parse_string(request.method)? else { return Ok(None) };
    let name = target_name(&method, request.params)?;
    Ok(Some(McpTarget { method, name }))
}

fn target_name(method: &str, params: Option<&RawValue>) -> serde_json::Result<Option<Box<str>>> {
    let of_params: fn(McpParams<'_>) -> serde_json::Result<Option<Box<str>>> = match method {
        "tools/call" | "prompts/get" => |params| parse_string(params.name),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
            |params| parse_string(params.uri)
        }
        "completion/complete" => |params| completion_target(params.reference),
        _ => return Ok(None),
    };
    parse_object::<McpParams<'_>>(params)?.map_or(Ok(None), of_params)
}

/// Returns the reference that the recipient uses, which `type` selects. A name and a URI without a
/// known type count as absent.
fn completion_target(reference: Option<&RawValue>) -> serde_json::Result<Option<Box<str>>> {
    let Some(reference) = parse_object::<CompletionRef<'_>>(reference)? else { return Ok(None) };
    match parse_string(reference.ref_type)?.as_deref() {
        Some("ref/prompt") => parse_string(reference.name),
        Some("ref/resource") => parse_string(reference.uri),
        _ if reference.name.is_some() && reference.uri.is_some() => Ok(None),
        _ => parse_string(reference.name.or(reference.uri)),
    }
}

/// Parses an object. Any other value is `None`, including an array, which serde would accept for a
/// struct.
fn parse_object<'a, T: Deserialize<'a>>(
    raw: Option<&'a RawValue>,
) -> serde_json::Result<Option<T>> {
    let object = raw.map(RawValue::get).filter(|text| text.starts_with('{'));
    object.map(serde_json::from_str).transpose()
}

fn parse_string(raw: Option<&RawValue>) -> serde_json::Result<Option<Box<str>>> {
    let text = raw.map(RawValue::get).filter(|text| text.starts_with('"'));
    text.map(serde_json::from_str).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn payload_yields_method_and_target_name() {
        for (payload, method, name) in [
            (r#"{"method":"tools/call","params":{"name":"a","uri":"b"}}"#, Some("tools/call"), "a"),
            (
                r#"{"params":{"name":"a\u0062"},"\u006dethod":"prompts/get"}"#,
                Some("prompts/get"),
                "ab",
            ),
            (
                r#"{"method":"resources/read","params":{"uri":"u:/"}}"#,
                Some("resources/read"),
                "u:/",
            ),
            (
                r#"{"method":"resources/subscribe","params":{"uri":"u"}}"#,
                Some("resources/subscribe"),
                "u",
            ),
            (
                r#"{"method":"resources/unsubscribe","params":{"uri":"u"}}"#,
                Some("resources/unsubscribe"),
                "u",
            ),
            (
                r#"{"method":"completion/complete","params":{"ref":{"name":"p"}}}"#,
                Some("completion/complete"),
                "p",
            ),
            (
                r#"{"method":"completion/complete","params":{"ref":{"uri":"u"}}}"#,
                Some("completion/complete"),
                "u",
            ),
            (
                r#"{"method":"completion/complete","params":{"ref":
                    {"type":"ref/resource","name":"p","uri":"u"}}}"#,
                Some("completion/complete"),
                "u",
            ),
            (
                r#"{"method":"completion/complete","params":{"ref":{"name":"p","uri":"u"}}}"#,
                Some("completion/complete"),
                "",
            ),
            (r#"{"method":"tools/list","params":{"name":"a"}}"#, Some("tools/list"), ""),
            (r#"{"method":"tools/call","params":{"name":7}}"#, Some("tools/call"), ""),
            (r#"{"method":"tools/call","params":["a"]}"#, Some("tools/call"), ""),
            (r#"{"method":"tools/call"}"#, Some("tools/call"), ""),
            (r#"{"method":["tools/call"]}"#, None, ""),
            (r#"["tools/call",{"name":"a"}]"#, None, ""),
            (r#"{"result":{"method":"x"}}"#, None, ""),
            ("\"text\"", None, ""),
        ] {
            let found = parse_target(Some(&raw(payload))).unwrap();
            assert_eq!(found.as_ref().map(|target| &*target.method), method, "{payload}");
            let found = found.and_then(|target| target.name).unwrap_or_default();
            assert_eq!(&*found, name, "{payload}");
        }
        assert_eq!(parse_target(None).unwrap(), None);
        let twice = parse_target(Some(&raw(r#"{"method":"a","method":"b"}"#))).unwrap_err();
        assert_eq!(twice.code, RejectionCode::InvalidMessage);
    }

    #[test]
    fn kind_is_upgraded_or_rejected_by_payload() {
        let call = r#"{"method":"tools/call","params":{"name":"read_file"}}"#;
        let odd = r#"{"method":"tools/call","params":{"name":"a%2A*"}}"#;
        let read = r#"{"method":"resources/read","params":{"uri":"file:///a%20b"}}"#;
        let list = r#"{"method":"tools/list"}"#;
        for (kind, payload, expected) in [
            ("mcp/request", call, Ok("mcp/request:tools/call:read_file")),
            ("mcp/proposal:tools/call", call, Ok("mcp/proposal:tools/call:read_file")),
            ("mcp/request:tools/call:read_file", call, Ok("mcp/request:tools/call:read_file")),
            ("mcp/request:tools/call:read_file", "", Ok("mcp/request:tools/call:read_file")),
            ("mcp/request", "{}", Ok("mcp/request")),
            ("mcp/request", "[1]", Ok("mcp/request")),
            ("mcp/request", odd, Ok("mcp/request:tools/call:a%252A%2A")),
            ("mcp/request:tools/call:a%2A*", odd, Ok("mcp/request:tools/call:a%252A%2A")),
            ("mcp/request:tools/call:a%252A%2A", odd, Ok("mcp/request:tools/call:a%252A%2A")),
            (
                "mcp/request:resources/read:file:///a%20b",
                read,
                Ok("mcp/request:resources/read:file:///a%2520b"),
            ),
            (
                "mcp/request:resources/read:file:///a%2520b",
                read,
                Ok("mcp/request:resources/read:file:///a%2520b"),
            ),
            ("mcp/notification", list, Ok("mcp/notification:tools/list")),
            ("mcp/response:tools/call", call, Ok("mcp/response:tools/call")),
            ("chat", call, Ok("chat")),
            ("mcp/withdraw", call, Ok("mcp/withdraw")),
            (
                "mcp/request:tools/call:delete_file",
                call,
                Err("the kind has `delete_file`, but its payload has `read_file`"),
            ),
            (
                "mcp/request:tools/list",
                call,
                Err("the kind has `tools/list`, but its payload has `tools/call`"),
            ),
            (
                "mcp/request:tools/list:x",
                list,
                Err("the kind has `x`, but its payload has no name"),
            ),
            (
                "mcp/request:tools/call:x",
                r#"{"method":"tools/call","params":{"name":["x"]}}"#,
                Err("the kind has `x`, but its payload has no name"),
            ),
            (
                "mcp/request:tools/call",
                "{}",
                Err("the kind has `tools/call`, but its payload has no method"),
            ),
            (
                "mcp/request:tools/call",
                r#"["tools/call"]"#,
                Err("the kind has `tools/call`, but its payload has no method"),
            ),
        ] {
            let payload = (!payload.is_empty()).then(|| raw(payload));
            let upgraded = upgrade_kind(MessageKind::parse(kind).unwrap(), payload.as_deref());
            let upgraded = upgraded.map_err(|mismatch| {
                assert_eq!(mismatch.code, RejectionCode::KindMismatch, "{kind}");
                mismatch.message
            });
            let upgraded = upgraded.as_ref().map(MessageKind::full).map_err(String::as_str);
            assert_eq!(upgraded, expected, "{kind}");
        }
    }

    #[test]
    fn target_not_encodable_in_kind_is_rejected() {
        let long =
            format!(r#"{{"method":"tools/call","params":{{"name":"{}"}}}}"#, "x".repeat(5_000));
        for payload in [
            r#"{"method":"tools/call:read_file"}"#,
            r#"{"method":"*"}"#,
            r#"{"method":""}"#,
            r#"{"method":"tools/call","params":{"name":"a\nb"}}"#,
            &long,
        ] {
            let rejected =
                upgrade_kind(MessageKind::parse("mcp/request").unwrap(), Some(&raw(payload)));
            assert_eq!(rejected.unwrap_err().code, RejectionCode::InvalidMessage, "{payload}");
        }
    }

    #[test]
    fn response_kind_is_upgraded_from_request_target() {
        let call = McpTarget { method: "tools/call".into(), name: Some("a*".into()) };
        let list = McpTarget { method: "tools/list".into(), name: None };
        for (kind, target, expected) in [
            ("mcp/response", &call, Some("mcp/response:tools/call:a%2A")),
            ("mcp/response:tools/call", &call, Some("mcp/response:tools/call:a%2A")),
            ("mcp/response:tools/call:a*", &call, Some("mcp/response:tools/call:a%2A")),
            ("mcp/response:tools/call:a%2A", &call, Some("mcp/response:tools/call:a%2A")),
            ("mcp/response", &list, Some("mcp/response:tools/list")),
            ("mcp/response:tools/call:b", &call, None),
            ("mcp/response:tools/list", &call, None),
            ("mcp/response:tools/list:a", &list, None),
        ] {
            let reply = upgrade_response_kind(MessageKind::parse(kind).unwrap(), target);
            assert_eq!(reply.ok().as_ref().map(MessageKind::full), expected, "{kind}");
        }
    }
}
