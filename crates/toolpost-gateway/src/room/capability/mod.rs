//! Which messages somebody may send.
//!
//! A capability is written in one of two notations. A **string** is held against the full kind:
//! `BASE[:METHOD[:CONTEXT]]`, where `*` stands for any run of characters. Without CONTEXT it covers
//! every CONTEXT, without METHOD everything; with CONTEXT it does not cover a message that has none,
//! unless it is a bare `*`. A `*` never runs from METHOD into CONTEXT. In CONTEXT, `*` and `%` of
//! names are written `%2A` and `%25`, as they are in kinds.
//!
//! A **pattern** is an object with `kind` and, if it wants, `payload`:
//!
//! | in a pattern | fits |
//! |---|---|
//! | `kind` | the kind without METHOD and CONTEXT; all of it, part by part, where it has a `:` |
//! | `"read_*"`, `"a?c"` | globs; `*` and `?` stay between slashes, `**` does not |
//! | `"!x"` | a text that is not so; nothing else |
//! | `"/x/"` | a text in which the regular expression is found |
//! | `[a, b]` | one of these |
//! | `{}` | an object in which all of this is so; what is missing does not fit |
//! | `"**": x` | something here or anywhere below that fits |
//! | `"read_*": x` | a member with such a name that fits |
//! | `"$.a[0]..b": x` | something that the path leads to that fits; beside `kind`, from `$.payload` |
//!
//! `id`, `name`, `title`, `description`, `reason` and `comment` beside `kind` are for people. With any
//! other member a capability allows nothing: it asks for something that is not understood here.
//!
//! No capability reaches `system/…`, and none that restricts anything fits a text that climbs with
//! `..`. The time of a decision is that of reading the message, whatever the capabilities are.
//!
//! ```
//! use toolpost_gateway::room::capability::{Capabilities, Capability, CapabilityRequest, Decision};
//!
//! let capabilities = Capabilities::new([Capability::parse("mcp/request:tools/call:read_*")?]);
//! let reads = CapabilityRequest::new("mcp/request:tools/call:read_file", None);
//! assert!(matches!(capabilities.decide(&reads), Decision::Allowed { .. }));
//!
//! let deletes = CapabilityRequest::new("mcp/request:tools/call:delete_file", None);
//! let Decision::Denied { reason } = capabilities.decide(&deletes) else { panic!("it is denied") };
//! assert_eq!(
//!     reason.to_string(),
//!     "`mcp/request:tools/call:read_*` does not cover the tool `delete_file`",
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod denial_reason;
mod error;
mod glob;
mod json_path;
mod kind_pattern;
mod payload_pattern;
mod prefilter;
mod request;
mod set;
mod string_pattern;
mod subsumption;
#[cfg(test)]
mod tests;
mod traversal;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use glob::GlobSyntax;
use json_path::{JsonPathSegment, parse_json_path};
use kind_pattern::{KindParts, KindPattern, MatchDepth};
use payload_pattern::{PatternCompiler, PatternNode};
use prefilter::{Prefilter, PrefilterInput};

pub use denial_reason::DenialReason;
pub use error::CapabilityError;
pub use request::CapabilityRequest;
pub use set::{Capabilities, Decision};

/// What beside `kind` and `payload` is for people.
const ANNOTATION_MEMBERS: [&str; 6] = ["id", "name", "title", "description", "reason", "comment"];

/// Leave to send some messages, ready to be held against them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Capability(Arc<CompiledCapability>);

#[derive(Debug)]
struct CompiledCapability {
    value: Value,
    /// One of these fits the kind.
    kinds: Box<[KindPattern]>,
    /// All of these fit the payload.
    payload: Box<[PatternNode]>,
    prefilter: Prefilter,
    /// A member that is not understood, so that nothing fits.
    unknown_member: Option<String>,
}

impl Capability {
    /// From JSON: a text is the string notation, an object a pattern.
    ///
    /// # Errors
    ///
    /// If it is neither, if it is larger than is allowed, or if a part of it has no meaning.
    pub fn compile(value: &Value) -> Result<Self, CapabilityError> {
        let mut compiler = PatternCompiler::new();
        let compiled = match value {
            Value::String(text) => compile_string(&mut compiler, text)?,
            Value::Object(members) => compile_pattern(&mut compiler, members)?,
            _ => return Err(CapabilityError::UnsupportedType),
        };
        Ok(Self(Arc::new(compiled)))
    }

    /// From a text as in a configuration: the string notation, or the JSON of a pattern.
    ///
    /// # Errors
    ///
    /// As [`Capability::compile`], and if it begins with `{` and is no JSON.
    pub fn parse(text: &str) -> Result<Self, CapabilityError> {
        if !text.trim_start().starts_with('{') {
            return Self::compile(&Value::String(text.to_owned()));
        }
        Self::compile(&serde_json::from_str(text).map_err(CapabilityError::Json)?)
    }

