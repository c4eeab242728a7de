//! Inputs of a room.

use std::sync::Arc;

use serde_json::value::RawValue;
use toolpost::Identity;

use super::{ConnectionId, StreamFrame};
use crate::approval::ApprovalAction;
use crate::room::capability::Capabilities;
use crate::room::message::{Draft, MessageParseError, Protocol};
use crate::room::{RoomSettings, ToolResponse};

/// An input of a room.
#[derive(Debug)]
pub(crate) enum RoomInput {
    /// An authenticated participant joins.
    Join(ParticipantJoin),
    /// A connection closed.
    Leave { connection: ConnectionId },
    /// A message, or the error of one that could not be parsed.
    Message { connection: ConnectionId, draft: Result<Box<Draft>, MessageParseError> },
    /// A stream frame, or the error of one that could not be parsed.
    Frame { connection: ConnectionId, frame: Result<StreamFrame, MessageParseError> },
    /// The registry responded to a request.
    CallResponse { request: Box<str>, result: ToolResponse },
    /// A notification of a running registry call.
    CallNotification { request: Box<str>, payload: Box<RawValue> },
    /// The settings changed.
    Settings(RoomSettings),
    /// Time has passed, without any other input.
    Tick,
}

/// A participant that joins.
#[derive(Debug)]
pub(crate) struct ParticipantJoin {
    pub(crate) connection: ConnectionId,
    pub(crate) id: Arc<str>,
    /// Capabilities of its token; `None` if the token defines none.
    pub(crate) token_capabilities: Option<Capabilities>,
    /// Identity for operation calls.
    pub(crate) identity: Arc<Identity>,
    pub(crate) protocol: Protocol,
    /// Number of recent messages that the participant requests.
    pub(crate) history: Option<usize>,
}

/// A decision about a proposal by an identity that need not be in the room.
#[derive(Debug)]
pub(crate) struct ProposalDecision {
    pub(crate) proposal: Box<str>,
    pub(crate) by: Arc<str>,
    /// Capabilities of the decider's token.
    pub(crate) token_capabilities: Option<Capabilities>,
    /// Identity for operation calls.
    pub(crate) identity: Arc<Identity>,
    pub(crate) action: ApprovalAction,
}
