//! A document and every file that it refers to, read before anything is imported.

mod client;
mod fetch;
mod loading;
mod location;
mod outward;
mod rules;
mod settings;
#[cfg(test)]
mod tests;

use super::document::Library;
use fetch::{FetchError, Fetcher};
use loading::Loading;
pub use location::Location;
use location::name;
pub use settings::LoadSettings;

/// What was read.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) library: Library,
    /// What is odd, and what could not be read; whatever refers to that fails only there.
    pub(crate) warnings: Vec<Warning>,
}

/// Something that somebody should know about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Warning {
    /// The file, without user and query.
    pub(crate) at: String,
    pub(crate) message: String,
}

/// Why there is no document.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The path of a file means nothing on this machine.
    #[error("`{path}` is no path of a file")]
    #[non_exhaustive]
    NoPath {
        /// The path as it was given.
        path: String,
    },
    /// It could not be had.
    #[error("`{place}` cannot be read: {reason}")]
    #[non_exhaustive]
    Unreachable {
        /// Where it should be, without user and query.
        place: String,
        /// Why it is not.
        reason: String,
    },
    /// It is neither JSON nor YAML, or goes beyond what is read.
    #[error("`{place}` is no document: {reason}")]
    #[non_exhaustive]
    NoDocument {
        /// Where it is, without user and query.
        place: String,
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
pub(crate) async fn load(location: Location, settings: &LoadSettings) -> Result<Loaded, LoadError> {
    let address = location.address()?;
    let failed = |error: FetchError| match error {
        FetchError::Read(error) => {
            LoadError::NoDocument { place: name(&address), reason: error.to_string() }
        }
        error => LoadError::Unreachable { place: name(&address), reason: error.to_string() },
    };
    let fetcher = Fetcher::new(settings, address.clone());
    let opened = match location {
        Location::Text { text, .. } => fetcher.take(address.clone(), text).await,
        _ => fetcher.open(&address).await,
    };
    let mut loading = Loading::new(fetcher);
    let root = loading.begin(address.clone(), opened.map_err(failed)?);
    loading.follow(root).await;
    Ok(loading.finish())
}
