//! The workspace: rooms in which people, agents and tools exchange messages that explain themselves.
//!
//! | file | holds |
//! |---|---|
//! | [`capability`] | which messages somebody may send, in two notations |
//! | `keep` | what a room keeps for its next opening, such as grants |
//! | `message` | messages of both protocol families, and what each is about |
//! | `settings` | the numbers that bound a room |

pub mod capability;
#[allow(dead_code, reason = "rooms are there soon")]
mod keep;
pub mod message;
mod settings;

#[allow(unused_imports, reason = "rooms are there soon")]
pub(crate) use keep::RoomStore;
pub use settings::{RoomSettings, WorkspaceSettings};
