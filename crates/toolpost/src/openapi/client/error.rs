//! Errors of requests that received no response.

use std::time::Duration;

use serde_json::json;
use url::Url;

use super::allowed_hosts::{HostError, format_host_port};
use super::redirect::RedirectError;
use super::retry::AttemptOutcome;
use crate::error::{CallError, Limit};
use crate::http::{FetchError, causes, innermost_cause};
use crate::loopback::LoopbackError;

/// Why a request received no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error(transparent)]
    Host(HostError),
    #[error(transparent)]
    Redirect(#[from] RedirectError),
    #[error("circuit breaker open for `{host}`; retry in {retry_after:.1?}")]
    BreakerOpen { host: String, retry_after: Duration },
    #[error("`{host}` cannot be reached: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("connection to `{host}` lost: {reason}")]
    ConnectionLost { host: String, reason: String },
    #[error("`{host}` did not respond within {limit:.1?}")]
    Timeout { host: String, limit: Duration },
    #[error("the response is larger than {limit} bytes; raise `response_bytes` of the source")]
    BodyTooLarge { limit: usize },
    #[error(
        "the response headers are larger than {limit} bytes; raise `header_bytes` of the source"
    )]
    HeadersTooLarge { limit: usize },
    #[error("the response body cannot be decompressed: {reason}")]
    Decompression { reason: String },
    #[error("invalid request: {reason}")]
    InvalidRequest { reason: String },
}

impl HttpError {
    /// Converts an error of the HTTP client.
    pub(super) fn from_reqwest(error: &reqwest::Error, url: &Url) -> Self {
        let (host, reason) = (format_host_port(url), innermost_cause(error));
        // A host rule can reject an address during name resolution.
        match causes(error).find_map(|cause| cause.downcast_ref::<HostError>()) {
            Some(rejected) => Self::Host(rejected.clone()),
            None if error.is_connect() => Self::Unreachable { host, reason },
            None if error.is_builder() => Self::InvalidRequest { reason },
            None => Self::ConnectionLost { host, reason },
        }
    }

    /// Converts an error of the loopback client.
    pub(super) fn from_loopback(error: &LoopbackError, url: &Url) -> Self {
        let (host, reason) = (format_host_port(url), error.to_string());
        match error {
            LoopbackError::InvalidRequest(_) => Self::InvalidRequest { reason },
            LoopbackError::Disconnected { sent: true, .. } => Self::ConnectionLost { host, reason },
            LoopbackError::Unreachable(_) | LoopbackError::Disconnected { .. } => {
                Self::Unreachable { host, reason }
            }
        }
    }

    /// Converts an error that occurred while reading a body.
    pub(super) fn from_body(error: &FetchError, url: &Url) -> Self {
        let reason = error.to_string();
        match error {
            FetchError::TooLarge(limit) => Self::BodyTooLarge { limit: *limit },
            FetchError::Http(error) if error.is_decode() && !is_connection_error(error) => {
                Self::Decompression { reason }
            }
            _ => Self::ConnectionLost { host: format_host_port(url), reason },
        }
    }

    /// Returns the outcome for the retry decision, or `None` if the error is never retried.
    pub(super) fn attempt_outcome(&self) -> Option<AttemptOutcome> {
        match self {
            Self::Unreachable { .. } => Some(AttemptOutcome::NotSent),
            Self::ConnectionLost { .. } => Some(AttemptOutcome::NoResponse),
            _ => None,
        }
    }

    /// Whether the error counts as a failure of the host.
    pub(super) fn is_host_failure(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::ConnectionLost { .. } | Self::Timeout { .. }
        )
    }
}

impl From<HttpError> for CallError {
    fn from(failure: HttpError) -> Self {
        let reason = failure.to_string();
        match failure {
            HttpError::Host(_) | HttpError::InvalidRequest { .. } => {
                Self::execution(reason).not_sent()
            }
            HttpError::BreakerOpen { host, retry_after } => {
                let rejected = Self::unavailable(reason).with_details(json!({"host": host}));
                rejected.with_limit(Limit::Breaker).with_retry_after(retry_after).not_sent()
            }
            HttpError::Unreachable { .. } => Self::unavailable(reason).not_sent(),
            HttpError::ConnectionLost { .. } => Self::unavailable(reason),
            HttpError::Timeout { .. } => Self::timeout(reason),
            HttpError::Redirect(_)
            | HttpError::BodyTooLarge { .. }
            | HttpError::HeadersTooLarge { .. }
            | HttpError::Decompression { .. } => Self::execution(reason),
        }
    }
}

fn is_connection_error(error: &reqwest::Error) -> bool {
    // Decompression wraps the connection error, so the whole chain is searched.
    causes(error).any(|reason| {
        let text = reason.to_string();
        text.contains("connection") || text.contains("error reading a body")
    })
}
