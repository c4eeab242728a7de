//! Where a configuration comes from.

use std::path::{Path, PathBuf};

use crate::config::{ClientFile, Config, ConfigError};

/// Where a configuration comes from when it is read again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigSource {
    /// From nowhere: it holds until it is replaced.
    Static,
    /// From a file that somebody named.
    File(PathBuf),
    /// From whichever file is in this folder: `toolpost.toml`, else `.mcp.json`, else none.
    Discovered,
}

impl ConfigSource {
    /// The file that holds now.
    pub fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Static => None,
            Self::File(file) => Some(file.clone()),
            Self::Discovered => Config::discover(),
        }
    }

    /// Reads it; where there is no file, it is the embedded default.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn load(&self) -> Result<Config, ConfigError> {
        self.file().as_deref().map(Config::load).transpose().map(Option::unwrap_or_default)
    }

    /// The files whose coming and going matters, beside those that a configuration names.
    pub(super) fn watched_files(&self) -> Vec<PathBuf> {
        match self {
            Self::Static => Vec::new(),
            Self::File(file) => vec![file.clone()],
            Self::Discovered => {
                [Config::FILE_NAME, ClientFile::FILE_NAME].map(|name| Path::new(name).into()).into()
            }
        }
    }
}
