//! Limits for loading documents.

use std::time::Duration;

use reqwest::header::HeaderMap;

/// Limits for loading a document and the files it refers to.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LoadSettings {
    /// Additional hosts that documents may refer to: `example.com`, `example.com:8443`.
    pub hosts: Vec<String>,
    /// Maximum size of one file in bytes.
    pub max_file_size: usize,
    /// Maximum size of all files together in bytes.
    pub max_total_size: usize,
    /// Maximum number of files.
    pub max_files: usize,
    /// Maximum number of concurrent requests.
    pub concurrency: usize,
    /// Timeout for fetching one file.
    pub timeout: Duration,
    /// Headers that are sent only to the origin of the document, such as credentials.
    pub headers: HeaderMap,
}

impl Default for LoadSettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            max_file_size: 64 << 20,
            max_total_size: 256 << 20,
            max_files: 1_000,
            concurrency: 8,
            timeout: Duration::from_secs(30),
            headers: HeaderMap::new(),
        }
    }
}
