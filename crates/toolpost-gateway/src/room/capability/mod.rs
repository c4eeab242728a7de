//! Capabilities: which messages a participant can send.
//!
//! A capability is written in one of two notations. A **string** is matched against the full kind,
//! `BASE[:METHOD[:CONTEXT]]`, where `*` matches any run of characters. Without CONTEXT it covers
//! every CONTEXT, without METHOD every METHOD and CONTEXT. With CONTEXT it does not cover a message
//! without one, unless it is a bare `*`. A `*` never extends from METHOD into CONTEXT. In CONTEXT,
//! a literal `*` or `%` in a name is written `%2A` or `%25`, as in kinds.
//!
//! A **pattern** is an object with `kind`, an optional `payload` and an optional `to`:
//!
//! | in a pattern | matches |
//! |---|---|
//! | `kind` | the kind without METHOD and CONTEXT; the full kind, part by part, if it contains a `:` |
//! | `"read_*"`, `"a?c"` | a glob; `*` and `?` do not cross slashes, `**` does |
//! | `"!x"` | a string that does not match `x`; no other type |
//! | `"/x/"` | a string in which the regular expression matches |
//! | `[a, b]` | any of the alternatives |
//! | `{}` | an object in which every member matches; a missing member does not match |
//! | `"**": x` | a match for `x` at this level or anywhere below |
//! | `"read_*": x` | a member whose name matches the glob and whose value matches `x` |
//! | `"$.a[0]..b": x` | a value selected by the path that matches `x`; beside `kind`, the path starts at `$.payload` |
//!
//! `to` is a name of a participant or a list of names, in which `*` matches any run of characters.
//! The capability then covers only messages with addressees that are all in the list. A capability
//! as a string has no place for `to`; the pattern `{"kind": STRING, "to": …}` has.
//!
//! `id`, `name`, `title`, `description`, `reason` and `comment` beside `kind` are annotations. A
//! capability with any other member allows nothing, because the member may be a restriction that is
//! not supported here.
//!
//! No capability covers `system/…`. Apart from a bare `*` or `**` and exact strings, nothing in a
//! capability matches a string with a `.` or `..` segment. A decision takes time linear in the size
//! of the message, for any capability.
//!
//! ```
//! use toolpost_gateway::room::capability::{Capabilities, Capability, CapabilityRequest};
//!
//! let capabilities = Capabilities::new([Capability::parse("mcp/request:tools/call:read_*")?]);
//! let reads = CapabilityRequest::new("mcp/request:tools/call:read_file", None);
//! assert!(capabilities.check(&reads).is_ok());
//!
//! let deletes = CapabilityRequest::new("mcp/request:tools/call:delete_file", None);
//! let reason = capabilities.check(&deletes).unwrap_err();
//! assert_eq!(
//!     reason.to_string(),
//!     "`mcp/request:tools/call:read_*` does not cover the tool `delete_file`",
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod addressees;
mod denial_reason;
mod error;
mod glob;
mod json_path;
mod kind_pattern;
mod payload_pattern;
mod prefilter;
mod request;
mod set;
mod setting;
mod string_pattern;
mod subsumption;
#[cfg(test)]
mod tests;
mod traversal;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use addressees::AddresseePattern;
use glob::GlobSyntax;
use json_path::{JsonPathSegment, parse_json_path};
use kind_pattern::{KindParts, KindPattern, MatchDepth, compile_kind};
use payload_pattern::{PatternCompiler, PatternNode};
use prefilter::{Prefilter, PrefilterInput};

pub use denial_reason::DenialReason;
pub use error::CapabilityError;
pub use request::CapabilityRequest;
pub use set::Capabilities;
pub(crate) use setting::CapabilityTexts;

/// Members of a pattern without effect on matching.
const ANNOTATION_MEMBERS: [&str; 6] = ["id", "name", "title", "description", "reason", "comment"];

/// Permission to send certain messages, compiled for matching. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Capability(Arc<CompiledCapability>);

#[derive(Debug)]
struct CompiledCapability {
    value: Value,
    /// Alternatives for the kind; at least one must match.
    kinds: Box<[KindPattern]>,
    /// Constraints on the payload; all must match.
    payload: Box<[PatternNode]>,
    /// The addressees that it is limited to.
    to: Option<AddresseePattern>,
    prefilter: Prefilter,
    /// An unsupported member; if present, the capability matches nothing.
    unknown_member: Option<String>,
}

