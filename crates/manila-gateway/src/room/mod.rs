//! The workspace: rooms in which people, agents and tools exchange messages that explain themselves.
//!
//! | file | holds |
//! |---|---|
//! | [`capability`] | which messages somebody may send, in two notations |
//! | `message` | messages of both protocol families, and what each is about |
//! | `settings` | the numbers that bound a room |

pub mod capability;
pub mod message;
mod settings;

pub use settings::{RoomSettings, WorkspaceSettings};
