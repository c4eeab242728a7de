//! Tool metadata other than schemas, from the MCP server or derived from the operation.

use serde_json::{Map, Value};

use crate::json::JsonObject;
use crate::spec::{OperationKind, OperationSpec, TOOL_META};

/// Adds annotations, icons, `_meta` and other metadata.
///
/// Members from an MCP server are relayed unchanged. A malformed member, which would make clients
/// reject the whole list, is moved to [`TOOL_META`] in `_meta`. So is `execution`, because the
/// tasks it advertises are not available beyond this process.
pub(super) fn add(tool: &mut JsonObject, spec: &OperationSpec) {
    let (mut meta, mut non_portable) = (Map::new(), Map::new());
    let mut own = spec.meta.clone().unwrap_or_default();
    for (name, value) in own.mcp_tool.take().into_iter().flatten() {
        match (name.as_str(), value) {
            (_, Value::Null) => {}
            ("_meta", Value::Object(members)) => meta.extend(members),
            (_, value) if tool.contains_key(&name) || !is_well_formed(&name, &value) => {
                non_portable.insert(name, value);
            }
            (_, value) => drop(tool.insert(name, value)),
        }
    }
    let hints = derived_annotations(spec);
    if !tool.contains_key("annotations") && !hints.is_empty() {
        tool.insert("annotations".to_owned(), hints.into());
    }
    meta.extend(Map::from(own));
    if !non_portable.is_empty() {
        meta.insert(TOOL_META.to_owned(), non_portable.into());
    }
    if !meta.is_empty() {
        tool.insert("_meta".to_owned(), meta.into());
    }
}

/// Derives hints from the operation kind. `destructiveHint` cannot be derived.
fn derived_annotations(spec: &OperationSpec) -> JsonObject {
    let hints: &[(&str, bool)] = match spec.kind {
        OperationKind::Query => &[("readOnlyHint", true)],
        OperationKind::Mutation => &[("readOnlyHint", false), ("idempotentHint", spec.idempotent)],
        OperationKind::Subscription => &[],
    };
    hints.iter().map(|(name, hint)| ((*name).to_owned(), Value::Bool(*hint))).collect()
}

/// Whether a member of a tool has the form that clients require.
fn is_well_formed(name: &str, value: &Value) -> bool {
    match name {
        "annotations" => value.as_object().is_some_and(|hints| hints.iter().all(is_hint)),
        "icons" => value.as_array().is_some_and(|icons| icons.iter().all(is_icon)),
        "_meta" | "execution" => false,
        // The operation spec takes precedence for these members.
        "name" | "title" | "description" | "inputSchema" | "outputSchema" => false,
        _ => true,
    }
}

fn is_hint((name, value): (&String, &Value)) -> bool {
    match name.as_str() {
        "title" => value.is_string(),
        "readOnlyHint" | "destructiveHint" | "idempotentHint" | "openWorldHint" => {
            value.is_boolean()
        }
        _ => true,
    }
}

fn is_icon(icon: &Value) -> bool {
    let is_text = |name: &str| icon.get(name).is_none_or(Value::is_string);
    let sizes = icon.get("sizes").is_none_or(|sizes| {
        sizes.as_array().is_some_and(|sizes| sizes.iter().all(Value::is_string))
    });
    let theme = icon.get("theme").is_none_or(|theme| theme == "light" || theme == "dark");
    icon.get("src").is_some_and(Value::is_string) && is_text("mimeType") && sizes && theme
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn server_annotations_pass_through_unless_malformed() {
        let reads = json!({"readOnlyHint": true});
        for (meta, expected) in [
            (json!({}), json!({"annotations": reads})),
            (json!({"own": 1}), json!({"annotations": reads, "_meta": {"own": 1}})),
            (
                json!({TOOL_META: {"annotations": {"title": "T", "destructiveHint": false, "newer": [1]},
                    "icons": [{"src": "x", "sizes": ["1x1"], "more": 1}], "_meta": {"a": 1}, "newer": {"b": 2}}}),
                json!({"annotations": {"title": "T", "destructiveHint": false, "newer": [1]},
                    "icons": [{"src": "x", "sizes": ["1x1"], "more": 1}], "_meta": {"a": 1}, "newer": {"b": 2}}),
            ),
            (
                json!({TOOL_META: {"annotations": "odd", "icons": [{"src": 1}], "_meta": [1], "name": "x",
                    "execution": {"taskSupport": "required"}, "nothing": null}}),
                json!({"annotations": reads, "_meta": {TOOL_META: {"annotations": "odd", "icons": [{"src": 1}],
                    "_meta": [1], "name": "x", "execution": {"taskSupport": "required"}}}}),
            ),
            (
                json!({TOOL_META: {"annotations": {"readOnlyHint": "yes"}}, "own": {}}),
                json!({"annotations": reads, "_meta": {"own": {},
                    TOOL_META: {"annotations": {"readOnlyHint": "yes"}}}}),
            ),
        ] {
            let mut spec = OperationSpec::new(&"demo.x".parse().unwrap(), OperationKind::Query);
            spec.meta = meta.as_object().cloned().map(Into::into);
            let mut tool = Map::from_iter([("name".to_owned(), json!("demo__x"))]);
            add(&mut tool, &spec);
            tool.shift_remove("name");
            assert_eq!(Value::Object(tool), expected, "{meta}");
        }
    }

    #[test]
    fn annotation_hints_follow_operation_kind() {
        for (kind, idempotent, expected) in [
            (OperationKind::Query, false, json!({"readOnlyHint": true})),
            (
                OperationKind::Mutation,
                false,
                json!({"readOnlyHint": false, "idempotentHint": false}),
            ),
            (OperationKind::Mutation, true, json!({"readOnlyHint": false, "idempotentHint": true})),
            (OperationKind::Subscription, false, json!({})),
        ] {
            let mut spec = OperationSpec::new(&"demo.x".parse().unwrap(), kind);
            spec.idempotent = idempotent;
            assert_eq!(Value::Object(derived_annotations(&spec)), expected);
        }
    }
}
