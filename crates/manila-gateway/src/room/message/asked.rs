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
    agreed(&kind, &asked, "its payload")
}

/// The full kind of a response, given what its request asked for.
///
/// # Errors
///
/// The kind says something else than the request.
pub fn answers(kind: Kind, asked: &Asked) -> Result<Kind, Mismatch> {
    agreed(&kind, asked, "the request")
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

fn agreed(kind: &Kind, asked: &Asked, other: &str) -> Result<Kind, Mismatch> {
    let quoted = |text: &str| format!("`{}`", member::cut(text, QUOTED));
    if let Some(method) = kind.method().filter(|method| **method != *asked.method) {
        let (said, meant) = (quoted(method), quoted(&asked.method));
        return Err(Mismatch::between(format!("the kind says {said} and {other} says {meant}")));
    }
    let name = asked.name.as_deref();
    if let Some(context) = kind.context().filter(|_| !name.is_some_and(|name| kind.may_mean(name)))
    {
        let meant =
            name.map_or_else(|| "names nothing".to_owned(), |it| format!("says {}", quoted(it)));
        let said = quoted(context);
        return Err(Mismatch::between(format!("the kind says {said} and {other} {meant}")));
    }
    kind.with_asked(asked).map_err(|error| Mismatch::unspeakable(&error))
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
