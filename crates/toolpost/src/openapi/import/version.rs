//! Specification version of a document.

use super::super::document::Node;
use crate::spec::IdError;

/// A supported specification version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SpecVersion {
    V2,
    V30,
    V31,
    V32,
}

/// Why a document cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The document is valid JSON or YAML, but not an object.
    #[error("not an OpenAPI document: expected an object, found {found}")]
    NotAnObject {
        /// JSON type of the document.
        found: &'static str,
    },
    /// The document declares no version.
    #[error("not an OpenAPI document: missing `openapi: 3.x` or `swagger: 2.0` at the top level")]
    NoVersion,
    /// The declared version is not supported.
    #[error("unsupported version `{name}: {found}`; supported versions are 2.0, 3.0, 3.1 and 3.2")]
    UnknownVersion {
        /// Name of the version member: `openapi` or `swagger`.
        name: &'static str,
        /// The declared version.
        found: String,
    },
    /// The namespace is not valid in an operation id.
    #[error(transparent)]
    Namespace(#[from] IdError),
}

impl SpecVersion {
    pub(super) fn from_document(document: Node<'_>) -> Result<Self, ImportError> {
        if !document.is_object() {
            return Err(ImportError::NotAnObject { found: document.type_name() });
        }
        // In YAML, an unquoted version is a number.
        let text = |value: Node<'_>| value.scalar_text().unwrap_or(value.type_name().to_owned());
        let version_member = |name| document.get(name).map(|value| (name, text(value)));
        let (name, found) = version_member("openapi")
            .or_else(|| version_member("swagger"))
            .ok_or(ImportError::NoVersion)?;
        let mut parts = found.trim().split('.');
        match (name, parts.next(), parts.next()) {
            ("openapi", Some("3"), None | Some("0")) => Ok(Self::V30),
            ("openapi", Some("3"), Some("1")) => Ok(Self::V31),
            // Minor versions are compatible; a newer one is read as the newest supported.
            ("openapi", Some("3"), Some(minor)) if minor.parse::<u32>().is_ok() => Ok(Self::V32),
            ("swagger" | "openapi", Some("2"), None | Some("0")) => Ok(Self::V2),
            _ => Err(ImportError::UnknownVersion { name, found }),
        }
    }
}
