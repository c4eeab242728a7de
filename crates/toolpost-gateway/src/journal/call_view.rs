//! Views of records: the two records of a call as one object, or the single record of a message.

use serde_json::{Map, Value};
use toolpost::json::{RawObject, is_nested_deeper};

/// Maximum nesting depth of a body that is returned as JSON. Parsers accept 127 levels, and the
/// body is nested in an object in a list in a response in a message.
const MAX_NESTING_DEPTH: usize = 100;

/// Members of a call that hold its input. The exit record has one of them if defaults were filled in.
const INPUT_MEMBERS: [&str; 3] = ["input", "inputText", "inputCut"];

/// Merges the records of a call into one object. A body that clients could not parse is returned as
/// text.
pub(super) fn merge_records(gateway_id: &str, enter: &[u8], exit: Option<&[u8]>) -> Value {
    let mut call = Map::new();
    add_members(&mut call, enter, |name| (name != "kind").then_some(name));
    let id = call.get("seq").map(|seq| format!("{gateway_id}:{seq}"));
    call.insert("callId".to_owned(), id.into());
    call.insert("gatewayId".to_owned(), gateway_id.into());
    add_members(&mut call, exit.unwrap_or(b"{}"), |name| match name {
        "kind" | "enter" | "id" | "operation" | "identity" => None,
        "seq" => Some("endSeq"),
        "time" => Some("endTime"),
        other => Some(other),
    });
    if let Some(first) = call.get_mut("replayOf") {
        *first = format!("{gateway_id}:{first}").into();
    }
    call.into()
}

/// Converts a record that is not part of a call, with its member names unchanged.
pub(super) fn record_view(gateway_id: &str, record: &[u8]) -> Value {
    let mut members = Map::new();
    add_members(&mut members, record, |name| Some(name));
    members.insert("gatewayId".to_owned(), gateway_id.into());
    members.into()
}

/// Adds the members of a record under their names in a call. A body is added as text if it is nested
/// too deeply or cannot be parsed; endpoints accept bodies that only a handler can read, such as
/// numbers of any size.
fn add_members(
    call: &mut Map<String, Value>,
    record: &[u8],
    renamed: impl Fn(&str) -> Option<&str>,
) {
    let text = String::from_utf8_lossy(record);
    for (name, raw) in RawObject::parse(&text).unwrap_or_default().0 {
        let Some(name) = renamed(&name) else { continue };
        if INPUT_MEMBERS.contains(&name) {
            // The input that was sent replaces the input that was received.
            INPUT_MEMBERS.iter().for_each(|member| drop(call.shift_remove(*member)));
        }
        let is_shallow = !is_nested_deeper(raw.get().as_bytes(), MAX_NESTING_DEPTH);
        match is_shallow.then(|| serde_json::from_str(raw.get())) {
            Some(Ok(value)) => call.insert(name.to_owned(), value),
            _ => call.insert(format!("{name}Text"), raw.get().into()),
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each row: the input members of the two records, and those of the call.
    #[test]
    fn call_view_input_is_the_one_that_was_sent() {
        for (enter, exit, expected) in [
            (json!({"input": {}}), json!({}), json!({"input": {}})),
            (json!({"input": {}}), json!({"input": {"a": 1}}), json!({"input": {"a": 1}})),
            (json!({"input": {}}), json!({"inputCut": {}}), json!({"inputCut": {}})),
            (json!({"inputCut": {}}), json!({"inputCut": {"b": 1}}), json!({"inputCut": {"b": 1}})),
        ] {
            let [enter, exit] = [enter.to_string(), exit.to_string()];
            let mut call = merge_records("me", enter.as_bytes(), Some(exit.as_bytes()));
            for member in ["callId", "gatewayId"] {
                call.as_object_mut().unwrap().shift_remove(member);
            }
            assert_eq!(call, expected, "{enter} {exit}");
        }
    }

    #[test]
    fn call_view_shows_unparseable_body_as_text() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for (input, is_parseable) in [
            (r#"{"a":[1,2,{}]}"#.to_owned(), true),
            (format!("\"{}\"", "[".repeat(500)), true),
            (format!("\"\\\"{}\"", "[".repeat(500)), true),
            (nested(MAX_NESTING_DEPTH), true),
            (nested(MAX_NESTING_DEPTH + 1), false),
            (nested(127), false),
            (nested(5_000), false),
            ("[1e999]".to_owned(), false),
            (r#""\ud800""#.to_owned(), false),
        ] {
            let enter = format!(r#"{{"seq":1,"kind":"enter","id":"x","input":{input}}}"#);
            let exit = format!(r#"{{"seq":2,"kind":"exit","enter":1,"id":"x","output":{input}}}"#);
            let call = merge_records("me", enter.as_bytes(), Some(exit.as_bytes()));
            let names: Vec<&String> = call.as_object().unwrap().keys().collect();
            let (given, text) = (["input", "output"], ["inputText", "outputText"]);
            let [input_name, output_name] = if is_parseable { given } else { text };
            let expected = ["seq", "id", input_name, "callId", "gatewayId", "endSeq", output_name];
            assert_eq!(names, expected, "{input}");
            let expected = match is_parseable {
                true => serde_json::from_str(&input).unwrap(),
                false => json!(input),
            };
            assert_eq!(call[input_name], expected);
        }
    }
}
