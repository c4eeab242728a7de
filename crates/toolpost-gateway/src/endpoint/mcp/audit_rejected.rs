//! Calls of tools that are refused before they are understood, written down like every other.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use toolpost::{CallError, CallRequest, Identity, Payload};

use super::json_rpc::JsonRpcError;
use crate::app::Gateway;
use crate::endpoint::rejected_requests;

/// Names that are longer are cut, and have no neighbors.
pub(super) const MAX_NAME_CHARS: usize = 256;

/// The one thing about a call that can be told whatever else is wrong with it.
#[derive(Deserialize)]
struct ToolCallName<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Writes down that a request was refused, if it was a call of something.
pub(super) async fn audit_rejected_call(
    gateway: &Gateway,
    identity: &Arc<Identity>,
    (method, params): (&str, Option<&RawValue>),
    rpc_error: &JsonRpcError,
) {
    let params = params.filter(|_| method == "tools/call");
    let parsed =
        params.and_then(|params| serde_json::from_str::<ToolCallName<'_>>(params.get()).ok());
    let Some(ToolCallName { name }) = parsed else { return };
    let error = match rpc_error.code {
        JsonRpcError::OVERLOADED => CallError::overloaded(rpc_error.message.clone()),
        _ => CallError::validation(rpc_error.message.clone(), &[]),
    };
    let id = operation_id_of(&name);
    let request = CallRequest::new(&id, Payload::empty_object()).endpoint("mcp");
    rejected_requests::audit_rejection(gateway, request, identity, &error).await;
}

/// The operation that is meant by the name of a tool, whether or not there is one.
pub(super) fn operation_id_of(name: &str) -> String {
    name.chars().take(MAX_NAME_CHARS).collect::<String>().replacen("__", ".", 1)
}
