//! Responses that differ behind a gateway, by the parameters of the request.

use serde_json::{Value, json};

/// Returns the expected response if it differs from the server's.
pub(super) fn expected_for(params: &str) -> Option<Value> {
    let text = |text: &str| json!({"type": "text", "text": text});
    Some(match params {
        // The gateway validates inputs and rejects unknown tools itself.
        r#"{"name":"echo","arguments":{}}"# => failed(
            "VALIDATION_ERROR: invalid input for everything.echo\n\
             - /message: required property is missing",
            &json!({"code": "VALIDATION_ERROR", "message": "invalid input for everything.echo",
                "details": [{"path": "/message", "message": "required property is missing"}],
                "retryable": false}),
        ),
        r#"{"name":"none","arguments":{}}"# => {
            json!({"error": {"code": "#-32602", "message": "unknown tool"}})
        }
        // A protocol error of a tool call becomes a failed result, which models see.
        r#"{"name":"refuse","arguments":{}}"# => failed(
            "EXECUTION_ERROR: the printer is out of paper\n\
             Details: {\"jsonrpcCode\":-32050,\"data\":{\"tray\":[1,null]}}",
            &json!({"code": "EXECUTION_ERROR", "message": "the printer is out of paper",
                "details": {"jsonrpcCode": "#-32050", "data": {"tray": ["#1", null]}},
                "retryable": false}),
        ),
        // Unknown content blocks are converted to text, because clients may not accept them.
        r#"{"name":"unknown_blocks","arguments":{}}"# => {
            let hologram = r#"{"type":"hologram","data":"AA==","depth":{"of":[3]}}"#;
            json!({"result": {"content": [text("before"), text(hologram), text("after")]}})
        }
        // Properties that the schema does not declare are stripped, unless it allows them.
        r#"{"name":"structured_more","arguments":{}}"# => {
            let repairs = json!([{"path": "/more", "action": "stripped", "from": [null]}]);
            json!({"result": {"content": [text("Bern")], "structuredContent": {"city": "Bern"},
                "_meta": {"toolpost/repairs": repairs}}})
        }
        // Values that cannot be represented: lone surrogates.
        r#"{"name":"lone_surrogates","arguments":{}}"# => {
            json!({"result": {"content": [text("cut \u{fffd} here \u{fffd}")],
                "structuredContent": {"\u{fffd}": "\u{fffd}"}}})
        }
        // The gateway always sends `arguments` to the server.
        r#"{"name":"echo"}"# => json!({"result": {"content": [text("{}")]}}),
        _ => return None,
    })
}

fn failed(message: &str, error: &Value) -> Value {
    json!({"result": {"content": [{"type": "text", "text": message}], "isError": true,
        "_meta": {"toolpost/error": error}}})
}
