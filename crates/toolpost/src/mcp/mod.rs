//! The tools of MCP servers as operations.
//!
//! A source is a process that speaks MCP over its standard input and output, or a server that speaks
//! it over HTTP. Every protocol version from 2024-11-05 to 2026-07-28 is understood.
//!
//! | file | holds |
//! |---|---|
//! | `settings` | what is settled about a source before it is connected |
//! | `source` | connecting, listing, following, connecting again |
//! | `greeting`, `speech` | which protocol version a server speaks, and how requests are worded in it |
//! | `session` | a server that was greeted: its lists, requests, and the input it asks for |
//! | `wire` | the two ways to a server: `stdio` with `process` and `lines`, `http` with `oauth` |
//! | `rpc`, `pending`, `switch`, `inbox` | messages, who waits for which, and what a server says |
//! | `inquiry` | what a server asks while it works, and who answers |
//! | `tool`, `header`, `method`, `import` | what a server has, as operations |
//! | `follow` | the resources that somebody follows, and the server that tells when they change |
//! | `desk`, `tool_handler`, `result` | a call, its repetition, and its result as an envelope |

mod ask;
mod desk;
mod failure;
mod follow;
mod greeting;
pub(crate) mod header;
mod http;
mod import;
mod inbox;
mod inquiry;
mod json;
mod lines;
mod method;
mod oauth;
#[doc(hidden)]
pub mod parsers;
mod pending;
mod process;
mod result;
mod rpc;
mod session;
mod settings;
mod source;
mod speech;
mod stdio;
mod switch;
mod tool;
mod tool_handler;
mod wire;

pub use failure::{ServerError, server_error};
pub use header::decode as decode_header;
pub use lines::{Line, Lines, TooLong};
pub use method::{METHOD_META, method_of};
pub use oauth::{
    Authorizer, ClientRegistration, CredentialStore, Credentials, FileStore, Loopback, MemoryStore,
    OAuth, OAuthError, StoreError, StoreGuard, Tokens,
};
pub use process::{DEPTH_VARIABLE, watch_child};
pub(crate) use result::SOURCE_MEMBER;
pub use settings::{
    Elicitation, HttpSettings, McpSettings, McpTransport, OAuthSettings, Root, Roots, Sampling,
    StdioSettings,
};
pub use source::{Adjust, Found, McpSource, Review, SourceHooks, SourceStatus};
pub use tool::TOOL_META;
