//! `list`, `search` and `schema`: what there is.

use std::sync::Arc;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use manila::{CallError, Catalog, ENVELOPE_SCHEMA, Operation, OperationSpec};

use super::registry;
use crate::arguments::{Format, ListOptions, SearchOptions};
use crate::failure::Failure;
use crate::output;

pub(crate) fn list(options: &ListOptions) -> Result<(), Failure> {
    let catalog = registry().catalog();
    let wanted = |operation: &&Arc<Operation>| {
        options.namespace.as_ref().is_none_or(|namespace| operation.id().namespace() == namespace)
    };
    let found: Vec<_> = catalog.list().iter().filter(wanted).cloned().collect();
    print(&found, options.format)
}

pub(crate) fn search(options: &SearchOptions) -> Result<(), Failure> {
    let hits = registry().catalog().search(&options.words.join(" "), options.limit);
    let found: Vec<_> = hits.into_iter().map(|hit| hit.operation).collect();
    print(&found, options.format)
}

pub(crate) fn schema(id: &str, format: Format) -> Result<(), Failure> {
    let catalog = registry().catalog();
    let Some(operation) = catalog.get(id) else {
        return Err(unknown(&catalog, id, output::is_plain(format.json)));
    };
    Ok(output::print_json(operation.spec(), format.json)?)
}

pub(crate) fn envelope_schema(format: Format) -> Result<(), Failure> {
    Ok(output::print_json(&*ENVELOPE_SCHEMA, format.json)?)
}

/// An operation that is not there, with the one that was probably meant.
pub(super) fn unknown(catalog: &Catalog, id: &str, json: bool) -> Failure {
    let hint = catalog.nearest(id).map_or_else(
        || "`manila list` shows every operation".to_owned(),
        |nearest| format!("did you mean `{nearest}`?"),
    );
    let error = CallError::operation_not_found(id);
    Failure::Call { error, hint: Some(hint), json }
}

fn print(operations: &[Arc<Operation>], format: Format) -> Result<(), Failure> {
    if output::is_plain(format.json) {
        let specs: Vec<&OperationSpec> = operations.iter().map(|found| found.spec()).collect();
        return Ok(output::print_plain(&specs)?);
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
        let spec = operation.spec();
        let cells = [operation.id().as_str(), spec.kind.as_str(), &spec.description];
        table.add_row(cells.map(|cell| output::harmless(cell).into_owned()));
    }
    Ok(output::print_line(&table.trim_fmt())?)
}
