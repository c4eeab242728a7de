//! How far a document may lead.

use std::time::Duration;

use reqwest::header::HeaderMap;

/// How far a document may lead, and how much of it is read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoadSettings {
    /// Hosts, `example.com` or `example.com:8443`, that documents may refer to besides the one that
    /// they come from.
    pub hosts: Vec<String>,
    /// How large one file may be, in bytes.
    pub max_file_size: usize,
    /// How large all files may be together, in bytes.
    pub max_total_size: usize,
    /// How many files are asked for.
    pub max_files: usize,
    /// How many files are asked for at once.
    pub concurrency: usize,
    /// How long one file may take to arrive.
    pub timeout: Duration,
    /// What is shown where the document is, and nowhere else: a gateway gives its document only to those
    /// whom it knows.
    pub headers: HeaderMap,
    /// What asks; it must follow no redirects (`reqwest::redirect::Policy::none()`), because they
    /// are checked here. `None` for one that is made when it is needed.
    pub client: Option<reqwest::Client>,
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
            client: None,
        }
    }
}

/// Clients cannot be compared: two settings are the same only if neither names one.
impl PartialEq for LoadSettings {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            hosts,
            max_file_size,
            max_total_size,
            max_files,
            concurrency,
            timeout,
            headers,
            client,
        } = self;
        client.is_none()
            && other.client.is_none()
            && (hosts, headers, timeout) == (&other.hosts, &other.headers, &other.timeout)
            && (max_file_size, max_total_size) == (&other.max_file_size, &other.max_total_size)
            && (max_files, concurrency) == (&other.max_files, &other.concurrency)
    }
}
