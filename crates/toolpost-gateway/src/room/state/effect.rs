//! What is to be done about what came in.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use toolpost::Identity;

use super::ConnectionId;
use crate::room::message::{Protocol, RoomMessage};

/// Something that is to be done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Write a message down, then what changes by it and outlives the process; then hand it to these.
    Deliver {
        message: Arc<RoomMessage>,
        to: Recipients,
        allowed_by: Option<Value>,
        snapshot: Option<String>,
    },
    /// Hand over something that is not kept.
    Send { message: Arc<RoomMessage>, to: Recipients },
    /// Hand over a part of a stream.
    Frame { frame: StreamFrame, to: Recipients },
    /// Write down that something was refused.
    RecordRejection {
        sender: Arc<str>,
        id: Option<Box<str>>,
        kind: Box<str>,
        error: &'static str,
        reason: String,
    },
    /// Ask the operations of the registry.
    Call(RegistryCall),
    /// Nobody wants that answer any more.
    Cancel { request: Box<str> },
    /// End a connection.
    Close { connection: ConnectionId, cause: DisconnectCause },
}

/// A request that the operations of the registry are asked.
#[derive(Debug)]
pub(crate) struct RegistryCall {
    pub(crate) request: Box<str>,
    /// As whom it is asked.
    pub(crate) identity: Arc<Identity>,
    pub(crate) payload: Box<RawValue>,
    /// Whether it is meant for them and nobody else; else they answer only what they know.
    pub(crate) is_addressed: bool,
}

/// A part of a stream, as it is on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamFrame {
    pub(crate) stream: Box<str>,
    /// The whole frame, `#id#data`.
    pub(crate) text: Arc<str>,
}

/// Who gets something.
pub(crate) type Recipients = Arc<[Recipient]>;

/// A connection, and what is spoken on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recipient {
    pub(crate) connection: ConnectionId,
    pub(crate) protocol: Protocol,
}

/// Why a connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DisconnectCause {
    /// The same participant has come again.
    Replaced,
    /// Somebody who may has sent him away.
    Kicked,
    /// There is no place for him.
    Rejected(String),
}
