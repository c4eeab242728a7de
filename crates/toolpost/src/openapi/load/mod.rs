//! A document and every file that it refers to, read before anything is imported.

mod external_refs;
mod fetch;
mod http;
mod loader;
mod location;
mod reference_policy;
mod settings;
#[cfg(test)]
mod tests;

use super::document::DocumentSet;
use fetch::{FetchError, Fetcher};
use loader::DocumentLoader;
pub use location::DocumentLocation;
use location::display_url;
pub use settings::LoadSettings;

/// What was read.
#[derive(Debug)]
pub(crate) struct LoadedDocument {
    pub(crate) documents: DocumentSet,
    /// What is odd, and what could not be read; whatever refers to that fails only there.
    pub(crate) warnings: Vec<LoadWarning>,
}

/// Something that somebody should know about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadWarning {
    /// The file, without user and query.
    pub(crate) at: String,
    pub(crate) message: String,
}

/// Why there is no document.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The path of a file means nothing on this machine.
    #[error("`{path}` is not a file path")]
    #[non_exhaustive]
    InvalidPath {
        /// The path as it was given.
        path: String,
    },
    /// It could not be had.
    #[error("`{location}` cannot be read: {reason}")]
    #[non_exhaustive]
    Unreachable {
        /// Where it should be, without user and query.
        location: String,
        /// Why it is not.
        reason: String,
    },
    /// It is neither JSON nor YAML, or goes beyond what is read.
    #[error("`{location}` is not a valid document: {reason}")]
    #[non_exhaustive]
    InvalidDocument {
        /// Where it is, without user and query.
        location: String,
        /// What is wrong with it, and at which line.
        reason: String,
    },
}

/// Reads a document and what it refers to.
///
/// # Cancellation
///
/// Requests end with the future. A file that is being read into a tree at that moment is read to
/// its end, which is bounded by its size.
pub(crate) async fn load(
    location: DocumentLocation,
    settings: &LoadSettings,
) -> Result<LoadedDocument, LoadError> {
    let url = location.url()?;
    let failed = |error: FetchError| match error {
        FetchError::Parse(error) => {
            LoadError::InvalidDocument { location: display_url(&url), reason: error.to_string() }
        }
        error => LoadError::Unreachable { location: display_url(&url), reason: error.to_string() },
    };
    let fetcher = Fetcher::new(settings, url.clone());
    let fetched = match location {
        DocumentLocation::Text { text, .. } => fetcher.parse(url.clone(), text).await,
        _ => fetcher.fetch(&url).await,
    };
    let mut loader = DocumentLoader::new(fetcher);
    let root = loader.add_root(url.clone(), fetched.map_err(failed)?);
    loader.load_references(root).await;
    Ok(loader.finish())
}
