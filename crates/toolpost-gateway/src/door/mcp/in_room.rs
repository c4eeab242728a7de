//! Requests out of rooms, answered as those of any other client are.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolpost::view::Era;
use toolpost::{Identity, Operation};

use super::ask::{Ask, Asker, agreed};
use super::boxes::is_tool;
use super::message::{Fault, Id};
use super::outlet::Outlet;
use super::params::Params;
use super::refused_call;
use super::session::Calls;
use super::settings::McpView;
use crate::app::Gateway;
use crate::journal::{mask_input, mask_output};

/// How many notifications of one request wait to be told.
const NOTES: usize = 64;

/// A request out of a room.
#[derive(Debug)]
pub(crate) struct RoomRequest {
    pub(crate) identity: Arc<Identity>,
    /// The id of its message, for those whose payload has none.
    pub(crate) id: Box<str>,
    pub(crate) payload: Box<RawValue>,
    /// Whether it is meant for the operations here, and not for whoever knows.
    pub(crate) is_addressed: bool,
    /// Whether one more may be answered now.
    pub(crate) has_room: bool,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    method: String,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// Answers a request, and tells what happens meanwhile; nothing if somebody else is meant.
pub(crate) async fn answer(
    gateway: &Gateway,
    request: RoomRequest,
    tell: &(dyn Fn(Box<RawValue>) + Send + Sync),
    cancellation: CancellationToken,
) -> Option<Box<RawValue>> {
    let id = own_id(&request.id);
    let payload: Payload<'_> = match serde_json::from_str(request.payload.get()) {
        Ok(payload) => payload,
        Err(error) => {
            let words = format!("the payload cannot be read: {error}");
            return said(Fault::new(Fault::INVALID_REQUEST, words).write(Some(&id)));
        }
    };
    let id = payload.id.and_then(Id::of).unwrap_or(id);
    let asker = asker(gateway, Arc::clone(&request.identity));
    let params = match Params::read(payload.params) {
        Ok(params) => params,
        Err(fault) => {
            let asked = (payload.method.as_str(), payload.params);
            refused_call::note(gateway, &request.identity, asked, &fault).await;
            return said(fault.write(Some(&id)));
        }
    };
    if !request.is_addressed && !asker.knows(&payload.method, &params) {
        return None;
    }
    if !request.has_room {
        let words = "too many requests of this room are being answered; ask again";
        return said(Fault::new(Fault::OVERLOADED, words).write(Some(&id)));
    }
    if payload.method == "initialize" {
        return said(asker.welcome(&id, agreed(payload.params)));
    }
    // The arguments of a call are in the params already, and may be large.
    let raw = payload.params.filter(|_| payload.method != "tools/call").map(ToOwned::to_owned);
    let ask = Ask {
        asker,
        id: id.clone(),
        method: payload.method,
        params,
        raw,
        hints: true,
        headers: None,
    };
    let (notes, told) = mpsc::channel(NOTES);
    let calls = Arc::<Calls>::default();
    let outlet = Outlet::new(id.clone()).notes(Some(notes)).cancellable(Some(Arc::clone(&calls)));
    let answered = until(ask, outlet, told, tell, || calls.cancel(&id, CANCELLED), cancellation);
    said(
        answered
            .await
            .unwrap_or_else(|| Fault::new(Fault::CANCELLED, "it was canceled").write(Some(&id))),
    )
}

const CANCELLED: &str = "the one who asked has canceled it";

/// The answer, with everything told on the way; nothing if it is not wanted any more.
async fn until(
    ask: Ask,
    outlet: Outlet,
    mut told: mpsc::Receiver<Vec<u8>>,
    tell: &(dyn Fn(Box<RawValue>) + Send + Sync),
    cancel: impl Fn(),
    cancellation: CancellationToken,
) -> Option<Vec<u8>> {
    let mut answering = Box::pin(ask.answer(outlet));
    let mut is_cancelled = false;
    let answer = loop {
        tokio::select! {
            biased;
            Some(note) = told.recv() => tell(said(note)?),
            answer = &mut answering => break answer,
            () = cancellation.cancelled(), if !is_cancelled => {
                is_cancelled = true;
                cancel();
            }
        }
    };
    while let Ok(note) = told.try_recv() {
        tell(said(note)?);
    }
    answer.is_wanted.then(|| answer.message.into_bytes())
}

fn asker(gateway: &Gateway, identity: Arc<Identity>) -> Asker {
    Asker {
        gateway: gateway.clone(),
        door: "workspace",
        identity,
        view: McpView::default(),
        era: Era::Legacy,
        level: Arc::default(),
        following: None,
        questions: None,
    }
}

impl Asker {
    /// Whether a request that is meant for nobody in particular is one for the operations here.
    fn knows(&self, method: &str, params: &Params) -> bool {
        match method {
            "tools/call" => {
                let toolbox = self.toolbox();
                let tool = params.name.as_deref().and_then(|name| toolbox.tool(name));
                tool.is_some_and(|tool| is_tool(tool.operation(), &self.identity))
            }
            method => method.ends_with("/list"),
        }
    }
}

fn own_id(id: &str) -> Id {
    let json = serde_json::value::to_raw_value(id).ok();
    json.as_deref().and_then(Id::of).unwrap_or_else(Id::none)
}

fn said(message: Vec<u8>) -> Option<Box<RawValue>> {
    String::from_utf8(message).ok().and_then(|text| RawValue::from_string(text).ok())
}

/// A payload of a room as it may be written down, where it is not as it is sent: what a schema calls
/// secret in the input of a tool that is called or proposed, or in its result.
pub(crate) fn masked(
    gateway: &Gateway,
    tool: &str,
    payload: &RawValue,
    is_result: bool,
) -> Option<Box<RawValue>> {
    let asker = asker(gateway, Arc::new(Identity::new("")));
    let toolbox = asker.toolbox();
    let operation = toolbox.tool(tool)?.operation();
    let spec = operation.spec();
    let schema = if is_result { &spec.output_schema } else { &spec.input_schema };
    // Most have no secrets, and are not looked into.
    if schema.secrets().is_empty() && operation.id().as_str() != "hub.call" {
        return None;
    }
    let mut value: Value = serde_json::from_str(payload.get()).ok()?;
    let is_masked = match is_result {
        true => mask_result(operation, value.get_mut("result")?),
        false => mask_arguments(gateway, operation, value.pointer_mut("/params/arguments")?),
    };
    is_masked.then(|| serde_json::value::to_raw_value(&value).ok()).flatten()
}

fn mask_arguments(gateway: &Gateway, operation: &Operation, arguments: &mut Value) -> bool {
    let catalog = || gateway.pipeline().registry().catalog();
    let input = toolpost::Payload::from(arguments.clone());
    let masked = mask_input(catalog, Some(operation), &input);
    masked.map(|masked| *arguments = masked).is_some()
}

/// The texts of a result say the same as its data, in whichever words, and are left out with it.
fn mask_result(operation: &Operation, result: &mut Value) -> bool {
    if operation.spec().output_schema.secrets().is_empty() {
        return false;
    }
    if let Some(data) = result.get_mut("structuredContent") {
        mask_output(operation, data);
    }
    result["content"] = serde_json::json!([{"type": "text", "text": toolpost::MASKED}]);
    true
}
