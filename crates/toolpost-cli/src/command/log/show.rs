//! The journal for people.

use std::io;

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use toolpost::epoch_ms;

use crate::output;

/// How many characters of a message are shown.
const MOST_SAID: usize = 160;

/// The calls as a table.
pub(super) fn table(calls: &[Value]) -> io::Result<()> {
    if calls.is_empty() {
        return output::print_line("no calls");
    }
    let times = times_of(calls);
    let (time, width) = ("TIME", times(0).len());
    output::print_line(&format!(
        "{:>8}  {time:width$}  {:<5} {:<12} {:>8}  {}",
        "SEQ", "DOOR", "WHO", "TOOK", "OPERATION"
    ))?;
    calls.iter().try_for_each(|call| print(call, times))
}

/// What was said in rooms, and what was refused, as a table.
pub(super) fn messages(messages: &[Value]) -> io::Result<()> {
    if messages.is_empty() {
        return output::print_line("no messages");
    }
    let times = times_of(messages);
    let (time, width) = ("TIME", times(0).len());
    let (seq, room, who) = ("SEQ", "ROOM", "WHO");
    output::print_line(&format!("{seq:>8}  {time:width$}  {room:<12} {who:<12} MESSAGE"))?;
    messages.iter().try_for_each(|message| output::print_line(&message_line(message, times)))
}

fn message_line(message: &Value, times: fn(i64) -> String) -> String {
    let text = |name: &str| message[name].as_str().unwrap_or_default();
    let (room, who) = (text("room"), text("who"));
    let (seq, time) = (message["seq"].as_u64().unwrap_or_default(), times(time(message)));
    let begin = format!("{seq:>8}  {time}  {room:<12} {who:<12} ");
    let (style, end) = match text("kind") {
        "refusal" => {
            let (kind, error, reason) = (text("attemptedKind"), text("error"), text("reason"));
            (red(), format!("{kind}  {error}: {reason}"))
        }
        _ => (Style::new(), said(&message["message"])),
    };
    let end = output::cut(&end, MOST_SAID);
    format!("{}{style}{}{style:#}", output::harmless(&begin), output::harmless(&end))
}

/// What kind of message it is, and what it says.
fn said(message: &Value) -> String {
    let payload = &message["payload"];
    let words = match payload["text"].as_str() {
        Some(text) => text.replace('\n', " "),
        None if payload.is_null() => String::new(),
        None => payload.to_string(),
    };
    format!("{}  {words}", message["kind"].as_str().unwrap_or_default())
}

/// Where one is not of today, all have their date.
fn times_of(listed: &[Value]) -> fn(i64) -> String {
    let today = day(epoch_ms());
    if listed.iter().all(|one| day(time(one)) == today) { clock } else { date }
}

fn red() -> Style {
    Style::new().fg_color(Some(AnsiColor::Red.into()))
}

/// One call on one line, as soon as it has ended.
pub(super) fn line(call: &Value) -> io::Result<()> {
    let times = if day(time(call)) == day(epoch_ms()) { clock } else { date };
    print(call, times)
}

fn print(call: &Value, times: fn(i64) -> String) -> io::Result<()> {
    let text = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
    let seq = call["seq"].as_u64().unwrap_or_default();
    let time = times(time(call));
    let took = match call["tookUs"].as_u64() {
        Some(took) => took_words(took),
        None => "…".to_owned(),
    };
    let (door, who, operation) = (text("door"), text("who"), text("operation"));
    let via = call["via"].as_str().map(|via| format!(" via {via}")).unwrap_or_default();
    let nested = if call.get("parent").is_some() { "└ " } else { "" };
    let begin =
        format!("{seq:>8}  {time}  {door:<5} {who:<12} {took:>8}  {nested}{operation}{via}");
    let (style, end) = end_of(call);
    let approved = call["approval"]["by"].as_str();
    let approved = approved.map(|by| format!("  approved by {by}")).unwrap_or_default();
    let (begin, end) = (output::harmless(&begin), output::harmless(&end));
    let approved = output::harmless(&approved);
    output::print_line(&format!("{begin}  {style}{end}{style:#}{approved}"))
}

/// What came of a call, and how that looks.
fn end_of(call: &Value) -> (Style, String) {
    let text = |name: &str| call[name].as_str().unwrap_or_default();
    match call["outcome"].as_str() {
        Some("error") if call.get("code").is_some() => {
            (red(), format!("{}: {}", text("code"), text("message")))
        }
        Some("error") => (red(), "error".to_owned()),
        Some(outcome) => (Style::new(), outcome.to_owned()),
        None if call["lost"] == true => (red(), "lost when the gateway ended".to_owned()),
        None => (Style::new(), "has not ended".to_owned()),
    }
}

fn time(call: &Value) -> i64 {
    call["time"].as_i64().unwrap_or_default()
}

/// Days since 1970.
fn day(millis: i64) -> i64 {
    millis.div_euclid(86_400_000)
}

/// The time of day.
fn clock(millis: i64) -> String {
    let seconds = millis.div_euclid(1_000).rem_euclid(86_400);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:03}Z", seconds % 60, millis.rem_euclid(1_000))
}

/// The same with its date.
fn date(millis: i64) -> String {
    // The year begins in March here, so that the day that is not always there is its last.
    let days = day(millis) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {}", clock(millis))
}

