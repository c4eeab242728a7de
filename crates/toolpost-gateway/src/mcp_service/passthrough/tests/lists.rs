//! Lists merged from several sources.

use std::time::Duration;

use serde_json::{Value, json};
use toolpost::CallError;
use toolpost::view::ProtocolGeneration;

use super::fixture::{Fixture, server_error};

#[tokio::test]
async fn lists_merge_in_source_order() {
    let fixture = Fixture::new()
        .fixed("b", "prompts/list", r#"{"prompts":[{"name":"p"}],"resultType":"complete"}"#)
        .fixed(
            "a",
            "prompts/list",
            r#"{"prompts":[{"x":[ 1.0 ],"name":"p","_meta":{}},{"name":"q r"}]}"#,
        )
        .fixed("c", "prompts/list", r#"{"prompts":[]}"#)
        .fixed("far.b", "prompts/list", r#"{"prompts":[{"name":"p"}]}"#)
        .fixed("a", "resources/list", r#"{"resources":[{"uri":"u:1","big":1e400}]}"#)
        .fixed("b", "resources/list", r#"{"resources":[{"uri":"u:1"}],"_meta":{"own":1}}"#)
        .fixed(
            "a",
            "resources/templates/list",
            r#"{"resourceTemplates":[{"uriTemplate":"u:{x}"}]}"#,
        );
    let prompts = r#"{"prompts":[{"x":[ 1.0 ],"name":"a__p","_meta":{}},{"name":"a__q r"},{"name":"b__p"},{"name":"far.b__p"}]"#;
    let resources =
        r#"{"resources":[{"uri":"toolpost:a:u:1","big":1e400},{"uri":"toolpost:b:u:1"}]"#;
    let templates = r#"{"resourceTemplates":[{"uriTemplate":"toolpost:a:u:{x}"}]"#;
    let modern = r#","resultType":"complete","ttlMs":0,"cacheScope":"private"}"#;
    for (method, list) in [
        ("prompts/list", prompts),
        ("resources/list", resources),
        ("resources/templates/list", templates),
    ] {
        for (generation, rest) in
            [(ProtocolGeneration::Legacy, "}"), (ProtocolGeneration::Modern, modern)]
        {
            let listed = fixture
                .request(generation, method, json!({"_meta": {"a": 1}, "cursor": null}))
                .await;
            assert_eq!(listed.unwrap(), format!("{list}{rest}"), "{method}");
        }
        let rpc_error = fixture
            .request(ProtocolGeneration::Legacy, method, json!({"cursor": "x"}))
            .await
            .unwrap_err();
        assert_eq!(rpc_error.code, -32602);
    }
    let none = Fixture::new().request_json("resources/list", json!({})).await.unwrap();
    assert_eq!(none, json!({"resources": []}));
}

#[tokio::test]
async fn failing_source_is_reported_and_others_are_listed() {
    let mut fixture = Fixture::new()
        .fixed(
            "a",
            "prompts/list",
            r#"{"prompts":[7,{"name":"p"},{"title":"t"},null,{"name":"q"}]}"#,
        )
        .failing("b", "prompts/list", CallError::unavailable("the box is away"))
        .silent("c", "prompts/list")
        .fixed("d", "prompts/list", r#"{"prompts":"many"}"#)
        .failing("e", "prompts/list", server_error(-32601, "no such method", &Value::Null))
        .failing("f", "prompts/list", server_error(-32000, "no license", &Value::Null))
        .fixed("g", "prompts/list", r#"{"prompts":[{"name":"p"}]}"#);
    fixture.source_timeout = Duration::from_millis(100);
    let listed = fixture.request_json("prompts/list", json!({})).await.unwrap();
    let names: Vec<_> = listed["prompts"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["a__p", "a__q", "g__p"]);
    let missing = listed["_meta"]["toolpost/missing"].as_array().unwrap();
    let expected = [
        ("b", "UNAVAILABLE: the box is away"),
        ("c", "TIMEOUT"),
        ("d", "EXECUTION_ERROR: `prompts` of the result is not a list"),
        ("f", "EXECUTION_ERROR: no license"),
    ];
    assert_eq!(missing.len(), expected.len(), "{missing:?}");
    for (missing, (source, reason)) in missing.iter().zip(expected) {
        assert_eq!(missing["source"], source);
        assert!(missing["reason"].as_str().unwrap().starts_with(reason), "{missing}");
    }
}

/// Each row: the source's page for each cursor, and the expected number of entries.
#[tokio::test]
async fn list_pagination_stops_at_end_or_limit() {
    let page = |entries: usize, next: Option<u64>| {
        let entries: Vec<_> = (0..entries).map(|n| json!({"name": n.to_string()})).collect();
        json!({"prompts": entries, "nextCursor": next.map(|next| next.to_string())}).to_string()
    };
    type Pages = Box<dyn Fn(u64) -> String + Send + Sync>;
    let rows: [(&str, Pages, usize); 5] = [
        ("three", Box::new(move |at| page(2, (at < 2).then_some(at + 1))), 6),
        ("endless", Box::new(move |at| page(3, Some(at + 1))), 300),
        ("repeating", Box::new(move |at| page(1, Some(at.min(1) ^ 1))), 3),
        ("many", Box::new(move |_| page(10_050, None)), 10_000),
        ("many pages", Box::new(move |at| page(9_000, Some(at + 1))), 10_000),
    ];
    for (row, pages, expected) in rows {
        let fixture = Fixture::new().method("a", "prompts/list", move |input| {
            let at = input.get("cursor").map_or(0, |at| at.as_str().unwrap().parse().unwrap());
            Ok(pages(at))
        });
        let listed = fixture.request_json("prompts/list", json!({})).await.unwrap();
        assert_eq!(listed["prompts"].as_array().unwrap().len(), expected, "{row}");
        assert_eq!(listed.get("nextCursor"), None);
        assert_eq!(listed.get("_meta"), None, "{row}");
    }
}

#[tokio::test]
async fn lists_contain_only_accessible_entries() {
    let build = || {
        Fixture::new().fixed("a", "prompts/list", r#"{"prompts":[{"name":"p"}]}"#).scoped_method(
            "b",
            "prompts/list",
            &["source:b"],
            |_| Ok(r#"{"prompts":[{"name":"p"}]}"#.to_owned()),
        )
    };
    for (scopes, names) in
        [(&[][..], &["a__p"][..]), (&["source:b"], &["a__p", "b__p"]), (&["source:c"], &["a__p"])]
    {
        let fixture = build().with_scopes(scopes);
        let listed = fixture.request_json("prompts/list", json!({})).await.unwrap();
        let names: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        assert_eq!(listed["prompts"], Value::Array(names), "{scopes:?}");
    }
}

#[tokio::test]
async fn single_source_view_uses_source_names() {
    let page = r#"{ "prompts":[ {"name":"p"} ], "nextCursor":"2", "_meta":{"own":1} }"#;
    let mut fixture = Fixture::new()
        .method("a", "prompts/list", move |input| match input.get("cursor") {
            Some(_) => Ok(r#"{"more":1.0,"prompts":[7, {"name":"q"},{}]}"#.to_owned()),
            None => Ok(page.to_owned()),
        })
        .fixed("ab", "prompts/list", r#"{"prompts":[{"name":"p"}]}"#)
        .failing("b", "prompts/list", server_error(-32050, "no license", &json!([1])))
        .fixed("far.a", "prompts/list", r#"{"prompts":[{"name":"p"}]}"#)
        .fixed("far.b", "prompts/list", r#"{"prompts":[{"name":"p"}]}"#);
    fixture.source = Some("a");
    assert_eq!(
        fixture.request(ProtocolGeneration::Legacy, "prompts/list", json!({})).await.unwrap(),
        page
    );
    let second =
        fixture.request(ProtocolGeneration::Legacy, "prompts/list", json!({"cursor": "2"})).await;
    assert_eq!(second.unwrap(), r#"{"more":1.0,"prompts":[{"name":"q"}]}"#);
    fixture.source = Some("b");
    let rpc_error = fixture.request_json("prompts/list", json!({})).await.unwrap_err();
    assert_eq!((rpc_error.code, rpc_error.data), (-32050, Some(json!([1]))));
    // The sources behind another hub keep the labels that they have there.
    for (source, names) in [("far", &["a__p", "b__p"][..]), ("far.b", &["p"]), ("none", &[])] {
        fixture.source = Some(source);
        let listed = fixture.request_json("prompts/list", json!({})).await.unwrap();
        let names: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        assert_eq!(listed, json!({"prompts": names}), "{source}");
    }
}
