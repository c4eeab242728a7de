//! Fetches one file within the limits.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::io::AsyncReadExt;
use url::Url;

use super::super::document::{self, DocumentParseError, ParsedFile};
use super::http;
use super::reference_policy::ReferenceRejection;
use super::settings::LoadSettings;

/// Why a file cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("{}", io_reason(.0))]
    Io(#[from] io::Error),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is larger than {limit} bytes, which is what `max_file_size` allows")]
    TooLarge { limit: usize },
    #[error(
        "all files together are larger than {limit} bytes, which is what `max_total_size` allows"
    )]
    TotalTooLarge { limit: usize },
    #[error("the server responded with status {status}{}", status_hint(*.status))]
    Status { status: u16 },
    #[error("it did not arrive within {limit:?}")]
    TimedOut { limit: Duration },
    #[error("too many redirects")]
    TooManyRedirects,
    #[error("it redirects to an address that {0}")]
    Redirect(#[source] ReferenceRejection),
    #[error("documents are files, or come by http or https, not by `{scheme}`")]
    Scheme { scheme: String },
    #[error("{reason}")]
    Http { reason: String },
    #[error("{0}")]
    Parse(#[source] DocumentParseError),
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
    pub(super) fn new(settings: &'s LoadSettings, document_url: Url) -> Self {
        let client = settings.client.clone().map_or_else(OnceLock::new, OnceLock::from);
        Self { settings, document_url, client, total_bytes: AtomicUsize::new(0) }
    }

    /// Returns the headers for a URL. The configured headers are sent only to the origin of the
    /// document.
    pub(super) fn headers_for(&self, url: &Url) -> HeaderMap {
        match url.origin() == self.document_url.origin() {
            true => self.settings.headers.clone(),
            false => HeaderMap::new(),
        }
    }

    /// Fetches and parses a file.
    pub(super) async fn fetch(&self, url: &Url) -> Result<FetchedFile, FetchError> {
        let limit = self.settings.timeout;
        let timed_out = |_| FetchError::TimedOut { limit };
        let downloaded =
            tokio::time::timeout(limit, self.download(url)).await.map_err(timed_out)?;
        let (found, bytes) = downloaded?;
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

    async fn download(&self, url: &Url) -> Result<(Url, Vec<u8>), FetchError> {
        match url.scheme() {
            "file" => Ok((url.clone(), self.read_file(url).await?)),
            "http" | "https" => http::fetch(self.client(url)?, url, self).await,
            scheme => Err(FetchError::Scheme { scheme: scheme.to_owned() }),
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

    pub(super) fn check_size(&self, size: usize) -> Result<(), FetchError> {
        let limit = self.settings.max_file_size;
        if size > limit { Err(FetchError::TooLarge { limit }) } else { Ok(()) }
    }

    fn client(&self, url: &Url) -> Result<&reqwest::Client, FetchError> {
        if self.client.get().is_none() {
            // If another client was set in the meantime, that one is used.
            let _ = self.client.set(http::build_client(url)?);
        }
        Ok(self.client.get().expect("it was set just now"))
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
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "it may not be read by this user".to_owned(),
        _ => error.to_string(),
    }
}
