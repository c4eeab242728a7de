//! The journal for people.

use std::io;

use serde_json::Value;

use crate::output;

/// The calls as a table, oldest first: the newest stands where the eye is.
pub(super) fn table(calls: &[Value]) -> io::Result<()> {
    if calls.is_empty() {
        return output::print_line("no calls");
    }
    calls.iter().rev().try_for_each(line)
}

/// One call on one line.
pub(super) fn line(call: &Value) -> io::Result<()> {
    let text = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
    let seq = call["seq"].as_u64().unwrap_or_default();
    let time = clock(call["time"].as_i64().unwrap_or_default());
    let took = match call["tookUs"].as_u64() {
        Some(took) => took_words(took),
        None => "…".to_owned(),
    };
    let end = match call["outcome"].as_str() {
        Some("error") if call.get("code").is_some() => {
            format!("{}: {}", text("code"), text("message"))
        }
        Some(outcome) => outcome.to_owned(),
        None => "has not ended".to_owned(),
    };
    let (door, who, operation) = (text("door"), text("who"), text("operation"));
    let via = call["via"].as_str().map(|via| format!(" via {via}")).unwrap_or_default();
    let nested = if call.get("parent").is_some() { "└ " } else { "" };
    output::print_line(&output::harmless(&format!(
        "{seq:>8}  {time}  {door:<5} {who:<12} {took:>8}  {nested}{operation}{via}  {end}"
    )))
}

/// The time of day; the day is in `--json`.
fn clock(millis: i64) -> String {
    let seconds = millis.div_euclid(1_000).rem_euclid(86_400);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:03}Z", seconds % 60, millis.rem_euclid(1_000))
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
    if journals.is_empty() {
        return output::print_line("there is no journal yet");
    }
    for journal in journals {
        let (id, records) = (&journal["gatewayId"], &journal["records"]);
        let (first, last) = (&journal["first"], &journal["last"]);
        let how =
            if journal["ok"] == true { "as they were written" } else { "and then it is wrong" };
        output::print_line(&format!("{id}: {records} records, {first} to {last}, {how}"))?;
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
    let recorded = &answer["recorded"];
    let operation = recorded["operation"].as_str().unwrap_or_default();
    if answer["ran"] != true {
        output::print_line(&format!("would call {operation} with {}", recorded["input"]))?;
        for problem in answer["problems"].as_array().into_iter().flatten() {
            output::print_line(&format!("  but {}", problem.as_str().unwrap_or_default()))?;
        }
        return output::print_line("--run makes the call");
    }
    if answer["same"] == true {
        return output::print_line(&format!("{operation} came to the same"));
    }
    output::print_line(&format!("{operation} came to something else"))?;
    for difference in answer["differences"].as_array().into_iter().flatten() {
        let path = difference["path"].as_str().unwrap_or_default();
        for (sign, side) in [("-", "then"), ("+", "now")] {
            if let Some(value) = difference.get(side) {
                output::print_line(&format!("{sign} {path}: {value}"))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (micros, expected) in [(7, "7 µs"), (1_250, "1.2 ms"), (61_900_000, "61.9 s")] {
            assert_eq!(took_words(micros), expected);
        }
        assert_eq!(clock(1_794_852_000_042), "18:00:00.042Z");
    }
}
