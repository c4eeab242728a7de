//! Where a document is.

use std::path::PathBuf;

use url::Url;

use super::super::document::redact_url;
use super::LoadError;

/// Where a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DocumentLocation {
    /// A file on this machine.
    File(PathBuf),
    /// A file on the network, by `http` or `https`.
    Url(Url),
    /// A text that is here already.
    Text {
        /// The document.
        text: Vec<u8>,
        /// Where relative references in it begin, and what decides how far they may lead.
        base_url: Url,
    },
}

impl DocumentLocation {
    /// Takes what a person writes: an address of the network, or else a path.
    pub fn from_path_or_url(written: &str) -> Self {
        match Url::parse(written) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Self::Url(url),
            Ok(url) if url.scheme() == "file" => {
                url.to_file_path().map_or_else(|()| Self::File(written.into()), Self::File)
            }
            _ => Self::File(written.into()),
        }
    }

    /// What a person calls it: a path, or an address without what may be secret in it.
    pub fn display_name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Url(address) | Self::Text { base_url: address, .. } => redact_url(address),
        }
    }

    /// The address, without a fragment.
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

/// An address as a person calls it: a path if it is one, and never a secret.
pub(super) fn display_url(url: &Url) -> String {
    let path = if url.scheme() == "file" { url.to_file_path().ok() } else { None };
    path.map_or_else(|| redact_url(url), |path| path.display().to_string())
}
