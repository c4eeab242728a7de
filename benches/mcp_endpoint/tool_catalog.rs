//! A thousand tools, like those of the MCP server of a large API.

use serde_json::{Value, json};

const THINGS: [&str; 10] = [
    "repository",
    "issue",
    "branch",
    "payment",
    "customer",
    "invoice",
    "deployment",
    "message",
    "calendar",
    "document",
];

const VERBS: [&str; 10] =
    ["list", "get", "create", "update", "delete", "search", "archive", "move", "share", "count"];

/// A thousand tools with schemas of one to two kilobytes.
pub(crate) fn tools() -> Value {
    (0..1_000).map(tool).collect()
}

fn tool(n: usize) -> Value {
    let (noun, verb, area) = (THINGS[n % 10], VERBS[n / 10 % 10], n / 100);
    json!({
        "name": format!("{verb}_{noun}_{area}"),
        "title": format!("{verb} {noun}"),
        "description": format!(
            "Can {verb} a {noun} of the workspace in area {area}. Needs the permission to {verb} \
             in that area; what is not allowed is omitted from the response without an error."
        ),
        "annotations": {"readOnlyHint": n / 10 % 10 < 2, "idempotentHint": true},
        "inputSchema": input(noun),
        "outputSchema": output(noun),
    })
}

fn input(noun: &str) -> Value {
    let text = |what: &str| json!({"type": "string", "description": what, "maxLength": 200});
    json!({
        "type": "object",
        "properties": {
            "workspace": text("The workspace that is meant, by its short name"),
            "id": {"type": "string", "pattern": "^[a-z0-9-]{1,64}$",
                "description": format!("Which {noun} is meant; as a list shows it")},
            "labels": {"type": "array", "items": text("One label"), "maxItems": 20,
                "description": "Only what has all of these"},
            "state": {"type": "string", "enum": ["open", "closed", "all"], "default": "open"},
            "range": {"type": "object", "properties": {
                "since": {"type": "string", "format": "date-time"},
                "until": {"type": "string", "format": "date-time"},
            }},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 30},
        },
        "required": ["workspace"],
    })
}

fn output(noun: &str) -> Value {
    json!({
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"type": "object", "properties": {
                "id": {"type": "string"},
                "name": {"type": "string", "description": format!("What the {noun} is called")},
                "is_open": {"type": "boolean"},
                "changed": {"type": "string", "format": "date-time"},
                "score": {"type": ["number", "null"]},
            }, "required": ["id", "name"]}},
            "next": {"type": "string", "description": "Cursor of the next page"},
        },
        "required": ["items"],
    })
}
