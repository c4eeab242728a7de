//! What comes into a room.

use std::sync::Arc;

use serde_json::value::RawValue;
use toolpost::Identity;

use super::{ConnectionId, Frame};
use crate::room::RoomSettings;
use crate::room::capability::Capabilities;
use crate::room::message::{Draft, Protocol, ReadError};

/// What comes into a room.
#[derive(Debug)]
pub(crate) enum Input {
    /// Somebody comes in, and is who he says.
    Arrive(Arrival),
    /// A connection is over.
    Leave { connection: ConnectionId },
    /// Somebody says something, or what cannot be read.
    Say { connection: ConnectionId, draft: Result<Box<Draft>, ReadError> },
    /// A part of a stream.
    Frame { connection: ConnectionId, frame: Result<Frame, ReadError> },
    /// The operations of the registry answer a request.
    Answered { request: Box<str>, payload: Box<RawValue> },
    /// They tell something meanwhile.
    Noted { request: Box<str>, payload: Box<RawValue> },
    /// Somebody who need not be there decides about a proposal.
    Decide(Decision),
    /// Other settings hold.
    Settings(RoomSettings),
    /// Nothing but that time passes.
    Time,
}

/// Somebody who comes in.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) connection: ConnectionId,
    pub(crate) id: Arc<str>,
    /// What his token says that he may; nothing where it says nothing about that.
    pub(crate) own: Option<Capabilities>,
    /// As whom he calls operations.
    pub(crate) identity: Arc<Identity>,
    pub(crate) protocol: Protocol,
    /// How many of the last messages he wants to see.
    pub(crate) history: Option<usize>,
}

/// What somebody decides about a proposal without a message of his own.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) proposal: Box<str>,
    pub(crate) by: Arc<str>,
    /// What his token says that he may.
    pub(crate) own: Option<Capabilities>,
    /// As whom he calls operations.
    pub(crate) identity: Arc<Identity>,
    pub(crate) verdict: Verdict,
    pub(crate) answer: tokio::sync::oneshot::Sender<Result<(), super::Refusal>>,
}

/// What is decided.
#[derive(Debug)]
pub(crate) enum Verdict {
    Approved,
    Rejected { reason: Option<String> },
}
