//! A gateway that imports another gateway's OpenAPI document: operations, results and streams are
//! the same.
//!
//! | file | contains |
//! |---|---|
//! | `fixture` | a gateway with operations of every kind from every source, and one that imports it |
//! | `relay` | a TCP relay between the two that can be disconnected |

mod fixture;
mod relay;

use serde_json::{Value, json};
use toolpost::OperationSpec;

use super::spokes::{TIMEOUT, gateway_with_tokens, with_timeout};
use super::{TestGateway, client};
use fixture::{Fixture, config, import_first, importing_gateway, specs};

/// Serializes a spec without the parts that each gateway sets itself.
fn comparable_spec(mut spec: OperationSpec, id: [&str; 2]) -> Value {
    [spec.namespace, spec.name] = id.map(str::to_owned);
    let mut spec = serde_json::to_value(spec).unwrap();
    spec.as_object_mut().unwrap().remove("accessControl");
    let meta = spec.get_mut("_meta").and_then(Value::as_object_mut);
    let is_empty = meta.is_some_and(|meta| {
        meta.remove("toolpost/hub");
        meta.is_empty()
    });
    if is_empty {
        spec.as_object_mut().unwrap().remove("_meta");
    }
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_operations_equal_the_originals() {
    let fixture = Fixture::start().await;
    let (empty, _sources) = import_first(&fixture, "namespaces = \"keep\"", "").await;
    let own = specs(&fixture.first.gateway);
    let kinds = |kind: &str| own.iter().filter(|spec| spec.kind.as_str() == kind).count();
    assert!(kinds("query") > 5 && kinds("mutation") > 5 && kinds("subscription") > 3);
    for namespace in ["demo", "t", "everything", "pets", "box"] {
        assert!(own.iter().any(|spec| spec.namespace == namespace), "{namespace}");
    }
    let catalogs = [(&fixture.second.gateway, "below"), (&empty.gateway, "keep")];
    for (gateway, namespaces) in catalogs {
        let theirs = specs(gateway);
        let theirs: Vec<_> = theirs
            .iter()
            .filter(|spec| {
                spec.meta.as_ref().is_some_and(|meta| meta.other.contains_key("toolpost/hub"))
            })
            .collect();
        let expected: Vec<_> = own
            .iter()
            .filter(|spec| !matches!(spec.namespace.as_str(), "gateway" | "hub"))
            .collect();
        assert_eq!(theirs.len(), expected.len(), "{namespaces}");
        for spec in expected {
            let id = match namespaces {
                "below" => ["first".to_owned(), format!("{}.{}", spec.namespace, spec.name)],
                _ => [spec.namespace.clone(), spec.name.clone()],
            };
            let found =
                theirs.iter().find(|theirs| [&theirs.namespace, &theirs.name] == id.each_ref());
            let found = found.unwrap_or_else(|| panic!("{id:?} is missing"));
            let id = [&*spec.namespace, &*spec.name];
            assert_eq!(comparable_spec((**found).clone(), id), comparable_spec(spec.clone(), id));
        }
    }
    fixture.stop().await;
}

/// Returns the response of a call without the parts that differ between calls.
async fn call_response(
    gateway: &TestGateway,
    path: &str,
    accept: &str,
    timeout: Option<&str>,
    input: &str,
) -> Value {
    let mut request = client().post(gateway.url(path)).header("accept", accept);
    request = request.header("content-type", "application/json").body(input.to_owned());
    if let Some(timeout) = timeout {
        request = request.header("request-timeout", timeout);
    }
    let response = with_timeout(path, request.send()).await.unwrap();
    let status = response.status().as_u16();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    let text = response.text().await.unwrap().replace("first.", "");
    let body = match kind.as_str() {
        "text/event-stream" => text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with(':'))
            .map(event_line)
            .collect(),
        _ => without_variable_members(
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")),
        ),
    };
    json!({"status": status, "type": kind, "body": body})
}

/// Normalizes a line of an event stream: the event id without its stream id, or the data.
fn event_line(line: &str) -> Value {
    match line.split_once(": ").unwrap() {
        ("data", data) => without_variable_members(serde_json::from_str(data).unwrap()),
        ("id", id) => id.split_once('-').unwrap().1.into(),
        (_, kind) => kind.into(),
    }
}

fn without_variable_members(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            for name in ["timestamp", "requestId", "date", "elapsedMs"] {
                members.remove(name);
            }
            members.values_mut().for_each(|value| *value = without_variable_members(value.take()));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| *item = without_variable_members(item.take()));
        }
        _ => {}
    }
    value
}

const ENVELOPE: &str = "application/vnd.toolpost.envelope+json";

