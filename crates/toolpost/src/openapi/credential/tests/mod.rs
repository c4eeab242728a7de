//! Credentials as the service receives them, and tokens from a local token endpoint.

mod client_certificate;
mod fixture;
mod oauth;
mod schemes;
