//! `approvals`, `approve` and `reject`: list and decide calls pending approval.

use serde_json::{Value, json};

use super::backend::{Backend, announce_gateway, call_as_operator, take_array};
use crate::arguments::{GatewayTarget, PendingCall};
use crate::error::CommandError;
use crate::output;

pub(crate) async fn approvals(target: &GatewayTarget) -> Result<(), CommandError> {
    const APPROVALS: &str = "gateway.approvals";
    let backend = Backend::connect_as_operator(target).await?;
    if target.url().is_none() {
        announce_gateway();
    }
    let listed = backend.call(APPROVALS, json!({})).await;
    let mut listed = backend.close_with(listed, APPROVALS).await?;
    let pending = take_array(&mut listed, "approvals");
    Ok(output::print_value(&pending, || match &pending[..] {
        [] => "No calls pending approval.".to_owned(),
        pending => table(pending),
    })?)
}

pub(crate) async fn approve(
    call: &PendingCall,
    digest: Option<String>,
) -> Result<(), CommandError> {
    send_decision(call, "gateway.approve", "inputDigest", digest).await
}

pub(crate) async fn reject(call: &PendingCall, reason: Option<String>) -> Result<(), CommandError> {
    send_decision(call, "gateway.reject", "reason", reason).await
}

async fn send_decision(
    call: &PendingCall,
    operation: &str,
    option: &str,
    value: Option<String>,
) -> Result<(), CommandError> {
    let mut input = json!({"id": call.id});
    if let Some(value) = value {
        input[option] = value.into();
    }
    let decided = call_as_operator(&call.target, operation, input).await?;
    Ok(output::print_value(&decided, || {
        let caller = decided["caller"].as_str().unwrap_or("the gateway");
        let [status, operation] =
            ["status", "operation"].map(|name| output::text_of(&decided, name));
        format!("{status}: {operation}, called by {caller}")
    })?)
}

/// Formats the pending calls as a table. The input is never truncated, because the approver must
/// see all of it.
fn table(pending: &[Value]) -> String {
    let row = |call: &Value| {
        let text = |name: &str| call[name].as_str().unwrap_or("-").to_owned();
        let seconds = call["expiresInMs"].as_u64().unwrap_or_default() / 1_000;
        let remaining = format!("{}m {:02}s", seconds / 60, seconds % 60);
        [text("id"), text("operation"), text("caller"), remaining, call["input"].to_string()]
    };
    output::table(["ID", "OPERATION", "CALLER", "EXPIRES IN", "INPUT"], pending.iter().map(row))
}
