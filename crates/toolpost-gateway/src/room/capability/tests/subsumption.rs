//! Subsumption between capabilities, and properties that hold for every capability.

use proptest::prelude::*;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::{Capabilities, Capability, CapabilityRequest, allows, capability};

#[test]
fn wider_capability_covers_narrower_capability() {
    let calls = |name: Value| json!({"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": name}}});
    let kind = |kind: &str| json!({ "kind": kind });
    let to = |to: Value| json!({"kind": "chat", "to": to});
    let payload = |payload: Value| json!({"kind": "chat", "payload": payload});
    for (wide, narrow, expected) in [
        (json!("*"), json!("mcp/request:tools/call:x"), true),
        (json!("*"), calls(json!("x")), true),
        (kind("*"), json!("*"), true),
        (json!("*"), kind("*"), true),
        (kind("*"), kind("!chat"), true),
        (json!("mcp/*"), json!("mcp/request:tools/call:x"), true),
        (json!("mcp/*"), json!("*"), false),
        (json!("mcp/request"), json!("mcp/request:tools/*"), true),
        (json!("mcp/request:*"), json!("mcp/request"), true),
        (json!("mcp/request:tools/*"), json!("mcp/request"), false),
        (json!("mcp/request:tools/*"), json!("mcp/request:tools/call:x"), true),
        (json!("mcp/request:tools/call"), json!("mcp/request:tools/call:*"), true),
        (json!("mcp/request:tools/call:*"), json!("mcp/request:tools/call"), true),
        (json!("mcp/request:tools/call:a*"), json!("mcp/request:tools/call"), false),
        (json!("mcp/request:tools/call:a*"), json!("mcp/request:tools/call:ab*"), true),
        (json!("mcp/request:tools/call:ab*"), json!("mcp/request:tools/call:a*"), false),
        (json!("mcp/request:*/list"), json!("mcp/request:tools/list"), true),
        (json!("mcp/*/list"), json!("mcp/*s/list"), true),
        (json!("mcp/request:*/list"), json!("mcp/*/list"), false),
        (json!("chat*"), json!("chat:x"), true),
        (json!("chat"), kind("chat"), true),
        (kind("chat"), json!("chat"), true),
        (kind("mcp/*"), json!("mcp/request:tools/call"), true),
        (kind("mcp/*"), json!("mcp/*"), false),
        (kind("!chat"), kind("!chat"), true),
        (kind("!chat"), kind("reasoning/start"), true),
        (kind("!chat"), kind("chat"), false),
        (kind("!chat"), kind("mcp/request"), false),
        (kind("/^mcp/"), kind("chat"), false),
        (kind("/^mcp\\/re/"), kind("mcp/request"), true),
        (json!({"kind": ["a", "b"]}), json!({"kind": ["b", "a"]}), true),
        (json!({"kind": ["a", "b"]}), json!({"kind": ["b", "c"]}), false),
        (json!("mcp/request:tools/call"), calls(json!("x")), true),
        (json!("mcp/request:tools/call:read_*"), calls(json!("read_*")), true),
        (json!("mcp/request:tools/call:read_*"), calls(json!("read_x")), true),
        (json!("mcp/request:tools/call:read_*"), calls(json!(["read_x", "read_y"])), true),
        (json!("mcp/request:tools/call:read_*"), calls(json!(["read_x", "write_y"])), false),
        (json!("mcp/request:tools/call:read_*"), calls(json!("!read_x")), false),
        (json!("mcp/request:tools/call:read_*"), calls(json!("read_/../x")), false),
        (calls(json!("read_*")), json!("mcp/request:tools/call:read_*"), false),
        (calls(json!("read_**")), json!("mcp/request:tools/call:read_*"), true),
        (calls(json!("read_*")), json!("mcp/request:tools/call:read_x"), true),
        (calls(json!("read_*")), json!("mcp/request:tools/call"), false),
        (calls(json!("!write_*")), json!("mcp/request:tools/call:read_x"), true),
        (calls(json!("**5")), json!("mcp/request:tools/call:*5"), false),
        (calls(json!("%")), json!("mcp/request:tools/call:%25"), true),
        (json!("mcp/request:tools/call:%25"), calls(json!("%")), true),
        (calls(json!("read_*")), calls(json!("read_a*")), true),
        (kind("mcp/request"), calls(json!("x")), true),
        (calls(json!("x")), kind("mcp/request"), false),
        (
            json!("mcp/response:tools/call"),
            json!({"kind": "mcp/response", "payload": {"method": "tools/call"}}),
            false,
        ),
        (payload(json!({"a": {}})), payload(json!({"a": {"b": 1}})), true),
        (payload(json!({"a": {"b": 1}})), payload(json!({"a": {}})), false),
        (payload(json!({"a": [1, 2]})), payload(json!({"a": 1})), true),
        (payload(json!({"a": 1})), payload(json!({"a": [1, 2]})), false),
        (payload(json!({"a*": 1})), payload(json!({"ab": 1.0})), true),
        (payload(json!({"**": 1})), payload(json!({"a": {"b": 1}})), true),
        (payload(json!({"**": {"b": 1}})), payload(json!({"a": {"b": 1, "c": 2}})), true),
        (payload(json!({"a": {"b": 1}})), payload(json!({"**": {"b": 1}})), false),
        (payload(json!({"$.a.b": 1})), payload(json!({"a": {"b": 1}})), true),
        (payload(json!({"$..b": 1})), payload(json!({"a": {"b": 1}})), true),
        (payload(json!({"$.a[*]": 1})), payload(json!({"$.a[0]": 1})), true),
        (json!({"kind": "*", "from": "x"}), json!("chat"), false),
        (json!("chat"), to(json!("a")), true),
        (to(json!("*")), json!("chat"), false),
        (to(json!("a")), to(json!("a")), true),
        (to(json!(["a", "b*"])), to(json!("bc")), true),
        (to(json!(["b*", "a"])), to(json!(["bc*", "a"])), true),
        (to(json!("a")), to(json!(["a", "b"])), false),
        (to(json!("a*")), to(json!("*")), false),
    ] {
        let (wide, narrow) = (capability(&wide), capability(&narrow));
        assert_eq!(wide.covers(&narrow), expected, "{wide} covers {narrow}");
    }
}

