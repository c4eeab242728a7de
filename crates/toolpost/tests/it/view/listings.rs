//! Tool names, listings and pages.

use std::sync::Arc;

use serde_json::{Value, json};
use toolpost::hub::Hub;
use toolpost::view::{
    CacheHints, CacheScope, CursorError, Dialect, ListMode, Listing, ProtocolGeneration, ToolSet,
    ViewSettings,
};
use toolpost::{
    AccessControl, Change, Identity, Operation, OperationKind, OperationSpec, OutputPolicy,
    Registry, ResultPolicy,
};

use super::fixture::{catalog, spec};

fn object_query(id: &str) -> OperationSpec {
    spec(id, OperationKind::Query, json!({"type": "object"}), json!({"type": "object"}))
}

fn names(listing: &Listing) -> Vec<String> {
    let mut page = Vec::new();
    listing.page(None).unwrap().write(&mut page, None);
    let page: Value = serde_json::from_slice(&page).unwrap();
    let tools = page["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Creates a registry with `count` operations and the built-in operations of the hub.
fn registry(count: usize) -> Registry {
    let registry = Registry::new();
    let others = (0..count)
        .map(|n| Operation::from_spec(object_query(&format!("demo.n{n:05}"))).build().unwrap());
    registry
        .apply(Hub::builtin_operations().into_iter().chain(others).map(Change::Register))
        .unwrap();
    registry
}

#[test]
fn listing_is_compact_above_operation_limit() {
    let hub = ["hub__call", "hub__list", "hub__schema", "hub__search"];
    for (count, mode, expected) in [
        (3, ListMode::All, 7),
        (3, ListMode::Compact, 4),
        (56, ListMode::Auto, 60),
        (57, ListMode::Auto, 4),
        (57, ListMode::All, 61),
    ] {
        let tool_set = ToolSet::new(registry(count).catalog(), ViewSettings::default());
        let names = names(&tool_set.listing(mode, ProtocolGeneration::Legacy, |_| true));
        assert_eq!(names.len(), expected, "{count} {mode:?}");
        assert!(hub.iter().all(|name| names.contains(&(*name).to_owned())));
        assert!(tool_set.tool("demo__n00000").is_some(), "an unlisted tool can be called");
    }
    let without_hub = ToolSet::new(catalog([object_query("demo.a")]), ViewSettings::default());
    assert_eq!(
        names(&without_hub.listing(ListMode::Compact, ProtocolGeneration::Legacy, |_| true)),
        ["demo__a"]
    );
}

#[test]
fn callers_with_equal_visibility_share_listing() {
    let mut closed = object_query("demo.closed");
    closed.access_control =
        serde_json::from_value::<AccessControl>(json!({"requiredScopes": ["x"]})).unwrap();
    let tool_set =
        ToolSet::new(catalog([closed, object_query("demo.open")]), ViewSettings::default());
    let list = |identity: Option<Identity>, generation| {
        tool_set.listing(ListMode::All, generation, |operation| {
            operation.spec().access_control.is_callable_by(identity.as_ref())
        })
    };
    let anonymous = list(None, ProtocolGeneration::Legacy);
    let unscoped = list(Some(Identity::new("a")), ProtocolGeneration::Legacy);
    let holder = list(Some(Identity::new("b").with_scopes(["x"])), ProtocolGeneration::Legacy);
    assert_eq!(names(&anonymous), ["demo__open"]);
    assert_eq!(names(&holder), ["demo__closed", "demo__open"]);
    assert!(Arc::ptr_eq(&anonymous, &unscoped));
    assert!(!Arc::ptr_eq(&anonymous, &list(None, ProtocolGeneration::Modern)));
}

#[test]
fn hidden_namespace_is_never_listed() {
    let ids = ["demo.open", "gateway.reload"];
    for (namespace, expected) in [(None, vec!["demo__open"]), (Some("gateway"), vec![])] {
        let mut settings = ViewSettings::new(Dialect::Data);
        settings.hidden_namespaces = vec!["gateway".into()];
        settings.namespace = namespace.map(Into::into);
        let tool_set = ToolSet::new(catalog(ids.map(object_query)), settings);
        assert_eq!(
            names(&tool_set.listing(ListMode::All, ProtocolGeneration::Modern, |_| true)),
            expected
        );
        assert!(tool_set.tool("gateway__reload").is_none());
        assert!(tool_set.tool("reload").is_none());
    }
}

#[test]
fn cursor_stays_valid_when_tools_change() {
    let mut settings = ViewSettings::new(Dialect::Data);
    settings.page_size = 4;
    let registry = registry(9);
    let tool_set = ToolSet::new(registry.catalog(), settings);
    let full_listing = tool_set.listing(ListMode::All, ProtocolGeneration::Modern, |_| true);
    let (mut seen, mut cursor, mut pages) = (0, None, 0);
    loop {
        let page = full_listing.page(cursor.as_deref()).unwrap();
        (seen, pages) = (seen + page.len(), pages + 1);
        match page.next_cursor() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!((seen, pages), (13, 4));

    let next = full_listing.page(None).unwrap().next_cursor().unwrap().to_owned();
    registry.unregister(&"demo.n00003".parse().unwrap());
    let later = tool_set.updated(registry.catalog());
    let later = later.listing(ListMode::All, ProtocolGeneration::Modern, |_| true);
    let mut page = Vec::new();
    later.page(Some(&next)).unwrap().write(&mut page, None);
    let page: Value = serde_json::from_slice(&page).unwrap();
    assert_eq!(page["tools"][0]["name"], "demo__n00004");

    for forged in ["", "!", "AA", "_____", &"A".repeat(10_000), "ZGVtbw"] {
        assert_eq!(full_listing.page(Some(forged)).unwrap_err(), CursorError, "{forged}");
    }
    let end = cursor_after("zzz.z");
    assert!(full_listing.page(Some(&end)).unwrap().is_empty());
}

fn cursor_after(id: &str) -> String {
    let listing = ToolSet::new(catalog([object_query(id), object_query("zzzz.z")]), {
        let mut settings = ViewSettings::default();
        settings.page_size = 1;
        settings
    });
    let listing = listing.listing(ListMode::All, ProtocolGeneration::Legacy, |_| true);
    listing.page(None).unwrap().next_cursor().unwrap().to_owned()
}

#[test]
fn cache_hints_are_sent_to_modern_clients_only() {
    let tool_set = ToolSet::new(catalog([]), ViewSettings::default());
    let hints = CacheHints { ttl_ms: 5_000, scope: CacheScope::Private };
    for (generation, hints, expected) in [
        (ProtocolGeneration::Legacy, None, r#"{"tools":[]}"#),
        (ProtocolGeneration::Legacy, Some(hints), r#"{"tools":[]}"#),
        (ProtocolGeneration::Modern, None, r#"{"resultType":"complete","tools":[]}"#),
        (
            ProtocolGeneration::Modern,
            Some(hints),
            r#"{"resultType":"complete","tools":[],"ttlMs":5000,"cacheScope":"private"}"#,
        ),
    ] {
        let mut page = Vec::new();
        tool_set
            .listing(ListMode::All, generation, |_| true)
            .page(None)
            .unwrap()
            .write(&mut page, hints);
        assert_eq!(String::from_utf8(page).unwrap(), expected);
    }
}

#[test]
fn tool_name_collision_keeps_first_and_warns() {
    // Another operation has the hashed name of `demo.a/b` as its own name.
    let hashed = toolpost::view::tool_name(&"demo.a/b".parse().unwrap());
    let copy = format!("demo.{}", hashed.strip_prefix("demo__").unwrap());
    let tool_set = ToolSet::new(
        catalog([object_query("demo.a/b"), object_query(&copy)]),
        ViewSettings::default(),
    );
    assert_eq!(tool_set.tool(&hashed).unwrap().id().as_str(), "demo.a/b");
    let [warning] = tool_set.warnings() else { panic!("{:?}", tool_set.warnings()) };
    assert!(warning.contains(&copy) && warning.contains("demo.a/b"), "{warning}");
    assert_eq!(
        names(&tool_set.listing(ListMode::All, ProtocolGeneration::Legacy, |_| true)),
        [hashed]
    );
}

#[test]
fn listing_notes_report_unsupported_schemas() {
    let circle = json!({"type": "object", "allOf": [{"$ref": "#"}]});
    let open = json!({"type": "object", "unevaluatedProperties": false});
    let registry = Registry::new();
    for (id, output, policy) in [
        ("demo.circle", circle, OutputPolicy::Normalize),
        ("demo.open", open.clone(), OutputPolicy::Enforce),
        ("demo.plain", open, OutputPolicy::Normalize),
    ] {
        let spec = spec(id, OperationKind::Query, json!(true), output);
        let builder = Operation::from_spec(spec).policy(ResultPolicy::new(policy));
        registry.register(builder.build().unwrap()).unwrap();
    }
    let tool_set = ToolSet::new(registry.catalog(), ViewSettings::default());
    let listing = tool_set.listing(ListMode::All, ProtocolGeneration::Legacy, |_| true);
    let [circle, open] = listing.notes() else { panic!("{:?}", listing.notes()) };
    assert!(circle.starts_with("demo.circle: its output schema is not published"), "{circle}");
    assert!(open.contains("`unevaluatedProperties`"), "{open}");
}

#[test]
fn invisible_change_keeps_listing_content() {
    let registry = registry(3);
    let tool_set = ToolSet::new(registry.catalog(), ViewSettings::default());
    let before = tool_set.listing(ListMode::All, ProtocolGeneration::Legacy, |_| true);
    let catalog = registry.catalog();
    let first = Operation::clone(catalog.get("demo.n00000").unwrap());
    registry.replace(first.with_offline(true));
    let away = tool_set.updated(registry.catalog());
    let offline = away.listing(ListMode::All, ProtocolGeneration::Legacy, |_| true);
    assert!(before.has_same_content(&offline), "an offline operation stays in the listing");
    let is_reused =
        |name: &str| Arc::ptr_eq(tool_set.tool(name).unwrap(), away.tool(name).unwrap());
    assert_eq!((is_reused("demo__n00000"), is_reused("demo__n00001")), (false, true));

    registry.unregister(&"demo.n00001".parse().unwrap());
    let fewer =
        away.updated(registry.catalog())
            .listing(ListMode::All, ProtocolGeneration::Legacy, |_| true);
    assert!(!before.has_same_content(&fewer));
}
