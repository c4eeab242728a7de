//! Inputs of a room.

use std::sync::Arc;

use serde_json::value::RawValue;
use toolpost::Identity;

use super::{ConnectionId, StreamFrame};
use crate::approval::ApprovalAction;
use crate::kind_filter::KindFilter;
use crate::room::capability::Capabilities;
use crate::room::message::{Draft, MessageParseError, Protocol};
use crate::room::{RoomSettings, ToolResponse};

#[derive(Debug)]
pub(crate) enum RoomInput {
    Join(ParticipantJoin),
    Leave {
        connection: ConnectionId,
    },
    /// A message, or the error of one that could not be parsed.
    Message {
        connection: ConnectionId,
        draft: Result<Box<Draft>, MessageParseError>,
    },
    /// A stream frame, or the error of one that could not be parsed.
    Frame {
        connection: ConnectionId,
        frame: Result<StreamFrame, MessageParseError>,
    },
    CallResponse {
        request: Box<str>,
        result: ToolResponse,
    },
    CallNotification {
        request: Box<str>,
        payload: Box<RawValue>,
    },
    Settings(RoomSettings),
    /// Time has passed, without any other input.
    Tick,
}

#[derive(Debug)]
pub(crate) struct ParticipantJoin {
    pub(crate) connection: ConnectionId,
    pub(crate) id: Arc<str>,
    /// Capabilities of its token; `None` if the token defines none.
    pub(crate) token_capabilities: Option<Capabilities>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) protocol: Protocol,
    pub(crate) history: Option<usize>,
    /// The kinds that it receives; all if absent.
    pub(crate) kinds: Option<KindFilter>,
}

/// A decision about a proposal by an identity that need not be in the room.
#[derive(Debug)]
pub(crate) struct ProposalDecision {
    pub(crate) proposal: Box<str>,
    pub(crate) by: Arc<str>,
    pub(crate) token_capabilities: Option<Capabilities>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) action: ApprovalAction,
}
