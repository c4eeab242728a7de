//! `sources`: prints the status of the sources of a running gateway.

use serde_json::{Value, json};
use toolpost::epoch_ms;

use super::backend::{call_as_operator, take_array};
use crate::arguments::GatewayTarget;
use crate::error::CommandError;
use crate::output;

pub(crate) async fn sources(target: &GatewayTarget) -> Result<(), CommandError> {
    let mut found = call_as_operator(target, "gateway.sources", json!({})).await?;
    let sources = take_array(&mut found, "sources");
    Ok(output::print_value(&sources, || match &sources[..] {
        [] => "No sources; add one with `toolpost add`.".to_owned(),
        sources => table(sources, epoch_ms()),
    })?)
}

fn table(sources: &[Value], now: i64) -> String {
    let row = |source: &Value| {
        let name = output::text_of(source, "name").to_owned();
        let since = duration_text(now - source["since"].as_i64().unwrap_or(now));
        let (state, operations) = (state(source).to_owned(), source["operations"].to_string());
        [name, state, format!("{since} ago"), operations, description(source, now)]
    };
    output::table(["SOURCE", "STATE", "SINCE", "OPERATIONS", "ABOUT"], sources.iter().map(row))
}

/// Returns the state of a source. An open or half-open circuit breaker replaces `ready`.
fn state(source: &Value) -> &str {
    match output::text_of(source, "state") {
        "ready" if source["breaker"] == "open" => "circuit breaker open",
        "ready" if source["breaker"] == "half-open" => "circuit breaker half-open",
        state => state,
    }
}

fn description(source: &Value, now: i64) -> String {
    let about = output::text_of(source, "about");
    let Some(reason) = source["reason"].as_str().filter(|reason| *reason != about) else {
        return about.to_owned();
    };
    match source["retryAt"].as_i64() {
        Some(at) if at > now => format!("{about}: {reason}; retry in {}", duration_text(at - now)),
        _ => format!("{about}: {reason}"),
    }
}

/// Formats a duration in its largest unit.
fn duration_text(ms: i64) -> String {
    let seconds = ms.max(0) / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_table_has_one_row_per_source() {
        let rows = [
            (
                json!({"name": "files", "about": "MCP server `x`", "state": "ready", "since": 1_000, "operations": 12}),
                "files   ready  2m ago  12          MCP server `x`",
            ),
            (
                json!({"name": "far", "about": "remote hub", "state": "down", "since": 0, "operations": 0, "reason": "gone", "retryAt": 131_000}),
                "far     down   2m ago  0           remote hub: gone; retry in 10s",
            ),
            (
                json!({"name": "shop", "about": "HTTP service", "state": "ready", "breaker": "open", "since": 1_000, "operations": 3}),
                "shop circuit breaker open 2m ago 3 HTTP service",
            ),
        ];
        for (source, expected) in rows {
            let rendered = table(&[source], 121_000);
            let line = rendered.lines().nth(1).unwrap().trim().to_owned();
            let collapse_spaces =
                |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(collapse_spaces(&line), collapse_spaces(expected));
        }
    }

    #[test]
    fn duration_is_printed_in_largest_unit() {
        for (ms, expected) in [
            (-5, "0s"),
            (999, "0s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (7_200_000, "2h"),
            (180_000_000, "2d"),
        ] {
            assert_eq!(duration_text(ms), expected, "{ms}");
        }
    }
}
