//! Registers a service once from the text of its document.

use std::sync::Arc;

use super::build::{BuiltOperations, OpenApiError, ServiceInfo, build_operations, build_service};
use super::document::{DocumentFile, DocumentSet, parse};
use super::schema::DocumentWarning;
use super::settings::OpenApiSettings;
use crate::registry::{Change, Registry};
use crate::source::SourceHooks;

/// Registers the operations of a document in namespace `name`, and returns a summary.
///
/// The document location in the settings is used only to resolve relative URLs. No other files are
/// loaded, so the document must not refer to any. To load a document from a file or URL and keep it
/// up to date, start an [`OpenApiSource`](super::OpenApiSource).
///
/// # Errors
///
/// Returns an error, and leaves the registry unchanged, if the text is not an API document, the
/// settings are invalid, or an operation with the same id is already registered.
///
/// # Examples
///
/// ```
/// use toolpost::openapi::{DocumentLocation, OpenApiSettings, from_openapi};
/// use toolpost::{OperationKind, Registry};
///
/// let document = r#"
/// openapi: 3.1.0
/// info: {title: Pets, version: 1.2.0}
/// servers: [{url: https://pets.example/v1}]
/// paths:
///   /pets/{id}:
///     get:
///       operationId: readPet
///       parameters:
///         - {name: id, in: path, required: true, schema: {type: integer}}
///       responses:
///         "200":
///           description: A pet.
///           content: {application/json: {schema: {type: object}}}
/// "#;
/// let registry = Registry::new();
/// let settings = OpenApiSettings::new(DocumentLocation::from_path_or_url("pets.yaml"));
/// let found = from_openapi(&registry, "pets", document, settings)?;
/// assert_eq!((found.title.as_str(), found.counts.queries), ("Pets", 1));
///
/// let catalog = registry.catalog();
/// let operation = catalog.get("pets.readPet").expect("the document has it");
/// assert_eq!(operation.spec().kind, OperationKind::Query);
/// # Ok::<(), toolpost::openapi::OpenApiError>(())
/// ```
pub fn from_openapi(
    registry: &Registry,
    name: &str,
    document: &str,
    settings: OpenApiSettings,
) -> Result<ServiceInfo, OpenApiError> {
    let parsed =
        parse(document.as_bytes()).map_err(|error| OpenApiError::Document(error.to_string()))?;
    let file = DocumentFile { url: settings.document.url()?, tree: parsed.tree };
    let documents = DocumentSet::from_iter([file]);
    let service = Arc::new(build_service(name, settings)?);
    let BuiltOperations { operations, mut info, .. } =
        build_operations(&service, &Arc::new(documents), &SourceHooks::default())?;
    let odd = parsed.warnings.into_iter().map(|message| DocumentWarning::new("", message));
    info.warnings.splice(0..0, odd);
    info.counts.warnings = info.warnings.len();
    registry.apply(operations.into_iter().map(Change::Register))?;
    Ok(info)
}
