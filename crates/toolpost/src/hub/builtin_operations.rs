//! The built-in operations `hub.list`, `hub.search`, `hub.schema` and `hub.call`. Callers see only
//! the operations they can access. All but `hub.call` return structured data, or short text for
//! models if `full` is false in their input.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text;
use crate::env::call_as_caller;
use crate::error::{CallError, ErrorCode, HandlerError};
use crate::fair_queue::compute;
use crate::handler::{CallContext, Handler, HandlerOutput};
use crate::operation::Operation;
use crate::payload::Payload;
use crate::registry::{Catalog, Viewer, suggest_name};
use crate::schema::Schema;
use crate::spec::{OperationKind, OperationSpec};

/// Number of operations per page of `hub.list`.
const PAGE_SIZE: usize = 200;

/// Maximum number of operations that `hub.search` returns.
const MAX_SEARCH_RESULTS: usize = 100;

/// Maximum length of a search query in characters.
const MAX_QUERY_LENGTH: usize = 1_000;

/// Maximum number of operations that are searched on an async worker.
const MAX_INLINE_OPERATIONS: usize = 512;

/// Namespaces that `hub.list` and `hub.search` omit for a call, attached to its request.
#[derive(Debug, Clone, Default)]
pub struct HiddenNamespaces(pub Vec<Arc<str>>);

/// The result of an operation that can return text instead of structured data.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum FullOrText<T> {
    Full(T),
    /// Short text for models, if `full` is false.
    Text(String),
}

