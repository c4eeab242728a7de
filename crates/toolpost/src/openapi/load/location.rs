//! Location of a document.

use std::path::PathBuf;

use url::Url;

use super::LoadError;
use crate::http::redact_url;

/// Location of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DocumentLocation {
    /// A local file.
    File(PathBuf),
    /// An `http` or `https` URL.
    Url(Url),
    /// The text of a document.
    Text {
        /// The document as JSON or YAML.
        text: Vec<u8>,
        /// Base URL for relative references. It also determines which references are allowed.
        base_url: Url,
    },
}

impl DocumentLocation {
    /// Parses an `http`, `https` or `file` URL. Anything else is a file path.
    pub fn from_path_or_url(written: &str) -> Self {
        match Url::parse(written) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Self::Url(url),
            Ok(url) if url.scheme() == "file" => {
                url.to_file_path().map_or_else(|()| Self::File(written.into()), Self::File)
            }
            _ => Self::File(written.into()),
        }
    }

    /// Returns the path, or the URL without user, password and query, which may contain secrets.
    pub fn display_name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Url(address) | Self::Text { base_url: address, .. } => redact_url(address),
        }
    }

    /// Returns the URL without fragment.
    pub(crate) fn url(&self) -> Result<Url, LoadError> {
        let mut address = match self {
            Self::File(path) => {
                let no_path = || LoadError::InvalidPath { path: path.display().to_string() };
                let absolute_path = std::path::absolute(path).map_err(|_| no_path())?;
                Url::from_file_path(absolute_path).map_err(|()| no_path())?
            }
            Self::Url(url) => url.clone(),
            Self::Text { base_url: address, .. } => address.clone(),
        };
        address.set_fragment(None);
        Ok(address)
    }
}

/// Formats a file URL as a path, and other URLs without user, password and query.
pub(super) fn display_url(url: &Url) -> String {
    let path = if url.scheme() == "file" { url.to_file_path().ok() } else { None };
    path.map_or_else(|| redact_url(url), |path| path.display().to_string())
}