fn took_words(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{}.{} ms", micros / 1_000, micros / 100 % 10),
        _ => format!("{}.{} s", micros / 1_000_000, micros / 100_000 % 10),
    }
}

pub(super) fn verdicts(answer: &Value) -> io::Result<()> {
    let journals = answer["journals"].as_array().map_or(&[][..], Vec::as_slice);
    for journal in journals {
        let id = journal["gatewayId"].as_str().unwrap_or_default();
        let records = &journal["records"];
        let (first, last) = (&journal["first"], &journal["last"]);
        let how =
            if journal["ok"] == true { "as they were written" } else { "and then it is wrong" };
        let line = format!("{id}: {records} records, {first} to {last}, {how}");
        output::print_line(&output::harmless(&line))?;
    }
    Ok(())
}

pub(super) fn problems(answer: &Value) {
    for journal in answer["journals"].as_array().into_iter().flatten() {
        let Some(problem) = journal.get("problem") else { continue };
        let text = |name: &str| problem[name].as_str().unwrap_or_default();
        let (kind, message, place) = (text("kind"), text("message"), text("place"));
        let seq = &problem["seq"];
        let place = if place.is_empty() { String::new() } else { format!(" at {place}") };
        output::error(&format!("record {seq}{place}: {kind}: {message}"));
    }
}

pub(super) fn replay(answer: &Value) -> io::Result<()> {
    harmless_lines(answer).iter().try_for_each(|line| output::print_line(line))
}

/// What a replay found out is partly in the words of others: names of members, and errors.
fn harmless_lines(answer: &Value) -> Vec<String> {
    replayed(answer).iter().map(|line| output::harmless(line).into_owned()).collect()
}

/// What a replay found out, a line each.
fn replayed(answer: &Value) -> Vec<String> {
    let recorded = &answer["recorded"];
    let operation = recorded["operation"].as_str().unwrap_or_default();
    let listed = |name: &str| answer[name].as_array().into_iter().flatten();
    if answer["ran"] != true {
        let mut lines = vec![format!("would call {operation} with {}", recorded["input"])];
        let problems = listed("problems").filter_map(Value::as_str);
        lines.extend(problems.map(|problem| format!("  but {problem}")));
        lines.push("--run makes the call".to_owned());
        return lines;
    }
    if answer["same"] == true {
        return vec![format!("{operation} came to the same")];
    }
    let mut lines = vec![format!("{operation} came to something else")];
    for difference in listed("differences") {
        let path = difference["path"].as_str().unwrap_or_default();
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

    /// Each row: what a replay found out, and what is printed about that.
    #[test]
    fn what_others_say_in_a_replay_is_not_obeyed() {
        let recorded = json!({"operation": "a.b\u{1b}[2J", "input": {"x": "\u{9b}2J"}});
        for (answer, expected) in [
            (
                json!({"recorded": recorded, "ran": false, "problems": ["odd \u{1b}]0;t\u{7}"]}),
                &[
                    "would call a.b\u{fffd}[2J with {\"x\":\"\u{fffd}2J\"}",
                    "  but odd \u{fffd}]0;t\u{fffd}",
                    "--run makes the call",
                ][..],
            ),
            (
                json!({"recorded": recorded, "ran": true, "same": true}),
                &["a.b\u{fffd}[2J came to the same"],
            ),
            (
                json!({"recorded": recorded, "ran": true, "same": false,
                    "differences": [{"path": "/\u{1b}c", "then": 1, "now": "\u{9b}"}]}),
                &[
                    "a.b\u{fffd}[2J came to something else",
                    "- /\u{fffd}c: 1",
                    "+ /\u{fffd}c: \"\u{fffd}\"",
                ],
            ),
        ] {
            assert_eq!(harmless_lines(&answer), expected);
        }
    }

    #[test]
    fn messages_are_lines_whatever_they_say() {
        let begin = "       7  00:00:00.000Z  lobby        ada          ";
        let long = "x".repeat(MOST_SAID);
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
                [("room", json!("lobby")), ("who", json!("ada")), ("seq", json!(7))]
            {
                message[name] = value;
            }
            let line = message_line(&message, clock);
            assert_eq!(line.strip_prefix(begin), Some(expected), "{line}");
        }
        let refusal = json!({"seq": 7, "kind": "refusal", "room": "lobby", "who": "ada",
            "attemptedKind": "chat", "error": "rate_limited", "reason": "too\u{1b}many"});
        let line = message_line(&refusal, clock);
        assert!(line.contains("chat  rate_limited: too\u{fffd}many"), "{line}");
    }

    #[test]
    fn times_are_short() {
        for (micros, expected) in [(7, "7 µs"), (1_250, "1.2 ms"), (61_900_000, "61.9 s")] {
            assert_eq!(took_words(micros), expected);
        }
        assert_eq!(clock(1_794_852_000_042), "18:00:00.042Z");
        for (millis, expected) in [
            (0, "1970-01-01 00:00:00.000Z"),
            (951_782_400_000, "2000-02-29 00:00:00.000Z"),
            (1_794_852_000_042, "2026-11-16 18:00:00.042Z"),
            (4_107_542_399_999, "2100-02-28 23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000Z"),
        ] {
            assert_eq!(date(millis), expected);
        }
    }
}
