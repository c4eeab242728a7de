//! The tools of MCP servers as operations.
//!
//! A server is a child process that uses the stdio transport, or a remote server that uses
//! streamable HTTP. All protocol versions from 2024-11-05 to 2026-07-28 are supported.
//!
//! | file | contents |
//! |---|---|
//! | `settings` | configuration of a source |
//! | `source` | connecting, listing, reloading, reconnecting |
//! | `handshake`, `protocol_version` | negotiating the protocol version, and request metadata for it |
//! | `session` | an initialized session: tool lists, requests, and requested input |
//! | `transport` | the two transports: `stdio` with `process` and `line_reader`, `http` with `oauth` |
//! | `rpc`, `pending`, `dispatcher`, `server_messages` | messages, pending requests, server messages |
//! | `elicitation` | server requests during a call: elicitation, sampling, roots |
//! | `tool`, `header`, `method`, `import` | tools and methods of a server as operations |
//! | `subscriptions` | resource subscriptions |
//! | `source_handle`, `tool_handler`, `result` | a call, its retry, and its result as an envelope |

mod dispatcher;
mod elicitation;
mod error;
mod handshake;
pub(crate) mod header;
mod http;
mod import;
mod json;
mod line_reader;
mod method;
mod oauth;
#[doc(hidden)]
pub mod parsers;
mod pending;
mod process;
mod protocol_version;
mod request;
mod result;
mod rpc;
mod server_messages;
mod session;
mod settings;
mod source;
mod source_handle;
mod stdio;
mod subscriptions;
mod tool;
mod tool_handler;
mod transport;

pub use error::{ServerError, server_error};
pub use line_reader::{InputLine, LineReader, OversizedLine};
pub use method::method_of;
pub use oauth::{
    Authorizer, ClientRegistration, CredentialStore, Credentials, FileStore, LoopbackAuthorizer,
    MemoryStore, OAuth, OAuthError, StoreError, StoreGuard, Tokens,
};
#[cfg(target_os = "linux")]
pub use process::reap_orphans;
pub use process::{DEPTH_VARIABLE, watch_child};
pub use settings::{
    Elicitation, HttpSettings, McpSettings, McpTransport, OAuthSettings, Root, Roots, Sampling,
    StdioSettings,
};
pub use source::{McpSource, OAuthHooks};
