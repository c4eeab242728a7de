//! Prints the operations imported from a document, as text or JSON.

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde_json::json;
use toolpost::OperationSpec;
use toolpost::openapi::Inspection;

use crate::{output, token_estimate};

pub(super) fn print(inspection: &Inspection, json: bool) -> std::io::Result<()> {
    if output::wants_json(json) {
        return output::stream_json_line(&inspection.report);
    }
    print_text(inspection)
}

pub(super) fn print_text(inspection: &Inspection) -> std::io::Result<()> {
    let report = &inspection.report;
    output::print_line(&output::sanitize(&format!("{}\n", summary(inspection))))?;
    if !report.operations.is_empty() {
        output::print_line(&table(&report.operations))?;
        output::print_line("")?;
    }
    for skipped in &report.skipped {
        let (method, path, reason) = (&skipped.method, &skipped.path, &skipped.reason);
        output::print_line(&output::sanitize(&format!("Skipped {method} {path}: {reason}")))?;
    }
    for warning in &report.warnings {
        output::warning(&format!("{}: {}", warning.at, warning.message));
    }
    Ok(())
}

/// Formats a summary: `Petstore 1.0.0 (OpenAPI 3.0.4): 12 operations (5 queries, 7 mutations), 1
/// skipped, 2 warnings; as tools they cost a model about 4,300 tokens`.
fn summary(inspection: &Inspection) -> String {
    let report = &inspection.report;
    let counts = report.counts();
    let kinds: Vec<String> = [
        (counts.queries, "query", "queries"),
        (counts.mutations, "mutation", "mutations"),
        (counts.subscriptions, "subscription", "subscriptions"),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, singular, plural)| pluralize(count, singular, plural))
    .collect();
    let total = pluralize(report.operations.len(), "operation", "operations");
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    let mut rest = String::new();
    if counts.skipped > 0 {
        rest.push_str(&format!(", {} skipped", counts.skipped));
    }
    if counts.warnings > 0 {
        rest.push_str(&format!(", {}", pluralize(counts.warnings, "warning", "warnings")));
    }
    let cost = token_estimate::format_estimate(token_cost(&report.operations));
    format!("{}: {total}{kinds}{rest}; as tools they cost a model {cost}", heading(inspection))
}

fn heading(inspection: &Inspection) -> String {
    format!("{} {} ({})", inspection.title, inspection.version, inspection.specification)
}

fn pluralize(count: usize, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

/// Estimates the tokens of the tool list. Tools are serialized one at a time, because all schemas
/// of a large document together can be many times its size.
pub(super) fn token_cost(operations: &[OperationSpec]) -> u64 {
    let tool = |spec: &OperationSpec| {
        json!({
            "name": format!("{}__{}", spec.namespace, spec.name),
            "description": spec.description,
            "inputSchema": spec.input_schema,
        })
    };
    operations.iter().map(|spec| token_estimate::estimate_tools(&[tool(spec)])).sum()
}

fn table(operations: &[OperationSpec]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let width = table.width().filter(|width| *width >= 40).unwrap_or(100);
    let longest = operations.iter().map(|spec| spec.name.chars().count()).max().unwrap_or(0);
    // Reserves the TYPE column and the space between columns.
    let description_width =
        usize::from(width).saturating_sub(longest + "subscription".len() + 6).max(20);
    table.set_header(["OPERATION", "TYPE", "DESCRIPTION"]);
    for spec in operations {
        let summary_text = spec.title.as_deref().unwrap_or(&spec.description);
        let description = output::truncate_line(summary_text, description_width);
        let cells = [spec.name.as_str(), spec.kind.as_str(), &description];
        table.add_row(cells.map(|cell| output::sanitize(cell).into_owned()));
    }
    table.trim_fmt()
}