/// A name or a glob over few letters, so that matches are likely.
fn glob() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[ab]{1,3}", 2 => "[ab*]{1,4}", 1 => "[ab%25]{1,3}\\*?"]
}

/// A glob, or a string with syntax that only patterns support.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => glob(), 2 => "[ab*?.][ab*?/.]{0,4}", 1 => "!?[ab]\\*?", 1 => "!?/\\^?[ab]\\$?/"]
}

fn method() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just("tools/call"), 1 => Just("resources/read"), 1 => Just("tools/list")]
        .prop_map(str::to_owned)
}

fn method_glob() -> impl Strategy<Value = String> {
    prop_oneof![4 => method(), 1 => Just("tools/*".to_owned()), 1 => Just("*".to_owned()), 1 => Just("*/call".to_owned())]
}

fn base() -> impl Strategy<Value = String> {
    prop_oneof![5 => Just("mcp/request"), 1 => Just("mcp/*"), 1 => Just("mcp/response"), 1 => Just("*"), 1 => Just("mcp/*/call"), 1 => Just("chat")]
        .prop_map(str::to_owned)
}

fn string() -> impl Strategy<Value = Value> {
    let parts = (base(), method_glob(), glob(), 0..3_usize);
    parts.prop_map(|(base, method, name, parts)| match parts {
        0 => json!(base),
        1 => json!(format!("{base}:{method}")),
        _ => json!(format!("{base}:{method}:{name}")),
    })
}

fn names() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => text().prop_map(Value::from),
        1 => prop::collection::vec(text(), 1..3).prop_map(Value::from),
    ]
}

fn payload() -> impl Strategy<Value = Value> {
    let member = prop_oneof![3 => Just("name"), 1 => Just("uri"), 1 => Just("*"), 1 => Just("**")];
    (method_glob(), member, names(), 0..6_usize).prop_map(|(method, member, name, shape)| {
        match shape {
            0 => json!({ "method": method }),
            1 => json!({"params": {member: name}}),
            2 => json!({"**": name}),
            3 => json!({"$..name": name, "method": method}),
            _ => json!({"method": method, "params": {member: name}}),
        }
    })
}

