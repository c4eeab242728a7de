//! What the open stages are shown, and how they answer.

use futures::future::BoxFuture;

use crate::access::Identity;
use crate::error::CallError;
use crate::handler::RequestId;
use crate::operation::Operation;
use crate::payload::Payload;

/// The answer of a seam: most know at once, and those should cost nothing.
#[must_use]
pub enum Step<T> {
    /// Decided.
    Now(Result<T, CallError>),
    /// Not yet; the call waits, and is cancellable meanwhile.
    Later(BoxFuture<'static, Result<T, CallError>>),
}

/// What a seam may know about a call.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct CallView<'a> {
    /// The id of the call.
    pub request_id: &'a RequestId,
    /// The call that this one is part of.
    pub parent_request_id: Option<&'a RequestId>,
    /// Where it came in; `local` for calls inside this process.
    pub door: &'static str,
    /// The id that was asked for, whether or not there is such an operation.
    pub operation_id: &'a str,
    /// The operation, if there is one.
    pub operation: Option<&'a Operation>,
    /// Who calls, or on whose behalf.
    pub identity: Option<&'a Identity>,
    /// Whether access is not checked.
    pub trusted: bool,
    /// The input, until the handler has it.
    pub input: Option<&'a Payload>,
}
