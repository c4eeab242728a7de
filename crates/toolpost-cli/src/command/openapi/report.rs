//! Prints the operations imported from a document, as text or JSON.

use serde_json::json;
use toolpost::OperationSpec;
use toolpost::openapi::Inspection;

use crate::output::{self, pluralize};
use crate::token_estimate;

pub(super) fn print_text(inspection: &Inspection) -> std::io::Result<()> {
    let report = &inspection.report;
    output::print_text(&format!("{}\n", summary(inspection)))?;
    if !report.operations.is_empty() {
        output::print_line(&format!("{}\n", table(&report.operations)))?;
    }
    for skipped in &report.skipped {
        let (method, path, reason) = (&skipped.method, &skipped.path, &skipped.reason);
        output::print_text(&format!("Skipped {method} {path}: {reason}"))?;
    }
    for warning in &report.warnings {
        output::warning(&format!("{}: {}", warning.at, warning.message));
    }
    Ok(())
}

/// Formats a summary: `Petstore 1.0.0 (OpenAPI 3.0.4): 12 operations (5 queries, 7 mutations), 1
/// skipped, 2 warnings; tool list: about 4,300 tokens`.
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
    let Inspection { title, version, specification, .. } = inspection;
    format!("{title} {version} ({specification}): {total}{kinds}{rest}; tool list: {cost}")
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

fn table<'a>(operations: &'a [OperationSpec]) -> String {
    let row = |spec: &'a OperationSpec| {
        (&*spec.name, spec.kind.as_str(), spec.title.as_deref().unwrap_or(&spec.description))
    };
    output::operation_table("OPERATION", operations.iter().map(row))
}