fn pattern() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        4 => base().prop_map(Value::from),
        1 => prop::collection::vec(base(), 1..3).prop_map(Value::from),
        1 => string(),
        1 => Just(json!("!chat")),
    ];
    let to = prop::collection::vec(glob(), 1..3);
    let parts = (kind, prop::option::of(payload()), prop::option::of(to));
    parts.prop_map(|(kind, payload, to)| {
        let mut pattern = json!({ "kind": kind });
        if let Some(payload) = payload {
            pattern["payload"] = payload;
        }
        if let Some(to) = to {
            pattern["to"] = json!(to);
        }
        pattern
    })
}

fn any_capability() -> impl Strategy<Value = Value> {
    prop_oneof![string(), pattern()]
}

/// The addressees of a message.
fn addressees() -> impl Strategy<Value = Vec<Box<str>>> {
    prop::collection::vec("[ab]{1,3}".prop_map(String::into_boxed_str), 0..3)
}

/// A message whose kind agrees with its payload.
fn message() -> impl Strategy<Value = (String, Value)> {
    let kind = prop_oneof![4 => Just("mcp/request"), 1 => Just("mcp/proposal"), 1 => Just("chat")];
    (kind, method(), "[ab]{1,3}|[ab%*5/.]{1,4}").prop_map(|(base, method, name)| {
        let context = name.replace('%', "%25").replace('*', "%2A");
        let member = if method == "tools/call" { "name" } else { "uri" };
        let kind = match (base, method.as_str()) {
            ("chat", _) => base.to_owned(),
            (_, "tools/list") => format!("{base}:{method}"),
            _ => format!("{base}:{method}:{context}"),
        };
        (kind, json!({"method": method, "params": {member: name}}))
    })
}

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        ".{0,8}",
        "[!/*?$.\\[\\]':a-c]{0,10}",
        Just("kind".to_owned()),
        Just("payload".to_owned()),
        Just("**".to_owned()),
        Just("$..a".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text.clone(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn covering_capability_allows_every_covered_message(
        wide in any_capability(),
        narrow in any_capability(),
        messages in prop::collection::vec((message(), addressees()), 8),
    ) {
        let covers = capability(&wide).covers(&capability(&narrow));
        for ((kind, payload), to) in messages {
            let payload = to_raw_value(&payload).unwrap();
            let request = CapabilityRequest::new(&kind, Some(&payload)).with_addressees(&to);
            let allows = |own| Capabilities::new([capability(own)]).check(&request).is_ok();
            if covers && allows(&narrow) {
                prop_assert!(allows(&wide), "{wide} {narrow} {kind} {to:?}");
            }
        }
    }

    #[test]
    fn both_notations_agree_on_names_without_slashes(
        own in "[ab]{1,3}|[ab*]{1,4}",
        name in "[ab]{1,4}",
        called in prop_oneof![Just("tools/call"), Just("tools/list")],
    ) {
        let kind = format!("mcp/request:{called}:{name}");
        let payload = json!({"method": called, "params": {"name": name}});
        let string = json!(format!("mcp/request:tools/call:{own}"));
        let pattern = json!({"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": own}}});
        prop_assert_eq!(allows(&string, &kind, Some(&payload)), allows(&pattern, &kind, Some(&payload)));
    }

    #[test]
    fn arbitrary_input_does_not_panic(own in arbitrary_json(), other in arbitrary_json(), kind in ".{0,12}", message in arbitrary_json()) {
        for own in [own.clone(), json!({"kind": "*", "payload": own})] {
            let Ok(capability) = Capability::compile(&own) else { continue };
            allows(&own, &kind, Some(&message));
            if let Ok(other) = Capability::compile(&json!({"kind": "*", "payload": other})) {
                capability.covers(&other);
                other.covers(&capability);
            }
            let set = Capabilities::new([capability.clone()]);
            prop_assert!(set.covers(&capability));
            let reserved = CapabilityRequest::new("system/welcome", None);
            prop_assert!(set.check(&reserved).is_err());
        }
    }
}
