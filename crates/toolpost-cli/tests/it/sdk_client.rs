//! The MCP client of the npm package `@modelcontextprotocol/sdk`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::mcp::everything;
use super::process::output_of;

/// Calls a tool through an MCP endpoint after listing the tools, and returns the result.
pub(super) fn call_tool(url: &str, name: &str, arguments: &Value) -> Value {
    let [node, _] = everything();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(node);
    command.arg(root.join("crates/toolpost-gateway/tests/clients/sdk1.mjs"));
    command.arg(std::fs::canonicalize(root.join(".cache/clients")).unwrap());
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = piped.spawn().unwrap();
    let calls = json!([{"name": name, "arguments": arguments}]);
    let job = json!({"url": url, "era": "legacy", "calls": calls});
    writeln!(client.stdin.take().unwrap(), "{job}").unwrap();
    let output = output_of(client);
    let found = super::json(&output);
    let result = &found["answers"][0]["result"];
    assert!(result.is_object(), "{found} {}", super::stderr(&output));
    result.clone()
}
