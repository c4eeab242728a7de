//! Tests of `/health`, `/ready` and `/metrics`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use toolpost::Identity;
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, LimitsSettings, SourceState, admin, builtin};

use super::limits::{limited_gateway, metric};
use super::spokes::with_timeout;
use super::{TestGateway, client};

#[tokio::test]
async fn metrics_page_is_valid_prometheus_exposition() {
    let gateway = limited_gateway([], LimitsSettings::default(), 10_000).await;
    for (path, body) in [
        ("add", json!({"a": 1, "b": 2})),
        ("add", json!({"a": "x"})),
        ("note", json!({"text": "t"})),
        ("none", json!({})),
    ] {
        client().post(gateway.url(&format!("/api/demo/{path}"))).json(&body).send().await.unwrap();
    }
    let response = client().get(gateway.url("/metrics")).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let page = response.text().await.unwrap();
    let (mut kinds, mut seen, mut current) = (BTreeMap::new(), BTreeSet::new(), String::new());
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(help.ends_with('.') && !help.is_empty(), "{line}");
            current = name.to_owned();
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, current, "TYPE follows HELP");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            continue;
        }
        let (series, number) = line.rsplit_once(' ').unwrap();
        number.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
        let name = series.split('{').next().unwrap();
        let family = match kinds[&current].as_str() {
            "histogram" => ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end))
                .unwrap_or_else(|| panic!("{line}")),
            _ => name,
        };
        assert_eq!(family, current, "samples follow their description");
        assert!(seen.insert(series.to_owned()), "{series} twice");
    }
    for (start, expected) in [
        ("toolpost_calls_total{source=\"demo\",kind=\"query\",outcome=\"ok\"}", 1.0),
        ("toolpost_calls_total{source=\"demo\",kind=\"query\",outcome=\"VALIDATION_ERROR\"}", 1.0),
        ("toolpost_calls_total{source=\"demo\",kind=\"mutation\",outcome=\"ok\"}", 1.0),
        (
            "toolpost_calls_total{source=\"(none)\",kind=\"query\",outcome=\"OPERATION_NOT_FOUND\"}",
            1.0,
        ),
        ("toolpost_call_duration_seconds_count{source=\"demo\",kind=\"query\"}", 2.0),
        ("toolpost_call_duration_seconds_bucket{source=\"demo\",kind=\"query\",le=\"+Inf\"}", 2.0),
        ("toolpost_calls_in_flight{source=\"demo\"}", 0.0),
        ("toolpost_ready", 1.0),
    ] {
        assert_eq!(metric(&gateway, start).await, Some(expected), "{start}");
    }
    #[cfg(target_os = "linux")]
    for start in ["process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total"]
    {
        assert!(metric(&gateway, start).await.is_some(), "{start}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn metrics_and_ready_details_require_read_scope() {
    let (plain, reader) = (Token::generate().unwrap(), Token::generate().unwrap());
    let authenticator = Authenticator::with_tokens([
        (plain.hash(), Identity::new("plain").with_scopes(["source:x"])),
        (reader.hash(), Identity::new("reader").with_scopes([admin::scope::READ])),
    ]);
    let gateway = Gateway::builder(builtin::registry()).authenticator(authenticator);
    let running = TestGateway::serve(gateway, "127.0.0.1:0").await;
    for (token, metrics, has_details) in
        [(None, 401, false), (Some(&plain), 403, false), (Some(&reader), 200, true)]
    {
        let get = |path| {
            let request = client().get(running.url(path));
            token.map_or(client().get(running.url(path)), |token| {
                request.bearer_auth(token.reveal())
            })
        };
        assert_eq!(get("/metrics").send().await.unwrap().status(), metrics);
        let ready = get("/ready").send().await.unwrap();
        assert_eq!(ready.status(), 200, "readiness is visible without a token");
        let body: Value = ready.json().await.unwrap();
        assert_eq!(body.get("down").is_some(), has_details, "{body}");
    }
    running.stop().await;
}

#[tokio::test]
async fn readiness_follows_gateway_and_ignores_source_state() {
    let gateway = limited_gateway([], LimitsSettings::default(), 10_000).await;
    let text = "[source.gone]\nmcp = { command = \"/nonexistent/server\" }\n";
    let config = Config::parse("toolpost.toml".as_ref(), text, &|_| None).unwrap();
    gateway.gateway.apply_config(config).await.unwrap();
    let status = async || {
        let response = client().get(gateway.url("/ready")).send().await.unwrap();
        let code = response.status().as_u16();
        let body: Value = response.json().await.unwrap();
        (code, body["status"].as_str().unwrap().to_owned())
    };
    let starting = gateway.gateway.begin_startup();
    assert_eq!(status().await, (503, "starting".to_owned()));
    with_timeout("the source is down", async {
        while gateway.gateway.sources().await[0].state != SourceState::Down {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(starting);
    // A source that is down delays only the start.
    with_timeout("the gateway is ready", async {
        while status().await != (200, "ready".to_owned()) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    gateway.gateway.set_not_ready();
    assert_eq!(status().await, (503, "stopping".to_owned()));
    let response = client().post(gateway.url("/api/demo/add")).json(&json!({"a": 1, "b": 2}));
    assert_eq!(response.send().await.unwrap().status(), 200, "calls still get responses");
    let health: Value =
        client().get(gateway.url("/health")).send().await.unwrap().json().await.unwrap();
    assert_eq!(health["status"], "stopping");
    gateway.stop().await;
}

/// Two sources share a document whose service is down: one is called, the other excludes all
/// operations.
#[tokio::test]
async fn dead_service_opens_breaker_and_empty_source_stays_up() {
    let closed_address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let document = json!({"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
        "servers": [{"url": format!("http://{closed_address}")}],
        "paths": {"/look": {"get": {"operationId": "look", "responses": {"200": {"description": "x"}}}}}});
    let file = std::env::temp_dir().join(format!("toolpost-sight-{}.json", std::process::id()));
    std::fs::write(&file, document.to_string()).unwrap();
    let openapi = format!("openapi = '{}'", file.display());
    let text = format!(
        "[source.dead]\n{openapi}\nbreaker = {{ failures = 1 }}\n\
         [source.none]\n{openapi}\nexclude = [\"*\"]\n"
    );
    let config = Config::parse("toolpost.toml".as_ref(), &text, &|_| None).unwrap();
    let builder = Gateway::builder(builtin::registry()).config(config);
    let gateway = TestGateway::serve(builder, "127.0.0.1:0").await;
    let sources = async || gateway.gateway.sources().await;
    with_timeout("the sources are ready", async {
        while sources().await.iter().any(|source| source.state != SourceState::Ready) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let seen = async || {
        let sources = sources().await.into_iter();
        sources.map(|it| (it.operations, it.breaker.is_tripped())).collect::<Vec<_>>()
    };
    assert_eq!(seen().await, [(1, false), (0, false)]);
    for _ in 0..2 {
        let response = client().post(gateway.url("/api/dead/look")).json(&json!({}));
        assert_eq!(response.send().await.unwrap().status(), 503);
    }
    assert_eq!(seen().await, [(1, true), (0, false)]);
    for (start, expected) in [
        ("toolpost_source_breaker_open{source=\"dead\"}", 1.0),
        ("toolpost_source_breaker_open{source=\"none\"}", 0.0),
        ("toolpost_source_up{source=\"dead\"}", 1.0),
        ("toolpost_source_up{source=\"none\"}", 1.0),
        ("toolpost_rejections_total{limit=\"breaker\"}", 2.0),
    ] {
        assert_eq!(metric(&gateway, start).await, Some(expected), "{start}");
    }
    gateway.gateway.apply_config(Config::default()).await.unwrap();
    assert_eq!(metric(&gateway, "toolpost_source_up{source=\"dead\"}").await, None, "it has ended");
    gateway.stop().await;
    std::fs::remove_file(file).unwrap();
}
