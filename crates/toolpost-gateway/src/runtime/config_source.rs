//! Origin of a configuration.

use std::path::{Path, PathBuf};

use crate::config::{ClientFile, Config, ConfigError};

/// Where the configuration is reloaded from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigSource {
    /// No file. The configuration stays active until another one is applied.
    Static,
    /// An explicitly named file.
    File(PathBuf),
    /// The file in the current folder: `toolpost.toml`, else `.mcp.json`, else none.
    Discovered,
}

impl ConfigSource {
    /// Returns the current configuration file.
    pub fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Static => None,
            Self::File(file) => Some(file.clone()),
            Self::Discovered => Config::discover(),
        }
    }

    /// Loads the configuration; the embedded default if there is no file.
    ///
    /// # Errors
    ///
    /// All problems of the configuration.
    pub fn load(&self) -> Result<Config, ConfigError> {
        self.file().as_deref().map(Config::load).transpose().map(Option::unwrap_or_default)
    }

    /// Returns the files to watch besides those that the configuration names.
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
