//! `list`, `search` and `schema`: inspect the catalog.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolpost::ENVELOPE_SCHEMA;
use toolpost::protocol::CALL_EVENT_SCHEMA;
use toolpost_gateway::config::Config;

use super::backend::{Backend, take_array};
use super::local_sources::OperationSelection;
use crate::arguments::{BackendOptions, ListOptions, SearchOptions};
use crate::error::CommandError;
use crate::output;

/// Number of operations above which `list` prints only the namespaces on a terminal.
const MAX_TABLE_ROWS: usize = 200;

pub(crate) async fn list(options: &ListOptions) -> Result<(), CommandError> {
    let namespace = options.namespace.as_deref();
    let scope = namespace.map_or(OperationSelection::All, OperationSelection::Namespace);
    let backend = Backend::open(&options.backend, scope).await?;
    let operations = backend.list(namespace).await;
    if let (Some(namespace), Ok([])) = (namespace, operations.as_deref())
        && let Some(suggestion) = backend.suggest_namespace(namespace).await
    {
        output::notice(&suggestion);
    }
    let operations = backend.close_with(operations, "").await?;
    if namespace.is_none() && operations.len() > MAX_TABLE_ROWS && output::format().is_none() {
        return Ok(output::print_value(&operations, || namespace_table(&operations))?);
    }
    print(&operations)
}

/// Formats the number of operations of each namespace.
fn namespace_table(operations: &[Value]) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for operation in operations {
        let id = output::text_of(operation, "id");
        *counts.entry(id.split_once('.').map_or(id, |(namespace, _)| namespace)).or_default() += 1;
    }
    let row = |(namespace, count): (&str, usize)| [namespace.to_owned(), count.to_string()];
    format!(
        "{}\n\n{} operations; list one namespace with `toolpost list --namespace NAME`, search with \
         `toolpost search WORDS`, or list all with `toolpost list --output table`",
        output::table(["NAMESPACE", "OPERATIONS"], counts.into_iter().map(row)),
        operations.len()
    )
}

pub(crate) async fn search(options: &SearchOptions) -> Result<(), CommandError> {
    let backend = Backend::open(&options.backend, OperationSelection::All).await?;
    let input = json!({"query": options.words.join(" "), "limit": options.limit});
    let found = backend.call("hub.search", input).await;
    let mut found = backend.close_with(found, "").await?;
    print(&take_array(&mut found, "operations"))
}

pub(crate) async fn schema(id: &str, options: &BackendOptions) -> Result<(), CommandError> {
    match id {
        "envelope" => return Ok(output::print_json(&*ENVELOPE_SCHEMA)?),
        "events" => return Ok(output::print_json(&*CALL_EVENT_SCHEMA)?),
        "config" => return Ok(output::print_json(&Config::json_schema())?),
        _ => {}
    }
    let backend = Backend::open(options, OperationSelection::Operation(id)).await?;
    let spec = backend.call("hub.schema", json!({"id": id})).await;
    let spec = backend.close_with(spec, id).await.map_err(|failure| {
        let meant = toolpost::suggest_name(id, ["envelope", "events", "config"].into_iter());
        match (failure, meant) {
            (CommandError::Call { error, .. }, Some(meant)) => {
                CommandError::Call { error, hint: Some(format!("did you mean `{meant}`?")) }
            }
            (failure, _) => failure,
        }
    })?;
    Ok(output::print_json(&spec)?)
}

fn print(operations: &[Value]) -> Result<(), CommandError> {
    let row = |operation: &Value| {
        let text = |name| output::text_of(operation, name);
        let offline = if text("status") == "offline" { " (offline)" } else { "" };
        let kind = format!("{}{offline}", text("type"));
        [text("id").to_owned(), kind, text("description").to_owned()]
    };
    Ok(output::print_value(&operations, || match operations {
        [] => "No operations found.".to_owned(),
        all => output::table(["OPERATION", "TYPE", "DESCRIPTION"], all.iter().map(row)),
    })?)
}
