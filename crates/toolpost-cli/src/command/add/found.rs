//! What a server offers, for people and for programs.

use std::path::Path;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde_json::{Value, json};
use toolpost::mcp::Found;
use toolpost_gateway::config::Access;

use super::Look;
use super::wanted::Wanted;
use crate::arguments::AddMcpOptions;
use crate::{output, tokens};

/// A server, what was seen of it, and what was written.
pub(super) struct Report<'a> {
    pub(super) server: Wanted,
    pub(super) found: Look,
    /// Who may call it now.
    pub(super) access: Access,
    pub(super) has_identities: bool,
    pub(super) file: &'a Path,
}

pub(super) fn print(reports: &[Report<'_>], options: &AddMcpOptions) -> std::io::Result<()> {
    // A single failure is the error of the command.
    for report in reports.iter().filter(|_| reports.len() > 1) {
        if let Look::Failed(reason) = &report.found {
            output::warning(&format!("`{}` cannot be used: {reason}", report.server.name));
        }
    }
    if output::is_plain(options.json) {
        let all: Vec<Value> = reports.iter().map(to_json).collect();
        return match (&all[..], &options.from) {
            // The error says it.
            ([only], None) if only.get("error").is_some() && !options.json => Ok(()),
            ([only], None) => output::print_plain(only),
            _ => output::print_plain(&all),
        };
    }
    for report in reports {
        match &report.found {
            Look::Found(found) => print_found(found)?,
            Look::Skipped => {}
            Look::Failed(_) => continue,
        }
        print_written(report)?;
    }
    Ok(())
}

fn print_found(found: &Found) -> std::io::Result<()> {
    let (server, version) = (&found.server, &found.server_version);
    let head = format!("{server} {version}, MCP {}", found.protocol);
    output::print_line(&output::harmless(&head))?;
    output::print_line(&format!("{}\n", summary(found)))?;
    if !found.tools.is_empty() {
        output::print_line(&table(&found.tools))?;
        output::print_line("")?;
    }
    for warning in &found.warnings {
        output::warning(warning);
    }
    Ok(())
}

/// `12 tools, resources and no prompts; the tools cost a model about 4,300 tokens`.
fn summary(found: &Found) -> String {
    let count = found.tools.len();
    let tools = if count == 1 { "tool" } else { "tools" };
    let yes = |has: bool, what: &str| format!("{}{what}", if has { "" } else { "no " });
    let cost = tokens::words(tokens::of_tools(&found.tools));
    format!(
        "{count} {tools}, {} and {}; the tools cost a model {cost}",
        yes(found.resources, "resources"),
        yes(found.prompts, "prompts"),
    )
}

fn table(tools: &[Value]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let width = table.width().filter(|width| *width >= 40).unwrap_or(100);
    let longest = tools.iter().map(|tool| text(tool, "name").chars().count()).max().unwrap_or(0);
    // The second column and the space between columns.
    let room = usize::from(width).saturating_sub(longest + "mutation".len() + 6).max(20);
    table.set_header(["TOOL", "TYPE", "DESCRIPTION"]);
    for tool in tools {
        let description = output::cut(text(tool, "description"), room);
        let cells = [text(tool, "name"), kind(tool), &description];
        table.add_row(cells.map(|cell| output::harmless(cell).into_owned()));
    }
    table.trim_fmt()
}

fn text<'a>(tool: &'a Value, member: &str) -> &'a str {
    tool.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn kind(tool: &Value) -> &'static str {
    let hint = tool.get("annotations").and_then(|annotations| annotations.get("readOnlyHint"));
    if hint == Some(&Value::Bool(true)) { "query" } else { "mutation" }
}

fn print_written(report: &Report<'_>) -> std::io::Result<()> {
    let (name, file) = (&report.server.name, report.file.display());
    let who = output::who(&report.access, report.has_identities);
    output::print_line(&format!("Written to {file} as [source.{name}], {who}."))?;
    if let Look::Found(found) = &report.found
        && let Some(tool) = found.tools.first()
    {
        let id = format!("{name}.{}", text(tool, "name"));
        output::print_line(&output::harmless(&format!("Try: toolpost schema {id}")))?;
    }
    Ok(())
}

fn to_json(report: &Report<'_>) -> Value {
    let (name, file) = (&report.server.name, report.file.display().to_string());
    let access = output::access_json(&report.access);
    match &report.found {
        Look::Failed(reason) => json!({"name": name, "written": false, "error": reason}),
        Look::Skipped => json!({"name": name, "written": true, "file": file, "access": access}),
        Look::Found(found) => json!({
            "name": name,
            "written": true,
            "file": file,
            "access": access,
            "server": {"name": found.server, "version": found.server_version},
            "protocol": found.protocol,
            "instructions": found.instructions,
            "tools": found.tools.iter().map(tool_json).collect::<Vec<_>>(),
            "resources": found.resources,
            "prompts": found.prompts,
            "tokens": tokens::of_tools(&found.tools),
            "warnings": found.warnings,
        }),
    }
}

fn tool_json(tool: &Value) -> Value {
    json!({"name": text(tool, "name"), "type": kind(tool), "description": text(tool, "description")})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_that_only_read_are_queries() {
        for (annotations, expected) in [
            (json!({"readOnlyHint": true}), "query"),
            (json!({"readOnlyHint": false}), "mutation"),
            (json!({"readOnlyHint": "yes"}), "mutation"),
            (json!({}), "mutation"),
            (json!(null), "mutation"),
        ] {
            assert_eq!(kind(&json!({"annotations": annotations})), expected, "{annotations}");
        }
        let tools = [json!({"name": "a", "description": "x".repeat(500)}), json!({"name": "bb"})];
        let printed = table(&tools);
        assert_eq!(printed.lines().count(), 3, "a line each: {printed}");
    }
}
