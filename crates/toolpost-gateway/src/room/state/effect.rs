//! Effects of room inputs, performed by the actor.

use std::sync::Arc;

use serde_json::Value;
use toolpost::{Identity, IdentityKey};

use super::ConnectionId;
use crate::room::DisconnectCause;
use crate::room::message::{Protocol, RejectionCode, RoomMessage};

#[derive(Debug)]
pub(crate) enum Effect {
    /// Journal a message, store the snapshot if there is one, then send the message to the
    /// recipients.
    Deliver {
        message: Arc<RoomMessage>,
        sender: IdentityKey<'static>,
        to: Recipients,
        allowed_by: Option<Value>,
        snapshot: Option<String>,
    },
    Send {
        message: Arc<RoomMessage>,
        to: Recipients,
    },
    Frame {
        frame: StreamFrame,
        to: Recipients,
    },
    RecordRejection {
        sender: IdentityKey<'static>,
        id: Option<Box<str>>,
        kind: Box<str>,
        error: RejectionCode,
        reason: String,
    },
    Call {
        message: Arc<RoomMessage>,
        identity: Arc<Identity>,
        /// The proposal of another participant that the request repeats.
        consents_to: Option<Box<str>>,
    },
    Cancel {
        request: Box<str>,
    },
    Close {
        connection: ConnectionId,
        cause: DisconnectCause,
    },
}

/// A stream frame, as sent on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamFrame {
    pub(crate) stream: Box<str>,
    /// The complete frame, `#id#data`.
    pub(crate) text: Arc<str>,
}

pub(crate) type Recipients = Arc<[Recipient]>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recipient {
    pub(crate) connection: ConnectionId,
    pub(crate) protocol: Protocol,
}
