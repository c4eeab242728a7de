//! What is to be done about what came in.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use toolpost::Identity;

use super::ConnectionId;
use crate::room::message::{Message, Protocol};

/// Something that is to be done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Write a message down, then what changes by it and outlives the process; then hand it to these.
    Deliver {
        message: Arc<Message>,
        to: Recipients,
        allowed_by: Option<Value>,
        keep: Option<String>,
    },
    /// Hand over something that is not kept.
    Tell { message: Arc<Message>, to: Recipients },
    /// Hand over a part of a stream.
    Frame { frame: Frame, to: Recipients },
    /// Write down that something was refused.
    Refused {
        who: Arc<str>,
        id: Option<Box<str>>,
        kind: Box<str>,
        error: &'static str,
        reason: String,
    },
    /// Ask the operations of the registry.
    Call(Call),
    /// Nobody wants that answer any more.
    Cancel { request: Box<str> },
    /// End a connection.
    Close { connection: ConnectionId, closing: Closing },
}

/// A request that the operations of the registry are asked.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) request: Box<str>,
    /// As whom it is asked.
    pub(crate) identity: Arc<Identity>,
    pub(crate) payload: Box<RawValue>,
    /// Whether it is meant for them and nobody else; else they answer only what they know.
    pub(crate) is_addressed: bool,
}

/// A part of a stream, as it is on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
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
pub(crate) enum Closing {
    /// The same participant has come again.
    Replaced,
    /// Somebody who may has sent him away.
    Kicked,
    /// There is no place for him.
    Refused(String),
}
