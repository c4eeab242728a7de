//! Prints the journal as text.

use std::io;

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use toolpost::{epoch_ms, timestamp};

use crate::output;

const MAX_MESSAGE_CHARS: usize = 160;

/// Prints calls, or the messages and rejections of a room, as a table.
pub(super) fn print_table(entries: &[Value], is_room: bool) -> io::Result<()> {
    if entries.is_empty() {
        return output::print_line(if is_room { "no messages" } else { "no calls" });
    }
    let times = time_format(entries);
    let (time, width) = ("TIME", times(0).len());
    let (line, id, columns): (fn(&Value, TimeFormat) -> String, _, _) = match is_room {
        true => (message_line, "SEQ", "ROOM         IDENTITY     MESSAGE"),
        false => (call_line, "ID", "ENDPOINT IDENTITY     DURATION  OPERATION"),
    };
    output::print_line(&format!("{id:>8}  {time:width$}  {columns}"))?;
    entries.iter().try_for_each(|entry| output::print_line(&line(entry, times)))
}

/// Formats milliseconds since the Unix epoch.
type TimeFormat = fn(i64) -> String;

fn message_line(message: &Value, times: TimeFormat) -> String {
    let text = |name| output::text_of(message, name);
    let (room, identity) = (text("room"), text("identity"));
    let (seq, time) = (message["seq"].as_u64().unwrap_or_default(), times(time(message)));
    let begin = format!("{seq:>8}  {time}  {room:<12} {identity:<12} ");
    let (style, end) = match text("kind") {
        "rejection" => {
            let (kind, error, reason) = (text("attemptedKind"), text("error"), text("reason"));
            (red(), format!("{kind}  {error}: {reason}"))
        }
        _ => (Style::new(), message_text(&message["message"])),
    };
    let end = output::truncate_line(&end, MAX_MESSAGE_CHARS);
    format!("{}{}", output::sanitize(&begin), output::styled(style, &output::sanitize(&end)))
}

fn message_text(message: &Value) -> String {
    let payload = &message["payload"];
    let content = match payload["text"].as_str() {
        Some(text) => text.replace('\n', " "),
        None if payload.is_null() => String::new(),
        None => payload.to_string(),
    };
    format!("{}  {content}", output::text_of(message, "kind"))
}

/// Returns the time format: time of day if all entries are from today, date and time otherwise.
fn time_format(entries: &[Value]) -> TimeFormat {
    let today = timestamp(epoch_ms());
    let is_today =
        |entry: &Value| timestamp(time(entry)).split('T').next() == today.split('T').next();
    if entries.iter().all(is_today) { time_of_day } else { date_time }
}

fn red() -> Style {
    output::colored(AnsiColor::Red)
}

pub(super) fn print_call(call: &Value) -> io::Result<()> {
    output::print_line(&call_line(call, time_format(std::slice::from_ref(call))))
}

/// Number of characters of the gateway id in a table.
const SHORT_GATEWAY_ID: usize = 4;

fn call_line(call: &Value, times: TimeFormat) -> String {
    let id = output::text_of(call, "callId");
    let id = match id.split_once(':') {
        Some((gateway, seq)) => {
            format!("{}:{seq}", gateway.get(..SHORT_GATEWAY_ID).unwrap_or(gateway))
        }
        None => id.to_owned(),
    };
    let time = times(time(call));
    let duration = match call["tookUs"].as_u64() {
        Some(duration) => duration_text(duration),
        None => "…".to_owned(),
    };
    let [endpoint, identity, operation] =
        ["endpoint", "identity", "operation"].map(|name| output::text_of(call, name));
    let via = call["via"].as_str().map(|via| format!(" via {via}")).unwrap_or_default();
    let nested = if call.get("parent").is_some() { "└ " } else { "" };
    let begin = format!(
        "{id:>8}  {time}  {endpoint:<8} {identity:<12} {duration:>8}  {nested}{operation}{via}"
    );
    let (style, end) = outcome_text(call);
    let approved = call["approval"]["by"].as_str();
    let approved = approved.map(|by| format!("  approved by {by}")).unwrap_or_default();
    let end = output::truncate_line(&end, MAX_MESSAGE_CHARS);
    let end = output::styled(style, &output::sanitize(&end));
    let (begin, approved) = (output::sanitize(&begin), output::sanitize(&approved));
    format!("{begin}  {end}{approved}")
}

fn outcome_text(call: &Value) -> (Style, String) {
    match call["outcome"].as_str() {
        Some("error") if call.get("code").is_some() => {
            let [code, message] = ["code", "message"].map(|name| output::text_of(call, name));
            (red(), format!("{code}: {message}"))
        }
        Some("error") => match output::text_of(call, "message") {
            "" => (red(), "error".to_owned()),
            message => (red(), format!("error: {message}")),
        },
        Some("interrupted") => (red(), "interrupted: the gateway ended before the call".to_owned()),
        Some(outcome) => (Style::new(), format!("{outcome}{}", warning_count(call))),
        None => (Style::new(), "running".to_owned()),
    }
}

/// Returns the number of warnings in parentheses, if there are any.
fn warning_count(call: &Value) -> String {
    let listed = call["warnings"].as_array().map(|warnings| warnings.len() as u64);
    match listed.or_else(|| call["warningCount"].as_u64()).unwrap_or_default() {
        0 => String::new(),
        1 => " (1 warning)".to_owned(),
        count => format!(" ({count} warnings)"),
    }
}

fn time(call: &Value) -> i64 {
    call["time"].as_i64().unwrap_or_default()
}

fn time_of_day(millis: i64) -> String {
    timestamp(millis).split_once('T').map(|(_, time)| time.to_owned()).unwrap_or_default()
}

fn date_time(millis: i64) -> String {
    timestamp(millis).replace('T', " ")
}

