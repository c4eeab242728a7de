//! Prints the tools, resources and prompts of a server, as text or JSON.

use serde_json::{Value, json};
use toolpost::SourceInfo;
use toolpost_gateway::config::Access;

use super::candidate::ServerCandidate;
use super::{Probe, TargetConfig};
use crate::arguments::AddMcpOptions;
use crate::{output, token_estimate};

pub(super) struct ServerReport {
    pub(super) server: ServerCandidate,
    pub(super) probe: Probe,
    /// Access to the source, if it was written.
    pub(super) access: Option<Access>,
}

pub(super) fn print(
    reports: &[ServerReport],
    options: &AddMcpOptions,
    config: &TargetConfig<'_>,
) -> std::io::Result<()> {
    // A single failure is reported as the error of the command.
    for report in reports.iter().filter(|_| reports.len() > 1) {
        if let Probe::Failed(reason) = &report.probe {
            output::warning(&format!("cannot use `{}`: {reason}", report.server.name));
        }
    }
    if output::is_json() {
        let all: Vec<Value> = reports.iter().map(|report| to_json(report, config)).collect();
        return match (&all[..], &options.from) {
            // The command error reports it.
            ([only], None) if only.get("error").is_some() && !output::json_requested() => Ok(()),
            ([only], None) => output::print_json_line(only),
            _ => output::print_json_line(&all),
        };
    }
    for report in reports {
        let Some(access) = &report.access else { continue };
        let mut first_tool = None;
        if let Probe::Connected(info) = &report.probe {
            print_server(info)?;
            first_tool = info.tools.first().map(|tool| output::text_of(tool, "name"));
        }
        config.print_written(&report.server.name, access, first_tool)?;
    }
    Ok(())
}

fn print_server(info: &SourceInfo) -> std::io::Result<()> {
    let (server, version) = (&info.title, &info.version);
    let head = format!("{server} {version}, MCP {}", info.protocol);
    output::print_text(&head)?;
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

/// Formats a summary: `12 tools, resources and no prompts; tool list: about 4,300 tokens`.
fn summary(info: &SourceInfo) -> String {
    let tools = output::pluralize(info.tools.len(), "tool", "tools");
    let yes = |has: bool, what: &str| format!("{}{what}", if has { "" } else { "no " });
    let cost = token_estimate::format_estimate(token_estimate::estimate_tools(&info.tools));
    format!(
        "{tools}, {} and {}; tool list: {cost}",
        yes(info.resources, "resources"),
        yes(info.prompts, "prompts"),
    )
}

fn table(tools: &[Value]) -> String {
    let row = |tool| {
        (output::text_of(tool, "name"), operation_kind(tool), output::text_of(tool, "description"))
    };
    output::operation_table("TOOL", tools.iter().map(row))
}

fn operation_kind(tool: &Value) -> &'static str {
    let hint = tool.get("annotations").and_then(|annotations| annotations.get("readOnlyHint"));
    if hint == Some(&Value::Bool(true)) { "query" } else { "mutation" }
}

fn to_json(report: &ServerReport, config: &TargetConfig<'_>) -> Value {
    let name = &report.server.name;
    let mut summary = match (&report.probe, &report.access) {
        (Probe::Failed(reason), _) => {
            return json!({"name": name, "written": false, "error": reason});
        }
        (_, access) => json!({
            "name": name,
            "written": true,
            "file": config.file.display().to_string(),
            "access": access.as_ref().map(output::access_json),
        }),
    };
    if let Probe::Connected(info) = &report.probe {
        let tool = |tool: &Value| {
            let [name, description] = ["name", "description"].map(|key| output::text_of(tool, key));
            json!({"name": name, "type": operation_kind(tool), "description": description})
        };
        let members = json!({
            "server": {"name": info.title, "version": info.version},
            "protocol": info.protocol,
            "instructions": info.instructions,
            "tools": info.tools.iter().map(tool).collect::<Vec<_>>(),
            "resources": info.resources,
            "prompts": info.prompts,
            "tokens": token_estimate::estimate_tools(&info.tools),
            "warnings": info.warnings,
        });
        if let (Value::Object(summary), Value::Object(members)) = (&mut summary, members) {
            summary.extend(members);
        }
    }
    summary
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
