//! Forwards requests for resources, prompts and completions to the sources.
//!
//! The resources and prompts of a server are forwarded byte for byte. Only their names are
//! qualified with the source, so that two servers can use the same names.
//!
//! | file | contains |
//! |---|---|
//! | `source_methods` | the methods of each source that the caller can access |
//! | `qualified_name` | names with and without the label of their source |
//! | `list` | merged lists of all sources |
//! | `list_page` | a page of a source's list, and its entries |
//! | `read_resource` | `resources/read` |
//! | `prompts` | prompts and completions |
//! | `result_hints` | results for each protocol generation |

mod list;
mod list_page;
mod prompts;
mod qualified_name;
mod read_resource;
mod result_hints;
mod source_methods;
mod subscribe;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolpost::json_rpc::RpcError;
use toolpost::{Approval, CallError, CallRequest, ClientChannel, Outcome, ResolvedOperation};

use super::client::ClientContext;
use list::ListMethod;
pub(super) use qualified_name::URI_SCHEME;
use result_hints::{CacheVisibility, ResultHints};
use source_methods::SourceMethods;

/// Member of a result's `_meta` that lists the sources that could not be queried, with the reasons.
const MISSING_META: &str = "toolpost/missing";

/// Forwards the requests of one client to the sources.
#[derive(Clone, Copy)]
pub(super) struct Passthrough<'a> {
    pub(super) client: &'a ClientContext,
    /// Channel for server requests to the client.
    pub(super) client_channel: Option<&'a ClientChannel>,
    /// Metadata of the request, such as its trace context.
    pub(super) metadata: Option<&'a Map<String, Value>>,
    /// The consent to the request, if it was already given.
    pub(super) approval: Option<&'a Approval>,
}

impl Passthrough<'_> {
    /// Returns the JSON of the result. Dropping the future cancels the requests to the sources.
    pub(super) async fn handle(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Vec<u8>, RpcError> {
        match (method, ListMethod::from_method(method)) {
            (_, Some(list)) => self.list(list, parse_params(params)?).await,
            (READ, _) => self.read_resource(parse_params(params)?).await,
            (PROMPT, _) => self.get_prompt(parse_params(params)?).await,
            (COMPLETE, _) => self.complete(parse_params(params)?).await,
            _ => Err(RpcError::unknown_method(method)),
        }
    }

    /// Returns the cache visibility of a result. If authentication is required, every result is
    /// private to its caller.
    fn cache_visibility(&self, source: &SourceMethods, method: &str) -> CacheVisibility {
        match self.client.service.authenticator.allows_anonymous() {
            true => source.cache_visibility(method),
            false => CacheVisibility::Private,
        }
    }

    /// Returns the maximum time to wait for the list of a source.
    fn source_timeout(&self) -> Duration {
        self.client.service.settings().source_timeout
    }

    async fn call(
        &self,
        operation: &ResolvedOperation,
        input: Map<String, Value>,
        timeout: Option<Duration>,
    ) -> Result<Outcome, CallError> {
        let request = CallRequest::resolved(operation, Value::Object(input))
            .endpoint(self.client.endpoint)
            .client_channel(self.client_channel.cloned())
            .approval(self.approval.cloned())
            .timeout(timeout)
            .metadata(self.metadata.cloned());
        self.client.service.pipeline.call(request, self.client.authority()).await
    }

    /// Calls one source and returns its result, which may be a request for more input.
    async fn forward(
        &self,
        operation: &ResolvedOperation,
        input: Map<String, Value>,
        timeout: Option<Duration>,
        hints: ResultHints,
    ) -> Result<Vec<u8>, CallError> {
        let ended = self.call(operation, input, timeout).await;
        if let (Err(error), Some(ClientChannel::MultiRoundTrip(client))) =
            (&ended, self.client_channel)
            && let Some(required) = client.required_input(error)
        {
            return Ok(required.get().into());
        }
        let outcome = ended?;
        result_hints::adapt_result(
            result_hints::payload_json(&outcome.envelope.data),
            self.client.generation,
            hints,
        )
    }
}

const READ: &str = "resources/read";
const SUBSCRIBE: &str = "resources/subscribe";
const PROMPT: &str = "prompts/get";
const COMPLETE: &str = "completion/complete";

/// Params that are not part of the input of a source. The last two are forwarded unchanged by other
/// means.
const EXCLUDED_PARAMS: [&str; 3] = ["_meta", "inputResponses", "requestState"];

/// Returns the params to forward. `_meta`, `inputResponses` and `requestState` are removed.
fn parse_params(params: Option<&RawValue>) -> Result<Map<String, Value>, RpcError> {
    let params = match params.map(|params| serde_json::from_str(params.get())) {
        None | Some(Ok(Value::Null)) => return Ok(Map::new()),
        Some(Ok(Value::Object(params))) => params,
        Some(Ok(_)) => return Err(RpcError::invalid_params("`params` must be an object")),
        Some(Err(error)) => {
            return Err(RpcError::invalid_params(format!("`params` cannot be read: {error}")));
        }
    };
    Ok(params.into_iter().filter(|(name, _)| !EXCLUDED_PARAMS.contains(&name.as_str())).collect())
}

/// Returns a string member of the params.
fn string_param<'p>(params: &'p Map<String, Value>, name: &str) -> Result<&'p str, RpcError> {
    let text = params.get(name).and_then(Value::as_str);
    text.ok_or_else(|| RpcError::invalid_params(format!("`{name}` must be a string")))
}
