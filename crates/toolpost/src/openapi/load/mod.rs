//! Loads a document and all files that it refers to.

mod external_refs;
mod fetch;
mod loader;
mod location;
mod reference_policy;
mod settings;
#[cfg(test)]
mod tests;

use super::document::DocumentSet;
use super::schema::DocumentWarning;
use fetch::{FetchError, Fetcher};
use loader::DocumentLoader;
pub use location::DocumentLocation;
use location::display_url;
pub use settings::LoadSettings;

/// A loaded document.
#[derive(Debug)]
pub(crate) struct LoadedDocument {
    pub(crate) documents: DocumentSet,
    /// Problems, and files that could not be loaded. Only references to those files fail.
    pub(crate) warnings: Vec<DocumentWarning>,
}

/// Error returned when a document cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The path is not a valid file path on this machine.
    #[error("`{path}` is not a file path")]
    #[non_exhaustive]
    InvalidPath {
        /// The given path.
        path: String,
    },
    /// The document cannot be fetched.
    #[error("`{location}` cannot be read: {reason}")]
    #[non_exhaustive]
    Unreachable {
        /// Path or URL of the document, without user and query.
        location: String,
        /// Why the document cannot be fetched.
        reason: String,
    },
    /// The file is neither JSON nor YAML, or it exceeds a limit of the parser.
    #[error("`{location}` is not a valid document: {reason}")]
    #[non_exhaustive]
    InvalidDocument {
        /// Path or URL of the document, without user and query.
        location: String,
        /// The error and its position.
        reason: String,
    },
}

/// Loads a document and the files it refers to. `client` must not follow redirects, because the
/// loader checks them. If it is `None`, a client is created when it is needed.
///
/// # Cancellation
///
/// Dropping the future cancels its requests. Parsing of a file that has already started runs to
/// completion.
pub(crate) async fn load(
    location: DocumentLocation,
    settings: &LoadSettings,
    client: Option<reqwest::Client>,
) -> Result<LoadedDocument, LoadError> {
    let url = location.url()?;
    let failed = |error: FetchError| match error {
        FetchError::Parse(error) => {
            LoadError::InvalidDocument { location: display_url(&url), reason: error.to_string() }
        }
        error => LoadError::Unreachable { location: display_url(&url), reason: error.to_string() },
    };
    let fetcher = Fetcher::new(settings, url.clone(), client);
    let fetched = match location {
        DocumentLocation::Text { text, .. } => fetcher.parse(url.clone(), text).await,
        _ => fetcher.fetch(&url).await,
    };
    let mut loader = DocumentLoader::new(fetcher);
    let root = loader.add_file(url.clone(), fetched.map_err(failed)?);
    loader.load_references(root).await;
    Ok(loader.finish())
}
