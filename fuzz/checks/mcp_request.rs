//! What holds for any bytes at all; shared by the fuzz target and the replay of its corpus.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::AsyncReadExt;
use toolpost::Identity;
use toolpost_gateway::{Gateway, McpView, builtin};

type MessageMembers = HashMap<String, Box<RawValue>>;

/// The longest explanation of what is wrong with a message.
const MAX_MESSAGE_LEN: usize = 1_100;

/// Takes `bytes` for everything that a client says to the MCP endpoint, from its first line to its end.
pub(crate) fn check(bytes: &[u8]) {
    // Time is not waited for, so that a call may take as long as it likes.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime without I/O");
    let output = runtime.block_on(serve(bytes));
    let (mut responses, lines) = (0, bytes.split(|byte| *byte == b'\n').count());
    for line in output.lines() {
        // An id is given back as it came, and may be a number that no type holds.
        let message: MessageMembers = serde_json::from_str(line).expect("a message is an object");
        responses += count_responses(&message);
    }
    assert!(responses <= lines, "{responses} answers to {lines} lines");
}

async fn serve(bytes: &[u8]) -> String {
    let gateway = Gateway::new(builtin::registry());
    let (writer, mut reader_half) = tokio::io::duplex(64 * 1024);
    let identity = Arc::new(Identity::new("local"));
    let reader = bytes.chain(&b"\n"[..]);
    let (mut output, never) = (String::new(), std::future::pending());
    let serving = gateway.serve_mcp(reader, writer, identity, McpView::default(), never);
    let (_, read_result) = tokio::join!(serving, reader_half.read_to_string(&mut output));
    read_result.expect("the output is UTF-8");
    output
}

/// How many answers a message is: one, or none if it is a notification.
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
