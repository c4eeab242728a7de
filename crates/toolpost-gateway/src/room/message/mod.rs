//! Messages of both protocol families: read, taken apart, and written in the form of either.
//!
//! | file | holds |
//! |---|---|
//! | `protocol` | the families and their versions |
//! | `kind` | kinds, which say what a message is about |
//! | `asked` | what an MCP payload asks for, and whether a kind agrees with it |
//! | `draft` | a message as somebody sent it |
//! | `stated` | a message as the room has it, and its forms |
//! | `join` | the frame that somebody comes in with |
//! | `frame` | data of streams, which are no messages |
//!
//! ```
//! use toolpost_gateway::room::message::{Draft, upgraded};
//!
//! let text = r#"{"kind":"mcp/request","to":["files"],
//!     "payload":{"method":"tools/call","params":{"name":"read_file"}}}"#;
//! let draft = Draft::read(text).unwrap();
//! let kind = upgraded(draft.kind, draft.payload.as_deref()).unwrap();
//! assert_eq!(kind.full(), "mcp/request:tools/call:read_file");
//! ```

mod asked;
mod draft;
mod frame;
mod join;
mod kind;
mod member;
mod protocol;
mod stated;
#[cfg(test)]
mod tests;

pub use asked::{Asked, Mismatch, answers, asked, upgraded};
pub use draft::{Draft, Extra, ReadError};
pub use frame::{stream_bytes, stream_frame};
pub use join::{Join, join};
pub use kind::{Kind, KindError};
pub use protocol::Protocol;
pub use stated::{ContextOf, Message, Outcome, StoredError};
