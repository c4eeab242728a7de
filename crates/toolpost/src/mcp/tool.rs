//! Conversion of tools into operations.

use serde_json::Value;

use crate::header_params::{self, HeaderParam};
use crate::json::JsonObject;
use crate::schema::{Schema, SchemaError};
use crate::spec::{OperationId, OperationKind, OperationMeta, OperationSpec};

/// A tool that was converted into an operation.
#[derive(Debug)]
pub(super) struct ImportedTool {
    pub(super) spec: OperationSpec,
    /// Arguments that are also sent as HTTP headers.
    pub(super) header_params: Vec<HeaderParam>,
    /// Problems found while parsing the tool.
    pub(super) warnings: Vec<String>,
}

/// Converts a tool of a tool list into an operation.
///
/// # Errors
///
/// Returns why the tool is skipped. Other tools of the list are not affected.
pub(super) fn parse(
    source: &str,
    tool: &Value,
    with_headers: bool,
) -> Result<ImportedTool, String> {
    let Some(members) = tool.as_object() else {
        return Err(format!("a tool is not an object but {}", truncate(tool)));
    };
    let Some(name) = members.get("name").and_then(Value::as_str) else {
        return Err(format!("a tool has no name: {}", truncate(tool)));
    };
    let id = OperationId::new(source, name)
        .map_err(|error| format!("the tool {} is skipped: {error}", truncate(&name.into())))?;
    let mut warnings = Vec::new();
    let headers = match with_headers {
        true => header_params::header_params(members.get("inputSchema").unwrap_or(&Value::Null))
            .map_err(|reason| format!("the tool `{name}` is skipped: {reason}"))?,
        false => Vec::new(),
    };
    let mut spec = OperationSpec::new(&id, kind(members));
    spec.title = title(members);
    spec.description = text(members, "description").unwrap_or_default();
    spec.idempotent = hint(members, "idempotentHint");
    spec.input_schema = schema(members, name, "inputSchema", &mut warnings);
    spec.output_schema = schema(members, name, "outputSchema", &mut warnings);
    if !members.contains_key("inputSchema") {
        warnings.push(format!("`{name}` has no inputSchema: its input is not validated"));
    }
    spec.meta = extra_members(members);
    Ok(ImportedTool { spec, header_params: headers, warnings })
}

/// Returns `Query` for a tool with `readOnlyHint`, otherwise `Mutation`.
fn kind(members: &JsonObject) -> OperationKind {
    if hint(members, "readOnlyHint") { OperationKind::Query } else { OperationKind::Mutation }
}

fn hint(members: &JsonObject, name: &str) -> bool {
    members.get("annotations").and_then(|hints| hints.get(name)) == Some(&Value::Bool(true))
}

fn title(members: &JsonObject) -> Option<String> {
    let annotated = || members.get("annotations")?.get("title")?.as_str().map(str::to_owned);
    text(members, "title").or_else(annotated)
}

