//! Documents that clients see, compared to the byte.
//!
//! `TOOLPOST_BLESS=1 cargo test` rewrites them; the difference is there to be read.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use toolpost::view::{Dialect, Era};
use toolpost::{CallError, Issue, Kind};

use super::world::{Gives, answer, catalog, listed, mcp, odd_specs, spec};

const ERAS: [(&str, Era); 2] = [("legacy", Era::Legacy), ("modern", Era::Modern)];

#[test]
fn listings_are_golden() {
    for dialect in Dialect::ALL {
        for (name, era) in ERAS {
            let found = listed(catalog(odd_specs()), dialect, era);
            compare(&format!("tools-{dialect}-{name}"), &found);
        }
    }
}

#[tokio::test]
async fn results_are_golden() {
    for dialect in Dialect::ALL {
        for (name, era) in ERAS {
            let mut found = Map::new();
            for (case, spec, gives) in cases() {
                let answer = answer(&spec, gives, dialect, era).await;
                found.insert(case.to_owned(), answer.result);
            }
            compare(&format!("results-{dialect}-{name}"), &found.into());
        }
    }
}

fn cases() -> Vec<(&'static str, toolpost::OperationSpec, Gives)> {
    let any = json!(true);
    let query = |output: &Value| spec("demo.x", Kind::Query, json!(true), output.clone());
    let size = json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]});
    let list = json!({"type": "array", "items": {"type": "integer"}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let whole = json!({"content": [text("3 bytes"), {"type": "image", "data": "AA==", "mimeType": "image/png",
        "newer": 1}], "structuredContent": {"size": 3}, "_meta": {"vendor/a": {"b": [1]}}, "newer": {"c": null},
        "toolpost/source": "disk"});
    let broken =
        json!({"content": [text("no such file")], "isError": true, "_meta": {"vendor/a": 1}});
    let missing = Issue::new("/a/0", "this property is required and missing");
    let odd = CallError::validation("the input does not fit", &[missing, Issue::new("", "odd")]);
    let declared = CallError::new("NO_ROOM".into(), "the disk is full");
    vec![
        ("object", query(&size), Gives::Data(json!({"size": 3}))),
        ("list", query(&list), Gives::Data(json!([1, 2]))),
        ("text without schema", query(&any), Gives::Data(json!("say \"hi\""))),
        ("null without schema", query(&any), Gives::Data(json!(null))),
        ("null", query(&json!({"type": "null"})), Gives::Data(json!(null))),
        ("repaired", query(&size), Gives::Data(json!({"size": "3"}))),
        ("does not fit", query(&size), Gives::Data(json!({"size": "large"}))),
        ("from mcp", query(&any), mcp(&whole)),
        ("from mcp with schema", query(&size), mcp(&whole)),
        ("from mcp, failed", query(&size), mcp(&broken)),
        ("from mcp, only words", query(&size), mcp(&json!({"content": [text("3 bytes")]}))),
        ("from mcp, a list", query(&list), mcp(&json!({"content": [], "structuredContent": [1]}))),
        ("invalid input", query(&size), Gives::Fails(odd)),
        ("declared error", query(&size), Gives::Fails(declared)),
        ("timeout", query(&list), Gives::Fails(CallError::timeout("took too long"))),
        (
            "failed",
            query(&list),
            Gives::Fails(CallError::execution("broken").with_details(json!({"at": 5}))),
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
