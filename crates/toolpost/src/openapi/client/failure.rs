//! Why a request has no answer.

use std::error::Error;
use std::time::Duration;

use serde_json::json;
use url::Url;

use super::host::{HostError, host_and_port};
use super::redirect::RedirectError;
use super::retry::Attempt;
use crate::direct::DirectError;
use crate::error::CallError;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Host(HostError),
    #[error(transparent)]
    Redirect(#[from] RedirectError),
    #[error("`{host}` has failed too often and is left alone for another {wait:.1?}")]
    LeftAlone { host: String, wait: Duration },
    #[error("`{host}` cannot be reached: {words}")]
    Unreachable { host: String, words: String },
    #[error("the connection to `{host}` was lost: {words}")]
    Lost { host: String, words: String },
    #[error("`{host}` did not answer within {limit:.1?}")]
    Timeout { host: String, limit: Duration },
    #[error("the answer is larger than {limit} bytes; raise `response_bytes` of the source")]
    TooLarge { limit: usize },
    #[error(
        "the head of the answer is larger than {limit} bytes; raise `header_bytes` of the source"
    )]
    HeadTooLarge { limit: usize },
    #[error("the body of the answer cannot be unpacked: {words}")]
    Packing { words: String },
    #[error("the request cannot be made: {words}")]
    Unsendable { words: String },
}

impl Failure {
    /// What the client says of a request to this address.
    pub(super) fn of_request(error: &reqwest::Error, url: &Url) -> Self {
        let (host, words) = (host_and_port(url), chain(error));
        match refused_host(error) {
            Some(refused) => Self::Host(refused.clone()),
            None if error.is_connect() => Self::Unreachable { host, words },
            None if error.is_builder() => Self::Unsendable { words },
            None => Self::Lost { host, words },
        }
    }

    /// What the short way says of a request to this address.
    pub(super) fn of_way(error: &DirectError, url: &Url) -> Self {
        let (host, words) = (host_and_port(url), error.to_string());
        match error {
            DirectError::Unsendable(_) => Self::Unsendable { words },
            DirectError::Lost { sent: true, .. } => Self::Lost { host, words },
            DirectError::Unreachable(_) | DirectError::Lost { .. } => {
                Self::Unreachable { host, words }
            }
        }
    }

    /// What the client says of a body from this address.
    pub(super) fn of_body(error: &reqwest::Error, url: &Url) -> Self {
        match error.is_decode() && !is_transport(error) {
            true => Self::Packing { words: chain(error) },
            false => Self::Lost { host: host_and_port(url), words: chain(error) },
        }
    }

    /// What it means for repeating the request, if that can mean anything.
    pub(super) fn attempt(&self) -> Option<Attempt> {
        match self {
            Self::Unreachable { .. } => Some(Attempt::NotSent),
            Self::Lost { .. } => Some(Attempt::Lost),
            _ => None,
        }
    }

    /// Whether the host, and not the request, is to blame.
    pub(super) fn is_of_host(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Lost { .. } | Self::Timeout { .. })
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        let words = failure.to_string();
        match failure {
            Failure::Host(_) | Failure::Unsendable { .. } => {
                Self::execution(words).before_sending()
            }
            Failure::LeftAlone { host, wait } => {
                let refused = Self::unavailable(words).with_details(json!({"host": host}));
                refused.with_limit("breaker").with_retry_after(wait).before_sending()
            }
            Failure::Unreachable { .. } => Self::unavailable(words).before_sending(),
            Failure::Lost { .. } => Self::unavailable(words),
            Failure::Timeout { .. } => Self::timeout(words),
            Failure::Redirect(_)
            | Failure::TooLarge { .. }
            | Failure::HeadTooLarge { .. }
            | Failure::Packing { .. } => Self::execution(words),
        }
    }
}

/// The rule that an address was refused by while its name was resolved.
fn refused_host(error: &reqwest::Error) -> Option<&HostError> {
    reasons(error).find_map(|reason| reason.downcast_ref::<HostError>())
}

fn is_transport(error: &reqwest::Error) -> bool {
    // What comes out of a packed body is wrapped by those who unpack it.
    reasons(error).any(|reason| {
        let text = reason.to_string();
        text.contains("connection") || text.contains("error reading a body")
    })
}

fn reasons(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |reason: &&(dyn Error + 'static)| (*reason).source())
}

/// What went wrong at the bottom of it, without the address, which may hold a secret.
fn chain(error: &reqwest::Error) -> String {
    let last = reasons(error).last().map(ToString::to_string);
    last.unwrap_or_else(|| "the connection broke".to_owned())
}
