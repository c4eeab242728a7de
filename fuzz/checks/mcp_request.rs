//! What holds for any bytes at all; shared by the fuzz target and the replay of its corpus.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::AsyncReadExt;
use toolpost::Identity;
use toolpost_gateway::{Gateway, McpView, builtin};

type Members = HashMap<String, Box<RawValue>>;

/// The longest explanation of what is wrong with a message.
const LONGEST_WORDS: usize = 1_100;

/// Takes `bytes` for everything that a client says to the MCP door, from its first line to its end.
pub(crate) fn check(bytes: &[u8]) {
    // Time is not waited for, so that a call may take as long as it likes.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime without I/O");
    let said = runtime.block_on(serve(bytes));
    let (mut answers, lines) = (0, bytes.split(|byte| *byte == b'\n').count());
    for line in said.lines() {
        // An id is given back as it came, and may be a number that no type holds.
        let message: Members = serde_json::from_str(line).expect("a message is an object");
        answers += check_message(&message);
    }
    assert!(answers <= lines, "{answers} answers to {lines} lines");
}

async fn serve(bytes: &[u8]) -> String {
    let gateway = Gateway::new(builtin::registry());
    let (writer, mut hears) = tokio::io::duplex(64 * 1024);
    let identity = Arc::new(Identity::new("local"));
    let reader = bytes.chain(&b"\n"[..]);
    let (mut said, never) = (String::new(), std::future::pending());
    let serving = gateway.serve_mcp(reader, writer, identity, McpView::default(), never);
    let (_, heard) = tokio::join!(serving, hears.read_to_string(&mut said));
    heard.expect("what is said is UTF-8");
    said
}

/// How many answers a message is: one, or none if it is a notification.
fn check_message(message: &Members) -> usize {
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
        let words = error["message"].as_str().expect("an error is explained");
        assert!(words.len() < LONGEST_WORDS, "{} bytes are said", words.len());
    }
    1
}
