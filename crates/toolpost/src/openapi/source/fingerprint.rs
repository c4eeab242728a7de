//! Detects changes to a document without loading it.

use std::time::{Duration, SystemTime};

use reqwest::header::{ETAG, HeaderMap, LAST_MODIFIED};
use url::Url;

use crate::openapi::load::DocumentLocation;

/// Timeout of the HEAD request for the validators of a document.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Metadata that changes with a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DocumentFingerprint {
    /// Inline text, which never changes.
    Inline,
    File {
        modified: SystemTime,
        bytes: u64,
    },
    Url {
        etag: Option<Vec<u8>>,
        modified: Option<Vec<u8>>,
    },
}

impl DocumentFingerprint {
    /// Returns the fingerprint of a document, or `None` if its location provides none.
    pub(super) async fn read(
        client: &reqwest::Client,
        document: &DocumentLocation,
        headers: HeaderMap,
    ) -> Option<Self> {
        match document {
            DocumentLocation::Url(url) => Self::read_url(client, url, headers).await,
            DocumentLocation::File(path) => {
                let metadata = tokio::fs::metadata(path).await.ok()?;
                Some(Self::File { modified: metadata.modified().ok()?, bytes: metadata.len() })
            }
            DocumentLocation::Text { .. } => Some(Self::Inline),
        }
    }

    async fn read_url(client: &reqwest::Client, url: &Url, headers: HeaderMap) -> Option<Self> {
        let request = client.head(url.clone()).headers(headers).timeout(HEAD_TIMEOUT);
        let response = request.send().await.ok()?;
        let header = |name| response.headers().get(name).map(|value| value.as_bytes().to_vec());
        let (etag, modified) = (header(ETAG), header(LAST_MODIFIED));
        let has_validator =
            response.status().is_success() && (etag.is_some() || modified.is_some());
        has_validator.then_some(Self::Url { etag, modified })
    }
}
