//! Answers that are too large.

use serde_json::json;
use toolpost::mcp::McpSettings;

use super::rig::{Rig, Way, says};

const MIB: usize = 1 << 20;

/// The most that this process held in memory, in bytes, since it was last forgotten.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Makes what is held now the most that was held.
fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

#[tokio::test]
async fn a_hundred_megabytes_are_refused_by_name_and_taken_when_it_is_allowed() {
    // Memory is bounded by the limit, and not by the message.
    for (way, behavior) in [(Way::Stdio, "huge"), (Way::Http, "huge"), (Way::Http, "huge-stream")] {
        let settle = |settings: &mut McpSettings| settings.message_bytes = MIB;
        let rig = match way {
            Way::Stdio => Rig::stdio(&[behavior, "40"], settle),
            Way::Http => Rig::http(&[behavior, "40"], settle),
        };
        rig.found().await;
        forget_peak();
        let before = peak();
        let words = ["`x`", "and 1048576 are allowed", "`message_bytes`"];
        says(rig.call("odd", json!({})).await, "EXECUTION_ERROR", &words);
        let grown = peak().saturating_sub(before) / MIB;
        assert!(grown < 30, "{grown} MiB more for {behavior} over {way:?}");
        rig.is_well().await;
        rig.close().await;
    }

    let rig = Rig::ready(Way::Stdio, &["huge", "100"]).await;
    let words = ["`x`", "and 67108864 are allowed", "`message_bytes`"];
    says(rig.call("odd", json!({})).await, "EXECUTION_ERROR", &words);
    rig.is_well().await;
    rig.close().await;

    let rig = Rig::stdio(&["huge", "100"], |settings| settings.message_bytes = 101 * MIB);
    rig.found().await;
    let envelope = rig.call("odd", json!({})).await.unwrap();
    assert_eq!(envelope.data[0]["text"].as_str().unwrap().len(), 100 * MIB);
    rig.is_well().await;
    rig.close().await;
}
