//! Compares the documents that clients see with golden files, byte by byte.
//!
//! `TOOLPOST_BLESS=1 cargo test` rewrites the files; review the diff.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use toolpost::view::{Dialect, ProtocolGeneration};
use toolpost::{CallError, Issue, OperationKind};

use super::fixture::{
    HandlerResponse, call_and_write, catalog, edge_case_specs, list_tools, mcp, spec,
};

const GENERATIONS: [(&str, ProtocolGeneration); 2] =
    [("legacy", ProtocolGeneration::Legacy), ("modern", ProtocolGeneration::Modern)];

#[test]
fn listings_match_golden_files() {
    for dialect in Dialect::ALL {
        for (name, generation) in GENERATIONS {
            let found = list_tools(catalog(edge_case_specs()), dialect, generation);
            compare(&format!("tools-{dialect}-{name}"), &found);
        }
    }
}

#[tokio::test]
async fn results_match_golden_files() {
    for dialect in Dialect::ALL {
        for (name, generation) in GENERATIONS {
            let mut found = Map::new();
            for (case, spec, response) in cases() {
                let reply = call_and_write(&spec, response, dialect, generation).await;
                found.insert(case.to_owned(), reply.result);
            }
            compare(&format!("results-{dialect}-{name}"), &found.into());
        }
    }
}

fn cases() -> Vec<(&'static str, toolpost::OperationSpec, HandlerResponse)> {
    let any = json!(true);
    let query = |output: &Value| spec("demo.x", OperationKind::Query, json!(true), output.clone());
    let size = json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]});
    let list = json!({"type": "array", "items": {"type": "integer"}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let full_result = json!({"content": [text("3 bytes"), {"type": "image", "data": "AA==", "mimeType": "image/png",
        "newer": 1}], "structuredContent": {"size": 3}, "_meta": {"vendor/a": {"b": [1]}}, "newer": {"c": null},
        "toolpost/source": "disk"});
    let broken =
        json!({"content": [text("no such file")], "isError": true, "_meta": {"vendor/a": 1}});
    let missing = Issue::new("/a/0", "required property is missing");
    let odd = CallError::validation("invalid input", &[missing, Issue::new("", "odd")]);
    let declared = CallError::new("NO_ROOM".into(), "the disk is full");
    vec![
        ("object", query(&size), HandlerResponse::Data(json!({"size": 3}))),
        ("list", query(&list), HandlerResponse::Data(json!([1, 2]))),
        ("text without schema", query(&any), HandlerResponse::Data(json!("say \"hi\""))),
        ("null without schema", query(&any), HandlerResponse::Data(json!(null))),
        ("null", query(&json!({"type": "null"})), HandlerResponse::Data(json!(null))),
        ("repaired", query(&size), HandlerResponse::Data(json!({"size": "3"}))),
        ("does not fit", query(&size), HandlerResponse::Data(json!({"size": "large"}))),
        ("from mcp", query(&any), mcp(&full_result)),
        ("from mcp with schema", query(&size), mcp(&full_result)),
        ("from mcp, failed", query(&size), mcp(&broken)),
        ("from mcp, only text", query(&size), mcp(&json!({"content": [text("3 bytes")]}))),
        ("from mcp, a list", query(&list), mcp(&json!({"content": [], "structuredContent": [1]}))),
        ("invalid input", query(&size), HandlerResponse::Error(odd)),
        ("declared error", query(&size), HandlerResponse::Error(declared)),
        ("timeout", query(&list), HandlerResponse::Error(CallError::timeout("took too long"))),
        (
            "failed",
            query(&list),
            HandlerResponse::Error(CallError::execution("broken").with_details(json!({"at": 5}))),
        ),
    ]
}

fn compare(name: &str, found: &Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/view");
    let file = folder.join(format!("{name}.json"));
    let found = format!("{found:#}\n");
    if std::env::var_os("TOOLPOST_BLESS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(&file, &found).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(expected == found, "{name} changed; TOOLPOST_BLESS=1 rewrites it:\n{found}");
}
