//! Messages of both protocol families: parsing, kinds and encoding for either family.
//!
//! | file | contains |
//! |---|---|
//! | `protocol` | the families and their versions |
//! | `base_kind`, `kind` | kinds and their parts |
//! | `rejection_code` | error codes of rejected messages |
//! | `target` | method and name of an MCP payload, and whether a kind agrees with them |
//! | `draft` | a message as received |
//! | `timestamp` | times in messages |
//! | `room_message` | a complete message and its encodings |
//! | `join_frame` | the first frame of a joining client |
//! | `stream_frame` | raw stream data frames |
//!
//! ```
//! use toolpost_gateway::room::message::{Draft, upgrade_kind};
//!
//! let text = r#"{"kind":"mcp/request","to":["files"],
//!     "payload":{"method":"tools/call","params":{"name":"read_file"}}}"#;
//! let draft = Draft::parse(text).unwrap();
//! let kind = upgrade_kind(draft.kind, draft.payload.as_deref()).unwrap();
//! assert_eq!(kind.full(), "mcp/request:tools/call:read_file");
//! ```

/// Defines an enum whose values have a name in messages.
macro_rules! named_enum {
    ($(#[$meta:meta])* $name:ident { $($variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`.")] $variant,)+
        }

        impl $name {
            /// The name in messages.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// Returns the value with this name.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

mod base_kind;
mod draft;
mod join_frame;
mod kind;
mod protocol;
mod rejection_code;
mod room_message;
mod stream_frame;
mod target;
#[cfg(test)]
mod tests;
mod timestamp;

pub use base_kind::BaseKind;
pub(crate) use draft::quoted;
pub use draft::{Draft, Extra, MessageParseError};
pub use join_frame::{JoinFrame, parse_join};
pub use kind::{KindError, MessageKind};
pub use protocol::Protocol;
pub use rejection_code::RejectionCode;
pub use room_message::{ResponseContext, ResponseOutcome, RoomMessage};
pub use stream_frame::parse_stream_frame;
pub use target::{McpTarget, parse_target, upgrade_kind, upgrade_response_kind};
pub(crate) use timestamp::parse_timestamp;