impl Capability {
    /// Compiles a capability from JSON: a string in string notation, or a pattern object.
    ///
    /// # Errors
    ///
    /// The value is neither a string nor an object, exceeds a size limit, or has an invalid part.
    pub fn compile(value: &Value) -> Result<Self, CapabilityError> {
        let mut compiler = PatternCompiler::new();
        let compiled = match value {
            Value::String(text) => compile_string(&mut compiler, text)?,
            Value::Object(members) => compile_pattern(&mut compiler, members)?,
            _ => return Err(CapabilityError::UnsupportedType),
        };
        Ok(Self(Arc::new(compiled)))
    }

    /// Parses a capability from configuration text: string notation, or a pattern as JSON.
    ///
    /// # Errors
    ///
    /// As for [`Capability::compile`]; also if the text begins with `{` and is not valid JSON.
    pub fn parse(text: &str) -> Result<Self, CapabilityError> {
        if !text.trim_start().starts_with('{') {
            return Self::compile(&Value::String(text.to_owned()));
        }
        Self::compile(&serde_json::from_str(text).map_err(CapabilityError::Json)?)
    }

    /// Returns the capability as written.
    pub fn value(&self) -> &Value {
        &self.0.value
    }

    /// Returns the unsupported member because of which the capability allows nothing.
    pub fn unknown_member(&self) -> Option<&str> {
        self.0.unknown_member.as_deref()
    }

    fn allows(&self, input: &PrefilterInput<'_>) -> bool {
        self.0.unknown_member.is_none()
            && self.0.kinds.iter().any(|kind| kind.matches(input.request))
            && self.matches_addressees(input.request)
            && self.0.prefilter.may_match(input)
            && self.matches_payload(input.request)
    }

    fn matches_payload(&self, request: &CapabilityRequest<'_>) -> bool {
        let fits = |value: &Value| self.0.payload.iter().all(|node| node.matches(value));
        self.0.payload.is_empty() || request.payload().is_some_and(fits)
    }

    fn matches_addressees(&self, request: &CapabilityRequest<'_>) -> bool {
        self.0.to.as_ref().is_none_or(|pattern| pattern.matches(request.to()))
    }

    fn match_depth(&self, request: &CapabilityRequest<'_>) -> MatchDepth {
        if self.0.unknown_member.is_some() {
            return MatchDepth::Kind;
        }
        let best = self.0.kinds.iter().map(|kind| kind.match_depth(request)).max();
        match best.unwrap_or(MatchDepth::Kind) {
            MatchDepth::Full if !self.matches_payload(request) => MatchDepth::Payload,
            // The message is denied, and its kind and payload match.
            MatchDepth::Full => MatchDepth::Addressees,
            depth => depth,
        }
    }
}

/// Formats the capability as written: the string, or the pattern as JSON.
impl fmt::Display for Capability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.value {
            Value::String(text) => formatter.write_str(text),
            value => write!(formatter, "{value}"),
        }
    }
}

/// Capabilities are equal if they are written identically.
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
        kinds: [KindPattern::Glob(parts)].into(),
        payload: [].into(),
        to: None,
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
    let (mut payload, mut to, mut unknown) = (Vec::new(), None, None);
    for (name, value) in members {
        compiler.budget.take_string(name)?;
        match name.as_str() {
            "kind" => {}
            // An empty object adds no condition and does not require a payload.
            "payload" if value.as_object().is_some_and(Map::is_empty) => {}
            "payload" => payload.push(compiler.compile_node(value, 0)?),
            "to" => to = Some(AddresseePattern::compile(&mut compiler.budget, value)?),
            path if path.starts_with('$') => {
                payload.push(compiler.compile_path(&payload_path(path)?, value, 0)?);
            }
            name if ANNOTATION_MEMBERS.contains(&name) => {}
            name => unknown = Some(name.to_owned()),
        }
    }
    Ok(CompiledCapability {
        value: Value::Object(members.clone()),
        kinds,
        prefilter: Prefilter::new(&payload),
        payload: payload.into(),
        to,
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
        compile_kind(&mut compiler.budget, text)
    };
    alternatives.iter().map(compile).collect()
}

/// Parses a JSONPath next to `kind`, which must select a part of the payload. Conditions on the kind belong
/// in `kind`.
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
