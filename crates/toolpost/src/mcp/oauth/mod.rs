//! OAuth 2.1 client for MCP servers that require authorization.
//!
//! It implements the client side of the MCP specifications of 2025-06-18, 2025-11-25 and
//! 2026-07-28, and falls back to 2025-03-26 for servers that publish no metadata.
//!
//! | file | contents |
//! |---|---|
//! | `client` | [`OAuth`]: token lookup and shared acquisitions |
//! | `acquire`, `refresh` | acquiring a token: stored, refreshed, or authorized by the user |
//! | `shared`, `token_state`, `attempt_limiter` | shared state, current tokens, authorization limits |
//! | `challenge`, `scope` | authorization challenges, and the scopes to request |
//! | `discovery`, `metadata`, `url_policy` | finding the authorization server; allowed URLs |
//! | `client_registration` | client identity and registration |
//! | `authorization`, `pkce`, `loopback` | authorization in the browser |
//! | `grant`, `fetch` | the token endpoint, and requests with limits |
//! | `store` | credential storage |

mod acquire;
mod attempt_limiter;
mod authorization;
mod challenge;
mod client;
mod client_registration;
mod discovery;
mod error;
mod fetch;
mod grant;
mod loopback;
mod metadata;
mod pkce;
mod refresh;
mod scope;
mod shared;
mod store;
mod token_state;
mod url_policy;

pub use authorization::Authorizer;
pub use client::OAuth;
pub use error::OAuthError;
pub use loopback::LoopbackAuthorizer;
pub use store::{
    ClientRegistration, CredentialStore, Credentials, FileStore, MemoryStore, StoreError,
    StoreGuard, Tokens,
};
