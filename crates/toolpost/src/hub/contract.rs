//! `hub.list`, `hub.search`, `hub.schema`, `hub.call`: the four operations that are the same for
//! people, agents, browsers and spokes. They show a caller what he may call and nothing else.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::env::call_as_caller;
use crate::error::{CallError, HandlerError};
use crate::handler::{CallContext, Handler, Output};
use crate::operation::Operation;
use crate::payload::Payload;
use crate::registry::{Asker, Catalog};
use crate::schema::Schema;
use crate::spec::{Kind, OperationSpec};

/// How many operations a page of a list has.
const PAGE: usize = 200;

/// How many operations a search gives at most.
const MOST_FOUND: usize = 100;

pub(super) fn operations() -> Vec<Operation> {
    let builders = [
        Operation::query("hub.list", list)
            .title("List operations")
            .description("Lists the operations that you may call, a page at a time."),
        Operation::query("hub.search", search)
            .title("Search operations")
            .description("Finds operations by words in their names, tags and descriptions."),
        Operation::query("hub.schema", schema)
            .title("Show an operation")
            .description("Gives the whole spec of an operation: what it takes and gives."),
        Operation::from_spec(call_spec()).handler(Handler::once_fn(call)),
    ];
    builders.map(|builder| builder.build().expect("the contract is well formed")).into()
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct List {
    /// Only the operations of this namespace.
    namespace: Option<String>,
    /// Where the last page ended.
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Listed {
    operations: Vec<Summary>,
    /// Asks for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// An operation in a list.
#[derive(Debug, Serialize, JsonSchema)]
struct Summary {
    /// `namespace.name`
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
    /// `online`, or `offline` while whoever runs it is away
    status: String,
}

impl Summary {
    fn of(operation: &Arc<Operation>) -> Self {
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

async fn list(context: CallContext, input: List) -> Result<Listed, HandlerError> {
    let catalog = catalog(&context)?;
    let after = |operation: &&Arc<Operation>| {
        input.cursor.as_deref().is_none_or(|cursor| operation.id().as_str() > cursor)
    };
    let inside = |operation: &&Arc<Operation>| {
        input.namespace.as_deref().is_none_or(|wanted| operation.id().namespace() == wanted)
    };
    let visible = |operation: &&Arc<Operation>| is_visible(&context, operation);
    let mut found = catalog.list().iter().filter(after).filter(inside).filter(visible);
    let operations: Vec<Summary> = found.by_ref().take(PAGE).map(Summary::of).collect();
    let next_cursor = found.next().and(operations.last()).map(|last| last.id.clone());
    Ok(Listed { operations, next_cursor })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Search {
    /// Words to look for.
    query: String,
    /// How many operations at most; 20 if absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Found {
    /// Best first.
    operations: Vec<Summary>,
}

async fn search(context: CallContext, input: Search) -> Result<Found, HandlerError> {
    let catalog = catalog(&context)?;
    let limit = input.limit.unwrap_or(20).min(MOST_FOUND);
    // What is hidden must not take the places of what is not.
    let hits = catalog.search(&input.query, catalog.len());
    let visible = hits.into_iter().map(|hit| hit.operation);
    let visible = visible.filter(|operation| is_visible(&context, operation)).take(limit);
    Ok(Found { operations: visible.map(|operation| Summary::of(&operation)).collect() })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Named {
    /// `namespace.name`
    id: String,
}

async fn schema(context: CallContext, input: Named) -> Result<Value, HandlerError> {
    let operation = named(&context, &input.id)?;
    let mut spec = serde_json::to_value(operation.spec())?;
    if operation.is_offline() {
        spec["status"] = "offline".into();
    }
    Ok(spec)
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Called {
    /// `namespace.name`
    id: String,
    /// What the operation takes; nothing if absent.
    #[serde(default)]
    input: Option<Value>,
}

/// It writes if its target does, which is not known before it is called.
fn call_spec() -> OperationSpec {
    let id = "hub.call".parse().expect("a plain id");
    let mut spec = OperationSpec::new(&id, Kind::Mutation);
    spec.title = Some("Call an operation".to_owned());
    spec.description =
        "Calls an operation by its id, with the rights of the caller and no others.".to_owned();
    spec.input_schema = Schema::of::<Called>();
    spec
}

async fn call(context: CallContext, input: Payload) -> Result<Output, HandlerError> {
    let called: Called = input.into_typed()?;
    let target = named(&context, &called.id)?;
    context.act_as(target.spec().kind, target.spec().idempotent);
    let input = called.input.map_or_else(Payload::empty_object, Payload::from);
    let answered = call_as_caller(&context, &called.id, input).await;
    // Nothing was done before it, so what it knows of its own effects is all there is to know.
    let outcome = answered.map_err(|error| match error.may_have_run() {
        true => error,
        false => error.before_sending(),
    })?;
    Ok(Output::Relayed(outcome))
}

/// What the call sees, and everything below it.
fn catalog(context: &CallContext) -> Result<&Catalog, CallError> {
    let snapshot = context.snapshot().downcast_ref();
    snapshot.ok_or_else(|| CallError::unknown("the call has no catalog"))
}

fn is_visible(context: &CallContext, operation: &Operation) -> bool {
    operation.spec().access_control.admits(context.identity())
}

/// An operation that the caller names: whoever may not call it is told what he lacks, as if he had
/// called it himself.
fn named<'a>(context: &'a CallContext, id: &str) -> Result<&'a Arc<Operation>, CallError> {
    let catalog = catalog(context)?;
    let missing = || catalog.missing(id, Asker::Outside(context.identity())).before_sending();
    let found = catalog.get(id).ok_or_else(missing)?;
    let admitted = found.spec().access_control.admit(context.identity());
    admitted.map(|()| found).map_err(CallError::before_sending)
}
