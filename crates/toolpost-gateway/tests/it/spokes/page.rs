//! The conversation in `docs/hub.md`, said to a gateway as it is written.

use serde_json::Value;

use super::{Raw, Running};

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_is_said() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/hub.md");
    let page = std::fs::read_to_string(page).unwrap();
    let gateway = Running::start().await;
    let mut spoke = Raw::connect(&gateway, None).await;
    let mut caller = Raw::connect(&gateway, None).await;
    // The hub's own ids are made up; the page calls them h1, h2 and so on.
    let mut ids: Vec<(String, String)> = Vec::new();
    let mut compared = 0;
    for line in page.lines() {
        let Some((who, frame)) = line.split_once(' ') else { continue };
        let peer = match who.trim_end_matches(['<', '>']) {
            "spoke" => &mut spoke,
            "caller" => &mut caller,
            _ => continue,
        };
        let heard = if who.ends_with('>') { None } else { Some(peer.next().await) };
        if let Some(heard) = &heard {
            learn(&mut ids, frame, heard);
        }
        let frame = ids.iter().fold(frame.to_owned(), |frame, (page, real)| {
            frame.replace(&format!("\"{page}\""), &format!("\"{real}\""))
        });
        let mut frame: Value = serde_json::from_str(&frame).unwrap_or_else(|_| panic!("{line}"));
        let Some(mut heard) = heard else {
            peer.say_frame(&frame).await;
            continue;
        };
        still(&mut frame);
        still(&mut heard);
        assert_eq!(heard, frame);
        compared += 1;
    }
    assert!(compared > 10, "only {compared} frames were compared");
    drop((spoke, caller));
    gateway.stop().await;
}

/// Notes which id stands behind the page's name for it.
fn learn(ids: &mut Vec<(String, String)>, frame: &str, heard: &Value) {
    let page: Value = serde_json::from_str(frame).unwrap();
    let (Some(page), Some(real)) = (page["id"].as_str(), heard["id"].as_str()) else { return };
    if page.starts_with('h') && !ids.iter().any(|(known, _)| known == page) {
        ids.push((page.to_owned(), real.to_owned()));
    }
}

/// Stops the clocks in a frame.
fn still(frame: &mut Value) {
    match frame {
        Value::Object(members) => {
            for (name, value) in members {
                match name.as_str() {
                    "timestamp" | "deadline" | "timeoutMs" => *value = Value::Null,
                    _ => still(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(still),
        _ => {}
    }
}
