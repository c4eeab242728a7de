//! A tool of a server as an operation.

use serde_json::{Map, Value};

use super::header::{self, HeaderParam};
use crate::schema::Schema;
use crate::spec::{Kind, OperationId, OperationSpec};

/// The member of an operation's `_meta` that holds what the server says about a tool beyond what an
/// operation has a place for.
pub const TOOL_META: &str = "toolpost/mcp";

/// A tool that was understood.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) spec: OperationSpec,
    /// Which arguments go into headers too, over HTTP.
    pub(super) headers: Vec<HeaderParam>,
    /// What was not understood about it.
    pub(super) warnings: Vec<String>,
}

/// Reads a tool of a list.
///
/// # Errors
///
/// Why it cannot be an operation; the others of the list can.
pub(super) fn read(source: &str, tool: &Value, with_headers: bool) -> Result<Tool, String> {
    let Some(members) = tool.as_object() else {
        return Err(format!("a tool is not an object but {}", short(tool)));
    };
    let Some(name) = members.get("name").and_then(Value::as_str) else {
        return Err(format!("a tool has no name: {}", short(tool)));
    };
    let id = OperationId::new(source, name)
        .map_err(|error| format!("the tool {} is left out: {error}", short(&name.into())))?;
    let mut warnings = Vec::new();
    let headers = match with_headers {
        true => header::annotated(members.get("inputSchema").unwrap_or(&Value::Null))
            .map_err(|reason| format!("the tool `{name}` is left out: {reason}"))?,
        false => Vec::new(),
    };
    let mut spec = OperationSpec::new(&id, kind(members));
    spec.title = title(members);
    spec.description = text(members, "description").unwrap_or_default();
    spec.idempotent = hint(members, "idempotentHint");
    spec.input_schema = schema(members, name, "inputSchema", &mut warnings);
    spec.output_schema = schema(members, name, "outputSchema", &mut warnings);
    if !members.contains_key("inputSchema") {
        warnings.push(format!("`{name}` has no inputSchema: its input is not looked at"));
    }
    spec.meta = rest(members);
    Ok(Tool { spec, headers, warnings })
}

/// A tool that only reads says so; every other may have an effect.
fn kind(members: &Map<String, Value>) -> Kind {
    if hint(members, "readOnlyHint") { Kind::Query } else { Kind::Mutation }
}

fn hint(members: &Map<String, Value>, name: &str) -> bool {
    members.get("annotations").and_then(|hints| hints.get(name)) == Some(&Value::Bool(true))
}

fn title(members: &Map<String, Value>) -> Option<String> {
    let annotated = || members.get("annotations")?.get("title")?.as_str().map(str::to_owned);
    text(members, "title").or_else(annotated)
}

fn text(members: &Map<String, Value>, name: &str) -> Option<String> {
    members.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// The schema as it is, or the unknown one with a warning when it means nothing.
fn schema(
    members: &Map<String, Value>,
    tool: &str,
    name: &str,
    warnings: &mut Vec<String>,
) -> Schema {
    let Some(json) = members.get(name) else { return Schema::unknown() };
    let compiled = Schema::new(json.clone()).and_then(|schema| schema.compile().map(|()| schema));
    compiled.unwrap_or_else(|error| {
        warnings.push(format!("`{tool}` has an {name} that is not looked at: {error}"));
        Schema::unknown()
    })
}

/// Everything that has no place of its own in an operation.
fn rest(members: &Map<String, Value>) -> Option<Map<String, Value>> {
    let has_place = |name: &str| {
        matches!(name, "name" | "title" | "description" | "inputSchema" | "outputSchema")
    };
    let rest: Map<String, Value> = members
        .iter()
        .filter(|(name, _)| !has_place(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let meta = || Map::from_iter([(TOOL_META.to_owned(), Value::Object(rest.clone()))]);
    (!rest.is_empty()).then(meta)
}

/// The beginning of something that may be very long.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_keeps_everything_it_says() {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}},
            "$defs": {"n": {"type": "integer"}}, "x-unknown": [1]});
        let tool = json!({
            "name": "fs.read/file", "title": "Read", "description": "Reads.",
            "inputSchema": schema, "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true, "title": "other", "openWorldHint": false},
            "icons": [{"src": "x"}], "_meta": {"a": 1}, "newer": {"b": [2]},
        });
        let read = read("box", &tool, false).unwrap();
        assert!(read.warnings.is_empty(), "{:?}", read.warnings);
        let spec = read.spec;
        assert_eq!((spec.kind, spec.idempotent), (Kind::Query, false));
        assert_eq!((spec.title.as_deref(), &*spec.description), (Some("Read"), "Reads."));
        assert_eq!(*spec.input_schema.json(), schema);
        assert_eq!(
            spec.meta.unwrap()[TOOL_META],
            json!({"annotations": tool["annotations"], "icons": tool["icons"],
                "_meta": tool["_meta"], "newer": tool["newer"]})
        );
    }

    #[test]
    fn kinds_and_titles_come_from_the_hints() {
        for (annotations, kind, idempotent, title) in [
            (json!({}), Kind::Mutation, false, None),
            (json!({"readOnlyHint": true}), Kind::Query, false, None),
            (json!({"readOnlyHint": "true"}), Kind::Mutation, false, None),
            (json!({"idempotentHint": true, "title": "T"}), Kind::Mutation, true, Some("T")),
            (json!("odd"), Kind::Mutation, false, None),
        ] {
            let tool = json!({"name": "t", "inputSchema": {}, "annotations": annotations});
            let spec = read("box", &tool, false).unwrap().spec;
            let found = (spec.kind, spec.idempotent, spec.title.as_deref());
            assert_eq!(found, (kind, idempotent, title), "{tool}");
        }
    }

    #[test]
    fn an_odd_tool_is_refused_or_taken_with_a_warning() {
        let long = "n".repeat(201);
        for (tool, words) in [
            (json!("x"), "not an object"),
            (json!({"inputSchema": {}}), "no name"),
            (json!({"name": 7}), "no name"),
            (json!({"name": ""}), "left out"),
            (json!({"name": long}), "left out"),
        ] {
            assert!(read("box", &tool, false).unwrap_err().contains(words), "{tool}");
        }
        for (tool, words) in [
            (json!({"name": "t"}), "no inputSchema"),
            (json!({"name": "t", "inputSchema": 3}), "not looked at"),
            (json!({"name": "t", "inputSchema": {"type": "objekt"}}), "not looked at"),
            (
                json!({"name": "t", "inputSchema": {"$ref": "http://127.0.0.1:9/s.json"}}),
                "not looked at",
            ),
            (
                json!({"name": "t", "inputSchema": {}, "outputSchema": {"pattern": "("}}),
                "outputSchema",
            ),
        ] {
            let read = read("box", &tool, false).unwrap();
            assert!(read.warnings.concat().contains(words), "{tool} {:?}", read.warnings);
        }
    }
}