pub(super) fn operations() -> Vec<Operation> {
    let builders = [
        Operation::query("hub.list", list)
            .title("List operations")
            .description("Lists the operations that the caller can access, one page at a time.")
            .summarizes(),
        Operation::query("hub.search", search)
            .title("Search operations")
            .description("Searches names, descriptions, parameter names and tags of operations.")
            .summarizes(),
        Operation::query("hub.schema", schema)
            .title("Show an operation")
            .description("Returns the spec of an operation with its input and output schemas.")
            .summarizes(),
        Operation::from_spec(call_spec()).handler(Handler::once_fn(call)),
    ];
    builders.map(|builder| builder.build().expect("built-in operations are valid")).into()
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ListInput {
    /// Lists only the operations of this namespace.
    #[serde(default)]
    namespace: Option<String>,
    /// Cursor of the previous page.
    #[serde(default)]
    cursor: Option<String>,
    /// Whether to return objects; if false, text with the names by namespace. An id is
    /// `namespace.name`.
    #[serde(default = "full_by_default")]
    full: bool,
}

/// Returns the default of `full`. Tools have another default.
fn full_by_default() -> bool {
    true
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ListOutput {
    operations: Vec<OperationSummary>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Sources that are still starting, whose operations are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    starting: Vec<String>,
}

/// Summary of an operation.
#[derive(Debug, Serialize, JsonSchema)]
struct OperationSummary {
    /// Operation id, `namespace.name`
    id: String,
    /// `query`, `mutation` or `subscription`
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    /// `online`; `offline` while its spoke is disconnected; `unavailable` if its calls are rejected
    status: String,
    /// Why the operation is unavailable
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Returns the status of an operation, and why it is unavailable.
fn status(operation: &Operation) -> (&'static str, Option<String>) {
    match operation.spec().input_schema.over_budget() {
        Some(error) => ("unavailable", Some(format!("its input {error}"))),
        None if operation.is_offline() => ("offline", None),
        None => ("online", None),
    }
}

impl OperationSummary {
    fn new(operation: &Arc<Operation>) -> Self {
        let spec = operation.spec();
        let (status, reason) = status(operation);
        Self {
            id: operation.id().to_string(),
            kind: spec.kind.as_str().to_owned(),
            title: spec.title.clone(),
            description: spec.description.clone(),
            tags: spec.tags.clone(),
            status: status.to_owned(),
            reason,
        }
    }
}

async fn list(
    context: CallContext,
    input: ListInput,
) -> Result<FullOrText<ListOutput>, HandlerError> {
    context.wait_for_sources(input.namespace.as_deref()).await;
    let catalog = call_catalog(&context)?;
    let starting = catalog.starting_for(Viewer::External(context.identity()));
    let is_after = |operation: &Operation| {
        input.cursor.as_deref().is_none_or(|cursor| operation.id().as_str() > cursor)
    };
    let operations = match &input.namespace {
        Some(namespace) => catalog.namespace(namespace),
        None => catalog.list(),
    };
    let visible = || operations.iter().filter(|operation| is_visible(&context, operation));
    let mut found = visible().filter(|operation| is_after(operation));
    if !input.full {
        let is_first_page = input.cursor.is_none() && input.namespace.is_none();
        let counts = || if is_first_page { count_by_namespace(visible()) } else { Vec::new() };
        let page = text::list_text(found.map(|operation| &**operation), counts);
        return Ok(FullOrText::Text(text::with_starting(page, &starting)));
    }
    let operations: Vec<OperationSummary> =
        found.by_ref().take(PAGE_SIZE).map(OperationSummary::new).collect();
    let next_cursor = found.next().and(operations.last()).map(|last| last.id.clone());
    Ok(FullOrText::Full(ListOutput { operations, next_cursor, starting }))
}

/// Returns the number of operations of each namespace. The operations are sorted by id.
fn count_by_namespace<'o>(
    operations: impl Iterator<Item = &'o Arc<Operation>>,
) -> Vec<(&'o str, usize)> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for operation in operations {
        let namespace = operation.id().namespace();
        match counts.last_mut().filter(|(last, _)| *last == namespace) {
            Some((_, count)) => *count += 1,
            None => counts.push((namespace, 1)),
        }
    }
    counts
}

#[derive(Debug, Deserialize, JsonSchema)]
struct SearchInput {
    /// Search terms.
    #[schemars(length(max = MAX_QUERY_LENGTH))]
    query: String,
    /// Maximum number of operations to return; default 20.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    limit: Option<usize>,
    /// Whether to return objects; if false, one line per operation: its id, a sentence and, in
    /// parentheses, the required inputs.
    #[serde(default = "full_by_default")]
    full: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SearchOutput {
    /// Best first.
    operations: Vec<OperationSummary>,
    /// Sources that are still starting, whose operations are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    starting: Vec<String>,
}

async fn search(
    context: CallContext,
    input: SearchInput,
) -> Result<FullOrText<SearchOutput>, HandlerError> {
    context.wait_for_sources(None).await;
    let catalog = shared_catalog(&context)?;
    let starting = catalog.starting_for(Viewer::External(context.identity()));
    if catalog.len() <= MAX_INLINE_OPERATIONS && catalog.is_search_ready() {
        return Ok(search_catalog(&context, &catalog, &input, &starting, &|| false));
    }
    // Searching a large catalog, or building its index, takes too long for an async worker.
    let (searching, on_behalf) = (Arc::clone(&catalog), context.clone());
    let results = compute(&context, move |canceled| {
        let is_canceled = || canceled.is_cancelled();
        search_catalog(&on_behalf, &searching, &input, &starting, &is_canceled)
    });
    Ok(results.await?)
}

fn search_catalog(
    context: &CallContext,
    catalog: &Catalog,
    input: &SearchInput,
    starting: &[String],
    is_canceled: &dyn Fn() -> bool,
) -> FullOrText<SearchOutput> {
    let limit = input.limit.unwrap_or(20).min(MAX_SEARCH_RESULTS);
    let is_visible = |operation: &Operation| is_visible(context, operation);
    let found = catalog.search_visible(&input.query, limit, is_visible, is_canceled);
    let hits = found.hits.iter().map(|hit| &hit.operation);
    match input.full {
        true => {
            let operations = hits.map(OperationSummary::new).collect();
            FullOrText::Full(SearchOutput { operations, starting: starting.to_vec() })
        }
        false => {
            let lines = text::search_text(hits.map(|one| &**one), found.total);
            FullOrText::Text(text::with_starting(lines, starting))
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct SchemaInput {
    /// Operation id, `namespace.name`
    id: String,
    /// Whether to return the whole spec; if false, text with the description and the input as a
    /// type.
    #[serde(default = "full_by_default")]
    full: bool,
}

async fn schema(context: CallContext, input: SchemaInput) -> Result<Value, HandlerError> {
    context.wait_for_sources(input.id.split_once('.').map(|(namespace, _)| namespace)).await;
    let (catalog, caller) = (call_catalog(&context)?, context.identity());
    let missing = || {
        let error = catalog.not_found_error(&input.id, Viewer::External(caller));
        with_suggestion(&context, &input.id, error)
    };
    let operation = catalog.get(&input.id).ok_or_else(missing)?;
    operation.spec().access_control.check_callable(caller)?;
    if !input.full {
        return Ok(text::schema_text(operation).into());
    }
    let mut spec = serde_json::to_value(operation.spec())?;
    match status(operation) {
        ("online", _) => {}
        (status, reason) => {
            spec["status"] = status.into();
            if let Some(reason) = reason {
                spec["reason"] = reason.into();
            }
        }
    }
    Ok(spec)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CallInput {
    /// Operation id, `namespace.name`
    id: String,
    /// Input of the operation. If omitted, the operation is called without input.
    #[serde(default)]
    input: Option<Value>,
    /// Idempotency key: a call that repeats an earlier one with the same key gets its outcome.
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    idempotency_key: Option<Arc<str>>,
}

/// Returns the spec of `hub.call`. It is a mutation because the target can be one.
fn call_spec() -> OperationSpec {
    let id = "hub.call".parse().expect("a valid literal id");
    let mut spec = OperationSpec::new(&id, OperationKind::Mutation);
    spec.title = Some("Call an operation".to_owned());
    spec.description =
        "Calls an operation by its id, with the permissions of the caller.".to_owned();
    spec.input_schema = Schema::of::<CallInput>();
    spec.forwards = true;
    spec
}

async fn call(context: CallContext, input: Payload) -> Result<HandlerOutput, HandlerError> {
    let called: CallInput = input.into_typed()?;
    let input = called.input.map_or_else(Payload::empty_object, Payload::from);
    let key = called.idempotency_key.or_else(|| context.idempotency_key().map(Into::into));
    let result = call_as_caller(&context, &called.id, input, key).await;
    let result = result.map_err(|error| with_suggestion(&context, &called.id, error));
    // `hub.call` itself has no effects; the error of the target states whether anything ran.
    let outcome = result.map_err(|error| match error.may_have_run() {
        true => error,
        false => error.not_sent(),
    })?;
    Ok(HandlerOutput::Forwarded(outcome))
}

/// Adds the most similar id that the caller can access to the error for an unknown id.
fn with_suggestion(context: &CallContext, id: &str, error: CallError) -> CallError {
    let Ok(catalog) = call_catalog(context) else { return error };
    if *error.code() != ErrorCode::OperationNotFound || catalog.get(id).is_some() {
        return error;
    }
    let visible = catalog.list().iter().filter(|operation| is_visible(context, operation));
    match suggest_name(id, visible.map(|operation| operation.id().as_str())) {
        Some(nearest) => {
            let message = format!("{}; did you mean `{nearest}`?", error.message());
            error.with_message(message).with_suggestion(nearest)
        }
        None => error,
    }
}

/// Like [`call_catalog`], as a shared pointer.
fn shared_catalog(context: &CallContext) -> Result<Arc<Catalog>, CallError> {
    let snapshot = Arc::clone(context.snapshot()).downcast();
    snapshot.map_err(|_| CallError::unknown("the call has no catalog"))
}

/// Returns the catalog snapshot of the call, which its nested calls share.
fn call_catalog(context: &CallContext) -> Result<&Catalog, CallError> {
    let snapshot = context.snapshot().downcast_ref();
    snapshot.ok_or_else(|| CallError::unknown("the call has no catalog"))
}

fn is_visible(context: &CallContext, operation: &Operation) -> bool {
    let hidden = context.attached::<HiddenNamespaces>();
    operation.spec().access_control.is_callable_by(context.identity())
        && hidden.is_none_or(|HiddenNamespaces(hidden)| {
            hidden.iter().all(|one| **one != *operation.id().namespace())
        })
}
