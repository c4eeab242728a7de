//! Whether a document is still the same, without reading it.

use std::time::{Duration, SystemTime};

use reqwest::header::{ETAG, HeaderMap, LAST_MODIFIED};
use url::Url;

use crate::openapi::load::Location;

/// How long a service may take to say how old a document is.
const PATIENCE: Duration = Duration::from_secs(10);

/// What changes with a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// It never changes.
    Text,
    File {
        modified: SystemTime,
        bytes: u64,
    },
    Address {
        etag: Option<Vec<u8>>,
        modified: Option<Vec<u8>>,
    },
}

impl Stamp {
    /// What the place of a document says about it, if it says anything.
    pub(super) async fn of(
        client: &reqwest::Client,
        document: &Location,
        shown: HeaderMap,
    ) -> Option<Self> {
        match document {
            Location::Url(url) => Self::of_address(client, url, shown).await,
            Location::File(path) => {
                let about = tokio::fs::metadata(path).await.ok()?;
                Some(Self::File { modified: about.modified().ok()?, bytes: about.len() })
            }
            Location::Text { .. } => Some(Self::Text),
        }
    }

    async fn of_address(client: &reqwest::Client, url: &Url, shown: HeaderMap) -> Option<Self> {
        let asking = client.head(url.clone()).headers(shown).timeout(PATIENCE);
        let asked = asking.send().await.ok()?;
        let header = |name| asked.headers().get(name).map(|value| value.as_bytes().to_vec());
        let (etag, modified) = (header(ETAG), header(LAST_MODIFIED));
        let is_known = asked.status().is_success() && (etag.is_some() || modified.is_some());
        is_known.then_some(Self::Address { etag, modified })
    }
}
