//! Credentials: settings, selection for an operation, and use in a request.

mod credential_store;
mod error;
mod request_credential;
mod select;
mod settings;
mod token_cache;

pub(crate) use credential_store::CredentialStore;
pub(crate) use error::CredentialError;
pub(crate) use request_credential::OperationCredentials;
pub use settings::{Credential, Credentials, OAuth2Client};

#[cfg(test)]
mod tests;
