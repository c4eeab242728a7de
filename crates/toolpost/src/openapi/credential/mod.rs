//! Credentials: what the configuration has, which of them an operation asks for, and how they are
//! shown.

mod choice;
mod error;
mod key;
mod keyring;
mod settings;
mod token;

pub(crate) use error::CredentialError;
pub(crate) use key::Keys;
pub(crate) use keyring::Keyring;
pub use settings::{Credential, Credentials, OAuth2Client};

#[cfg(test)]
mod tests;