    /// It as it was written.
    pub fn value(&self) -> &Value {
        &self.0.value
    }

    /// The member because of which it allows nothing, if there is one.
    pub fn unknown_member(&self) -> Option<&str> {
        self.0.unknown_member.as_deref()
    }

    fn allows(&self, input: &PrefilterInput<'_>) -> bool {
        self.0.unknown_member.is_none()
            && self.0.kinds.iter().any(|kind| kind.matches(input.request))
            && self.0.prefilter.may_match(input)
            && self.matches_payload(input.request)
    }

    fn matches_payload(&self, request: &CapabilityRequest<'_>) -> bool {
        let fits = |value: &Value| self.0.payload.iter().all(|node| node.matches(value));
        self.0.payload.is_empty() || request.payload().is_some_and(fits)
    }

    /// How far a message fits that is not allowed.
    fn match_depth(&self, request: &CapabilityRequest<'_>) -> MatchDepth {
        if self.0.unknown_member.is_some() {
            return MatchDepth::Kind;
        }
        let best = self
            .0
            .kinds
            .iter()
            .map(|kind| kind.match_depth(request))
            .max()
            .unwrap_or(MatchDepth::Kind);
        // It fits the kind and is not allowed: so it is the payload.
        best.min(MatchDepth::Payload)
    }
}

/// As it was written: the string, or the JSON of the pattern.
impl fmt::Display for Capability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.value {
            Value::String(text) => formatter.write_str(text),
            value => write!(formatter, "{value}"),
        }
    }
}

/// Two are the same if they are written the same.
impl PartialEq for Capability {
    fn eq(&self, other: &Self) -> bool {
        self.0.value == other.0.value
    }
}

impl Eq for Capability {}

fn compile_string(
    compiler: &mut PatternCompiler,
    text: &str,
) -> Result<CompiledCapability, CapabilityError> {
    compiler.budget.take_string(text)?;
    let parts = KindParts::compile(GlobSyntax::Flat, text)?;
    Ok(CompiledCapability {
        value: Value::String(text.to_owned()),
        kinds: [KindPattern::Parts(parts)].into(),
        payload: [].into(),
        prefilter: Prefilter::new(&[]),
        unknown_member: None,
    })
}

fn compile_pattern(
    compiler: &mut PatternCompiler,
    members: &Map<String, Value>,
) -> Result<CompiledCapability, CapabilityError> {
    let kind = members.get("kind").ok_or(CapabilityError::MissingKind)?;
    let kinds = compile_kinds(compiler, kind)?;
    let (mut payload, mut unknown) = (Vec::new(), None);
    for (name, value) in members {
        compiler.budget.take_string(name)?;
        match name.as_str() {
            "kind" => {}
            // An empty object asks for nothing, not even for a payload.
            "payload" if value.as_object().is_some_and(Map::is_empty) => {}
            "payload" => payload.push(compiler.compile_node(value, 0)?),
            path if path.starts_with('$') => {
                payload.push(compiler.compile_path(&payload_path(path)?, value, 0)?);
            }
            name if ANNOTATION_MEMBERS.contains(&name) => {}
            name => unknown = Some(name.to_owned()),
        }
    }
    let value = Value::Object(members.clone());
    let payload_prefilter = Prefilter::new(&payload);
    Ok(CompiledCapability {
        value,
        kinds,
        payload: payload.into(),
        prefilter: payload_prefilter,
        unknown_member: unknown,
    })
}

fn compile_kinds(
    compiler: &mut PatternCompiler,
    kind: &Value,
) -> Result<Box<[KindPattern]>, CapabilityError> {
    let alternatives = match kind {
        Value::Array(alternatives) if !alternatives.is_empty() => alternatives.as_slice(),
        Value::String(_) => std::slice::from_ref(kind),
        _ => return Err(CapabilityError::MissingKind),
    };
    let compile = |kind: &Value| {
        let text = kind.as_str().ok_or(CapabilityError::MissingKind)?;
        KindPattern::compile(&mut compiler.budget, text)
    };
    alternatives.iter().map(compile).collect()
}

/// A path beside `kind` is one from the whole message; what is asked of its kind belongs into `kind`.
fn payload_path(path: &str) -> Result<Vec<JsonPathSegment>, CapabilityError> {
    let mut segments = parse_json_path(path)?;
    match segments.as_slice() {
        [JsonPathSegment::Name(name), ..] if name == "payload" => {
            segments.remove(0);
            Ok(segments)
        }
        [JsonPathSegment::Descendant, JsonPathSegment::Name(name), ..]
            if !["kind", "payload"].contains(&name.as_str()) =>
        {
            Ok(segments)
        }
        _ => Err(CapabilityError::PathOutsidePayload(path.to_owned())),
    }
}
