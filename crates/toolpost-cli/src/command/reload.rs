//! `reload`: makes a running gateway reload its configuration.

use serde_json::{Value, json};

use super::backend::call_as_operator;
use crate::arguments::GatewayTarget;
use crate::error::CommandError;
use crate::output;

pub(crate) async fn reload(target: &GatewayTarget) -> Result<(), CommandError> {
    let report = call_as_operator(target, "gateway.reload", json!({})).await?;
    Ok(output::print_value(&report, || report_lines(&report).join("\n"))?)
}

fn report_lines(report: &Value) -> Vec<String> {
    let listed = |name: &str| {
        let items = report[name].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).collect::<Vec<_>>()
    };
    let mut lines = Vec::new();
    for what in ["added", "removed", "changed", "adjusted"] {
        let names = listed(what);
        if !names.is_empty() {
            lines.push(format!("sources {what}: {}", names.join(", ")));
        }
    }
    lines.extend(listed("notes").iter().map(ToString::to_string));
    let later = listed("restartNeeded");
    lines.extend(later.iter().map(|what| format!("restart the gateway to apply: {what}")));
    if lines.is_empty() {
        lines.push("No changes.".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reload_report_lists_only_changes() {
        let rows = [
            (json!({"unchanged": ["a"], "added": [], "notes": []}), &["No changes."][..]),
            (
                json!({"added": ["b", "c"], "removed": ["a"], "notes": ["`x` was added"],
                    "restartNeeded": ["journal"]}),
                &[
                    "sources added: b, c",
                    "sources removed: a",
                    "`x` was added",
                    "restart the gateway to apply: journal",
                ],
            ),
        ];
        for (report, expected) in rows {
            assert_eq!(report_lines(&report), expected);
        }
    }
}
