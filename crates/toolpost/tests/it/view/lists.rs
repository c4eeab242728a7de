//! Names, listings and pages.

use std::sync::Arc;

use serde_json::{Value, json};
use toolpost::hub::Hub;
use toolpost::view::{
    CacheHints, CacheScope, CursorError, Dialect, Era, Listed, Listing, Toolbox, ViewSettings,
};
use toolpost::{AccessControl, Change, Identity, Kind, Operation, OperationSpec, Registry};

use super::world::{catalog, spec};

fn plain(id: &str) -> OperationSpec {
    spec(id, Kind::Query, json!({"type": "object"}), json!({"type": "object"}))
}

fn names(listing: &Listing) -> Vec<String> {
    let mut page = Vec::new();
    listing.page(None).unwrap().write(&mut page, None);
    let page: Value = serde_json::from_slice(&page).unwrap();
    let tools = page["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// A registry of so many operations beside the four of the hub.
fn registry(count: usize) -> Registry {
    let registry = Registry::new();
    let others =
        (0..count).map(|n| Operation::from_spec(plain(&format!("demo.n{n:05}"))).build().unwrap());
    registry.apply(Hub::contract().into_iter().chain(others).map(Change::Register)).unwrap();
    registry
}

#[test]
fn a_listing_is_compact_where_there_are_too_many() {
    let hub = ["hub__call", "hub__list", "hub__schema", "hub__search"];
    for (count, listed, expected) in [
        (3, Listed::All, 7),
        (3, Listed::Compact, 4),
        (56, Listed::Auto, 60),
        (57, Listed::Auto, 4),
        (57, Listed::All, 61),
    ] {
        let toolbox = Toolbox::new(registry(count).catalog(), ViewSettings::default());
        let names = names(&toolbox.listing(listed, Era::Legacy, |_| true));
        assert_eq!(names.len(), expected, "{count} {listed:?}");
        assert!(hub.iter().all(|name| names.contains(&(*name).to_owned())));
        assert!(toolbox.tool("demo__n00000").is_some(), "what is not shown can be called");
    }
    let without_hub = Toolbox::new(catalog([plain("demo.a")]), ViewSettings::default());
    assert_eq!(names(&without_hub.listing(Listed::Compact, Era::Legacy, |_| true)), ["demo__a"]);
}

#[test]
fn callers_who_see_the_same_share_a_list() {
    let mut closed = plain("demo.closed");
    closed.access_control =
        serde_json::from_value::<AccessControl>(json!({"requiredScopes": ["x"]})).unwrap();
    let toolbox = Toolbox::new(catalog([closed, plain("demo.open")]), ViewSettings::default());
    let list = |identity: Option<Identity>, era| {
        toolbox.listing(Listed::All, era, |operation| {
            operation.spec().access_control.admits(identity.as_ref())
        })
    };
    let nobody = list(None, Era::Legacy);
    let somebody = list(Some(Identity::new("a")), Era::Legacy);
    let holder = list(Some(Identity::new("b").with_scopes(["x"])), Era::Legacy);
    assert_eq!(names(&nobody), ["demo__open"]);
    assert_eq!(names(&holder), ["demo__closed", "demo__open"]);
    assert!(Arc::ptr_eq(&nobody, &somebody));
    assert!(!Arc::ptr_eq(&nobody, &list(None, Era::Modern)));
}

#[test]
fn a_hidden_namespace_is_no_tool_even_where_it_is_asked_for() {
    let ids = ["demo.open", "gateway.reload"];
    for (namespace, expected) in [(None, vec!["demo__open"]), (Some("gateway"), vec![])] {
        let mut settings = ViewSettings::new(Dialect::Data);
        settings.hidden = vec!["gateway".into()];
        settings.namespace = namespace.map(Into::into);
        let toolbox = Toolbox::new(catalog(ids.map(plain)), settings);
        assert_eq!(names(&toolbox.listing(Listed::All, Era::Modern, |_| true)), expected);
        assert!(toolbox.tool("gateway__reload").is_none());
        assert!(toolbox.tool("reload").is_none());
    }
}

#[test]
fn pages_follow_each_other_even_when_tools_come_and_go() {
    let mut settings = ViewSettings::new(Dialect::Data);
    settings.page = 4;
    let registry = registry(9);
    let toolbox = Toolbox::new(registry.catalog(), settings);
    let whole = toolbox.listing(Listed::All, Era::Modern, |_| true);
    let (mut seen, mut cursor, mut pages) = (0, None, 0);
    loop {
        let page = whole.page(cursor.as_deref()).unwrap();
        (seen, pages) = (seen + page.len(), pages + 1);
        match page.next_cursor() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!((seen, pages), (13, 4));

    let next = whole.page(None).unwrap().next_cursor().unwrap().to_owned();
    registry.unregister(&"demo.n00003".parse().unwrap());
    let later = toolbox.renewed(registry.catalog());
    let later = later.listing(Listed::All, Era::Modern, |_| true);
    let mut page = Vec::new();
    later.page(Some(&next)).unwrap().write(&mut page, None);
    let page: Value = serde_json::from_slice(&page).unwrap();
    assert_eq!(page["tools"][0]["name"], "demo__n00004");

    for forged in ["", "!", "AA", "_____", &"A".repeat(10_000), "ZGVtbw"] {
        assert_eq!(whole.page(Some(forged)).unwrap_err(), CursorError, "{forged}");
    }
    let end = data_encoding_of("zzz.z");
    assert!(whole.page(Some(&end)).unwrap().is_empty());
}

fn data_encoding_of(id: &str) -> String {
    let listing = Toolbox::new(catalog([plain(id), plain("zzzz.z")]), {
        let mut settings = ViewSettings::default();
        settings.page = 1;
        settings
    });
    let listing = listing.listing(Listed::All, Era::Legacy, |_| true);
    listing.page(None).unwrap().next_cursor().unwrap().to_owned()
}

#[test]
fn hints_are_for_those_who_know_them() {
    let toolbox = Toolbox::new(catalog([]), ViewSettings::default());
    let hints = CacheHints { ttl_ms: 5_000, scope: CacheScope::Private };
    for (era, hints, expected) in [
        (Era::Legacy, None, r#"{"tools":[]}"#),
        (Era::Legacy, Some(hints), r#"{"tools":[]}"#),
        (Era::Modern, None, r#"{"resultType":"complete","tools":[]}"#),
        (
            Era::Modern,
            Some(hints),
            r#"{"resultType":"complete","tools":[],"ttlMs":5000,"cacheScope":"private"}"#,
        ),
    ] {
        let mut page = Vec::new();
        toolbox.listing(Listed::All, era, |_| true).page(None).unwrap().write(&mut page, hints);
        assert_eq!(String::from_utf8(page).unwrap(), expected);
    }
}

#[test]
fn a_name_that_is_taken_is_never_silently_another_tool() {
    // `demo.a/b` has this name because of its hash, and somebody calls his operation just so.
    let hashed = toolpost::view::tool_name(&"demo.a/b".parse().unwrap());
    let copy = format!("demo.{}", hashed.strip_prefix("demo__").unwrap());
    let toolbox = Toolbox::new(catalog([plain("demo.a/b"), plain(&copy)]), ViewSettings::default());
    assert_eq!(toolbox.tool(&hashed).unwrap().id().as_str(), "demo.a/b");
    let [warning] = toolbox.warnings() else { panic!("{:?}", toolbox.warnings()) };
    assert!(warning.contains(&copy) && warning.contains("demo.a/b"), "{warning}");
    assert_eq!(names(&toolbox.listing(Listed::All, Era::Legacy, |_| true)), [hashed]);
}

#[test]
fn what_could_not_be_said_is_noted() {
    let circle = json!({"type": "object", "allOf": [{"$ref": "#"}]});
    let open = json!({"type": "object", "unevaluatedProperties": false});
    let specs =
        [("demo.circle", circle), ("demo.open", open), ("demo.plain", json!({"type": "object"}))];
    let specs = specs.map(|(id, output)| spec(id, Kind::Query, json!(true), output));
    let toolbox = Toolbox::new(catalog(specs), ViewSettings::default());
    let listing = toolbox.listing(Listed::All, Era::Legacy, |_| true);
    let [circle, open] = listing.notes() else { panic!("{:?}", listing.notes()) };
    assert!(circle.starts_with("demo.circle: its output schema is not declared"), "{circle}");
    assert!(open.contains("`unevaluatedProperties`"), "{open}");
}

#[test]
fn a_change_that_nobody_sees_is_none() {
    let registry = registry(3);
    let toolbox = Toolbox::new(registry.catalog(), ViewSettings::default());
    let before = toolbox.listing(Listed::All, Era::Legacy, |_| true);
    let catalog = registry.catalog();
    let first = Operation::clone(catalog.get("demo.n00000").unwrap());
    registry.replace(first.with_offline(true));
    let away = toolbox.renewed(registry.catalog());
    let offline = away.listing(Listed::All, Era::Legacy, |_| true);
    assert!(before.says_the_same_as(&offline), "who is away is still listed");
    let kept = |name: &str| Arc::ptr_eq(toolbox.tool(name).unwrap(), away.tool(name).unwrap());
    assert_eq!((kept("demo__n00000"), kept("demo__n00001")), (false, true));

    registry.unregister(&"demo.n00001".parse().unwrap());
    let fewer = away.renewed(registry.catalog()).listing(Listed::All, Era::Legacy, |_| true);
    assert!(!before.says_the_same_as(&fewer));
}