fn text(members: &JsonObject, name: &str) -> Option<String> {
    members.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// Returns the schema; if it is invalid, the unknown schema and a warning.
fn schema(members: &JsonObject, tool: &str, name: &str, warnings: &mut Vec<String>) -> Schema {
    let Some(json) = members.get(name) else { return Schema::unknown() };
    let schema = Schema::new(json.clone());
    let compiled = schema.as_ref().map_err(Clone::clone).and_then(Schema::compile);
    let schema = match (schema, compiled) {
        (Ok(schema), Ok(())) => schema,
        // Its calls are rejected, because their input cannot be validated.
        (Ok(schema), Err(error @ SchemaError::OverBudget { .. })) if name == "inputSchema" => {
            warnings.push(format!("`{tool}` is unavailable: its {name} {error}"));
            schema
        }
        (Err(error), _) | (_, Err(error)) => {
            warnings.push(format!("`{tool}` has an {name} that is ignored: {error}"));
            Schema::unknown()
        }
    };
    let found = schema.take_warnings().into_iter();
    warnings.extend(found.map(|issue| format!("`{tool}` has an {name} with a problem: {issue}")));
    schema
}

/// Returns the members without an equivalent in an operation.
fn extra_members(members: &JsonObject) -> Option<OperationMeta> {
    let is_mapped = |name: &str| {
        matches!(name, "name" | "title" | "description" | "inputSchema" | "outputSchema")
    };
    let rest: JsonObject = members
        .iter()
        .filter(|(name, _)| !is_mapped(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    (!rest.is_empty()).then(|| OperationMeta { mcp_tool: Some(rest), ..OperationMeta::default() })
}

/// Formats a value, truncated to 80 characters.
fn truncate(value: &Value) -> String {
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
    fn tool_import_keeps_all_members() {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}},
            "$defs": {"n": {"type": "integer"}}, "x-unknown": [1]});
        let tool = json!({
            "name": "fs.read/file", "title": "Read", "description": "Reads.",
            "inputSchema": schema, "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true, "title": "other", "openWorldHint": false},
            "icons": [{"src": "x"}], "_meta": {"a": 1}, "newer": {"b": [2]},
        });
        let read = parse("box", &tool, false).unwrap();
        assert!(read.warnings.is_empty(), "{:?}", read.warnings);
        let spec = read.spec;
        assert_eq!((spec.kind, spec.idempotent), (OperationKind::Query, false));
        assert_eq!((spec.title.as_deref(), &*spec.description), (Some("Read"), "Reads."));
        assert_eq!(*spec.input_schema.json(), schema);
        assert_eq!(
            Value::Object(spec.meta.unwrap().mcp_tool.unwrap()),
            json!({"annotations": tool["annotations"], "icons": tool["icons"],
                "_meta": tool["_meta"], "newer": tool["newer"]})
        );
    }

    #[test]
    fn tool_kind_and_title_come_from_annotations() {
        for (annotations, kind, idempotent, title) in [
            (json!({}), OperationKind::Mutation, false, None),
            (json!({"readOnlyHint": true}), OperationKind::Query, false, None),
            (json!({"readOnlyHint": "true"}), OperationKind::Mutation, false, None),
            (
                json!({"idempotentHint": true, "title": "T"}),
                OperationKind::Mutation,
                true,
                Some("T"),
            ),
            (json!("odd"), OperationKind::Mutation, false, None),
        ] {
            let tool = json!({"name": "t", "inputSchema": {}, "annotations": annotations});
            let spec = parse("box", &tool, false).unwrap().spec;
            let found = (spec.kind, spec.idempotent, spec.title.as_deref());
            assert_eq!(found, (kind, idempotent, title), "{tool}");
        }
    }

    #[test]
    fn malformed_tool_is_skipped_or_imported_with_warning() {
        let long = "n".repeat(201);
        for (tool, expected_message) in [
            (json!("x"), "not an object"),
            (json!({"inputSchema": {}}), "no name"),
            (json!({"name": 7}), "no name"),
            (json!({"name": ""}), "is skipped"),
            (json!({"name": long}), "is skipped"),
        ] {
            assert!(parse("box", &tool, false).unwrap_err().contains(expected_message), "{tool}");
        }
        for (tool, expected_message) in [
            (json!({"name": "t"}), "no inputSchema"),
            (json!({"name": "t", "inputSchema": 3}), "is ignored"),
            (json!({"name": "t", "inputSchema": {"type": "objekt"}}), "is ignored"),
            (
                json!({"name": "t", "inputSchema": {"$ref": "http://127.0.0.1:9/s.json"}}),
                "is ignored",
            ),
            (
                json!({"name": "t", "inputSchema": {}, "outputSchema": {"pattern": "("}}),
                "outputSchema",
            ),
        ] {
            let read = parse("box", &tool, false).unwrap();
            assert!(
                read.warnings.concat().contains(expected_message),
                "{tool} {:?}",
                read.warnings
            );
        }
    }
}
