//! The methods that an operation allows, and input in the query.

use reqwest::Method;
use serde_json::{Value, json};
use toolpost::{Handler, HandlerOutput, Operation, OperationKind, OperationSpec, Schema};
use toolpost_gateway::GatewaySettings;

use crate::{TestGateway, client};

/// Returns an operation that returns its input.
pub(super) fn echo(id: &str, kind: OperationKind, schema: Value) -> Operation {
    let mut spec = OperationSpec::new(&id.parse().unwrap(), kind);
    spec.input_schema = Schema::new(schema).unwrap();
    let handler = Handler::once_fn(async |_, input| Ok(HandlerOutput::Dynamic(input)));
    Operation::from_spec(spec).handler(handler).build().unwrap()
}

/// Each row: the method and path, and the expected status and `Allow` header.
#[tokio::test]
async fn operation_kind_determines_allowed_methods() {
    let gateway = TestGateway::start().await;
    let query = Some("GET, HEAD, POST, OPTIONS");
    let (stream, mutation) = (Some("GET, POST, OPTIONS"), Some("POST, OPTIONS"));
    for (method, path, status, allowed) in [
        ("GET", "/api/demo/add?a=1&b=2", 200, None),
        ("HEAD", "/api/demo/add?a=1&b=2", 200, None),
        ("HEAD", "/api/demo/add?a=1", 422, None),
        ("OPTIONS", "/api/demo/add", 204, query),
        ("PUT", "/api/demo/add", 405, query),
        ("DELETE", "/api/demo/add", 405, query),
        ("PATCH", "/api/demo/add", 405, query),
        ("TRACE", "/api/demo/add", 405, query),
        ("BREW", "/api/demo/add", 405, query),
        ("GET", "/api/demo/note?text=x", 405, mutation),
        ("HEAD", "/api/demo/note?text=x", 405, mutation),
        ("OPTIONS", "/api/demo/note", 204, mutation),
        ("HEAD", "/api/demo/clock?count=1", 405, stream),
        ("OPTIONS", "/api/demo/clock", 204, stream),
        ("GET", "/api/demo/clock?count=0", 200, None),
        ("OPTIONS", "/api/demo/none", 404, None),
        ("GET", "/api/demo/none", 404, None),
        ("PUT", "/health", 405, Some("GET,HEAD")),
        ("POST", "/hub", 405, Some("GET,HEAD")),
        ("HEAD", "/health", 200, None),
    ] {
        let verb = Method::from_bytes(method.as_bytes()).unwrap();
        let response = client().request(verb, gateway.url(path)).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{method} {path}");
        let allow = response.headers().get("allow").map(|value| value.to_str().unwrap());
        assert_eq!(allow, allowed, "{method} {path}");
        assert!(!response.headers().contains_key("access-control-allow-origin"));
        let is_head = method == "HEAD";
        let text = response.text().await.unwrap();
        assert_eq!(text.is_empty(), is_head || status == 204, "{method} {path}: {text}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn head_returns_get_headers() {
    let gateway = TestGateway::start().await;
    let url = gateway.url("/api/demo/add?a=1&b=2");
    let (get, head) = (client().get(&url).send().await, client().head(&url).send().await);
    let (get, head) = (get.unwrap(), head.unwrap());
    for name in ["content-type", "content-length", "cache-control"] {
        assert_eq!(get.headers()[name], head.headers()[name], "{name}");
    }
    assert_eq!(get.headers()["cache-control"], "no-store");
    assert_eq!(get.json::<Value>().await.unwrap(), json!({"sum": 3}));
    gateway.stop().await;
}

/// Each row: a query, and the expected input or the paths of the validation errors.
#[tokio::test]
async fn query_string_is_parsed_by_input_schema() {
    let point = json!({"type": "object", "properties": {"x": {"type": "number"}}});
    let typed = echo(
        "t.typed",
        OperationKind::Query,
        json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "maxLength": 5},
                "n": {"type": "integer"},
                "flag": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "point": point,
                "timeout": {"type": "integer"},
            },
        }),
    );
    let whole = echo("t.whole", OperationKind::Query, json!({"type": "array"}));
    let any = echo("t.any", OperationKind::Query, json!(true));
    let gateway = TestGateway::start_with([typed, whole, any], GatewaySettings::default()).await;
    let rows: [(&str, Result<Value, &[&str]>); 19] = [
        ("typed", Ok(json!({}))),
        ("typed?text=42&n=42", Ok(json!({"text": "42", "n": 42}))),
        ("typed?text=a+b%26", Ok(json!({"text": "a b&"}))),
        ("typed?flag=true", Ok(json!({"flag": true}))),
        ("typed?tags=a&tags=b", Ok(json!({"tags": ["a", "b"]}))),
        ("typed?point=%7B%22x%22:1%7D", Ok(json!({"point": {"x": 1}}))),
        // A property takes precedence over an option with the same name.
        ("typed?timeout=7&envelope=false", Ok(json!({"timeout": 7}))),
        ("typed?n=two", Err(&["/n"])),
        ("typed?n=1.5", Err(&["/n"])),
        ("typed?n=", Err(&["/n"])),
        ("typed?flag=1", Err(&["/flag"])),
        ("typed?text=abcdef", Err(&["/text"])),
        ("typed?n=1&n=2", Err(&["/n"])),
        ("typed?m=1&o=2", Err(&["/m", "/o"])),
        ("typed?point=%7B", Err(&["/point"])),
        ("whole?input=%5B1%5D", Ok(json!([1]))),
        ("whole?input=%7B%7D", Err(&[""])),
        ("whole?n=1", Err(&["/n"])),
        ("any?input=%22x%22", Ok(json!("x"))),
    ];
    for (path, expected) in rows {
        let response = client().get(gateway.url(&format!("/api/t/{path}"))).send().await.unwrap();
        let status = response.status().as_u16();
        let body: Value = response.json().await.unwrap();
        match expected {
            Ok(input) => assert_eq!((status, body), (200, input), "{path}"),
            Err(expected_paths) => {
                assert_eq!((status, &body["error"]["code"]), (422, &json!("VALIDATION_ERROR")));
                let details = body["error"]["details"].as_array().unwrap();
                let found: Vec<_> = details.iter().map(|issue| &issue["path"]).collect();
                assert_eq!(found, expected_paths, "{path}: {body}");
            }
        }
    }
    gateway.stop().await;
}