fn duration_text(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{}.{} ms", micros / 1_000, micros / 100 % 10),
        _ => format!("{}.{} s", micros / 1_000_000, micros / 100_000 % 10),
    }
}

pub(super) fn print_reports(response: &Value) -> io::Result<()> {
    for journal in response["journals"].as_array().into_iter().flatten() {
        let id = output::text_of(journal, "gatewayId");
        let [records, first, last] = ["records", "first", "last"].map(|name| &journal[name]);
        let how = if journal["ok"] == true { "verified" } else { "verification failed" };
        let unsigned = match journal["unsigned"].as_u64() {
            Some(count @ 1..) => format!(
                "; the last {count} are not signed and can be verified only with the key of the journal"
            ),
            _ => String::new(),
        };
        let line = format!("{id}: {records} records, {first} to {last}, {how}{unsigned}");
        output::print_text(&line)?;
    }
    Ok(())
}

pub(super) fn print_problems(response: &Value) {
    for journal in response["journals"].as_array().into_iter().flatten() {
        let Some(problem) = journal.get("problem") else { continue };
        let [kind, message, location] =
            ["kind", "message", "place"].map(|name| output::text_of(problem, name));
        let at = if location.is_empty() { "" } else { " at " };
        output::error(&format!("record {}{at}{location}: {kind}: {message}", problem["seq"]));
    }
}

pub(super) fn replay_lines(response: &Value) -> Vec<String> {
    let recorded = &response["recorded"];
    let operation = output::text_of(recorded, "operation");
    let listed = |name: &str| response[name].as_array().into_iter().flatten();
    if response["ran"] != true {
        let mut lines = vec![format!("would call {operation} with {}", recorded["input"])];
        let problems = listed("problems").filter_map(Value::as_str);
        lines.extend(problems.map(|problem| format!("  problem: {problem}")));
        lines.push("use --run to make the call".to_owned());
        return lines;
    }
    if response["same"] == true {
        return vec![format!("{operation}: same result")];
    }
    let mut lines = vec![format!("{operation}: different result")];
    for difference in listed("differences") {
        let path = output::text_of(difference, "path");
        let sides = [("-", "then"), ("+", "now")];
        let sides =
            sides.into_iter().filter_map(|(sign, side)| Some((sign, difference.get(side)?)));
        lines.extend(sides.map(|(sign, value)| format!("{sign} {path}: {value}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each row: the replay report and the expected output.
    #[test]
    fn replay_output_is_sanitized() {
        let recorded = json!({"operation": "a.b\u{1b}[2J", "input": {"x": "\u{9b}2J"}});
        for (response, expected) in [
            (
                json!({"recorded": recorded, "ran": false, "problems": ["odd \u{1b}]0;t\u{7}"]}),
                &[
                    "would call a.b\u{fffd}[2J with {\"x\":\"\u{fffd}2J\"}",
                    "  problem: odd \u{fffd}]0;t\u{fffd}",
                    "use --run to make the call",
                ][..],
            ),
            (
                json!({"recorded": recorded, "ran": true, "same": true}),
                &["a.b\u{fffd}[2J: same result"],
            ),
            (
                json!({"recorded": recorded, "ran": true, "same": false,
                    "differences": [{"path": "/\u{1b}c", "then": 1, "now": "\u{9b}"}]}),
                &[
                    "a.b\u{fffd}[2J: different result",
                    "- /\u{fffd}c: 1",
                    "+ /\u{fffd}c: \"\u{fffd}\"",
                ],
            ),
        ] {
            let lines = replay_lines(&response).join("\n");
            assert_eq!(output::sanitize(&lines).lines().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn messages_are_printed_on_one_sanitized_line() {
        let begin = "       7  00:00:00.000Z  lobby        ada          ";
        let long = "x".repeat(MAX_MESSAGE_CHARS);
        for (message, expected) in [
            (json!({"message": {"kind": "chat", "payload": {"text": "hi\nyou"}}}), "chat  hi you"),
            (
                json!({"message": {"kind": "mcp/request", "payload": {"method": "\u{1b}["}}}),
                "mcp/request  {\"method\":\"\\u001b[\"}",
            ),
            (json!({"message": {"kind": "chat/cancel"}}), "chat/cancel"),
            (json!({"message": {"kind": long}}), &*long),
            (json!({"messageText": "[1e999]"}), ""),
        ] {
            let mut message = message;
            for (name, value) in
                [("room", json!("lobby")), ("identity", json!("ada")), ("seq", json!(7))]
            {
                message[name] = value;
            }
            let line = message_line(&message, time_of_day);
            assert_eq!(line.strip_prefix(begin), Some(expected), "{line}");
        }
        let rejection = json!({"seq": 7, "kind": "rejection", "room": "lobby", "identity": "ada",
            "attemptedKind": "chat", "error": "rate_limited", "reason": "too\u{1b}many"});
        let line = message_line(&rejection, time_of_day);
        assert!(line.contains("chat  rate_limited: too\u{fffd}many"), "{line}");
    }

    #[test]
    fn durations_and_times_are_formatted_compactly() {
        for (micros, expected) in [(7, "7 µs"), (1_250, "1.2 ms"), (61_900_000, "61.9 s")] {
            assert_eq!(duration_text(micros), expected);
        }
        assert_eq!(time_of_day(1_794_852_000_042), "18:00:00.042Z");
        for (millis, expected) in [
            (0, "1970-01-01 00:00:00.000Z"),
            (951_782_400_000, "2000-02-29 00:00:00.000Z"),
            (1_794_852_000_042, "2026-11-16 18:00:00.042Z"),
            (4_107_542_399_999, "2100-02-28 23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000Z"),
        ] {
            assert_eq!(date_time(millis), expected);
        }
    }
}
