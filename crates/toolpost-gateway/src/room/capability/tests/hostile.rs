//! Capabilities that are expensive to match, against messages of one megabyte.

use serde_json::{Value, json};

use super::check;

const MEGABYTE: usize = 1024 * 1024;

#[test]
fn kind_matching_is_linear_in_message_length() {
    let a = "a".repeat(MEGABYTE);
    let kind = format!("mcp/request:tools/call:{a}");
    let stars = "a*".repeat(500) + "b";
    for own in [
        json!(format!("mcp/request:tools/call:{stars}")),
        json!(format!("mcp/*{stars}")),
        json!({"kind": format!("mcp/request:tools/call:{}b", "*a?".repeat(300))}),
        json!({"kind": format!("mcp/request:tools/call:{}b", "**/".repeat(300))}),
        json!({"kind": "/:(a|aa|a*)*b$/"}),
    ] {
        assert!(!check(&own, &kind, None, |_| ()), "{own}");
    }
}

#[test]
fn payload_matching_is_linear_in_payload_size() {
    let long = json!({"a": "a".repeat(MEGABYTE)});
    let slashes = json!({"a": "a/".repeat(MEGABYTE / 2)});
    let pieces = json!({"a": vec!["ab".repeat(8 * 1024); 64]});
    let wide = json!({"a": vec![json!([[1]]); MEGABYTE / 6]});
    let deep = (0..100).fold(json!(vec![1; MEGABYTE / 4]), |inner, _| json!([inner, {"x": 1}]));
    let deep = json!({ "a": deep });
    let below = |times: usize| (0..times).fold(json!("b"), |inner, _| json!({ "**": inner }));
    let glob = |text: String| json!({ "a": text });
    for (own, payload) in [
        (glob("a*".repeat(500) + "b"), &long),
        (glob("*a?".repeat(340)), &slashes),
        (glob("?".repeat(1000) + "*"), &slashes),
        (glob("**/a".repeat(250) + "b"), &slashes),
        (glob("/(a*)*b$/".to_owned()), &long),
        (json!({"**": "/(a|b)*b(a|b){100}c/"}), &pieces),
        (json!({"**": "!/(a|b)*a(a|b){100}/"}), &pieces),
        (below(8), &wide),
        (below(8), &deep),
        (json!({"$..*..*..*..*": "b"}), &wide),
        (json!({"$..*..*..*..*": "b"}), &deep),
        (json!({"$..a..*..x..y": 1}), &deep),
        (alternatives(), &wide),
    ] {
        let own = json!({"kind": "chat", "payload": own});
        assert!(!check(&own, "chat", Some(payload), |_| ()), "{own}");
    }
}

fn alternatives() -> Value {
    json!({"**": {"**": [{"**": 2}, {"**": 3}, {"*": {"**": 4}}]}})
}
