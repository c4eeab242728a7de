//! The workspace: rooms in which people, agents and tools exchange messages that explain themselves.
//!
//! | file | holds |
//! |---|---|
//! | [`capability`] | which messages somebody may send, in two notations |
//! | `keep` | what a room keeps for its next opening, such as grants |
//! | `message` | messages of both protocol families, and what each is about |
//! | `settings` | the numbers that bound a room |
//! | `state` | a room without I/O: a message comes in, what is to be done comes out |
//! | `task` | the one who runs a room and does it |
//! | `outlet` | the way to one participant |
//! | `workspace` | the rooms by name |

pub mod capability;
mod keep;
pub mod message;
mod outlet;
mod settings;
mod state;
mod task;
mod workspace;

pub(crate) use keep::RoomStore;
pub(crate) use outlet::{Goodbye, Inlet, way};
pub use settings::{RoomSettings, WorkspaceSettings};
pub(crate) use state::{
    Frame, Input, Refusal, TOOLPOST, Verdict, Waiting, check_name as check_participant,
    shown_to_mcpx,
};
pub(crate) use workspace::{Newcomer, Place, RoomHandle, Workspace};

/// The room that is always there.
pub const LOBBY: &str = "lobby";
