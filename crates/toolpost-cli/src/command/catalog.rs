//! `list`, `search` and `schema`: inspect the catalog.

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde_json::{Value, json};
use toolpost::ENVELOPE_SCHEMA;
use toolpost::protocol::CALL_EVENT_SCHEMA;
use toolpost_gateway::config::Config;

use super::backend::Backend;
use super::local_sources::OperationSelection;
use crate::arguments::{BackendOptions, FormatOptions, ListOptions, SearchOptions};
use crate::error::CommandError;
use crate::output;

pub(crate) async fn list(options: &ListOptions) -> Result<(), CommandError> {
    let scope =
        options.namespace.as_deref().map_or(OperationSelection::All, OperationSelection::Namespace);
    let backend = Backend::open(&options.backend, scope).await?;
    let operations = match backend.list(options.namespace.as_deref()).await {
        Ok(operations) => operations,
        Err(error) => {
            return Err(backend.close_with_failure(error, "", wants_json(options.format)).await);
        }
    };
    if let (Some(namespace), []) = (&options.namespace, &operations[..])
        && let Some(suggestion) = backend.suggest_namespace(namespace).await
    {
        output::notice(&suggestion);
    }
    backend.close().await;
    print(&operations, options.format)
}

pub(crate) async fn search(options: &SearchOptions) -> Result<(), CommandError> {
    let backend = Backend::open(&options.backend, OperationSelection::All).await?;
    let operations = match backend.search(&options.words.join(" "), options.limit).await {
        Ok(operations) => operations,
        Err(error) => {
            return Err(backend.close_with_failure(error, "", wants_json(options.format)).await);
        }
    };
    backend.close().await;
    print(&operations, options.format)
}

pub(crate) async fn schema(
    id: &str,
    backend_options: &BackendOptions,
    format: FormatOptions,
) -> Result<(), CommandError> {
    let backend = Backend::open(backend_options, OperationSelection::Operation(id)).await?;
    let spec = match backend.call("hub.schema", json!({"id": id})).await {
        Ok(spec) => spec,
        Err(error) => {
            let failure = backend.close_with_failure(error, id, wants_json(format)).await;
            return Err(with_schema_hint(failure, id));
        }
    };
    backend.close().await;
    Ok(output::print_json(&spec, format.json)?)
}

/// Suggests `envelope`, `events` or `config` if the id resembles one of these schema names.
fn with_schema_hint(failure: CommandError, id: &str) -> CommandError {
    let meant = toolpost::suggest_name(id, ["envelope", "events", "config"].into_iter());
    match (failure, meant) {
        (CommandError::Call { error, json, .. }, Some(meant)) => {
            CommandError::Call { error, hint: Some(format!("did you mean `{meant}`?")), json }
        }
        (failure, _) => failure,
    }
}

pub(crate) fn envelope_schema(format: FormatOptions) -> Result<(), CommandError> {
    Ok(output::print_json(&*ENVELOPE_SCHEMA, format.json)?)
}

pub(crate) fn event_schema(format: FormatOptions) -> Result<(), CommandError> {
    Ok(output::print_json(&*CALL_EVENT_SCHEMA, format.json)?)
}

pub(crate) fn config_schema(format: FormatOptions) -> Result<(), CommandError> {
    Ok(output::print_json(&Config::json_schema(), format.json)?)
}

fn wants_json(format: FormatOptions) -> bool {
    output::wants_json(format.json)
}

fn print(operations: &[Value], format: FormatOptions) -> Result<(), CommandError> {
    if wants_json(format) {
        return Ok(output::print_json_line(&operations)?);
    }
    if operations.is_empty() {
        return Ok(output::print_line("Nothing found.")?);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    // Some terminals report a width of zero.
    if table.width().is_none_or(|width| width < 40) {
        table.set_width(100);
    }
    table.set_header(["OPERATION", "TYPE", "DESCRIPTION"]);
    for operation in operations {
        let text = |name: &str| operation[name].as_str().unwrap_or_default();
        let is_offline = text("status") == "offline";
        let kind =
            if is_offline { format!("{} (offline)", text("type")) } else { text("type").into() };
        let cells = [text("id"), &kind, text("description")];
        table.add_row(cells.map(|cell| output::sanitize(cell).into_owned()));
    }
    Ok(output::print_line(&table.trim_fmt())?)
}
