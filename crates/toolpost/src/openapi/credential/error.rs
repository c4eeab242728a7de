//! Errors of credentials and token requests.

use crate::error::CallError;
use crate::tls::UnencryptedError;
use crate::token_endpoint::TokenError;

/// Why credentials are not available. No message contains a secret.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum CredentialError {
    #[error("the operation requires credentials that are not configured: {required}")]
    Missing { required: String },
    #[error("the value of {what} cannot be sent in {place}")]
    InvalidValue { what: String, place: &'static str },
    #[error("`{name}` in `auth.headers` is not a valid header name")]
    HeaderName { name: String },
    #[error("`auth.client_certificate` is not a PEM file with a certificate and its key")]
    Certificate,
    #[error(transparent)]
    Unencrypted(#[from] UnencryptedError),
    #[error(
        "the operation is on `{0}`, not on the server of the document, and requires credentials; add \
         `{0}` to `hosts` of the source to send them there"
    )]
    OtherServer(String),
    #[error("the token endpoint `{address}` is not allowed: {reason}")]
    InvalidTokenUrl { address: String, reason: &'static str },
    #[error("the token endpoint `{address}` {error}")]
    Token { address: String, error: TokenError },
}

impl CredentialError {
    /// Whether a later attempt can succeed without a configuration change.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, Self::Token { error, .. } if error.is_transient())
    }
}

impl From<CredentialError> for CallError {
    fn from(error: CredentialError) -> Self {
        let call = if error.is_transient() { Self::unavailable } else { Self::execution };
        call(std::borrow::Cow::Owned(error.to_string())).with_cause(error).not_sent()
    }
}
