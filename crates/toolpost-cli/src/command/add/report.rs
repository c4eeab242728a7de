//! Prints what a server offers, as text or JSON.

use std::path::Path;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde_json::{Value, json};
use toolpost::mcp::ServerInfo;
use toolpost_gateway::config::Access;

use super::Probe;
use super::candidate::ServerCandidate;
use crate::arguments::AddMcpOptions;
use crate::{output, token_estimate};

/// A server, the result of probing it, and what was written to the configuration.
pub(super) struct ServerReport<'a> {
    pub(super) server: ServerCandidate,
    pub(super) probe: Probe,
    /// Access to the source as configured now.
    pub(super) access: Access,
    pub(super) has_identities: bool,
    pub(super) file: &'a Path,
}

pub(super) fn print(reports: &[ServerReport<'_>], options: &AddMcpOptions) -> std::io::Result<()> {
    // A single failure is reported as the error of the command.
    for report in reports.iter().filter(|_| reports.len() > 1) {
        if let Probe::Failed(reason) = &report.probe {
            output::warning(&format!("`{}` cannot be used: {reason}", report.server.name));
        }
    }
    if output::wants_json(options.json) {
        let all: Vec<Value> = reports.iter().map(to_json).collect();
        return match (&all[..], &options.from) {
            // The command error reports it.
            ([only], None) if only.get("error").is_some() && !options.json => Ok(()),
            ([only], None) => output::print_json_line(only),
            _ => output::print_json_line(&all),
        };
    }
    for report in reports {
        match &report.probe {
            Probe::Connected(info) => print_server(info)?,
            Probe::Skipped => {}
            Probe::Failed(_) => continue,
        }
        print_written_source(report)?;
    }
    Ok(())
}

fn print_server(info: &ServerInfo) -> std::io::Result<()> {
    let (server, version) = (&info.server, &info.server_version);
    let head = format!("{server} {version}, MCP {}", info.protocol);
    output::print_line(&output::sanitize(&head))?;
    output::print_line(&format!("{}\n", summary(info)))?;
    if !info.tools.is_empty() {
        output::print_line(&table(&info.tools))?;
        output::print_line("")?;
    }
    for warning in &info.warnings {
        output::warning(warning);
    }
    Ok(())
}

/// Formats a summary: `12 tools, resources and no prompts; the tools cost a model about 4,300
/// tokens`.
fn summary(info: &ServerInfo) -> String {
    let count = info.tools.len();
    let tools = if count == 1 { "tool" } else { "tools" };
    let yes = |has: bool, what: &str| format!("{}{what}", if has { "" } else { "no " });
    let cost = token_estimate::format_estimate(token_estimate::estimate_tools(&info.tools));
    format!(
        "{count} {tools}, {} and {}; the tools cost a model {cost}",
        yes(info.resources, "resources"),
        yes(info.prompts, "prompts"),
    )
}

fn table(tools: &[Value]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let width = table.width().filter(|width| *width >= 40).unwrap_or(100);
    let longest =
        tools.iter().map(|tool| string_member(tool, "name").chars().count()).max().unwrap_or(0);
    // Reserves the TYPE column and the space between columns.
    let description_width =
        usize::from(width).saturating_sub(longest + "mutation".len() + 6).max(20);
    table.set_header(["TOOL", "TYPE", "DESCRIPTION"]);
    for tool in tools {
        let description =
            output::truncate_line(string_member(tool, "description"), description_width);
        let cells = [string_member(tool, "name"), operation_kind(tool), &description];
        table.add_row(cells.map(|cell| output::sanitize(cell).into_owned()));
    }
    table.trim_fmt()
}

fn string_member<'a>(tool: &'a Value, member: &str) -> &'a str {
    tool.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn operation_kind(tool: &Value) -> &'static str {
    let hint = tool.get("annotations").and_then(|annotations| annotations.get("readOnlyHint"));
    if hint == Some(&Value::Bool(true)) { "query" } else { "mutation" }
}

fn print_written_source(report: &ServerReport<'_>) -> std::io::Result<()> {
    let (name, file) = (&report.server.name, report.file.display());
    let access_text = output::describe_access(&report.access, report.has_identities);
    output::print_line(&format!("Written to {file} as [source.{name}], {access_text}."))?;
    if let Probe::Connected(info) = &report.probe
        && let Some(tool) = info.tools.first()
    {
        let id = format!("{name}.{}", string_member(tool, "name"));
        output::print_line(&output::sanitize(&format!("Try: toolpost schema {id}")))?;
    }
    Ok(())
}

fn to_json(report: &ServerReport<'_>) -> Value {
    let (name, file) = (&report.server.name, report.file.display().to_string());
    let access = output::access_json(&report.access);
    match &report.probe {
        Probe::Failed(reason) => json!({"name": name, "written": false, "error": reason}),
        Probe::Skipped => json!({"name": name, "written": true, "file": file, "access": access}),
        Probe::Connected(info) => json!({
            "name": name,
            "written": true,
            "file": file,
            "access": access,
            "server": {"name": info.server, "version": info.server_version},
            "protocol": info.protocol,
            "instructions": info.instructions,
            "tools": info.tools.iter().map(tool_json).collect::<Vec<_>>(),
            "resources": info.resources,
            "prompts": info.prompts,
            "tokens": token_estimate::estimate_tools(&info.tools),
            "warnings": info.warnings,
        }),
    }
}

fn tool_json(tool: &Value) -> Value {
    json!({"name": string_member(tool, "name"), "type": operation_kind(tool), "description": string_member(tool, "description")})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_tools_are_listed_as_queries() {
        for (annotations, expected) in [
            (json!({"readOnlyHint": true}), "query"),
            (json!({"readOnlyHint": false}), "mutation"),
            (json!({"readOnlyHint": "yes"}), "mutation"),
            (json!({}), "mutation"),
            (json!(null), "mutation"),
        ] {
            assert_eq!(
                operation_kind(&json!({"annotations": annotations})),
                expected,
                "{annotations}"
            );
        }
        let tools = [json!({"name": "a", "description": "x".repeat(500)}), json!({"name": "bb"})];
        let printed = table(&tools);
        assert_eq!(printed.lines().count(), 3, "a line each: {printed}");
    }
}
