//! Operation specs: data that can be listed, sent and documented.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::AccessControl;
use crate::schema::Schema;

/// Name of [`OperationMeta::mcp_tool`] on the wire.
pub(crate) const TOOL_META: &str = "toolpost/mcp";

const METHOD_META: &str = "toolpost/method";

/// Maximum length of an operation name, without its namespace, in characters.
pub const MAX_NAME_LENGTH: usize = 200;

/// Member of an operation's `_meta` that marks an operation from another hub or gateway. Such
/// operations are not imported, because two gateways would otherwise import each other's operations
/// endlessly.
pub(crate) const HUB_META_KEY: &str = "toolpost/hub";

/// Operation id, `namespace.name`. It splits at the first dot, so names can contain dots and
/// slashes.
///
/// ```
/// use toolpost::OperationId;
///
/// let id: OperationId = "files.fs.read".parse().unwrap();
/// assert_eq!((id.namespace(), id.name()), ("files", "fs.read"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId {
    text: Arc<str>,
    /// Byte offset of the first dot.
    dot: usize,
}

/// Error returned for an invalid operation id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The text has no dot.
    #[error("`{0}` is not an operation id: expected `namespace.name`")]
    MissingDot(String),
    /// The namespace is invalid. The rules are strict because namespaces appear in URLs and tool
    /// names.
    #[error(
        "`{0}` is not a namespace: expected lowercase letters and digits, \
         joined by single `-` or `_`"
    )]
    InvalidNamespace(String),
    /// The name is empty or longer than [`MAX_NAME_LENGTH`].
    #[error("the name of an operation has 1 to {MAX_NAME_LENGTH} characters, found {0}")]
    InvalidNameLength(usize),
}

impl OperationId {
    /// Creates an id from a namespace and a name.
    ///
    /// # Errors
    ///
    /// Returns an error if the namespace or the name is invalid.
    pub fn new(namespace: &str, name: &str) -> Result<Self, IdError> {
        check_namespace(namespace)?;
        check_name(name)?;
        Ok(Self { text: format!("{namespace}.{name}").into(), dot: namespace.len() })
    }

    /// Returns the whole id.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the part before the first dot.
    pub fn namespace(&self) -> &str {
        &self.text[..self.dot]
    }

    /// Returns the part after the first dot.
    pub fn name(&self) -> &str {
        &self.text[self.dot + 1..]
    }

    /// Returns the shared text of the id without copying it.
    pub(crate) fn to_shared(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }
}

fn check_namespace(namespace: &str) -> Result<(), IdError> {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    if namespace.split(['-', '_']).all(is_part) {
        Ok(())
    } else {
        Err(IdError::InvalidNamespace(namespace.to_owned()))
    }
}

fn check_name(name: &str) -> Result<(), IdError> {
    match name.chars().count() {
        1..=MAX_NAME_LENGTH => Ok(()),
        length => Err(IdError::InvalidNameLength(length)),
    }
}

impl std::str::FromStr for OperationId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (namespace, name) =
            text.split_once('.').ok_or_else(|| IdError::MissingDot(text.to_owned()))?;
        Self::new(namespace, name)
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationId({})", self.text)
    }
}

/// Kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    /// Reads data; safe to repeat.
    Query,
    /// Writes data. Once started, it runs to completion unless it is aborted.
    Mutation,
    /// Returns a stream of values.
    Subscription,
}

impl OperationKind {
    /// Returns the kind as written on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An error that an operation declares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ErrorDefinition {
    /// Error code that callers match on.
    pub code: String,
    /// Describes when the error is returned.
    #[serde(default)]
    pub description: String,
    /// Schema of the error details.
    #[serde(default = "Schema::unknown")]
    pub schema: Schema,
    /// HTTP status of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
}

impl ErrorDefinition {
    /// Creates an error whose details are not restricted by a schema.
    pub fn new(code: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            description: description.into(),
            schema: Schema::unknown(),
            http_status: None,
        }
    }

    /// Sets the schema of the details.
    #[must_use]
    pub fn with_schema(mut self, schema: Schema) -> Self {
        self.schema = schema;
        self
    }

    /// Sets the HTTP status.
    #[must_use]
    pub fn with_http_status(mut self, status: u16) -> Self {
        self.http_status = Some(status);
        self
    }
}

/// Metadata of an operation, one object on the wire. A typed member with a malformed value is kept
/// in `other`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Map<String, Value>", into = "Map<String, Value>")]
#[non_exhaustive]
pub struct OperationMeta {
    /// Members of an MCP tool that have no equivalent in an operation: `toolpost/mcp` on the wire.
    pub mcp_tool: Option<Map<String, Value>>,
    /// MCP method that the operation calls if it is not a tool: `toolpost/method` on the wire.
    pub mcp_method: Option<String>,
    /// All other members.
    pub other: Map<String, Value>,
}

impl From<Map<String, Value>> for OperationMeta {
    fn from(members: Map<String, Value>) -> Self {
        let mut meta = Self::default();
        for (name, value) in members {
            match (name.as_str(), value) {
                (TOOL_META, Value::Object(members)) => meta.mcp_tool = Some(members),
                (METHOD_META, Value::String(method)) => meta.mcp_method = Some(method),
                (_, value) => drop(meta.other.insert(name, value)),
            }
        }
        meta
    }
}

