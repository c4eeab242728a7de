//! Texts of denial reasons.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Capabilities, CapabilityRequest, capability};

fn reason(own: &[Value], kind: &str, payload: Option<&str>) -> String {
    let payload = payload.map(|payload| RawValue::from_string(payload.to_owned()).unwrap());
    let capabilities = Capabilities::new(own.iter().map(capability));
    let request = CapabilityRequest::new(kind, payload.as_deref());
    capabilities.check(&request).unwrap_err().to_string()
}

#[test]
fn denial_reason_names_closest_capability() {
    let name = json!({"kind": "mcp/request", "payload": {"params": {"name": "read_*"}}});
    let reads = json!("mcp/request:tools/call:read_*");
    let docs = json!("mcp/request:resources/read:/docs/*");
    let deep = "[".repeat(500) + &"]".repeat(500);
    for (own, kind, payload, expected) in [
        (vec![], "chat", None, "the sender has no capabilities"),
        (
            vec![json!("*")],
            "system/welcome",
            None,
            "`system/welcome` is reserved for the gateway; no capability covers it",
        ),
        (
            vec![json!("chat")],
            "reasoning/start",
            None,
            "`chat` does not cover the kind `reasoning/start`",
        ),
        (
            vec![json!("chat"), json!("x")],
            "y",
            None,
            "none of the 2 capabilities covers the kind `y`",
        ),
        (
            vec![json!({"kind": "chat", "from": "x"})],
            "chat",
            None,
            r#"`{"kind":"chat","from":"x"}` allows nothing: its member `from` is unknown"#,
        ),
        (
            vec![json!("chat"), reads.clone()],
            "mcp/request:tools/call:delete_file",
            None,
            "`mcp/request:tools/call:read_*` does not cover the tool `delete_file`",
        ),
        (
            vec![reads.clone()],
            "mcp/request:tools/call",
            None,
            "`mcp/request:tools/call:read_*` does not cover a message without a tool",
        ),
        (
            vec![reads],
            "mcp/request:tools/list",
            None,
            "`mcp/request:tools/call:read_*` does not cover the method `tools/list`",
        ),
        (
            vec![docs],
            "mcp/request:resources/read:/docs/../x",
            None,
            "`mcp/request:resources/read:/docs/*` does not cover the resource `/docs/../x`: it has a `.` or `..` segment",
        ),
        (
            vec![name.clone()],
            "mcp/request",
            None,
            r#"`{"kind":"mcp/request","payload":{"params":{"name":"read_*"}}}` does not match: there is no payload"#,
        ),
        (
            vec![name.clone()],
            "mcp/request",
            Some(&*deep),
            r#"`{"kind":"mcp/request","payload":{"params":{"name":"read_*"}}}` does not match: the payload cannot be read"#,
        ),
        (
            vec![name.clone()],
            "mcp/request",
            Some(r#"{"params":{}}"#),
            r#"`{"kind":"mcp/request","payload":{"params":{"name":"read_*"}}}` does not match: `payload.params.name` is missing"#,
        ),
        (
            vec![name],
            "mcp/request",
            Some(r#"{"params":{"name":"write"}}"#),
            r#"`{"kind":"mcp/request","payload":{"params":{"name":"read_*"}}}` does not match: `payload.params.name` is `write`"#,
        ),
    ] {
        assert_eq!(reason(&own, kind, payload), expected);
    }
}

#[test]
fn denial_reason_length_is_bounded() {
    let long = "\u{1}✓".repeat(5_000);
    let own = [json!({"kind": "chat", "payload": {"a": "!x"}})];
    let payload = json!({ "a": [&long], &*long: 1 }).to_string();
    assert!(reason(&own, "chat", Some(&payload)).len() < 3_000);
    assert!(reason(&own, &long, None).len() < 3_000);
}
