//! Calls of tools that are refused before they are understood, written down like every other.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use toolpost::{CallError, CallRequest, Identity, Payload};

use super::message::Fault;
use crate::app::Gateway;
use crate::door::refusal;

/// Names that are longer are cut, and have no neighbors.
pub(super) const LONGEST_NAME: usize = 256;

/// The one thing about a call that can be told whatever else is wrong with it.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Writes down that a request was refused, if it was a call of something.
pub(super) async fn note(
    gateway: &Gateway,
    identity: &Arc<Identity>,
    (method, params): (&str, Option<&RawValue>),
    fault: &Fault,
) {
    let params = params.filter(|_| method == "tools/call");
    let named = params.and_then(|params| serde_json::from_str::<Named<'_>>(params.get()).ok());
    let Some(Named { name }) = named else { return };
    let error = match fault.code {
        Fault::OVERLOADED => CallError::overloaded(fault.message.clone()),
        _ => CallError::validation(fault.message.clone(), &[]),
    };
    let id = operation_of(&name);
    let request = CallRequest::new(&id, Payload::empty_object()).door("mcp");
    refusal::note(gateway, request, identity, &error).await;
}

/// The operation that is meant by the name of a tool, whether or not there is one.
pub(super) fn operation_of(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect::<String>().replacen("__", ".", 1)
}