impl From<OperationMeta> for Map<String, Value> {
    fn from(meta: OperationMeta) -> Self {
        let tool = meta.mcp_tool.map(|members| (TOOL_META.to_owned(), members.into()));
        let method = meta.mcp_method.map(|method| (METHOD_META.to_owned(), method.into()));
        tool.into_iter().chain(method).chain(meta.other).collect()
    }
}

/// Description of an operation without its handler, for listing, documentation and other processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OperationSpec {
    /// Name within the namespace.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// Semantic version. Not part of the id.
    #[serde(default = "default_version")]
    pub version: String,
    /// Whether the operation is a query, a mutation or a subscription.
    #[serde(rename = "type")]
    pub kind: OperationKind,
    /// Human-readable title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the operation does, for users and models.
    #[serde(default)]
    pub description: String,
    /// Keywords for search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Additional metadata from the source.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<OperationMeta>,
    /// Schema of the input.
    #[serde(default = "Schema::unknown")]
    pub input_schema: Schema,
    /// Schema of the envelope's `data`, not of the envelope itself.
    #[serde(default = "Schema::unknown")]
    pub output_schema: Schema,
    /// Errors that the operation declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_schemas: Vec<ErrorDefinition>,
    /// Access requirements for external callers.
    #[serde(default)]
    pub access_control: AccessControl,
    /// Whether each call needs approval before it runs. A pipeline without an
    /// [`ApprovalGate`](crate::ApprovalGate) does not request approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approval: bool,
    /// Whether calls run one at a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// Whether repeating a call has the same effect as a single call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
    /// Whether a call runs the operation named by the `id` of its input, as `hub.call` does. Set
    /// only in this process.
    #[serde(skip)]
    pub forwards: bool,
    /// Whether the operation has an input `full`: with `full = false`, it returns short text for
    /// models, as `hub.search` does. MCP clients get `full = false` unless they set it. Set only in
    /// this process.
    #[serde(skip)]
    pub summarizes: bool,
}

fn default_version() -> String {
    "1.0.0".to_owned()
}

impl OperationSpec {
    /// Creates a spec with the given id and kind; all other fields have their defaults.
    pub fn new(id: &OperationId, kind: OperationKind) -> Self {
        Self {
            name: id.name().to_owned(),
            namespace: id.namespace().to_owned(),
            version: default_version(),
            kind,
            title: None,
            description: String::new(),
            tags: Vec::new(),
            meta: None,
            input_schema: Schema::unknown(),
            output_schema: Schema::unknown(),
            error_schemas: Vec::new(),
            access_control: AccessControl::default(),
            approval: false,
            exclusive: false,
            idempotent: false,
            forwards: false,
            summarizes: false,
        }
    }

    /// Returns the operation id.
    ///
    /// # Errors
    ///
    /// Returns an error if the namespace or the name is invalid, which can happen in a deserialized
    /// spec.
    pub fn id(&self) -> Result<OperationId, IdError> {
        OperationId::new(&self.namespace, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operation_id_splits_at_first_dot() {
        let long = "n".repeat(MAX_NAME_LENGTH);
        let rows = [
            ("demo.add", Some(("demo", "add"))),
            ("github.issues/list", Some(("github", "issues/list"))),
            ("box.fs.read", Some(("box", "fs.read"))),
            ("a-b_c9.x y ✓", Some(("a-b_c9", "x y ✓"))),
            ("demo", None),
            (".add", None),
            ("demo.", None),
            ("Demo.add", None),
            ("de--mo.add", None),
            ("-demo.add", None),
            ("demo-.add", None),
            ("dé.add", None),
            ("", None),
        ];
        for (text, expected) in rows {
            let id = text.parse::<OperationId>().ok();
            assert_eq!(id.as_ref().map(|id| (id.namespace(), id.name())), expected, "{text}");
        }
        assert!(OperationId::new("a", &long).is_ok());
        assert_eq!(
            OperationId::new("a", &format!("{long}n")),
            Err(IdError::InvalidNameLength(201))
        );
    }

    #[test]
    fn operation_meta_is_one_object_on_the_wire() {
        for wire in [
            json!({}),
            json!({"toolpost/mcp": {"icons": []}, "toolpost/method": "prompts/get", "own": 1}),
            json!({"toolpost/mcp": "odd", "toolpost/method": 1}),
        ] {
            let meta: OperationMeta = serde_json::from_value(wire.clone()).unwrap();
            assert_eq!(meta.mcp_tool.is_some(), wire["toolpost/mcp"].is_object());
            assert_eq!(meta.mcp_method.as_deref(), wire["toolpost/method"].as_str());
            assert_eq!(serde_json::to_value(meta).unwrap(), wire);
        }
    }

    #[test]
    fn operation_spec_serializes_camel_case_without_absent() {
        let id = "demo.add".parse().unwrap();
        let spec = OperationSpec::new(&id, OperationKind::Query);
        let wire = serde_json::to_value(&spec).unwrap();
        assert_eq!(
            wire,
            json!({
                "name": "add", "namespace": "demo", "version": "1.0.0", "type": "query",
                "description": "", "inputSchema": true, "outputSchema": true,
                "accessControl": {"requiredScopes": []},
            })
        );
        assert_eq!(serde_json::from_value::<OperationSpec>(wire).unwrap(), spec);
    }
}
