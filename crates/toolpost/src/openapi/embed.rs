//! A service whose document is at hand, put into a registry once.

use std::sync::Arc;

use super::build::{BuiltOperations, OpenApiError, ServiceInfo, build_operations, build_service};
use super::document::{DocumentFile, DocumentSet, parse};
use super::schema::DocumentWarning;
use super::settings::OpenApiSettings;
use super::source::SourceHooks;
use crate::registry::{Change, Registry};

/// Registers the operations of a document that is at hand, in namespace `name`, and returns a
/// summary. Where the settings say that the document is, relative addresses in it begin; nothing is
/// read from there, so that it must not refer to other files.
///
/// Whoever wants a document to be read from a file or an address, and to be kept up to date, starts an
/// [`OpenApiSource`](super::OpenApiSource).
///
/// # Errors
///
/// The text is no API document, the settings cannot be used, or an operation of the same id is there.
/// The registry is then as it was.
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
    let mut documents = DocumentSet::new(Vec::new());
    documents.add(DocumentFile { url: settings.document.url()?, tree: parsed.tree });
    let service = Arc::new(build_service(name, settings)?);
    let BuiltOperations { operations, mut info, .. } =
        build_operations(&service, &Arc::new(documents), &SourceHooks::default())?;
    let odd =
        parsed.warnings.into_iter().map(|message| DocumentWarning { at: String::new(), message });
    info.warnings.splice(0..0, odd);
    info.counts.warnings = info.warnings.len();
    registry.apply(operations.into_iter().map(Change::Register))?;
    Ok(info)
}
