//! Credentials as they arrive, and tokens from a real token endpoint.

mod certificate;
mod oauth;
mod schemes;
mod world;
