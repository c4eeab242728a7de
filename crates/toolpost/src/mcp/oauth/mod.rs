//! Access to servers that want to know who comes: an OAuth 2.1 client.
//!
//! It does what the MCP specifications of 2025-06-18, 2025-11-25 and 2026-07-28 ask of a client, and
//! falls back on 2025-03-26 for servers that publish no metadata.
//!
//! | file | holds |
//! |---|---|
//! | `client` | [`OAuth`]: who asks for a token, and who waits for whom |
//! | `acquire`, `refresh` | acquiring a token: stored, refreshed, or authorized by the user |
//! | `inner`, `token_state`, `attempt_limiter` | shared state, current tokens, authorization limits |
//! | `challenge`, `scope` | what a server says when it refuses, and what is then asked for |
//! | `discovery`, `metadata`, `url_policy` | finding the authorization server; allowed URLs |
//! | `client_registration` | client identity and registration |
//! | `authorization`, `pkce`, `loopback` | the way through the browser |
//! | `grant`, `fetch` | the token endpoint, and requests with limits |
//! | `store` | where credentials are kept |

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
