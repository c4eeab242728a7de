//! Matching rules that the case files do not cover.

use serde_json::{Value, json};

use super::{Capability, allows, allows_to};

#[test]
fn string_capabilities_match_kind_parts() {
    for (own, kind, expected) in [
        ("mcp/request", "mcp/request:tools/call:x", true),
        ("mcp/request", "mcp/requests", false),
        ("mcp/request", "mcp/request", true),
        ("mcp/request:*", "mcp/request", true),
        ("mcp/request:*:*", "mcp/request:tools/list", true),
        ("mcp/request:*/list", "mcp/request:tools/list:x", true),
        ("mcp/request:*/list", "mcp/request:tools/call:x/list", false),
        ("mcp/*/list", "mcp/request:tools/list", true),
        ("mcp/*/list", "mcp/request:tools/call:x/list", false),
        ("*list", "mcp/request:tools/call:list", false),
        ("mcp/*:tools/call", "mcp/proposal:tools/call:x", true),
        ("mcp/*:tools/call:x", "mcp/proposal:tools/call:x", true),
        ("*:tools/call:x", "mcp/proposal:tools/call:x", true),
        ("mcp/request:tools/call:a*", "mcp/request:tools/call", false),
        ("mcp/request:tools/call:*a", "mcp/request:tools/call:b:a", true),
        (
            "mcp/request:resources/read:file:///a/*",
            "mcp/request:resources/read:file:///a/b:c",
            true,
        ),
        ("mcp/request:resources/read:/a/*", "mcp/request:resources/read:/a/../b", false),
        ("mcp/request:resources/read:/a/*", "mcp/request:resources/read:/a/%252e%252E/b", false),
        ("mcp/request:resources/read:/a/../b", "mcp/request:resources/read:/a/../b", true),
        ("mcp/request:resources/read:*", "mcp/request:resources/read:/a/../b", true),
        ("mcp/request:resources/read", "mcp/request:resources/read:/a/../b", true),
        ("mcp/request:resources/read:a%20b", "mcp/request:resources/read:a%2520b", true),
        ("mcp/request:resources/read:a%20b", "mcp/request:resources/read:a%20b", true),
        ("mcp/request:tools/call:a%2Ab", "mcp/request:tools/call:a%2Ab", true),
        ("mcp/request:tools/call:a%2Ab", "mcp/request:tools/call:axb", false),
        ("chat", "chat:x", false),
        ("chat:*", "chat:x", true),
        ("chat*", "chat/acknowledge", true),
        ("chat/*", "chat", false),
        ("*", "", true),
        ("system/*", "system/welcome", false),
        ("*", "system", false),
        ("*", "System/Welcome", false),
        ("*", "systems/x", true),
    ] {
        assert_eq!(allows(&json!(own), kind, None), expected, "{own} {kind}");
    }
}

#[test]
fn kind_patterns_match_kinds() {
    for (own, kind, expected) in [
        (json!("mcp/*"), "mcp/request:tools/call:x", true),
        (json!("*"), "mcp/request:resources/read:/a/b", true),
        (json!("**"), "a/b/c", true),
        (json!("mcp/request:tools/call"), "mcp/request:tools/call:x", true),
        (json!("mcp/request:tools/call:read_*"), "mcp/request:tools/call:read_x", true),
        (json!("mcp/request:tools/call:read_*"), "mcp/request:tools/call:write_x", false),
        (json!("mcp/request:tools/*"), "mcp/request:tools/call:x", true),
        (json!("mcp/request:*"), "mcp/request:tools/call:x", true),
        (json!("mcp/request:resources/read:/a/*"), "mcp/request:resources/read:/a/b/c", false),
        (json!("mcp/request:resources/read:/a/**"), "mcp/request:resources/read:/a/b/c", true),
        (json!("chat:x"), "chat:x", true),
        (json!("!mcp/request"), "mcp/request:tools/call:x", false),
        (json!("!mcp/request:tools/call"), "mcp/request:tools/list", true),
        (json!("!mcp/request:tools/call"), "mcp/request:tools/call:x", false),
        (json!("!mcp/*"), "mcp/request:tools/call:x", false),
        (json!("!chat"), "system/presence", false),
        (json!("/proposal/"), "mcp/request:tools/call:proposal", false),
        (json!("/(?i:proposal)/"), "mcp/request:tools/call:proposal", false),
        (json!("/[[:alpha:]]+posal/"), "mcp/request:tools/call:proposal", false),
        (json!("/[:x]proposal/"), "mcp/request:tools/call:proposal", true),
        (json!("/(?i:PROPOSAL)/"), "mcp/proposal:tools/call:x", true),
        (json!("/^mcp\\/(?:request|proposal)$/"), "mcp/proposal:tools/call:x", true),
        (json!("/^mcp\\/request:tools\\/call:read_/"), "mcp/request:tools/call:read_x", true),
        (json!("!/^mcp/"), "mcp/request", false),
        (json!("!/^mcp/x/"), "chat", true),
        (json!(["chat", "!mcp/*"]), "reasoning/start", true),
    ] {
        assert_eq!(allows(&json!({ "kind": own }), kind, None), expected, "{own} {kind}");
    }
}

