//! Request bodies: deeply nested, huge, ambiguous or not JSON.

use toolpost_gateway::GatewaySettings;

use super::super::{BackgroundClient, TestGateway, resident_kib};
use super::McpTester;

/// Deep enough to overflow the stack of a recursive parser.
const NESTING_DEPTH: usize = 100_000;

fn request_json(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

fn bytes(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Each row: a description, the body, and the expected status, error code and part of the message.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_mcp_messages_are_rejected_with_reason() {
    let list = format!("{}{}", "[".repeat(NESTING_DEPTH), "]".repeat(NESTING_DEPTH));
    let object = format!("{}1{}", r#"{"a":"#.repeat(NESTING_DEPTH), "}".repeat(NESTING_DEPTH));
    let add = |arguments: &str| {
        request_json("tools/call", &format!(r#"{{"name":"demo__add","arguments":{arguments}}}"#))
    };
    let meta = |meta: &str| request_json("tools/list", &format!(r#"{{"_meta":{meta}}}"#));
    let with_id = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let ping = with_id("1");
    let batch = |count: usize| format!("[{}]", vec![ping.as_str(); count].join(","));
    let long = "x".repeat(1_000_000);
    let good = (200, 0, r#""result""#);
    let ids = (400, -32_600, "`id` must be a string or a number of at most 256 bytes");
    let rows: Vec<(&str, Vec<u8>, (u16, i64, &str))> = vec![
        ("valid request", ping.clone().into(), good),
        ("a call", add(r#"{"a":1,"b":2}"#).into(), (200, 0, r#"{"sum":3}"#)),
        // Depth.
        ("nested arrays", list.clone().into(), (200, 0, "a message must be an object")),
        ("nested objects", object.clone().into(), (400, -32_600, "`jsonrpc` must be")),
        ("nested params", request_json("ping", &object).into(), good),
        (
            "nested array params",
            request_json("ping", &list).into(),
            (400, -32_602, "must be an object"),
        ),
        ("nested arguments", add(&object).into(), (200, 0, "VALIDATION_ERROR")),
        ("nested array arguments", add(&list).into(), (200, 0, "VALIDATION_ERROR")),
        (
            "nested argument value",
            add(&format!(r#"{{"a":{list},"b":1}}"#)).into(),
            (200, 0, "VALIDATION_ERROR"),
        ),
        ("nested _meta", meta(&object).into(), good),
        (
            "nested progress token",
            meta(&format!(r#"{{"progressToken":{list}}}"#)).into(),
            (400, -32_602, "progressToken"),
        ),
        (
            "nested cursor",
            request_json("tools/list", &format!(r#"{{"cursor":{list}}}"#)).into(),
            (400, -32_602, "`params` cannot be read"),
        ),
        (
            "nested name",
            request_json("tools/call", &format!(r#"{{"name":{list}}}"#)).into(),
            (400, -32_602, "`params` cannot be read"),
        ),
        ("nested id", with_id(&list).into(), ids),
        (
            "nested method",
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":{list}}}"#).into(),
            (400, -32_600, "`method` must be a string"),
        ),
        (
            "nested version",
            format!(r#"{{"jsonrpc":{list},"id":1,"method":"ping"}}"#).into(),
            (400, -32_600, "`jsonrpc` must be"),
        ),
        ("nested unknown member", format!(r#"{{"x":{list},{}"#, &ping[1..]).into(), good),
        (
            "nested protocol version",
            request_json("initialize", &format!(r#"{{"protocolVersion":{list}}}"#)).into(),
            good,
        ),
        (
            "nested prompt arguments",
            request_json("prompts/get", &format!(r#"{{"name":"x__y","arguments":{object}}}"#))
                .into(),
            (200, -32_602, ""),
        ),
        (
            "nested completion params",
            request_json("completion/complete", &object).into(),
            (200, -32_602, ""),
        ),
        (
            "nested cancellation params",
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{object}}}"#)
                .into(),
            (202, 0, ""),
        ),
        ("unclosed arrays", "[".repeat(NESTING_DEPTH).into(), (400, -32_700, "invalid batch")),
        (
            "unclosed objects",
            r#"{"a":"#.repeat(NESTING_DEPTH).into(),
            (400, -32_700, "cannot be read"),
        ),
        // Ids.
        ("a long id", with_id(&format!("\"{long}\"")).into(), ids),
        ("long number as an id", with_id(&"9".repeat(1_000)).into(), ids),
        ("a list as an id", with_id("[1]").into(), ids),
        ("an object as an id", with_id("{}").into(), ids),
        ("true as an id", with_id("true").into(), ids),
        ("null as an id", with_id("null").into(), ids),
        ("a float as an id", with_id("1.50").into(), (200, 0, r#""id":1.50,"#)),
        ("number out of range as an id", with_id("1e99999").into(), (200, 0, r#""id":1e99999,"#)),
        ("lone surrogate as an id", with_id(r#""\ud800""#).into(), (200, 0, r#""id":"\ud800","#)),
        // Members.
        (
            "a number as a method",
            r#"{"jsonrpc":"2.0","id":1,"method":1}"#.into(),
            (400, -32_600, "`method` must be a string"),
        ),
        (
            "lone surrogate as a method",
            r#"{"jsonrpc":"2.0","id":1,"method":"\udfff"}"#.into(),
            (400, -32_600, "`method` must be a string"),
        ),
        ("no method", r#"{"jsonrpc":"2.0","id":1}"#.into(), (400, -32_600, "`method` is missing")),
        (
            "an unknown method",
            request_json("tools/destroy", "{}").into(),
            (200, -32_601, "unknown method `tools/destroy`"),
        ),
        ("a long method", request_json(&long, "{}").into(), (200, -32_601, "unknown method `xxx")),
        (
            "duplicate method",
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#.into(),
            (400, -32_600, "duplicate field `method`"),
        ),
        (
            "duplicate id",
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#.into(),
            (400, -32_600, "duplicate field `id`"),
        ),
        (
            "duplicate params",
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}"#.into(),
            (400, -32_600, "duplicate field `params`"),
        ),
        (
            "duplicate name",
            request_json("tools/call", r#"{"name":"demo__add","name":"demo__fail"}"#).into(),
            (400, -32_602, "duplicate field `name`"),
        ),
        (
            "array instead of an object",
            r#"[["2.0",1,"ping",{},{},{}]]"#.into(),
            (200, 0, "a message must be an object"),
        ),
        (
            "another version",
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.into(),
            (400, -32_600, "`jsonrpc` must be"),
        ),
        (
            "object as traceparent",
            meta(&format!(r#"{{"traceparent":{{"{long}":1}}}}"#)).into(),
            (400, -32_602, "`params` cannot be read"),
        ),
        (
            "a long token",
            meta(&format!(r#"{{"progressToken":"{long}"}}"#)).into(),
            (400, -32_602, "at most 256 bytes"),
        ),
        (
            "a long cursor",
            request_json("tools/list", &format!(r#"{{"cursor":"{long}"}}"#)).into(),
            (200, -32_602, "cursor"),
        ),
        (
            "a long name",
            request_json("tools/call", &format!(r#"{{"name":"{long}"}}"#)).into(),
            (200, -32_602, "unknown tool"),
        ),
        (
            "no name",
            request_json("tools/call", "{}").into(),
            (200, -32_602, "`params.name` must be"),
        ),
        (
            "long string instead of a message",
            format!("\"{long}\"").into(),
            (400, -32_600, "cannot be read"),
        ),
        // Batches of a client that sends no version, and so may use the version that supports them.
        (
            "an empty batch",
            "[]".into(),
            (400, -32_600, "a batch must have between 1 and 100 messages"),
        ),
        ("a batch", batch(100).into(), good),
        ("a large batch", batch(101).into(), (400, -32_600, "between 1 and 100")),
        ("a huge batch", batch(10_000).into(), (400, -32_600, "between 1 and 100")),
        (
            "batch with initialize",
            format!("[{}]", request_json("initialize", "{}")).into(),
            (200, 0, "must not be part of a batch"),
        ),
        ("batch of invalid messages", "[1,{},[],\"x\"]".into(), (200, 0, "-32600")),
        ("truncated batch", "[{}".into(), (400, -32_700, "invalid batch")),
        // Bytes.
        ("empty body", Vec::new(), (400, -32_700, "cannot be read")),
        ("NUL byte", vec![0], (400, -32_700, "cannot be read")),
        (
            "byte order mark",
            bytes(&[b"\xef\xbb\xbf", ping.as_bytes()]),
            (400, -32_700, "cannot be read"),
        ),
        (
            "UTF-16",
            ping.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            (400, -32_700, "cannot be read"),
        ),
        (
            "invalid UTF-8 in params",
            bytes(&[
                br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":""#,
                b"\xff",
                br#""}}"#,
            ]),
            (400, -32_700, "cannot be read"),
        ),
        (
            "invalid UTF-8 in a method",
            bytes(&[br#"{"jsonrpc":"2.0","id":1,"method":""#, b"\xc0\x80", br#""}"#]),
            (400, -32_700, "cannot be read"),
        ),
        (
            "lone surrogate in an argument",
            add(r#"{"a":"\ud800","b":1}"#).into(),
            (200, 0, "VALIDATION_ERROR"),
        ),
        ("two messages", format!("{ping}{ping}").into(), (400, -32_700, "trailing characters")),
        ("truncated message", ping[..20].into(), (400, -32_700, "cannot be read")),
        (
            "body above the limit",
            vec![b' '; 5_000_000],
            (413, 0, "the body exceeds the limit of 4194304 bytes"),
        ),
    ];
    let gateway = TestGateway::start_with([], GatewaySettings::default()).await;
    let healthy_client = BackgroundClient::start(&gateway);
    let tester = McpTester::new(&gateway);
    let before = resident_kib();
    let mut wrong = Vec::new();
    for (what, body, expected) in rows {
        let verdict = tester.post(&[], body).await;
        assert!(verdict.text.len() < 20_000, "{what}: {} bytes are said", verdict.text.len());
        verdict.check(what, expected, &mut wrong);
    }
    eprintln!("bad messages: {before} KiB before, {} KiB after", resident_kib());
    eprintln!("{} calls beside them", healthy_client.stop().await);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(gateway.stop().await.in_time);
}
