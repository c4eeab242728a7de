//! The two records of a call as one object, and the one record of a message.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// How many levels a body may have that is shown as what it is. Readers take 127, and it stands in an
/// object in a list in an answer in a message.
const MOST_LEVELS: usize = 100;

/// Every call can be shown: a body that others could not read is shown as its text.
pub(super) fn joined(gateway_id: &str, enter: &[u8], exit: Option<&[u8]>) -> Value {
    let mut call = Map::new();
    add(&mut call, enter, of_beginning);
    call.insert("gatewayId".to_owned(), gateway_id.into());
    if let Some(exit) = exit {
        add(&mut call, exit, of_end);
    }
    call.into()
}

/// A record that stands for itself, under the names that it has.
pub(super) fn alone(gateway_id: &str, record: &[u8]) -> Value {
    let mut members = Map::new();
    add(&mut members, record, of_its_own);
    members.insert("gatewayId".to_owned(), gateway_id.into());
    members.into()
}

#[expect(clippy::unnecessary_wraps, reason = "others leave some out")]
fn of_its_own(name: &str) -> Option<&str> {
    Some(name)
}

fn of_beginning(name: &str) -> Option<&str> {
    (name != "kind").then_some(name)
}

fn of_end(name: &str) -> Option<&str> {
    match name {
        "kind" | "enter" | "id" | "operation" | "who" => None,
        "seq" => Some("endSeq"),
        "time" => Some("endTime"),
        other => Some(other),
    }
}

/// Adds the members of a record under the names that they have in a call.
fn add(call: &mut Map<String, Value>, record: &[u8], renamed: impl Fn(&str) -> Option<&str>) {
    let text = String::from_utf8_lossy(record);
    let members: Members<'_> = serde_json::from_str(&text).unwrap_or_default();
    for (name, raw) in members.0 {
        let Some(name) = renamed(&name) else { continue };
        match shown(raw.get()) {
            Some(value) => call.insert(name.to_owned(), value),
            None => call.insert(format!("{name}Text"), raw.get().into()),
        };
    }
}

/// A door takes what its handler may be able to read, such as numbers of any size.
fn shown(text: &str) -> Option<Value> {
    (levels(text.as_bytes()) <= MOST_LEVELS).then(|| serde_json::from_str(text).ok())?
}

/// How deep objects and lists lie in each other.
fn levels(text: &[u8]) -> usize {
    let (mut depth, mut most, mut in_string, mut at) = (0_usize, 0, false, 0);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
        at += 1;
    }
    most
}

/// The members of a record in their order; their values stay text.
#[derive(Default)]
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_could_not_read_is_shown_as_text() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for (input, is_shown) in [
            (r#"{"a":[1,2,{}]}"#.to_owned(), true),
            (format!("\"{}\"", "[".repeat(500)), true),
            (format!("\"\\\"{}\"", "[".repeat(500)), true),
            (nested(MOST_LEVELS), true),
            (nested(MOST_LEVELS + 1), false),
            (nested(127), false),
            (nested(5_000), false),
            ("[1e999]".to_owned(), false),
            (r#""\ud800""#.to_owned(), false),
        ] {
            let enter = format!(r#"{{"seq":1,"kind":"enter","id":"x","input":{input}}}"#);
            let exit = format!(r#"{{"seq":2,"kind":"exit","enter":1,"id":"x","output":{input}}}"#);
            let call = joined("me", enter.as_bytes(), Some(exit.as_bytes()));
            let names: Vec<&String> = call.as_object().unwrap().keys().collect();
            let (given, text) = (["input", "output"], ["inputText", "outputText"]);
            let [input_name, output_name] = if is_shown { given } else { text };
            let expected = ["seq", "id", input_name, "gatewayId", "endSeq", output_name];
            assert_eq!(names, expected, "{input}");
            let expected = match is_shown {
                true => serde_json::from_str(&input).unwrap(),
                false => json!(input),
            };
            assert_eq!(call[input_name], expected);
        }
    }
}
