//! `[limits]`, `[telemetry]`, and the limits of sources.

use std::time::Duration;

use serde_json::Value;

use super::super::{Config, SourceKind};
use super::parse;
use crate::limits::SourceLimits;

#[test]
fn limits_apply_and_sources_override_them() {
    let config = parse(
        r#"
        [limits]
        calls = 100
        caller_calls = 7
        calls_per_minute = 600
        source_calls = 5
        queue_wait = "2s"
        breaker = { failures = 0 }

        [source.a]
        hub = { url = "ws://x/hub" }

        [source.b]
        hub = { url = "ws://x/hub" }
        concurrency = 2
        queue = 0
        breaker = { failures = 3, open = "1m" }

        [source.c]
        openapi = "x.yaml"
        breaker = { failures = 4, open = "7s" }

        [source.d]
        openapi = "x.yaml"

        [telemetry]
        otlp = "http://127.0.0.1:4318"
        sample = 0.5
        "#,
    )
    .unwrap();
    let limits = &config.limits;
    assert_eq!(limits.pipeline.max_concurrent_calls, 100);
    assert_eq!((limits.calls.caller_calls, limits.calls.calls_per_minute), (7, Some(600)));
    let common = SourceLimits {
        concurrency: 5,
        queue_wait: Duration::from_secs(2),
        breaker: None,
        ..SourceLimits::default()
    };
    assert_eq!(limits.calls.for_source("a"), &common);
    assert_eq!(limits.calls.for_source("unheard-of"), &common);
    let own = limits.calls.for_source("b");
    assert_eq!((own.concurrency, own.queue), (2, 0));
    let breaker = own.breaker.unwrap();
    assert_eq!((breaker.failures, breaker.open_for), (3, Duration::from_secs(60)));
    assert_eq!(breaker.slow, Duration::from_secs(5), "an absent key has its default");
    let hosts = |config: &Config, name: &str| {
        let service = config.sources.iter().find(|source| source.name == name).unwrap();
        let SourceKind::OpenApi(settings) = &service.kind else { panic!("it is a service") };
        (settings.client.breaker.failures, settings.client.breaker.open_for)
    };
    assert_eq!(hosts(&config, "c"), (4, Duration::from_secs(7)));
    assert_eq!(hosts(&config, "d").0, 0, "without an own setting, [limits] applies");
    let plain = parse("[source.d]\nopenapi = \"x.yaml\"").unwrap();
    assert_eq!(hosts(&plain, "d"), (5, Duration::from_secs(10)), "as for every source");
    assert_eq!(limits.calls.for_source("c").breaker, None, "each of its hosts has its own breaker");
    let otlp = config.telemetry.otlp.as_ref().unwrap();
    assert_eq!(otlp.as_str(), "http://127.0.0.1:4318/v1/traces");
}

#[test]
fn invalid_limits_are_reported() {
    for (text, message) in [
        ("[limits]\ncals = 1", "limits.cals: unknown key; did you mean `calls`?"),
        ("[limits]\ncalls = 0", "limits.calls: "),
        ("[limits]\njson_depth = 200", "limits.json_depth: must be at most 127"),
        ("[limits]\ncalls_per_minute = 0", "limits.calls_per_minute: must be greater than zero"),
        ("[limits]\nbody_timeout = \"0s\"", "limits.body_timeout: must be greater than zero"),
        ("[limits]\nqueue_wait = \"soon\"", "limits.queue_wait: expected a duration"),
        ("[limits]\nbreaker = { fails = 1 }", "limits.breaker.fails: unknown key"),
        ("[telemetry]\notlp = \"127.0.0.1:4318\"", "telemetry.otlp: invalid collector URL"),
        ("[http]\ncors = [\"*\"]", "http.cors: invalid origin"),
        ("[http]\ncors = [\"null\"]", "http.cors: invalid origin"),
        (
            "[http]\ncors = [\"https://App.example/\"]",
            "http.cors: browsers send this origin as \"https://app.example\"",
        ),
        ("[telemetry]\nsample = 2", "telemetry.sample: expected a number from 0 to 1"),
        ("[source.a]\nhub = { url = \"ws://x\" }\nconcurrency = 0", "source.a.concurrency: "),
        (
            "[source.a]\nopenapi = { document = \"x.yaml\", namespaces = \"keep\" }\nqueue = 2",
            "source.a.queue: cannot be combined with namespaces",
        ),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}\n{error}");
    }
}

/// The page lists every limit, with the same default as the schema.
#[test]
fn operations_doc_lists_every_limit_and_default() {
    let page = include_str!("../../../../../docs/operations.md");
    let schema = Config::json_schema();
    let limits = schema["$defs"]["Limits"]["properties"].as_object().unwrap();
    let table = page.split("## ").find(|part| part.starts_with("Limits")).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows: Vec<(&str, &str)> = rows
        .map(|row| {
            let (key, rest) = row.split_once("` | ").unwrap();
            (key, rest.split(" | ").next().unwrap())
        })
        .collect();
    let keys: Vec<&str> = rows.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, limits.keys().map(String::as_str).collect::<Vec<_>>());
    for (key, default) in rows {
        let message = default.strip_prefix('`').and_then(|text| text.strip_suffix('`'));
        let message = message.map(|text| {
            let read: Value = toml::from_str(&format!("v = {text}")).unwrap();
            read["v"].clone()
        });
        assert_eq!(message.as_ref(), limits[key].get("default"), "{key}");
    }
    for block in page.split("```toml\n").skip(1) {
        let text = block.split("```").next().unwrap().replace("${KEY}", "k");
        assert!(parse(&text).is_ok(), "{:?}", parse(&text).err());
    }
}
