//! Oversized responses.

use serde_json::json;
use toolpost::mcp::McpSettings;

use super::fixture::{McpFixture, TransportKind, assert_error};

const MIB: usize = 1 << 20;

/// Returns the peak memory of this process since the last reset, in bytes.
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Resets the peak to the current memory usage.
fn reset_peak_memory() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

#[tokio::test]
async fn response_over_message_bytes_is_rejected_with_bounded_memory() {
    // Peak memory depends on the limit, not on the message size.
    for (transport_kind, behavior) in [
        (TransportKind::Stdio, "huge"),
        (TransportKind::Http, "huge"),
        (TransportKind::Http, "huge-stream"),
    ] {
        let configure = |settings: &mut McpSettings| settings.message_bytes = MIB;
        let fixture = match transport_kind {
            TransportKind::Stdio => McpFixture::stdio(&[behavior, "40"], configure),
            TransportKind::Http => McpFixture::http(&[behavior, "40"], configure),
        };
        fixture.server_info().await;
        reset_peak_memory();
        let before = peak_memory();
        let fragments = ["`x`", "and the limit is 1048576", "`message_bytes`"];
        assert_error(fixture.call("odd", json!({})).await, "EXECUTION_ERROR", &fragments);
        let grown = peak_memory().saturating_sub(before) / MIB;
        assert!(grown < 30, "memory grew by {grown} MiB for {behavior} over {transport_kind:?}");
        fixture.assert_responsive().await;
        fixture.close().await;
    }

    let fixture = McpFixture::ready(TransportKind::Stdio, &["huge", "100"]).await;
    let fragments = ["`x`", "and the limit is 67108864", "`message_bytes`"];
    assert_error(fixture.call("odd", json!({})).await, "EXECUTION_ERROR", &fragments);
    fixture.assert_responsive().await;
    fixture.close().await;

    let fixture =
        McpFixture::stdio(&["huge", "100"], |settings| settings.message_bytes = 101 * MIB);
    fixture.server_info().await;
    let envelope = fixture.call("odd", json!({})).await.unwrap();
    assert_eq!(envelope.data[0]["text"].as_str().unwrap().len(), 100 * MIB);
    fixture.assert_responsive().await;
    fixture.close().await;
}