#[test]
fn payload_patterns_match_payloads() {
    for (own, payload, expected) in [
        (json!({"a": "!x"}), json!({"a": 1}), false),
        (json!({"a": "!x"}), json!({"a": "y"}), true),
        (json!({"a": "!x"}), json!({"a": "../y"}), false),
        (json!({"a": "!x/**"}), json!({"a": "x"}), false),
        (json!({"a": "!/^x/"}), json!({"a": "xy"}), false),
        (json!({"a": "!/^x/"}), json!({"a": "yx"}), true),
        (json!({"a": "/^x/"}), json!({"a": "x/../y"}), false),
        (json!({"a": "/"}), json!({"a": "anything"}), false),
        (json!({"a": "//"}), json!({"a": "anything"}), false),
        (json!({"a": "b*"}), json!({"a": ["bc"]}), false),
        (json!({"a": "1"}), json!({"a": 1}), false),
        (json!({"a": 1}), json!({"a": "1"}), false),
        (json!({"a": 1}), json!({"a": 1.0}), true),
        (json!({"a": 1}), json!({"a": true}), false),
        (json!({"a": 9_007_199_254_740_993_u64}), json!({"a": 9_007_199_254_740_992.0}), false),
        (json!({"a": 0}), json!({"a": -0.0}), true),
        (json!({"a": 0.5}), json!({"a": 0.5}), true),
        (json!({"a": null}), json!({"a": null}), true),
        (json!({"a": null}), json!({}), false),
        (json!({"a": []}), json!({"a": []}), false),
        (json!({"a": [1, {"b": "c"}]}), json!({"a": {"b": "c"}}), true),
        (json!({"a": {}}), json!({"a": []}), false),
        (json!({"a*": 1}), json!({"ab": 2, "ac": 1}), true),
        (json!({"a*": 1}), json!({"ab": 2, "b": 1}), false),
        (json!({"**": "x"}), json!({"a": [{"b": "x"}]}), true),
        (json!({"**": "x"}), json!({"x": 1}), false),
        (json!({"**": {"a": 1}}), json!({"a": 1}), true),
        (json!({"**": {"a": {"**": {"b": 1}}}}), json!({"z": {"a": {"q": [[{"b": 1}]]}}}), true),
        (json!({"**": {"a": {"**": {"b": 1}}}}), json!({"z": {"b": 1, "a": []}}), false),
        (json!({"$.a[1].b": 1}), json!({"a": [0, {"b": 1}]}), true),
        (json!({"$.a[1].b": 1}), json!({"a": [{"b": 1}]}), false),
        (json!({"$.a[0]": 1}), json!({"a": {"0": 1}}), false),
        (json!({"$..b": 1}), json!({"a": [{"b": 1}]}), true),
        (json!({"$..b": 1}), json!({"b": 2}), false),
        (json!({"$..a..b": 1}), json!({"b": 1, "a": {"c": {"b": 1}}}), true),
        (json!({"$..*": 7}), json!({"a": [[7]]}), true),
        (json!({"$['a b'].*": 7}), json!({"a b": {"c": 7}}), true),
        (json!({"$": {"a": 1}}), json!({"a": 1}), true),
        (json!({"p": {"$.q": 1}}), json!({"p": {"q": 1}}), true),
        (json!({"p": {"$.q": 1}}), json!({"q": 1}), false),
        (json!({"p": "/public/**"}), json!({"p": "/public/%2e%2e/x"}), false),
        (json!({"p": "/public/**"}), json!({"p": "/public\\..\\x"}), false),
        (json!({"p": "/public/**"}), json!({"p": "/public/..%2fx"}), false),
        (json!({"p": "**"}), json!({"p": "/public/../x"}), true),
        (json!({"p": "*"}), json!({"p": ".."}), true),
        (json!([{"a": 1}, {"a": 2}]), json!({"a": 2}), true),
        (json!("x*"), json!("xy"), true),
        (json!({}), json!("text"), true),
    ] {
        let pattern = json!({"kind": "chat", "payload": own});
        assert_eq!(allows(&pattern, "chat", Some(&payload)), expected, "{own} {payload}");
    }
}

#[test]
fn top_level_json_paths_resolve_into_payload() {
    let message = json!({"method": "x", "params": {"name": "y"}});
    for (path, value, expected) in [
        ("$.payload.method", json!("x"), true),
        ("$['payload'].params.name", json!("y"), true),
        ("$.payload.params.name", json!("z"), false),
        ("$..name", json!("y"), true),
    ] {
        let own = json!({"kind": "chat", path: value});
        assert_eq!(allows(&own, "chat", Some(&message)), expected, "{path}");
    }
}

#[test]
fn unknown_member_denies_everything() {
    for member in ["from", "Payload", "payloads", "expires"] {
        let own = json!({"kind": "*", member: "x"});
        assert!(!allows(&own, "chat", None), "{member}");
        assert_eq!(Capability::compile(&own).unwrap().unknown_member(), Some(member));
    }
    for member in ["id", "name", "description"] {
        assert!(allows(&json!({"kind": "chat", member: "x"}), "chat", None), "{member}");
    }
}

