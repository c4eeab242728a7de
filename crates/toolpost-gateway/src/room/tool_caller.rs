//! How a room calls the operations of the gateway.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use toolpost::json_rpc::{RpcError, RpcId};
use toolpost::{Approval, Identity};

/// Handles the MCP requests of participants to the gateway.
pub(crate) trait ToolCaller: fmt::Debug + Send + Sync {
    /// Handles a request and passes its notifications to `notify`. Returns `None` if the request is
    /// not for the gateway.
    fn call(
        self: Arc<Self>,
        request: ToolRequest,
        notify: Box<dyn Fn(Box<RawValue>) + Send + Sync>,
    ) -> BoxFuture<'static, Option<ToolResponse>>;

    /// Returns the payload of a call or its result with the secrets masked; `None` if there are
    /// none.
    fn mask_secrets(
        &self,
        tool: &str,
        payload: &RawValue,
        is_result: bool,
    ) -> Option<Box<RawValue>>;
}

pub(crate) type ToolResponse = Result<Box<RawValue>, RpcError>;

#[derive(Debug)]
pub(crate) struct ToolRequest {
    pub(crate) identity: Arc<Identity>,
    pub(crate) id: RpcId,
    pub(crate) method: Box<str>,
    pub(crate) params: Option<Box<RawValue>>,
    /// The idempotency key in `payload._meta`; `params._meta` takes precedence.
    pub(crate) idempotency_key: Option<Arc<str>>,
    /// Whether the request is addressed to the gateway rather than to no participant in particular.
    pub(crate) is_addressed: bool,
    /// Whether the limit of concurrent requests allows another one.
    pub(crate) has_capacity: bool,
    /// The consent to the request, if it fulfills a proposal.
    pub(crate) approval: Option<Approval>,
    pub(crate) cancellation: CancellationToken,
}
