//! Effects of room inputs, performed by the actor.

use std::sync::Arc;

use serde_json::Value;
use toolpost::Identity;

use super::ConnectionId;
use crate::room::DisconnectCause;
use crate::room::message::{Protocol, RejectionCode, RoomMessage};

/// An effect of an input.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Journal a message, store the snapshot if there is one, then send the message to the
    /// recipients.
    Deliver {
        message: Arc<RoomMessage>,
        to: Recipients,
        allowed_by: Option<Value>,
        snapshot: Option<String>,
    },
    /// Send a message that is not stored.
    Send { message: Arc<RoomMessage>, to: Recipients },
    /// Send a stream frame.
    Frame { frame: StreamFrame, to: Recipients },
    /// Write a rejection to the journal.
    RecordRejection {
        sender: Arc<str>,
        id: Option<Box<str>>,
        kind: Box<str>,
        error: RejectionCode,
        reason: String,
    },
    /// Send a request to the registry.
    Call {
        message: Arc<RoomMessage>,
        /// Identity of the caller.
        identity: Arc<Identity>,
        /// The proposal of another participant that the request repeats.
        consents_to: Option<Box<str>>,
    },
    /// Cancel the call of this request.
    Cancel { request: Box<str> },
    /// Close a connection.
    Close { connection: ConnectionId, cause: DisconnectCause },
}

/// A stream frame, as sent on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamFrame {
    pub(crate) stream: Box<str>,
    /// The complete frame, `#id#data`.
    pub(crate) text: Arc<str>,
}

/// The connections that receive a message.
pub(crate) type Recipients = Arc<[Recipient]>;

/// A connection and its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recipient {
    pub(crate) connection: ConnectionId,
    pub(crate) protocol: Protocol,
}
