//! The conversation in `docs/hub.md`, replayed against a gateway.

use serde_json::Value;

use super::{RawPeer, TestGateway};

#[tokio::test(flavor = "multi_thread")]
async fn hub_doc_conversation_matches_the_gateway() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/hub.md");
    let page = std::fs::read_to_string(page).unwrap();
    let gateway = TestGateway::start().await;
    let mut spoke = RawPeer::connect(&gateway, None).await;
    let mut caller = RawPeer::connect(&gateway, None).await;
    // The hub generates its own ids; the page calls them h1, h2 and so on.
    let mut ids: Vec<(String, String)> = Vec::new();
    let mut compared = 0;
    for line in page.lines() {
        let Some((peer_label, frame)) = line.split_once(' ') else { continue };
        let (peer, is_sent) = match peer_label {
            "spoke>" | "spoke<" => (&mut spoke, peer_label == "spoke>"),
            "caller>" | "caller<" => (&mut caller, peer_label == "caller>"),
            _ => continue,
        };
        let received = if is_sent { None } else { Some(peer.next_event().await) };
        if let Some(received) = &received {
            record_ids(&mut ids, frame, received);
        }
        let frame = ids.iter().fold(frame.to_owned(), |frame, (page, real)| {
            frame.replace(&format!("\"{page}\""), &format!("\"{real}\""))
        });
        let mut frame: Value = serde_json::from_str(&frame).unwrap_or_else(|_| panic!("{line}"));
        let Some(mut received) = received else {
            peer.send_frame(&frame).await;
            continue;
        };
        mask_timestamps(&mut frame);
        mask_timestamps(&mut received);
        assert_eq!(received, frame);
        compared += 1;
    }
    assert!(compared > 10, "only {compared} frames were compared");
    drop((spoke, caller));
    gateway.stop().await;
}

/// Records the actual id for a placeholder id of the page.
fn record_ids(ids: &mut Vec<(String, String)>, frame: &str, received: &Value) {
    let page: Value = serde_json::from_str(frame).unwrap();
    let (Some(page), Some(real)) = (page["id"].as_str(), received["id"].as_str()) else { return };
    if page.starts_with('h') && !ids.iter().any(|(known, _)| known == page) {
        ids.push((page.to_owned(), real.to_owned()));
    }
}

/// Replaces time values in a frame with null.
fn mask_timestamps(frame: &mut Value) {
    match frame {
        Value::Object(members) => {
            for (name, value) in members {
                match name.as_str() {
                    "timestamp" | "deadline" | "timeoutMs" => *value = Value::Null,
                    _ => mask_timestamps(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_timestamps),
        _ => {}
    }
}
