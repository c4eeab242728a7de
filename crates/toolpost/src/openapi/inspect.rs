//! Inspects a document without registering its operations.

use std::sync::Arc;

use super::build::{OpenApiError, server_warnings};
use super::document::{DocumentSet, Node};
use super::import::{ImportReport, import};
use super::load::{DocumentLocation, LoadSettings, LoadedDocument, load};
use super::request::ServerSettings;
use super::settings::Namespaces;

/// A document and the result of its import.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Inspection {
    /// Title of the service.
    pub title: String,
    /// Version of the service.
    pub version: String,
    /// Specification and version of the document, such as `OpenAPI 3.1.0` or `Swagger 2.0`.
    pub specification: String,
    /// The imported operations, the skipped ones and the warnings.
    pub report: ImportReport,
}

/// Loads a document with all files it refers to, and reports the operations that it would register
/// in namespace `name`.
///
/// No operation is called. `server` overrides the server URL of the document.
///
/// # Errors
///
/// Returns an error if the document cannot be loaded or is not an API document.
///
/// # Examples
///
/// ```
/// use toolpost::openapi::{DocumentLocation, LoadSettings, ServerSettings, inspect};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = r#"{"openapi": "3.1.0", "info": {"title": "Pets", "version": "2"},
///                "paths": {"/pets": {"get": {"responses": {"200": {"description": "All."}}}}}}"#;
/// let location = DocumentLocation::Text { text: text.into(), base_url: "https://pets.example/api.json".parse()? };
/// let seen = inspect(location, &LoadSettings::default(), &ServerSettings::default(), "pets").await?;
/// assert_eq!((seen.title.as_str(), seen.specification.as_str()), ("Pets", "OpenAPI 3.1.0"));
/// assert_eq!(seen.report.counts().queries, 1);
/// # Ok(()) }
/// ```
pub async fn inspect(
    location: DocumentLocation,
    settings: &LoadSettings,
    server: &ServerSettings,
    name: &str,
) -> Result<Inspection, OpenApiError> {
    let LoadedDocument { documents, warnings } = load(location, settings, None).await?;
    let (name, server) = (name.to_owned(), server.clone());
    // Importing a large document blocks, so it runs on the blocking thread pool.
    let reading = tokio::task::spawn_blocking(move || {
        let documents = Arc::new(documents);
        let mut imported = import(&documents, &name, Namespaces::Below)?;
        imported.warnings.extend(server_warnings(&imported.operations, &server));
        Ok::<_, OpenApiError>((documents, ImportReport::from(imported)))
    });
    let failed = |_| OpenApiError::Document("it cannot be imported".to_owned());
    let (documents, mut report) = reading.await.map_err(failed)??;
    report.warnings.splice(0..0, warnings);
    let (title, version) = title_and_version(&documents);
    Ok(Inspection { title, version, specification: specification(&documents), report })
}

/// Returns the title and version of the service.
pub(super) fn title_and_version(documents: &DocumentSet) -> (String, String) {
    let info = documents.root().get("info");
    let text = |name| scalar_text(info.and_then(|info| info.get(name)));
    (text("title"), text("version"))
}

fn specification(documents: &DocumentSet) -> String {
    let root = documents.root();
    match root.get("swagger") {
        Some(version) => format!("Swagger {}", scalar_text(Some(version))),
        None => format!("OpenAPI {}", scalar_text(root.get("openapi"))),
    }
}

fn scalar_text(node: Option<Node<'_>>) -> String {
    node.and_then(|node| node.scalar_text()).unwrap_or_default()
}
