//! Credentials as they arrive, and tokens from a real token endpoint.

mod client_certificate;
mod fixture;
mod oauth;
mod schemes;
