//! Fetches one file within the limits.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::header::{ACCEPT, HeaderMap};
use tokio::io::AsyncReadExt;
use url::Url;

use super::super::client::with_proxies;
use super::super::document::{self, DocumentParseError, ParsedFile};
use super::reference_policy::{ReferenceRejection, check_reference};
use super::settings::LoadSettings;
use crate::http::{self, FetchLimits};

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;
const ACCEPTED_TYPES: &str =
    "application/json, application/yaml, text/yaml, text/plain;q=0.9, */*;q=0.8";

/// Why a file cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("{}", io_reason(.0))]
    Io(#[from] io::Error),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is larger than {limit} bytes; raise `max_file_size`")]
    TooLarge { limit: usize },
    #[error("all files together are larger than {limit} bytes; raise `max_total_size`")]
    TotalTooLarge { limit: usize },
    #[error("the server responded with status {status}{}", status_hint(*.status))]
    Status { status: u16 },
    #[error("it redirects to an address that {0}")]
    Redirect(#[source] ReferenceRejection),
    #[error("unsupported URL scheme `{scheme}`; use a file path, http or https")]
    Scheme { scheme: String },
    #[error(transparent)]
    Http(http::FetchError),
    #[error("{0}")]
    Parse(#[source] DocumentParseError),
}

impl From<http::FetchError> for FetchError {
    fn from(error: http::FetchError) -> Self {
        match error {
            http::FetchError::TooLarge(limit) => Self::TooLarge { limit },
            error => Self::Http(error),
        }
    }
}

/// A fetched and parsed file.
pub(super) struct FetchedFile {
    /// URL of the file after redirects.
    pub(super) url: Url,
    pub(super) parsed: ParsedFile,
}

pub(super) struct Fetcher<'s> {
    pub(super) settings: &'s LoadSettings,
    /// URL of the root document.
    document_url: Url,
    /// Created on demand, because documents are usually local files.
    client: OnceLock<reqwest::Client>,
    total_bytes: AtomicUsize,
}

impl<'s> Fetcher<'s> {
    pub(super) fn new(
        settings: &'s LoadSettings,
        document_url: Url,
        client: Option<reqwest::Client>,
    ) -> Self {
        let client = client.map_or_else(OnceLock::new, OnceLock::from);
        Self { settings, document_url, client, total_bytes: AtomicUsize::new(0) }
    }

    /// Fetches and parses a file.
    pub(super) async fn fetch(&self, url: &Url) -> Result<FetchedFile, FetchError> {
        let (found, bytes) = match url.scheme() {
            "file" => {
                let reading = http::within(self.settings.timeout, self.read_file(url));
                (url.clone(), reading.await?)
            }
            "http" | "https" => self.download(url).await?,
            scheme => return Err(FetchError::Scheme { scheme: scheme.to_owned() }),
        };
        self.parse(found, bytes).await
    }

    /// Parses a file and counts its size toward the total limit.
    pub(super) async fn parse(&self, url: Url, bytes: Vec<u8>) -> Result<FetchedFile, FetchError> {
        self.check_size(bytes.len())?;
        let limit = self.settings.max_total_size;
        if self.total_bytes.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len() > limit {
            return Err(FetchError::TotalTooLarge { limit });
        }
        // Parsing a large file would block the runtime.
        let parsed = tokio::task::spawn_blocking(move || document::parse(&bytes)).await;
        let parsed = parsed.map_err(|error| FetchError::Io(error.into()))?;
        Ok(FetchedFile { url, parsed: parsed.map_err(FetchError::Parse)? })
    }

    /// Downloads a file. Every redirect is checked against the reference policy, and the configured
    /// headers are sent only to the origin of the document.
    async fn download(&self, url: &Url) -> Result<(Url, Vec<u8>), FetchError> {
        let LoadSettings { timeout, max_file_size: max_bytes, headers, hosts, .. } = self.settings;
        let client = self.client()?;
        let request = |url: &Url| {
            let is_own = url.origin() == self.document_url.origin();
            let headers = if is_own { headers.clone() } else { HeaderMap::new() };
            client.get(url.clone()).header(ACCEPT, ACCEPTED_TYPES).headers(headers)
        };
        let check =
            |from: &Url, to: &Url| check_reference(from, to, hosts).map_err(FetchError::Redirect);
        let limits = FetchLimits { timeout: *timeout, max_bytes: *max_bytes };
        let response = http::fetch_following(url, limits, MAX_REDIRECTS, request, check).await?;
        match response.status.is_success() {
            true => Ok((response.url, response.body)),
            false => Err(FetchError::Status { status: response.status.as_u16() }),
        }
    }

    async fn read_file(&self, url: &Url) -> Result<Vec<u8>, FetchError> {
        let path = url.to_file_path().map_err(|()| FetchError::NotAFile)?;
        // Reading a device or pipe may block or never end.
        let metadata = tokio::fs::metadata(&path).await?;
        if !metadata.is_file() {
            return Err(FetchError::NotAFile);
        }
        self.check_size(usize::try_from(metadata.len()).unwrap_or(usize::MAX))?;
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
        let max = u64::try_from(self.settings.max_file_size).unwrap_or(u64::MAX).saturating_add(1);
        tokio::fs::File::open(&path).await?.take(max).read_to_end(&mut bytes).await?;
        self.check_size(bytes.len())?;
        Ok(bytes)
    }

    fn check_size(&self, size: usize) -> Result<(), FetchError> {
        let limit = self.settings.max_file_size;
        if size > limit { Err(FetchError::TooLarge { limit }) } else { Ok(()) }
    }

    fn client(&self) -> Result<&reqwest::Client, http::FetchError> {
        if self.client.get().is_none() {
            let builder = with_proxies(http::client_builder(), None)?;
            // If another task has set a client, that one is used.
            let _ = self.client.set(builder.build()?);
        }
        Ok(self.client.get().expect("the client was set above"))
    }
}

/// Returns a hint for a document that requires credentials.
fn status_hint(status: u16) -> &'static str {
    match status {
        401 | 403 => "; set `private` on the source to send the credentials of `auth`",
        _ => "",
    }
}

/// Describes an I/O error, with plain messages for the common kinds.
fn io_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}