#[test]
fn invalid_capability_reports_error() {
    let deep = (0..40).fold(json!(1), |inner, _| json!({ "a": inner }));
    let regexes: Vec<String> = (0..20).map(|number| format!("/{number}/")).collect();
    for (value, expected) in [
        (json!(1), "a capability is a string"),
        (json!(null), "a capability is a string"),
        (json!(["chat"]), "a capability is a string"),
        (json!(""), "empty"),
        (json!("mcp/request:"), "empty"),
        (json!("mcp/request:tools/call:"), "empty"),
        (json!("x".repeat(1025)), "1024 bytes"),
        (json!({}), "needs `kind`"),
        (json!({"payload": {}}), "needs `kind`"),
        (json!({"kind": 1}), "needs `kind`"),
        (json!({"kind": []}), "needs `kind`"),
        (json!({"kind": ["chat", 1]}), "needs `kind`"),
        (json!({"kind": ""}), "empty"),
        (json!({"kind": "!"}), "after `!` is empty"),
        (json!({"kind": "!!x"}), "double negation"),
        (json!({"kind": "!{a,b}"}), "braces"),
        (json!({"kind": "/(/"}), "regular expression `(`"),
        (json!({"kind": "/a(?=b)/"}), "regular expression"),
        (json!({"kind": "/(\\w{100}){100}/"}), "regular expression"),
        (json!({"kind": "x", "payload": {"$.a[?(@.b)]": 1}}), "`[?(@.b)]`"),
        (json!({"kind": "x", "$.kind": "x"}), "select a part of `$.payload`"),
        (json!({"kind": "x", "$..*": "x"}), "select a part of `$.payload`"),
        (json!({"kind": "x", "$schema": "x"}), "`schema`"),
        (json!({"kind": "x", "payload": deep}), "32 levels"),
        (json!({"kind": "x", "payload": vec![1; 300]}), "256 parts"),
        (json!({"kind": "x", "payload": regexes}), "16 regular expressions"),
        (json!({"kind": "x", "payload": vec!["y".repeat(1000); 20]}), "16384"),
        (
            json!({"kind": "x", "payload": {"$..a..b..c..d..e..f..g..h..i": 1}}),
            "8 descendant searches",
        ),
    ] {
        let error = Capability::compile(&value).unwrap_err().to_string();
        assert!(error.contains(expected), "{value}: {error}");
    }
}

#[test]
fn parse_accepts_patterns_as_json_text() {
    let own = Capability::parse(r#" {"kind": "chat"}"#).unwrap();
    assert_eq!(own.value(), &json!({"kind": "chat"}));
    assert_eq!(Capability::parse("chat").unwrap().value(), &json!("chat"));
    let error = Capability::parse("{kind").unwrap_err().to_string();
    assert_eq!(error, "the pattern is not JSON");
}

#[test]
fn too_deeply_nested_payload_matches_no_pattern() {
    let payload =
        serde_json::value::RawValue::from_string("[".repeat(127) + &"]".repeat(127)).unwrap();
    let deeper: Value = json!({"kind": "chat", "payload": {"**": "x"}});
    assert!(!allows(&deeper, "chat", Some(&serde_json::to_value(&payload).unwrap())));
}

#[test]
fn addressees_must_all_be_in_the_list() {
    for (own, to, expected) in [
        (json!("ada"), &["ada"][..], true),
        (json!("ada"), &["ada", "ada"], true),
        (json!("ada"), &["bob"], false),
        (json!("ada"), &["ada", "bob"], false),
        (json!("ada"), &[], false),
        (json!(["ada", "bob"]), &["bob", "ada"], true),
        (json!(["ada", "tool-*"]), &["tool-1", "ada"], true),
        (json!("tool-*"), &["tool", "tool-1"], false),
        (json!("tool-?"), &["tool-1"], false),
        (json!("*"), &["anyone"], true),
        (json!("*"), &[], false),
        (json!("!ada"), &["bob"], false),
    ] {
        let extended = "mcp/request:tools/call:read_x";
        for kind in ["mcp/request", "mcp/request:tools/call:read_*"] {
            let own = json!({"kind": kind, "to": own});
            assert_eq!(allows_to(&own, extended, to), expected, "{own} {to:?}");
            assert!(!allows_to(&own, "mcp/request:tools/list", to) || kind == "mcp/request");
            assert!(!allows_to(&own, "chat", to), "{own}");
        }
        assert!(allows_to(&json!("mcp/request"), extended, to), "without `to`, any addressee");
    }
    for to in [json!([]), json!(""), json!([""]), json!(7), json!({"a": 1}), json!([["a"]])] {
        let error = Capability::compile(&json!({"kind": "chat", "to": to})).unwrap_err();
        assert!(error.to_string().contains("`to`"), "{to}: {error}");
    }
}
