//! `reload`: the configuration of a running gateway, read again.

use serde_json::{Value, json};

use super::backend::ask_operator;
use crate::arguments::ReloadOptions;
use crate::failure::Failure;
use crate::output;

pub(crate) async fn reload(options: &ReloadOptions) -> Result<(), Failure> {
    let report =
        ask_operator(&options.running, options.format, "gateway.reload", json!({})).await?;
    if output::is_plain(options.format.json) {
        return Ok(output::print_plain(&report)?);
    }
    for line in lines(&report) {
        output::print_line(&output::harmless(&line))?;
    }
    Ok(())
}

/// What is different now, a line each.
fn lines(report: &Value) -> Vec<String> {
    let listed = |name: &str| {
        let items = report[name].as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let mut lines = Vec::new();
    for what in ["added", "removed", "changed", "adjusted"] {
        let names = listed(what);
        if !names.is_empty() {
            lines.push(format!("{what}: {}", names.join(", ")));
        }
    }
    lines.extend(listed("notes"));
    let later = listed("restartNeeded");
    lines.extend(later.iter().map(|what| format!("holds only after the next start: {what}")));
    if lines.is_empty() {
        lines.push("Nothing is different.".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_different_is_told_and_nothing_else() {
        let rows = [
            (json!({"unchanged": ["a"], "added": [], "notes": []}), &["Nothing is different."][..]),
            (
                json!({"added": ["b", "c"], "removed": ["a"], "notes": ["`x` is known now"],
                    "restartNeeded": ["[journal]"]}),
                &[
                    "added: b, c",
                    "removed: a",
                    "`x` is known now",
                    "holds only after the next start: [journal]",
                ],
            ),
        ];
        for (report, expected) in rows {
            assert_eq!(lines(&report), expected);
        }
    }
}
