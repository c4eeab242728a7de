//! Audit records of tool calls that are rejected before their params are parsed.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use toolpost::{CallError, CallRequest, Endpoint, Identity, Payload};

use super::json_rpc::JsonRpcError;
use crate::app::Gateway;
use crate::endpoint::rejected_requests;

/// Maximum number of characters of a tool name in errors and in the journal. Longer names are
/// truncated.
pub(super) const MAX_NAME_CHARS: usize = 256;

/// The tool name, which can be read even if other params are invalid.
#[derive(Deserialize)]
struct ToolCallName<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Audits a rejected request if it is a tool call.
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
    let request = CallRequest::new(&id, Payload::empty_object()).endpoint(Endpoint::Mcp);
    rejected_requests::audit_rejection(gateway, request, identity, &error).await;
}

/// Returns the operation id for a tool name, whether or not the operation exists.
pub(super) fn operation_id_of(name: &str) -> String {
    name.chars().take(MAX_NAME_CHARS).collect::<String>().replacen("__", ".", 1)
}
