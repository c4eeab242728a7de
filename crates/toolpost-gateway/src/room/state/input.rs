//! What comes into a room.

use std::sync::Arc;

use serde_json::value::RawValue;
use toolpost::Identity;

use super::{ConnectionId, StreamFrame};
use crate::room::RoomSettings;
use crate::room::capability::Capabilities;
use crate::room::message::{Draft, MessageParseError, Protocol};

/// What comes into a room.
#[derive(Debug)]
pub(crate) enum RoomInput {
    /// Somebody comes in, and is who he says.
    Join(ParticipantJoin),
    /// A connection is over.
    Leave { connection: ConnectionId },
    /// Somebody says something, or what cannot be read.
    Message { connection: ConnectionId, draft: Result<Box<Draft>, MessageParseError> },
    /// A part of a stream.
    Frame { connection: ConnectionId, frame: Result<StreamFrame, MessageParseError> },
    /// The operations of the registry answer a request.
    CallResponse { request: Box<str>, payload: Box<RawValue> },
    /// They tell something meanwhile.
    CallNotification { request: Box<str>, payload: Box<RawValue> },
    /// Somebody who need not be there decides about a proposal.
    Decide(ProposalDecision),
    /// Other settings hold.
    Settings(RoomSettings),
    /// Nothing but that time passes.
    Tick,
}

/// Somebody who comes in.
#[derive(Debug)]
pub(crate) struct ParticipantJoin {
    pub(crate) connection: ConnectionId,
    pub(crate) id: Arc<str>,
    /// What his token says that he may; nothing where it says nothing about that.
    pub(crate) token_capabilities: Option<Capabilities>,
    /// As whom he calls operations.
    pub(crate) identity: Arc<Identity>,
    pub(crate) protocol: Protocol,
    /// How many of the last messages he wants to see.
    pub(crate) history: Option<usize>,
}

/// What somebody decides about a proposal without a message of his own.
#[derive(Debug)]
pub(crate) struct ProposalDecision {
    pub(crate) proposal: Box<str>,
    pub(crate) by: Arc<str>,
    /// What his token says that he may.
    pub(crate) token_capabilities: Option<Capabilities>,
    /// As whom he calls operations.
    pub(crate) identity: Arc<Identity>,
    pub(crate) action: ProposalAction,
    pub(crate) reply: tokio::sync::oneshot::Sender<Result<(), super::RoomError>>,
}

/// What is decided.
#[derive(Debug)]
pub(crate) enum ProposalAction {
    Approve,
    Reject { reason: Option<String> },
}
