//! What an MCP payload asks for, and whether a kind tells the truth about it.
//!
//! Capabilities are judged by the kind, and whoever acts reads the payload. So the payload is looked
//! at first, and a kind that says something else is refused.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::kind::{Kind, KindError};
use super::member;

/// How much of a text is repeated in an explanation.
const QUOTED: usize = 100;

/// What a request, a proposal or a notification is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Asked {
    /// The MCP method, such as `tools/call`.
    pub method: Box<str>,
    /// The tool, the resource, the prompt or the completion's reference, where the method has one.
    pub name: Option<Box<str>>,
}

/// Why a kind and its payload do not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Mismatch {
    /// `kind_mismatch`, or `invalid_message` where the payload names what no kind can name.
    pub error: &'static str,
    /// What the kind says and what the payload says.
    pub message: String,
}

impl Mismatch {
    fn between(message: String) -> Self {
        Self { error: "kind_mismatch", message }
    }

    fn unspeakable(error: &KindError) -> Self {
        Self { error: "invalid_message", message: format!("what the payload asks for: {error}") }
    }
}

/// What a payload asks for; nothing where it names no method.
///
/// A name of another type than text is none: such a request is only for those who may ask for every
/// name of its method.
///
/// # Errors
///
/// The payload says its method or a name twice.
pub fn asked(payload: Option<&RawValue>) -> Result<Option<Asked>, Mismatch> {
    look(payload).map_err(|error| Mismatch {
        error: "invalid_message",
        message: format!("the payload cannot be read: {error}"),
    })
}

/// The full kind of a request, a proposal or a notification; every other kind is left as it is.
///
/// # Errors
///
/// The kind says something else than its payload, or the payload names what cannot stand in a kind.
pub fn upgraded(kind: Kind, payload: Option<&RawValue>) -> Result<Kind, Mismatch> {
    if !kind.is_extended() || kind.short() == "mcp/response" {
        return Ok(kind);
    }
    let Some(asked) = asked(payload)? else { return without_method(kind, payload) };
    agreed(kind, &asked, "its payload")
}

/// The full kind of a response, given what its request asked for.
///
/// # Errors
///
/// The kind says something else than the request.
pub fn answers(kind: Kind, asked: &Asked) -> Result<Kind, Mismatch> {
    agreed(kind, asked, "the request")
}

fn without_method(kind: Kind, payload: Option<&RawValue>) -> Result<Kind, Mismatch> {
    match (kind.method(), payload) {
        (Some(method), Some(_)) => Err(Mismatch::between(format!(
            "the kind says `{}` and its payload names no method",
            member::cut(method, QUOTED)
        ))),
        _ => Ok(kind),
    }
}

fn agreed(kind: Kind, asked: &Asked, other: &str) -> Result<Kind, Mismatch> {
    let name = asked.name.as_deref();
    if (kind.method(), kind.context()) == (Some(&asked.method), name) {
        return Ok(kind);
    }
    let is_unsaid = kind.method().is_some_and(|method| is_unsaid(method, &asked.method));
    if is_unsaid && kind.context().is_none() {
        return kind.with_asked(asked).map_err(|error| Mismatch::unspeakable(&error));
    }
    let quoted = |text: &str| format!("`{}`", member::cut(text, QUOTED));
    if let Some(method) = kind.method().filter(|method| **method != *asked.method) {
        let (said, meant) = (quoted(method), quoted(&asked.method));
        return Err(Mismatch::between(format!("the kind says {said} and {other} says {meant}")));
    }
    if let Some(context) = kind.context().filter(|_| !name.is_some_and(|name| kind.may_mean(name)))
    {
        let meant =
            name.map_or_else(|| "names nothing".to_owned(), |it| format!("says {}", quoted(it)));
        let said = quoted(context);
        return Err(Mismatch::between(format!("the kind says {said} and {other} {meant}")));
    }
    kind.with_asked(asked).map_err(|error| Mismatch::unspeakable(&error))
}

/// Some clients write `unknown`, or only the beginning of a longer method; that says less than the
/// payload and nothing else.
fn is_unsaid(said: &str, method: &str) -> bool {
    said == "unknown" || method.strip_prefix(said).is_some_and(|rest| rest.starts_with('/'))
}

/// What is looked at in a payload; the rest is passed over.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, rename = "ref")]
    reference: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Reference<'a> {
    #[serde(borrow, rename = "type")]
    of: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
}

fn look(payload: Option<&RawValue>) -> serde_json::Result<Option<Asked>> {
    let Some(request) = object::<Request<'_>>(payload)? else { return Ok(None) };
    let Some(method) = text(request.method)? else { return Ok(None) };
    let name = name(&method, request.params)?;
    Ok(Some(Asked { method, name }))
}

