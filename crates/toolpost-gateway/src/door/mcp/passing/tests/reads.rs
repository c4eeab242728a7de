//! Resources by the addresses that sources use themselves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolpost::CallError;
use toolpost::view::Era;

use super::world::{World, said};

/// A source, the resources and the templates that it lists, and the addresses that it can read.
type Source =
    (&'static str, &'static [&'static str], &'static [&'static str], &'static [&'static str]);

/// Such sources, and who of them was asked.
fn library(sources: &'static [Source]) -> (World, Arc<Mutex<Vec<&'static str>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let entries = |key: &str, names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({key: name, "name": name})).collect()
    };
    let mut world = World::new();
    for (source, listed, templates, readable) in sources {
        let resources = json!({"resources": entries("uri", listed)}).to_string();
        let templates = json!({"resourceTemplates": entries("uriTemplate", templates)}).to_string();
        let asked = Arc::clone(&asked);
        world = world
            .fixed(source, "resources/list", resources)
            .fixed(source, "resources/templates/list", templates)
            .method(source, "resources/read", move |input| {
                asked.lock().unwrap().push(*source);
                match input["uri"].as_str() {
                    Some(uri) if readable.contains(&uri) => Ok(json!({"at": source}).to_string()),
                    _ => Err(said(-32099, "not here", &json!({"of": source}))),
                }
            });
    }
    (world, asked)
}

/// Each row: an address, and who is asked for it until it is found.
#[tokio::test]
async fn those_who_claim_an_address_are_asked_before_the_others() {
    for (uri, order, found) in [
        ("u:listed", &["d"][..], Some("d")),
        ("u:both", &["b"], Some("b")),
        ("t:1", &["c"], Some("c")),
        ("u:hidden", &["b"], Some("b")),
        ("u:unknown", &["b", "d"], None),
        // Those who have nothing of that kind do not even hear of it.
        ("x:unknown", &[], None),
        ("toolpost:none:u", &[], None),
        ("toolpost:d:u:listed", &["d"], Some("d")),
    ] {
        let (world, asked) = library(&[
            ("a", &["a:1"], &[], &["a:1"]),
            ("b", &["u:both"], &[], &["u:both", "u:hidden"]),
            ("c", &[], &["t:{n}"], &["t:1"]),
            ("d", &["u:listed", "u:both"], &[], &["u:listed", "u:both"]),
        ]);
        let told = world.value("resources/read", json!({"uri": uri})).await;
        assert_eq!(*asked.lock().unwrap(), order, "{uri}");
        match found {
            Some(source) => assert_eq!(told.unwrap(), json!({"at": source})),
            None => assert_eq!(told.unwrap_err().data, Some(json!({"uri": uri}))),
        }
    }
}

#[tokio::test]
async fn an_address_that_nobody_knows_is_told_as_the_era_has_it() {
    let (world, _) = library(&[("a", &[], &[], &[]), ("b", &[], &["b:{x}"], &[])]);
    let away = || CallError::unavailable("the box is away");
    let world = world.failing("c", "resources/list", away()).failing("c", "resources/read", away());
    for (era, code) in [(Era::Legacy, -32002), (Era::Modern, -32602)] {
        let fault = world.ask(era, "resources/read", json!({"uri": "x:1"})).await.unwrap_err();
        let missing = json!([{"source": "c", "reason": "UNAVAILABLE: the box is away"}]);
        let data = json!({"uri": "x:1", "toolpost/missing": missing});
        assert_eq!((fault.code, fault.data), (code, Some(data)));
        // Whoever claims it says why not, in its own words.
        let fault = world.ask(era, "resources/read", json!({"uri": "b:1"})).await.unwrap_err();
        let found = (fault.code, &*fault.message, fault.data);
        assert_eq!(found, (-32099, "not here", Some(json!({"of": "b"}))));
    }
    let nobody = World::new().value("resources/read", json!({"uri": "x:1"})).await.unwrap_err();
    assert_eq!((nobody.code, nobody.data), (-32002, Some(json!({"uri": "x:1"}))));
    let (only, _) = library(&[("a", &[], &[], &[])]);
    let fault = only.value("resources/read", json!({"uri": "x:1"})).await.unwrap_err();
    assert_eq!(fault.code, -32099);
}

#[tokio::test]
async fn a_source_that_claims_nothing_keeps_nobody_waiting() {
    let (world, asked) = library(&[("b", &["x:0"], &[], &["x:1"]), ("c", &["y:1"], &[], &[])]);
    let away = CallError::unavailable("the box is away");
    let counted = Arc::clone(&asked);
    let mut world = world
        .fixed("a", "resources/list", r#"{"resources":[{"uri":"x:9","name":"n"}]}"#.to_owned())
        .silent("a", "resources/read")
        .failing("away", "resources/list", away)
        .method("away", "resources/read", move |_| {
            counted.lock().unwrap().push("away");
            Ok("{}".to_owned())
        });
    world.patience = Duration::from_millis(100);
    let read = world.value("resources/read", json!({"uri": "x:1"})).await;
    assert_eq!(read.unwrap(), json!({"at": "b"}));
    let fault = world.value("resources/read", json!({"uri": "x:2"})).await.unwrap_err();
    let missing = &fault.data.unwrap()["toolpost/missing"];
    assert_eq!(missing[0], json!({"source": "away", "reason": "UNAVAILABLE: the box is away"}));
    assert_eq!((&missing[1]["source"], missing.as_array().unwrap().len()), (&json!("a"), 2));
    assert_eq!(*asked.lock().unwrap(), ["b", "b"]);
}

/// Each row: who may read it, what its server says, and what goes out.
#[tokio::test]
async fn what_not_everybody_may_read_is_kept_for_nobody_else() {
    let public = r#"{"contents":[],"resultType":"complete","ttlMs":5,"cacheScope":"public"}"#;
    let private = r#"{"contents":[],"resultType":"complete","ttlMs":5,"cacheScope":"private"}"#;
    for (scopes, era, expected) in [
        (&[][..], Era::Modern, public),
        (&["s"], Era::Modern, private),
        (&[], Era::Legacy, r#"{"contents":[]}"#),
    ] {
        let world = World::new()
            .scoped_method("a", "resources/read", scopes, move |_| Ok(public.to_owned()))
            .with_scopes(scopes);
        let read = world.ask(era, "resources/read", json!({"uri": "toolpost:a:u"})).await;
        assert_eq!(read.unwrap(), expected, "{scopes:?} {era:?}");
    }
}
