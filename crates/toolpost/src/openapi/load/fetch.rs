//! One file, from wherever it is, within the limits.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::io::AsyncReadExt;
use url::Url;

use super::super::document::{self, ReadError, Reading};
use super::client;
use super::rules::Refused;
use super::settings::LoadSettings;

/// Why a file is not there.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("{}", io_reason(.0))]
    Io(#[from] io::Error),
    #[error("it is no file")]
    NoFile,
    #[error("it is larger than {limit} bytes, which is what `max_file_size` allows")]
    TooLarge { limit: usize },
    #[error(
        "all files together are larger than {limit} bytes, which is what `max_total_size` allows"
    )]
    TooMuch { limit: usize },
    #[error("the server answered with status {status}{}", hint(*.status))]
    Status { status: u16 },
    #[error("it did not arrive within {limit:?}")]
    Late { limit: Duration },
    #[error("it leads from one address to the next without end")]
    TooManyRedirects,
    #[error("it leads to an address that {0}")]
    Redirect(#[source] Refused),
    #[error("documents are files, or come by http or https, not by `{scheme}`")]
    Scheme { scheme: String },
    #[error("{reason}")]
    Http { reason: String },
    #[error("{0}")]
    Read(#[source] ReadError),
}

/// A file that was read.
pub(super) struct Opened {
    /// Where it was found.
    pub(super) address: Url,
    pub(super) reading: Reading,
}

pub(super) struct Fetcher<'s> {
    pub(super) settings: &'s LoadSettings,
    /// Where the document is.
    document: Url,
    /// Made when it is needed: most documents are files.
    client: OnceLock<reqwest::Client>,
    used: AtomicUsize,
}

impl<'s> Fetcher<'s> {
    pub(super) fn new(settings: &'s LoadSettings, document: Url) -> Self {
        let client = settings.client.clone().map_or_else(OnceLock::new, OnceLock::from);
        Self { settings, document, client, used: AtomicUsize::new(0) }
    }

    /// What is shown at an address.
    pub(super) fn headers(&self, address: &Url) -> HeaderMap {
        match address.origin() == self.document.origin() {
            true => self.settings.headers.clone(),
            false => HeaderMap::new(),
        }
    }

    /// Gets a file and reads it.
    pub(super) async fn open(&self, address: &Url) -> Result<Opened, FetchError> {
        let limit = self.settings.timeout;
        let late = |_| FetchError::Late { limit };
        let got = tokio::time::timeout(limit, self.get(address)).await.map_err(late)?;
        let (found, bytes) = got?;
        self.take(found, bytes).await
    }

    /// Reads a file that is here.
    pub(super) async fn take(&self, address: Url, bytes: Vec<u8>) -> Result<Opened, FetchError> {
        self.check_size(bytes.len())?;
        let limit = self.settings.max_total_size;
        if self.used.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len() > limit {
            return Err(FetchError::TooMuch { limit });
        }
        // A large one takes long enough to hold others up.
        let reading = tokio::task::spawn_blocking(move || document::read(&bytes)).await;
        let reading = reading.map_err(|error| FetchError::Io(error.into()))?;
        Ok(Opened { address, reading: reading.map_err(FetchError::Read)? })
    }

    async fn get(&self, address: &Url) -> Result<(Url, Vec<u8>), FetchError> {
        match address.scheme() {
            "file" => Ok((address.clone(), self.file(address).await?)),
            "http" | "https" => client::get(self.client(address)?, address, self).await,
            scheme => Err(FetchError::Scheme { scheme: scheme.to_owned() }),
        }
    }

    async fn file(&self, address: &Url) -> Result<Vec<u8>, FetchError> {
        let path = address.to_file_path().map_err(|()| FetchError::NoFile)?;
        // What is not a file may never end, or not even begin.
        let about = tokio::fs::metadata(&path).await?;
        if !about.is_file() {
            return Err(FetchError::NoFile);
        }
        self.check_size(usize::try_from(about.len()).unwrap_or(usize::MAX))?;
        let mut bytes = Vec::with_capacity(usize::try_from(about.len()).unwrap_or_default());
        let most = u64::try_from(self.settings.max_file_size).unwrap_or(u64::MAX).saturating_add(1);
        tokio::fs::File::open(&path).await?.take(most).read_to_end(&mut bytes).await?;
        self.check_size(bytes.len())?;
        Ok(bytes)
    }

    pub(super) fn check_size(&self, size: usize) -> Result<(), FetchError> {
        let limit = self.settings.max_file_size;
        if size > limit { Err(FetchError::TooLarge { limit }) } else { Ok(()) }
    }

    fn client(&self, address: &Url) -> Result<&reqwest::Client, FetchError> {
        if self.client.get().is_none() {
            // Another that was made meanwhile is as good.
            let _ = self.client.set(client::build(address)?);
        }
        Ok(self.client.get().expect("it was set just now"))
    }
}

/// What can be done about a document that is not for everybody.
fn hint(status: u16) -> &'static str {
    match status {
        401 | 403 => "; with `private` of the source it is shown what `auth` has",
        _ => "",
    }
}

/// The usual ones in plain words.
fn io_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "it may not be read by this user".to_owned(),
        _ => error.to_string(),
    }
}
