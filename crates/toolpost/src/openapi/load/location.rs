//! Where a document is.

use std::path::PathBuf;

use url::Url;

use super::super::document::shown_url;
use super::LoadError;

/// Where a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// A file on this machine.
    File(PathBuf),
    /// A file on the network, by `http` or `https`.
    Url(Url),
    /// A text that is here already.
    Text {
        /// The document.
        text: Vec<u8>,
        /// Where relative references in it begin, and what decides how far they may lead.
        address: Url,
    },
}

impl Location {
    /// Takes what a person writes: an address of the network, or else a path.
    pub fn of(written: &str) -> Self {
        match Url::parse(written) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Self::Url(url),
            Ok(url) if url.scheme() == "file" => {
                url.to_file_path().map_or_else(|()| Self::File(written.into()), Self::File)
            }
            _ => Self::File(written.into()),
        }
    }

    /// What a person calls it: a path, or an address without what may be secret in it.
    pub fn shown(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Url(address) | Self::Text { address, .. } => shown_url(address),
        }
    }

    /// The address, without a fragment.
    pub(crate) fn address(&self) -> Result<Url, LoadError> {
        let mut address = match self {
            Self::File(path) => {
                let no_path = || LoadError::NoPath { path: path.display().to_string() };
                let whole = std::path::absolute(path).map_err(|_| no_path())?;
                Url::from_file_path(whole).map_err(|()| no_path())?
            }
            Self::Url(url) => url.clone(),
            Self::Text { address, .. } => address.clone(),
        };
        address.set_fragment(None);
        Ok(address)
    }
}

/// An address as a person calls it: a path if it is one, and never a secret.
pub(super) fn name(address: &Url) -> String {
    let path = if address.scheme() == "file" { address.to_file_path().ok() } else { None };
    path.map_or_else(|| shown_url(address), |path| path.display().to_string())
}
