//! `list`, `search` and `schema`: what there is.

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde_json::{Value, json};
use toolpost::ENVELOPE_SCHEMA;
use toolpost::protocol::CALL_EVENT_SCHEMA;
use toolpost_gateway::config::Config;

use super::backend::Backend;
use super::started::Wanted;
use crate::arguments::{Format, ListOptions, Remote, SearchOptions};
use crate::failure::Failure;
use crate::output;

pub(crate) async fn list(options: &ListOptions) -> Result<(), Failure> {
    let wanted = options.namespace.as_deref().map_or(Wanted::All, Wanted::Namespace);
    let backend = Backend::open(&options.remote, wanted).await?;
    let found = match backend.list(options.namespace.as_deref()).await {
        Ok(found) => found,
        Err(error) => return Err(backend.fail(error, "", is_plain(options.format)).await),
    };
    if let (Some(namespace), []) = (&options.namespace, &found[..])
        && let Some(words) = backend.suggest_namespace(namespace).await
    {
        output::remark(&words);
    }
    backend.close().await;
    print(&found, options.format)
}

pub(crate) async fn search(options: &SearchOptions) -> Result<(), Failure> {
    let backend = Backend::open(&options.remote, Wanted::All).await?;
    let found = match backend.search(&options.words.join(" "), options.limit).await {
        Ok(found) => found,
        Err(error) => return Err(backend.fail(error, "", is_plain(options.format)).await),
    };
    backend.close().await;
    print(&found, options.format)
}

pub(crate) async fn schema(id: &str, remote: &Remote, format: Format) -> Result<(), Failure> {
    let backend = Backend::open(remote, Wanted::Operation(id)).await?;
    let spec = match backend.ask("hub.schema", json!({"id": id})).await {
        Ok(spec) => spec,
        Err(error) => {
            let failure = backend.fail(error, id, is_plain(format)).await;
            return Err(with_own_schemas(failure, id));
        }
    };
    backend.close().await;
    Ok(output::print_json(&spec, format.json)?)
}

/// Whoever writes a single word may have meant one of the schemas that are no operation's.
fn with_own_schemas(failure: Failure, id: &str) -> Failure {
    let meant = toolpost::nearest(id, ["envelope", "events", "config"].into_iter());
    match (failure, meant) {
        (Failure::Call { error, json, .. }, Some(meant)) => {
            Failure::Call { error, hint: Some(format!("did you mean `{meant}`?")), json }
        }
        (failure, _) => failure,
    }
}

pub(crate) fn envelope_schema(format: Format) -> Result<(), Failure> {
    Ok(output::print_json(&*ENVELOPE_SCHEMA, format.json)?)
}

pub(crate) fn event_schema(format: Format) -> Result<(), Failure> {
    Ok(output::print_json(&*CALL_EVENT_SCHEMA, format.json)?)
}

pub(crate) fn config_schema(format: Format) -> Result<(), Failure> {
    Ok(output::print_json(&Config::json_schema(), format.json)?)
}

fn is_plain(format: Format) -> bool {
    output::is_plain(format.json)
}

fn print(operations: &[Value], format: Format) -> Result<(), Failure> {
    if is_plain(format) {
        return Ok(output::print_plain(&operations)?);
    }
    if operations.is_empty() {
        return Ok(output::print_line("Nothing found.")?);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    // Some terminals say that they have no width at all.
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
        table.add_row(cells.map(|cell| output::harmless(cell).into_owned()));
    }
    Ok(output::print_line(&table.trim_fmt())?)
}
