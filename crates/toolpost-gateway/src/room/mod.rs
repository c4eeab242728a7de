//! Rooms, in which people, agents and tools exchange self-contained messages.
//!
//! | file | contains |
//! |---|---|
//! | [`capability`] | which messages a participant can send, in two notations |
//! | `store` | documents of rooms that survive a restart, such as grants |
//! | `message` | messages of both protocol families, their kinds and targets |
//! | `settings` | limits and settings of a room |
//! | `state` | a room without I/O: inputs in, effects out |
//! | `actor` | runs a room and performs its effects |
//! | `sender` | the bounded send queue of one participant |
//! | `rooms` | the rooms by name |
//! | `room_name` | names of rooms |
//! | `tool_caller` | the interface through which rooms call operations |

mod actor;
pub mod capability;
pub mod message;
mod proposal_queue;
mod room_name;
mod rooms;
mod sender;
mod settings;
mod state;
mod store;
mod tool_caller;

pub use room_name::{RoomName, RoomNameError};
pub(crate) use rooms::{RoomConnection, RoomHandle, Rooms};
pub(crate) use sender::{DisconnectCause, channel};
pub use settings::{RoomSettings, RoomsSettings, ShortKinds};
pub(crate) use state::{
    GATEWAY_PARTICIPANT, ParticipantJoin, REGISTRY_PARTICIPANT, RoomError, RoomInput, StreamFrame,
    check_participant_name as check_participant, format_for_mcpx,
};
pub(crate) use store::RoomStore;
pub(crate) use tool_caller::{ToolCaller, ToolRequest, ToolResponse};

/// Name of the built-in room, which is always listed.
pub const LOBBY: &str = "lobby";
