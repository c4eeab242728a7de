//! The built-in operations `hub.list`, `hub.search`, `hub.schema` and `hub.call`. Callers see only
//! the operations they can access.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::env::call_as_caller;
use crate::error::{CallError, HandlerError};
use crate::handler::{CallContext, Handler, HandlerOutput};
use crate::operation::Operation;
use crate::payload::Payload;
use crate::registry::{Catalog, Viewer};
use crate::schema::Schema;
use crate::spec::{OperationKind, OperationSpec};

/// Number of operations per page of `hub.list`.
const PAGE_SIZE: usize = 200;

/// Maximum number of operations that `hub.search` returns.
const MAX_SEARCH_RESULTS: usize = 100;

pub(super) fn operations() -> Vec<Operation> {
    let builders = [
        Operation::query("hub.list", list)
            .title("List operations")
            .description("Lists the operations that the caller can access, one page at a time."),
        Operation::query("hub.search", search)
            .title("Search operations")
            .description("Searches the names, tags and descriptions of operations."),
        Operation::query("hub.schema", schema)
            .title("Show an operation")
            .description("Returns the spec of an operation with its input and output schemas."),
        Operation::from_spec(call_spec()).handler(Handler::once_fn(call)),
    ];
    builders.map(|builder| builder.build().expect("built-in operations are valid")).into()
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ListInput {
    /// Lists only the operations of this namespace.
    namespace: Option<String>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ListOutput {
    operations: Vec<OperationSummary>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
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
    #[schemars(default)]
    tags: Vec<String>,
    /// `online`, or `offline` while its spoke is disconnected
    status: String,
}

impl OperationSummary {
    fn new(operation: &Arc<Operation>) -> Self {
        let spec = operation.spec();
        Self {
            id: operation.id().to_string(),
            kind: spec.kind.as_str().to_owned(),
            title: spec.title.clone(),
            description: spec.description.clone(),
            tags: spec.tags.clone(),
            status: if operation.is_offline() { "offline" } else { "online" }.to_owned(),
        }
    }
}

async fn list(context: CallContext, input: ListInput) -> Result<ListOutput, HandlerError> {
    let catalog = call_catalog(&context)?;
    let after = |operation: &&Arc<Operation>| {
        input.cursor.as_deref().is_none_or(|cursor| operation.id().as_str() > cursor)
    };
    let inside = |operation: &&Arc<Operation>| {
        input.namespace.as_deref().is_none_or(|requested| operation.id().namespace() == requested)
    };
    let visible = |operation: &&Arc<Operation>| is_visible(&context, operation);
    let mut found = catalog.list().iter().filter(after).filter(inside).filter(visible);
    let operations: Vec<OperationSummary> =
        found.by_ref().take(PAGE_SIZE).map(OperationSummary::new).collect();
    let next_cursor = found.next().and(operations.last()).map(|last| last.id.clone());
    Ok(ListOutput { operations, next_cursor })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct SearchInput {
    /// Search terms.
    query: String,
    /// Maximum number of operations to return; default 20.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SearchOutput {
    /// Best first.
    operations: Vec<OperationSummary>,
}

async fn search(context: CallContext, input: SearchInput) -> Result<SearchOutput, HandlerError> {
    let catalog = call_catalog(&context)?;
    let limit = input.limit.unwrap_or(20).min(MAX_SEARCH_RESULTS);
    // Rank the whole catalog and filter afterwards, so hidden operations do not use up the limit.
    let hits = catalog.search(&input.query, catalog.len());
    let visible = hits.into_iter().map(|hit| hit.operation);
    let visible = visible.filter(|operation| is_visible(&context, operation)).take(limit);
    Ok(SearchOutput {
        operations: visible.map(|operation| OperationSummary::new(&operation)).collect(),
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct SchemaInput {
    /// Operation id, `namespace.name`
    id: String,
}

async fn schema(context: CallContext, input: SchemaInput) -> Result<Value, HandlerError> {
    let (catalog, caller) = (call_catalog(&context)?, context.identity());
    let missing = || catalog.not_found_error(&input.id, Viewer::External(caller));
    let operation = catalog.get(&input.id).ok_or_else(missing)?;
    operation.spec().access_control.check_callable(caller)?;
    let mut spec = serde_json::to_value(operation.spec())?;
    if operation.is_offline() {
        spec["status"] = "offline".into();
    }
    Ok(spec)
}

#[derive(Debug, Deserialize, JsonSchema)]
struct CallInput {
    /// Operation id, `namespace.name`
    id: String,
    /// Input of the operation. If omitted, the operation is called without input.
    #[serde(default)]
    input: Option<Value>,
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
    let result = call_as_caller(&context, &called.id, input).await;
    // `hub.call` itself has no effects; the error of the target states whether anything ran.
    let outcome = result.map_err(|error| match error.may_have_run() {
        true => error,
        false => error.not_sent(),
    })?;
    Ok(HandlerOutput::Forwarded(outcome))
}

/// Returns the catalog snapshot of the call, which its nested calls share.
fn call_catalog(context: &CallContext) -> Result<&Catalog, CallError> {
    let snapshot = context.snapshot().downcast_ref();
    snapshot.ok_or_else(|| CallError::unknown("the call has no catalog"))
}

fn is_visible(context: &CallContext, operation: &Operation) -> bool {
    operation.spec().access_control.is_callable_by(context.identity())
}
