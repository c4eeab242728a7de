//! Invariants that hold for any input; shared by the fuzz target and the corpus replay.

use serde_json::Value;
use toolpost::ContentBlock;
use toolpost::mcp::parsers;

/// Parses `bytes` as a server message, as a tool and as a tool result.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for response in parsers::dispatch_message(text).unwrap_or_default() {
        let response: Value = serde_json::from_str(&response).expect("a response is JSON");
        assert_eq!(response["jsonrpc"], "2.0");
    }
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    if let Some(spec) = parsers::tool(&value) {
        assert_eq!(Value::from(spec.name.as_str()), value["name"]);
        assert!(spec.input_schema.compile().is_ok() && spec.output_schema.compile().is_ok());
    }
    if let Some(envelope) = parsers::result(text.to_owned()) {
        check_result(&value, &serde_json::to_value(&envelope).expect("an envelope is JSON"));
    }
}

/// No data is lost: every block and member of the result is in the envelope.
fn check_result(result: &Value, envelope: &Value) {
    let meta = &envelope["meta"];
    assert_eq!(meta["source"], "mcp");
    for (name, value) in result.as_object().expect("only an object is a result") {
        match name.as_str() {
            "content" => check_blocks(value, &meta["content"]),
            "isError" => {
                assert_eq!(meta["isError"], !matches!(value, Value::Bool(false) | Value::Null));
            }
            "structuredContent" if value.is_null() => {}
            "structuredContent" => {
                assert_eq!((&meta[name], &envelope["data"]), (value, value));
            }
            // A protocol member, not part of the result data.
            "resultType" => {}
            // In an envelope, `source` is the type of the source, so the server's own member is
            // renamed.
            "source" => assert_eq!(&meta["toolpost/source"], value),
            "toolpost/source" => {}
            "_meta" if value.is_null() => {}
            _ => assert_eq!(&meta[name], value, "{name}"),
        }
    }
}

fn check_blocks(sent: &Value, stored: &Value) {
    let sent = match sent {
        Value::Array(blocks) => blocks.clone(),
        Value::Null => Vec::new(),
        other => vec![other.clone()],
    };
    let read = sent.into_iter().map(ContentBlock::from_value).map(ContentBlock::into_value);
    assert_eq!(&read.collect::<Value>(), stored);
}
