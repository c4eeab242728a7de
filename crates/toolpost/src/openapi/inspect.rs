//! What a document would become, without a registry to put it into.

use std::sync::Arc;

use super::document::{Library, Node};
use super::import::{Report, import};
use super::load::{LoadSettings, Loaded, Location, load};
use super::offer::{OpenApiError, homeless};
use super::request::ServerSettings;
use super::schema::Warning;
use super::settings::Namespaces;

/// A document, and what became of everything in it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Inspection {
    /// What the service is called.
    pub title: String,
    /// Its version.
    pub version: String,
    /// What the document is written by, such as `OpenAPI 3.1.0` or `Swagger 2.0`.
    pub specification: String,
    /// Its operations in the namespace that was given, what was skipped, and what is odd.
    pub report: Report,
}

/// Reads a document with every file that it refers to, and says what its operations would be in
/// namespace `name`. Nothing is called; `server` is where the service would be called, if not where the
/// document says.
///
/// # Errors
///
/// It cannot be had, or it is no API document.
///
/// # Examples
///
/// ```
/// use toolpost::openapi::{LoadSettings, Location, ServerSettings, inspect};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = r#"{"openapi": "3.1.0", "info": {"title": "Pets", "version": "2"},
///                "paths": {"/pets": {"get": {"responses": {"200": {"description": "All."}}}}}}"#;
/// let here = Location::Text { text: text.into(), address: "https://pets.example/api.json".parse()? };
/// let seen = inspect(here, &LoadSettings::default(), &ServerSettings::default(), "pets").await?;
/// assert_eq!((seen.title.as_str(), seen.specification.as_str()), ("Pets", "OpenAPI 3.1.0"));
/// assert_eq!(seen.report.counts().queries, 1);
/// # Ok(()) }
/// ```
pub async fn inspect(
    location: Location,
    settings: &LoadSettings,
    server: &ServerSettings,
    name: &str,
) -> Result<Inspection, OpenApiError> {
    let Loaded { library, warnings } = load(location, settings).await?;
    let (name, server) = (name.to_owned(), server.clone());
    // A large document takes long, so it is read where nobody waits for it.
    let reading = tokio::task::spawn_blocking(move || {
        let library = Arc::new(library);
        let mut imported = import(&library, &name, Namespaces::Below)?;
        imported.warnings.extend(homeless(&imported.operations, &server));
        Ok::<_, OpenApiError>((library, Report::from(imported)))
    });
    let failed = |_| OpenApiError::Document("it cannot be imported".to_owned());
    let (library, mut report) = reading.await.map_err(failed)??;
    let odd = warnings.into_iter().map(|odd| Warning { at: odd.at, message: odd.message });
    report.warnings.splice(0..0, odd);
    let (title, version) = title_and_version(&library);
    Ok(Inspection { title, version, specification: specification(&library), report })
}

/// What a document calls its service, and which version that is.
pub(super) fn title_and_version(library: &Library) -> (String, String) {
    let info = library.node(library.root()).get("info");
    let text = |name| text(info.and_then(|info| info.get(name)));
    (text("title"), text("version"))
}

fn specification(library: &Library) -> String {
    let root = library.node(library.root());
    match root.get("swagger") {
        Some(version) => format!("Swagger {}", text(Some(version))),
        None => format!("OpenAPI {}", text(root.get("openapi"))),
    }
}

/// A text, or a number where one was meant to be a text, as versions often are.
fn text(node: Option<Node<'_>>) -> String {
    let Some(node) = node else { return String::new() };
    let text = node.as_str().map(str::to_owned);
    text.or_else(|| node.as_number().map(ToString::to_string)).unwrap_or_default()
}
