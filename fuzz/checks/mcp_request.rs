//! Invariants that hold for any input; shared by the fuzz target and the corpus replay.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::AsyncReadExt;
use toolpost::Identity;
use toolpost_gateway::{Gateway, McpView, builtin};

type MessageMembers = HashMap<String, Box<RawValue>>;

/// Maximum length of an error message.
const MAX_MESSAGE_LEN: usize = 1_100;

/// Serves `bytes` as the complete input of a client to the MCP endpoint, and checks the responses.
pub(crate) fn check(bytes: &[u8]) {
    // The clock is paused, so that calls do not wait in real time.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime without I/O");
    let output = runtime.block_on(serve(bytes));
    let (mut responses, lines) = (0, bytes.split(|byte| *byte == b'\n').count());
    for line in output.lines() {
        // Ids are echoed verbatim and can be numbers that no type holds, so members stay raw.
        let message: MessageMembers = serde_json::from_str(line).expect("a message is an object");
        responses += count_responses(&message);
    }
    assert!(responses <= lines, "{responses} responses to {lines} lines");
}

async fn serve(bytes: &[u8]) -> String {
    let gateway = Gateway::builder(builtin::registry()).build().expect("there is no journal");
    let (writer, mut reader_half) = tokio::io::duplex(64 * 1024);
    let identity = Arc::new(Identity::new("local"));
    let reader = bytes.chain(&b"\n"[..]);
    let (mut output, never) = (String::new(), std::future::pending());
    let serving = gateway.serve_mcp(reader, writer, identity, McpView::default(), never);
    let (_, read_result) = tokio::join!(serving, reader_half.read_to_string(&mut output));
    read_result.expect("the output is UTF-8");
    output
}

/// Number of responses in a message: one, or zero for a notification.
fn count_responses(message: &MessageMembers) -> usize {
    assert_eq!(message["jsonrpc"].get(), r#""2.0""#);
    let has = |member: &str| message.contains_key(member);
    if has("method") {
        assert!(!has("id") && !has("result") && !has("error"), "{message:?}");
        return 0;
    }
    assert!(has("id") && has("result") != has("error"), "{message:?}");
    if let Some(error) = message.get("error") {
        let error: Value = serde_json::from_str(error.get()).expect("an error is plain JSON");
        assert!(error["code"].is_i64(), "{error}");
        let text = error["message"].as_str().expect("an error is explained");
        assert!(text.len() < MAX_MESSAGE_LEN, "the error message has {} bytes", text.len());
    }
    1
}