fn name(method: &str, params: Option<&RawValue>) -> serde_json::Result<Option<Box<str>>> {
    let of_params: fn(Params<'_>) -> serde_json::Result<Option<Box<str>>> = match method {
        "tools/call" | "prompts/get" => |params| text(params.name),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
            |params| text(params.uri)
        }
        "completion/complete" => |params| referred(params.reference),
        _ => return Ok(None),
    };
    object::<Params<'_>>(params)?.map_or(Ok(None), of_params)
}

/// The one that whoever acts looks at, which the type says; two without a type are none.
fn referred(reference: Option<&RawValue>) -> serde_json::Result<Option<Box<str>>> {
    let Some(reference) = object::<Reference<'_>>(reference)? else { return Ok(None) };
    match text(reference.of)?.as_deref() {
        Some("ref/prompt") => text(reference.name),
        Some("ref/resource") => text(reference.uri),
        _ if reference.name.is_some() && reference.uri.is_some() => Ok(None),
        _ => text(reference.name.or(reference.uri)),
    }
}

/// Reads an object; anything else is none, a list as well, which serde would take for one.
fn object<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> serde_json::Result<Option<T>> {
    let object = raw.map(RawValue::get).filter(|text| text.starts_with('{'));
    object.map(serde_json::from_str).transpose()
}

fn text(raw: Option<&RawValue>) -> serde_json::Result<Option<Box<str>>> {
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
    fn a_payload_says_what_it_asks_for() {
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
            let found = asked(Some(&raw(payload))).unwrap();
            assert_eq!(found.as_ref().map(|asked| &*asked.method), method, "{payload}");
            let found = found.and_then(|asked| asked.name).unwrap_or_default();
            assert_eq!(&*found, name, "{payload}");
        }
        assert_eq!(asked(None).unwrap(), None);
        let twice = asked(Some(&raw(r#"{"method":"a","method":"b"}"#))).unwrap_err();
        assert_eq!(twice.error, "invalid_message");
    }

    #[test]
    fn a_kind_is_completed_or_contradicted_by_its_payload() {
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
                Err("the kind says `delete_file` and its payload says `read_file`"),
            ),
            (
                "mcp/request:tools/list",
                call,
                Err("the kind says `tools/list` and its payload says `tools/call`"),
            ),
            (
                "mcp/request:tools/list:x",
                list,
                Err("the kind says `x` and its payload names nothing"),
            ),
            (
                "mcp/request:tools/call:x",
                r#"{"method":"tools/call","params":{"name":["x"]}}"#,
                Err("the kind says `x` and its payload names nothing"),
            ),
            (
                "mcp/request:tools/call",
                "{}",
                Err("the kind says `tools/call` and its payload names no method"),
            ),
            (
                "mcp/request:tools/call",
                r#"["tools/call"]"#,
                Err("the kind says `tools/call` and its payload names no method"),
            ),
        ] {
            let payload = (!payload.is_empty()).then(|| raw(payload));
            let said = upgraded(Kind::parse(kind).unwrap(), payload.as_deref());
            let said = said.map_err(|mismatch| {
                assert_eq!(mismatch.error, "kind_mismatch", "{kind}");
                mismatch.message
            });
            let said = said.as_ref().map(Kind::full).map_err(String::as_str);
            assert_eq!(said, expected, "{kind}");
        }
    }

    #[test]
    fn a_method_or_a_name_that_no_kind_can_name_is_refused() {
        let long =
            format!(r#"{{"method":"tools/call","params":{{"name":"{}"}}}}"#, "x".repeat(5_000));
        for payload in [
            r#"{"method":"tools/call:read_file"}"#,
            r#"{"method":"*"}"#,
            r#"{"method":""}"#,
            r#"{"method":"tools/call","params":{"name":"a\nb"}}"#,
            &long,
        ] {
            let refused = upgraded(Kind::parse("mcp/request").unwrap(), Some(&raw(payload)));
            assert_eq!(refused.unwrap_err().error, "invalid_message", "{payload}");
        }
    }

    #[test]
    fn an_answer_is_about_what_was_asked() {
        let call = Asked { method: "tools/call".into(), name: Some("a*".into()) };
        let list = Asked { method: "tools/list".into(), name: None };
        for (kind, asked, expected) in [
            ("mcp/response", &call, Some("mcp/response:tools/call:a%2A")),
            ("mcp/response:tools/call", &call, Some("mcp/response:tools/call:a%2A")),
            ("mcp/response:tools/call:a*", &call, Some("mcp/response:tools/call:a%2A")),
            ("mcp/response:tools/call:a%2A", &call, Some("mcp/response:tools/call:a%2A")),
            ("mcp/response", &list, Some("mcp/response:tools/list")),
            ("mcp/response:tools/call:b", &call, None),
            ("mcp/response:tools/list", &call, None),
            ("mcp/response:tools/list:a", &list, None),
        ] {
            let answer = answers(Kind::parse(kind).unwrap(), asked);
            assert_eq!(answer.ok().as_ref().map(Kind::full), expected, "{kind}");
        }
    }
}
