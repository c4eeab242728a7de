//! What an operation says about itself: data that can be listed, sent and documented.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::AccessControl;
use crate::schema::Schema;

/// The longest name inside a namespace, in characters.
pub const MAX_NAME_LENGTH: usize = 200;

/// The member of an operation's `_meta` that marks one that came from another hub or gateway. Those are
/// not taken on, or two that list each other would never stop.
pub(crate) const HUB_META_KEY: &str = "toolpost/hub";

/// `namespace.name`; it splits at its first dot, so names may hold dots and slashes.
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
    /// Where the first dot stands.
    dot: usize,
}

/// Why a text is not an operation id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// There is nothing to split at.
    #[error("`{0}` is not an operation id: expected `namespace.name`")]
    MissingDot(String),
    /// Namespaces are the strict half, because they stand in addresses and tool names.
    #[error(
        "`{0}` is not a namespace: expected lower-case letters and digits, \
         joined by single `-` or `_`"
    )]
    InvalidNamespace(String),
    /// A name is any text, but not none, and not a book.
    #[error("the name of an operation has 1 to {MAX_NAME_LENGTH} characters, found {0}")]
    InvalidNameLength(usize),
}

impl OperationId {
    /// Joins the two halves.
    ///
    /// # Errors
    ///
    /// One of the halves is not what its rule says.
    pub fn new(namespace: &str, name: &str) -> Result<Self, IdError> {
        check_namespace(namespace)?;
        check_name(name)?;
        Ok(Self { text: format!("{namespace}.{name}").into(), dot: namespace.len() })
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What stands before the first dot.
    pub fn namespace(&self) -> &str {
        &self.text[..self.dot]
    }

    /// What stands behind the first dot.
    pub fn name(&self) -> &str {
        &self.text[self.dot + 1..]
    }

    /// The text, shared rather than copied.
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

/// What calling an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    /// It reads; repeating it is safe.
    Query,
    /// It writes; once started it runs to its end unless it is aborted.
    Mutation,
    /// It answers many times.
    Subscription,
}

impl OperationKind {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Mutation => "mutation",
            Self::Subscription => "subscription",
        }
    }
}

/// An error that an operation may raise on purpose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ErrorDefinition {
    /// The code that callers match on.
    pub code: String,
    /// When it is raised.
    #[serde(default)]
    pub description: String,
    /// What its details look like.
    #[serde(default = "Schema::unknown")]
    pub schema: Schema,
    /// The status it has on HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
}

impl ErrorDefinition {
    /// An error whose details can be anything.
    pub fn new(code: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            description: description.into(),
            schema: Schema::unknown(),
            http_status: None,
        }
    }

    /// Says what the details look like.
    #[must_use]
    pub fn with_schema(mut self, schema: Schema) -> Self {
        self.schema = schema;
        self
    }

    /// Says which status it has on HTTP.
    #[must_use]
    pub fn with_http_status(mut self, status: u16) -> Self {
        self.http_status = Some(status);
        self
    }
}

/// An operation without its handler: what is listed, documented and sent to other processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OperationSpec {
    /// The name inside the namespace.
    pub name: String,
    /// Whose operation it is.
    pub namespace: String,
    /// Semantic version; not part of the id.
    #[serde(default = "default_version")]
    pub version: String,
    /// Whether it reads, writes or streams.
    #[serde(rename = "type")]
    pub kind: OperationKind,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for people and models.
    #[serde(default)]
    pub description: String,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whatever its source says beyond all this.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Map<String, Value>>,
    /// What it takes.
    #[serde(default = "Schema::unknown")]
    pub input_schema: Schema,
    /// What it gives: the schema of an envelope's `data`, never of the envelope.
    #[serde(default = "Schema::unknown")]
    pub output_schema: Schema,
    /// The errors it raises on purpose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_schemas: Vec<ErrorDefinition>,
    /// What a caller from outside must hold.
    #[serde(default)]
    pub access_control: AccessControl,
    /// Whether somebody has to agree to each call before it runs. A pipeline without an
    /// [`ApprovalGate`](crate::ApprovalGate) asks nobody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approval: bool,
    /// Whether its calls run one after another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// Whether calling it twice is the same as calling it once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
}

fn default_version() -> String {
    "1.0.0".to_owned()
}

impl OperationSpec {
    /// The least that makes an operation; every other field has its default.
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
        }
    }

    /// The id that the two halves make.
    ///
    /// # Errors
    ///
    /// The spec came from outside, and one of the halves is not what its rule says.
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
