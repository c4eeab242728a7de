//! Resources read by the URIs that their sources use.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolpost::CallError;
use toolpost::view::ProtocolGeneration;

use super::fixture::{Fixture, server_error};

/// A source: its name, listed resources, templates and readable URIs.
type Source =
    (&'static str, &'static [&'static str], &'static [&'static str], &'static [&'static str]);

/// Returns a fixture with these sources, and the log of the sources that were read from.
fn sources_fixture(sources: &'static [Source]) -> (Fixture, Arc<Mutex<Vec<&'static str>>>) {
    let requested = Arc::new(Mutex::new(Vec::new()));
    let entries = |key: &str, names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({key: name, "name": name})).collect()
    };
    let mut fixture = Fixture::new();
    for (source, listed, templates, readable) in sources {
        let resources = json!({"resources": entries("uri", listed)}).to_string();
        let templates = json!({"resourceTemplates": entries("uriTemplate", templates)}).to_string();
        let requested = Arc::clone(&requested);
        fixture = fixture
            .fixed(source, "resources/list", resources)
            .fixed(source, "resources/templates/list", templates)
            .method(source, "resources/read", move |input| {
                requested.lock().unwrap().push(*source);
                match input["uri"].as_str() {
                    Some(uri) if readable.contains(&uri) => Ok(json!({"at": source}).to_string()),
                    _ => Err(server_error(-32099, "not here", &json!({"of": source}))),
                }
            });
    }
    (fixture, requested)
}

/// Each row: a URI, the sources queried in order, and the source that returns it.
#[tokio::test]
async fn read_tries_best_matching_sources_first() {
    for (uri, order, found) in [
        ("u:listed", &["d"][..], Some("d")),
        ("u:both", &["b"], Some("b")),
        ("t:1", &["c"], Some("c")),
        ("u:hidden", &["b"], Some("b")),
        ("u:unknown", &["b", "d"], None),
        // Sources without a matching scheme are not queried.
        ("x:unknown", &[], None),
        ("toolpost:none:u", &[], None),
        ("toolpost:d:u:listed", &["d"], Some("d")),
    ] {
        let (fixture, requested) = sources_fixture(&[
            ("a", &["a:1"], &[], &["a:1"]),
            ("b", &["u:both"], &[], &["u:both", "u:hidden"]),
            ("c", &[], &["t:{n}"], &["t:1"]),
            ("d", &["u:listed", "u:both"], &[], &["u:listed", "u:both"]),
        ]);
        let response = fixture.request_json("resources/read", json!({"uri": uri})).await;
        assert_eq!(*requested.lock().unwrap(), order, "{uri}");
        match found {
            Some(source) => assert_eq!(response.unwrap(), json!({"at": source})),
            None => assert_eq!(response.unwrap_err().data, Some(json!({"uri": uri}))),
        }
    }
}

#[tokio::test]
async fn unknown_resource_error_depends_on_generation() {
    let (fixture, _) = sources_fixture(&[("a", &[], &[], &[]), ("b", &[], &["b:{x}"], &[])]);
    let away = || CallError::unavailable("the box is away");
    let fixture =
        fixture.failing("c", "resources/list", away()).failing("c", "resources/read", away());
    for (generation, code) in
        [(ProtocolGeneration::Legacy, -32002), (ProtocolGeneration::Modern, -32602)]
    {
        let rpc_error =
            fixture.request(generation, "resources/read", json!({"uri": "x:1"})).await.unwrap_err();
        let missing = json!([{"source": "c", "reason": "UNAVAILABLE: the box is away"}]);
        let data = json!({"uri": "x:1", "toolpost/missing": missing});
        assert_eq!((rpc_error.code, rpc_error.data), (code, Some(data)));
        // The error of a source that lists the URI is forwarded unchanged.
        let rpc_error =
            fixture.request(generation, "resources/read", json!({"uri": "b:1"})).await.unwrap_err();
        let found = (rpc_error.code, &*rpc_error.message, rpc_error.data);
        assert_eq!(found, (-32099, "not here", Some(json!({"of": "b"}))));
    }
    let no_source_error =
        Fixture::new().request_json("resources/read", json!({"uri": "x:1"})).await.unwrap_err();
    assert_eq!((no_source_error.code, no_source_error.data), (-32002, Some(json!({"uri": "x:1"}))));
    let (only, _) = sources_fixture(&[("a", &[], &[], &[])]);
    let rpc_error = only.request_json("resources/read", json!({"uri": "x:1"})).await.unwrap_err();
    assert_eq!(rpc_error.code, -32099);
}

#[tokio::test]
async fn unmatched_source_read_is_bounded_by_timeout() {
    let (fixture, requested) =
        sources_fixture(&[("b", &["x:0"], &[], &["x:1"]), ("c", &["y:1"], &[], &[])]);
    let away = CallError::unavailable("the box is away");
    let counted = Arc::clone(&requested);
    let mut fixture = fixture
        .fixed("a", "resources/list", r#"{"resources":[{"uri":"x:9","name":"n"}]}"#.to_owned())
        .silent("a", "resources/read")
        .failing("away", "resources/list", away)
        .method("away", "resources/read", move |_| {
            counted.lock().unwrap().push("away");
            Ok("{}".to_owned())
        });
    fixture.source_timeout = Duration::from_millis(100);
    let read = fixture.request_json("resources/read", json!({"uri": "x:1"})).await;
    assert_eq!(read.unwrap(), json!({"at": "b"}));
    let rpc_error =
        fixture.request_json("resources/read", json!({"uri": "x:2"})).await.unwrap_err();
    let missing = &rpc_error.data.unwrap()["toolpost/missing"];
    assert_eq!(missing[0], json!({"source": "away", "reason": "UNAVAILABLE: the box is away"}));
    assert_eq!((&missing[1]["source"], missing.as_array().unwrap().len()), (&json!("a"), 2));
    assert_eq!(*requested.lock().unwrap(), ["b", "b"]);
}

/// Each row: the required scopes, the protocol generation, and the expected result.
#[tokio::test]
async fn restricted_resource_has_private_cache_scope() {
    let public = r#"{"contents":[],"resultType":"complete","ttlMs":5,"cacheScope":"public"}"#;
    let private = r#"{"contents":[],"resultType":"complete","ttlMs":5,"cacheScope":"private"}"#;
    for (scopes, generation, expected) in [
        (&[][..], ProtocolGeneration::Modern, public),
        (&["s"], ProtocolGeneration::Modern, private),
        (&[], ProtocolGeneration::Legacy, r#"{"contents":[]}"#),
    ] {
        let fixture = Fixture::new()
            .scoped_method("a", "resources/read", scopes, move |_| Ok(public.to_owned()))
            .with_scopes(scopes);
        let read =
            fixture.request(generation, "resources/read", json!({"uri": "toolpost:a:u"})).await;
        assert_eq!(read.unwrap(), expected, "{scopes:?} {generation:?}");
    }
}
