//! What a client asks about resources, prompts and completions, answered by the sources.
//!
//! A server's resources and prompts pass through as its bytes; only the names by which a client asks
//! for them carry where they came from, so that two servers can use the same ones.
//!
//! | file | holds |
//! |---|---|
//! | `offer` | which sources offer what, as the caller sees it |
//! | `name` | the names that a client uses, and those that a source uses |
//! | `list` | the lists of all sources as one |
//! | `page` | a page of a source's list, and its entries |
//! | `read` | a resource by its address here or at its source |
//! | `ask` | prompts and completions |
//! | `object` | JSON objects whose members stay text |
//! | `fault` | what a client is told when there is no result |

mod ask;
mod fault;
mod follow;
mod list;
mod name;
mod object;
mod offer;
mod page;
mod read;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolpost::view::Era;
use toolpost::{Authority, CallError, CallRequest, Operation, Outcome, Pipeline, Respondent};

use super::message::Fault;
use list::List;
use object::{Hints, Scope};
use offer::Offer;

/// The member of a result's `_meta` that names the sources which had nothing to say, and why.
const MISSING_META: &str = "toolpost/missing";

/// Somebody who asks, and how.
#[derive(Clone, Copy)]
pub(super) struct Passing<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) caller: &'a Authority,
    /// The only source that is seen, under its own names; without it all are.
    pub(super) source: Option<&'a str>,
    /// What the client speaks.
    pub(super) era: Era,
    /// How the client can be asked back.
    pub(super) respondent: Option<&'a Respondent>,
    /// What goes with the request, such as the trace that it is part of.
    pub(super) metadata: Option<&'a Map<String, Value>>,
    /// How long a source may take for its list.
    pub(super) patience: Duration,
    /// Whether callers are told apart; then nothing is for everybody.
    pub(super) knows_callers: bool,
}

impl Passing<'_> {
    /// The JSON of the result, or what to say instead; `None` if the method is none of these.
    ///
    /// # Cancellation
    ///
    /// Dropping it cancels what the sources were asked.
    pub(super) async fn answer(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Option<Result<Vec<u8>, Fault>> {
        let list = List::of(method);
        if list.is_none() && !matches!(method, READ | PROMPT | COMPLETE) {
            return None;
        }
        let params = match read_params(params) {
            Ok(params) => params,
            Err(fault) => return Some(Err(fault)),
        };
        Some(match (method, list) {
            (_, Some(list)) => self.list(list, params).await,
            (READ, _) => self.read(params).await,
            (PROMPT, _) => self.prompt(params).await,
            _ => self.complete(params).await,
        })
    }

    /// For whom an answer may be kept.
    fn scope(&self, offer: &Offer, method: &str) -> Scope {
        if self.knows_callers { Scope::Private } else { offer.scope(method) }
    }

    fn offers(&self) -> Vec<Offer> {
        offer::offers(&self.pipeline.registry().catalog(), self.caller, self.source)
    }

    async fn call(
        &self,
        operation: &Operation,
        input: Map<String, Value>,
        timeout: Option<Duration>,
    ) -> Result<Outcome, CallError> {
        let request = CallRequest::new(operation.id().as_str(), Value::Object(input)).door("mcp");
        let request = match timeout {
            Some(timeout) => request.timeout(timeout),
            None => request,
        };
        let request = match self.metadata {
            Some(metadata) => request.metadata(metadata.clone()),
            None => request,
        };
        let request = request.respondent(self.respondent.cloned());
        self.pipeline.call(request, self.caller.clone()).await
    }

    /// Asks one source, and passes on what it says, also if that is that it wants to know more.
    async fn pass(
        &self,
        operation: &Operation,
        input: Map<String, Value>,
        timeout: Option<Duration>,
        hints: Hints,
    ) -> Result<Vec<u8>, CallError> {
        let ended = self.call(operation, input, timeout).await;
        if let (Err(error), Some(Respondent::Returning(client))) = (&ended, self.respondent)
            && let Some(wanted) = client.wanted(error)
        {
            return Ok(wanted.get().into());
        }
        let outcome = ended?;
        object::result(object::text(&outcome.envelope.data), self.era, hints)
    }
}

const READ: &str = "resources/read";
const SUBSCRIBE: &str = "resources/subscribe";
const PROMPT: &str = "prompts/get";
const COMPLETE: &str = "completion/complete";

/// What is not for the source, or goes there as it came.
const ASIDE: [&str; 3] = ["_meta", "inputResponses", "requestState"];

/// The members of the params; `_meta` is between the client and us.
fn read_params(params: Option<&RawValue>) -> Result<Map<String, Value>, Fault> {
    let params = match params.map(|params| serde_json::from_str(params.get())) {
        None | Some(Ok(Value::Null)) => return Ok(Map::new()),
        Some(Ok(Value::Object(params))) => params,
        Some(Ok(_)) => return Err(Fault::invalid_params("`params` must be an object")),
        Some(Err(error)) => {
            return Err(Fault::invalid_params(format!("`params` cannot be read: {error}")));
        }
    };
    Ok(params.into_iter().filter(|(name, _)| !ASIDE.contains(&name.as_str())).collect())
}

/// The text of a member of the params.
fn text_in<'p>(params: &'p Map<String, Value>, name: &str) -> Result<&'p str, Fault> {
    let text = params.get(name).and_then(Value::as_str);
    text.ok_or_else(|| Fault::invalid_params(format!("`{name}` must be a text")))
}