/// Each row: an operation, its input, the deadline, and the expected status as an envelope and as
/// data.
#[tokio::test(flavor = "multi_thread")]
async fn imported_calls_return_equal_results() {
    let fixture = Fixture::start().await;
    let short_timeout = Some("0.3");
    let rows: [(&str, &str, &str, Option<&str>, u16, u16); 24] = [
        ("demo", "add", r#"{"a": 2, "b": 3}"#, None, 200, 200),
        ("demo", "messy", "{}", None, 200, 200),
        ("t", "exact", "[123456789012345678901234567890, 1.10, -0.0, 1e300]", None, 200, 200),
        ("t", "exact", "null", None, 200, 200),
        ("t", "a%2Fb%20%7Bc%7D", "{}", None, 200, 200),
        ("t", "void", "{}", None, 200, 200),
        (
            "t",
            "recursive",
            r#"{"name": "a", "children": [{"name": "b", "children": []}]}"#,
            None,
            200,
            200,
        ),
        (
            "t",
            "recursive",
            r#"{"name": "a", "children": [{"name": 7, "children": []}]}"#,
            None,
            422,
            422,
        ),
        ("everything", "echo", r#"{"message": "hi"}"#, None, 200, 200),
        ("everything", "get-tiny-image", "{}", None, 200, 200),
        ("everything", "get-structured-content", r#"{"location": "New York"}"#, None, 200, 200),
        ("pets", "readPet", r#"{"id": 1}"#, None, 200, 200),
        ("pets", "addPet", r#"{"body": {"name": "Tim"}}"#, None, 200, 200),
        ("pets", "readPet", r#"{"id": 9}"#, None, 404, 404),
        ("box", "fs.read", r#"{"path": "/x"}"#, None, 200, 200),
        ("box", "fs.read", r#"{"path": "/gone"}"#, None, 410, 410),
        ("t", "tool", "{}", None, 200, 502),
        ("demo", "fail", "{}", None, 409, 409),
        ("t", "broken", "{}", None, 502, 502),
        ("t", "crash", "{}", None, 502, 502),
        ("demo", "add", r#"{"a": "x"}"#, None, 422, 422),
        ("demo", "add", r#"{"a": 1, "b": 2.5}"#, None, 200, 200),
        ("demo", "none", "{}", None, 404, 404),
        ("demo", "slow", r#"{"ms": 60000}"#, short_timeout, 504, 504),
    ];
    for (namespace, name, input, timeout, enveloped, plain) in rows {
        for (accept, status) in [(ENVELOPE, enveloped), ("application/json", plain)] {
            let direct = format!("/api/{namespace}/{name}");
            let direct = call_response(&fixture.first, &direct, accept, timeout, input).await;
            let through = format!("/api/first/{namespace}.{name}");
            let through = call_response(&fixture.second, &through, accept, timeout, input).await;
            assert_eq!(direct["status"], status, "{namespace}.{name} {input}: {direct}");
            assert_eq!(through, direct, "{namespace}.{name} {input} as {accept}");
        }
    }
    fixture.stop().await;
}

/// Each row: a subscription, its input and the expected number of values.
#[tokio::test(flavor = "multi_thread")]
async fn imported_streams_return_equal_events() {
    let fixture = Fixture::start().await;
    for (namespace, name, input, values) in [
        ("demo", "clock", r#"{"count": 3, "everyMs": 5}"#, 3),
        ("pets", "followNews", "{}", 2),
        ("box", "fs.watch", r#"{"count": 4}"#, 4),
        ("t", "breaks", "{}", 2),
    ] {
        for accept in
            ["text/event-stream", "text/event-stream, application/vnd.toolpost.envelope+json"]
        {
            let direct = format!("/api/{namespace}/{name}");
            let direct = call_response(&fixture.first, &direct, accept, None, input).await;
            let through = format!("/api/first/{namespace}.{name}");
            let through = call_response(&fixture.second, &through, accept, None, input).await;
            let lines = direct["body"].as_array().unwrap();
            let events = lines
                .iter()
                .filter(|line| line.as_str().is_some_and(|id| id.parse::<u32>().is_ok()));
            assert_eq!(events.count(), values + 1, "{namespace}.{name}: {direct}");
            assert_eq!(through, direct, "{namespace}.{name} as {accept}");
        }
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_stream_resumes_after_its_last_event() {
    let fixture = Fixture::start().await;
    let request = client().post(fixture.second.url("/api/first/t.feed")).json(&json!({}));
    let mut stream = with_timeout("the feed", request.send()).await.unwrap();
    fixture.publish(1..=3).await;
    let mut text = String::new();
    let mut seen = 0;
    let values = |text: &str| text.matches("data: ").count();
    for last in [3, 6, 9] {
        while values(&text) < last {
            let chunk = with_timeout("events", stream.chunk()).await.unwrap().unwrap();
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        seen += 1;
        if last < 9 {
            // Values published while the relay is disconnected arrive after the reconnect.
            fixture.relay.disconnect();
            fixture.publish((last as u64 + 1)..=(last as u64 + 3)).await;
        }
    }
    let data_lines: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!((data_lines.join(","), seen), ("1,2,3,4,5,6,7,8,9".to_owned(), 3));
    assert!(fixture.relay.disconnects() >= 2 && !text.contains("gap"), "{text}");
    drop(stream);
    fixture.stop().await;
}

/// Each row: additional settings of the document and the source, an id, and whether it is
/// registered.
#[tokio::test(flavor = "multi_thread")]
async fn include_exclude_and_rename_apply_to_imports() {
    let fixture = Fixture::start().await;
    let rows = [
        ("", "include = [\"demo.*\"]", "first.demo.add", true),
        ("", "include = [\"demo.*\"]", "first.t.exact", false),
        ("", "exclude = [\"demo.a*\"]", "first.demo.add", false),
        ("", "rename = { \"demo.add\" = \"plus\" }", "first.plus", true),
        ("", "prefix = \"far-\"", "first.far-demo.add", true),
        ("namespaces = \"below\"", "", "first.demo.add", true),
        ("namespaces = \"keep\"", "", "demo.add", true),
        ("namespaces = \"keep\"", "prefix = \"far-\"", "demo.far-add", true),
    ];
    for (table, beside, id, expected) in rows {
        let (gateway, _sources) = import_first(&fixture, table, beside).await;
        let catalog = gateway.gateway.pipeline().registry().catalog();
        assert_eq!(catalog.get(id).is_some(), expected, "{table} {beside} {id}");
        assert!(catalog.get("first.hub.list").is_none());
        gateway.stop().await;
    }
    fixture.stop().await;
}

/// Each row: additional settings of the document and the source, and the expected error; empty if
/// the document is loaded.
#[tokio::test(flavor = "multi_thread")]
async fn private_document_requires_credentials() {
    let (first, [token]) = gateway_with_tokens(["branch"]).await;
    let bearer = format!("auth = {{ bearer = \"{}\" }}", token.reveal());
    let rows = [
        ("private = true", &*bearer, ""),
        ("private = false", &*bearer, "401"),
        ("private = true", "auth = { bearer = \"toolpost_wrong\" }", "401"),
        ("private = true", "", "401"),
    ];
    for (table, beside, text) in rows {
        let url = first.url("/openapi.json");
        let (running, sources) = importing_gateway(&url, table, beside).await;
        let service = sources.running().next().unwrap();
        match service.ready(TIMEOUT).await {
            Ok(found) => {
                assert!(
                    text.is_empty() && found.warnings.is_empty(),
                    "{table} {beside}: {found:?}"
                );
                let input = r#"{"a": 2, "b": 3}"#;
                let sum =
                    call_response(&running, "/api/first/demo.add", "application/json", None, input)
                        .await;
                assert_eq!(sum["body"], json!({"sum": 5}));
            }
            Err(error) => {
                assert!(!text.is_empty() && error.message().contains(text), "{table}: {error}");
                assert!(error.message().contains("`private` on the source"), "{error}");
                assert!(!error.message().contains("toolpost_wrong"));
            }
        }
        running.stop().await;
    }
    first.stop().await;
}

/// Two gateways that import each other list only their own operations, not imported ones.
#[tokio::test(flavor = "multi_thread")]
async fn mutual_import_terminates() {
    let (left, right) = (TestGateway::start().await, TestGateway::start().await);
    let counts = |gateway: &TestGateway| specs(&gateway.gateway).len();
    let own = counts(&left);
    let mut sources = Vec::new();
    for (here, there) in [(&left, &right), (&right, &left), (&left, &right)] {
        let text = format!("[source.far]\nopenapi = \"{}\"\n", there.url("/openapi.json"));
        let source = here.gateway.start_sources(&config(&text));
        let service = source.running().next().unwrap();
        service.ready(TIMEOUT).await.unwrap();
        sources.push(source);
        let imported = specs(&here.gateway).into_iter().filter(|spec| spec.namespace == "far");
        assert!(imported.clone().all(|spec| spec.name.starts_with("demo.")));
        assert!(imported.count() < own);
    }
    drop(sources);
    left.stop().await;
    right.stop().await;
}

/// A kept namespace does not replace operations that are already registered.
#[tokio::test(flavor = "multi_thread")]
async fn kept_namespaces_do_not_replace_existing_operations() {
    let (first, second) = (TestGateway::start().await, TestGateway::start().await);
    let text = format!(
        "[source.far]\nopenapi = {{ document = \"{}\", namespaces = \"keep\" }}\n",
        first.url("/openapi.json")
    );
    let sources = second.gateway.start_sources(&config(&text));
    let service = sources.running().next().unwrap();
    let found = service.ready(TIMEOUT).await.unwrap();
    let expected = "demo.add is already registered; it is omitted";
    assert!(found.warnings.iter().any(|warning| warning == expected), "{:?}", found.warnings);
    assert!(specs(&second.gateway).iter().all(|spec| spec.meta.is_none()));
    assert!(sources.close(TIMEOUT).await);
    // No operation was imported, so closing the source removes none.
    let input = r#"{"a": 2, "b": 3}"#;
    let sum = call_response(&second, "/api/demo/add", "application/json", None, input).await;
    assert_eq!(sum["body"], json!({"sum": 5}));
    first.stop().await;
    second.stop().await;
}
