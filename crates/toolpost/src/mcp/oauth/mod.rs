//! Access to servers that want to know who comes: an OAuth 2.1 client.
//!
//! It does what the MCP specifications of 2025-06-18, 2025-11-25 and 2026-07-28 ask of a client, and
//! falls back on 2025-03-26 for servers that publish no metadata.
//!
//! | file | holds |
//! |---|---|
//! | `client` | [`OAuth`]: who asks for a token, and who waits for whom |
//! | `work`, `renewal` | the ways to a token: what is kept, a refresh, a person |
//! | `inner`, `state`, `attempts` | what they share, what is at hand, how often a person is asked |
//! | `challenge`, `scope` | what a server says when it refuses, and what is then asked for |
//! | `discovery`, `metadata`, `address` | who gives tokens, and which addresses are spoken to |
//! | `identity` | who this client is to an authorization server |
//! | `authorization`, `pkce`, `loopback` | the way through the browser |
//! | `grant`, `fetch` | the token endpoint, and requests with limits |
//! | `store` | where credentials are kept |

mod address;
mod attempts;
mod authorization;
mod challenge;
mod client;
mod discovery;
mod error;
mod fetch;
mod grant;
mod identity;
mod inner;
mod loopback;
mod metadata;
mod pkce;
mod renewal;
mod scope;
mod state;
mod store;
mod work;

pub use authorization::Authorizer;
pub use client::OAuth;
pub use error::OAuthError;
pub use loopback::Loopback;
pub use store::{
    ClientRegistration, CredentialStore, Credentials, FileStore, MemoryStore, StoreError,
    StoreGuard, Tokens,
};
