//! Protocol generations, sessions and rejected requests.

use reqwest::StatusCode;
use serde_json::{Value, json};
use toolpost::Identity;
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::{Gateway, GatewaySettings, builtin};

use super::super::{TestGateway, client};
use super::{LEGACY, MODERN, message, modern, response_json};

#[tokio::test]
async fn legacy_initializes_and_modern_discovers() {
    let gateway = TestGateway::start().await;
    for (expected, agreed) in [("2024-11-05", "2024-11-05"), (LEGACY, LEGACY), (MODERN, LEGACY)] {
        let hello = json!({"protocolVersion": expected, "capabilities": {}, "clientInfo": {}});
        let welcome = response_json(gateway.legacy_request("", "initialize", &hello)).await;
        assert_eq!(welcome["result"]["protocolVersion"], agreed, "{welcome}");
        assert_eq!(welcome["result"]["serverInfo"]["name"], "toolpost");
        assert_eq!(welcome["result"]["capabilities"]["tools"]["listChanged"], true);
    }
    let found = response_json(gateway.modern_request("", "server/discover", &json!({}))).await;
    assert_eq!(found["result"]["supportedVersions"][0], MODERN);
    assert_eq!(found["result"]["resultType"], "complete");
    assert_eq!(found["result"]["cacheScope"], "public", "there is no authentication");
    let info = &found["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(info["name"], "toolpost");
    gateway.stop().await;
}

#[tokio::test]
async fn session_is_used_streamed_and_deleted() {
    let gateway = TestGateway::start().await;
    let session = gateway.start_session().await;
    let call = || gateway.legacy_request("", "ping", &json!({})).header("mcp-session-id", &session);
    assert_eq!(response_json(call()).await, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let response = gateway.post("").header("mcp-session-id", &session).json(&note).send().await;
    assert_eq!(response.unwrap().status(), StatusCode::ACCEPTED);

    let end = || client().delete(gateway.url("/mcp")).header("mcp-session-id", &session).send();
    let listen = client().get(gateway.url("/mcp")).header("mcp-session-id", &session);
    let mut stream = listen.header("accept", "text/event-stream").send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    assert_eq!(end().await.unwrap().status(), StatusCode::NO_CONTENT);
    while stream.chunk().await.unwrap().is_some() {}

    let rejected = call().send().await.unwrap();
    assert_eq!(rejected.status(), StatusCode::NOT_FOUND);
    let rejected: Value = rejected.json().await.unwrap();
    assert!(rejected["error"]["message"].as_str().unwrap().contains("initialize again"));
    assert_eq!(end().await.unwrap().status(), StatusCode::NOT_FOUND);
    gateway.stop().await;
}

#[tokio::test]
async fn session_of_other_identity_is_not_found() {
    let tokens = [Token::generate().unwrap(), Token::generate().unwrap()];
    let known = [("ann", &tokens[0]), ("bob", &tokens[1])];
    let known = known.map(|(name, token)| (token.hash(), Identity::new(name)));
    let gateway =
        Gateway::builder(builtin::registry()).authenticator(Authenticator::with_tokens(known));
    let gateway = TestGateway::serve(gateway, "127.0.0.1:0").await;
    let ask = |token: &Token, method: &str, params: Value| {
        gateway.legacy_request("", method, &params).bearer_auth(token.reveal())
    };
    let hello = json!({"protocolVersion": LEGACY});
    let welcome = ask(&tokens[0], "initialize", hello).send().await.unwrap();
    let session = welcome.headers()["mcp-session-id"].clone();
    for (token, status) in [(&tokens[0], 200), (&tokens[1], 404)] {
        let call = ask(token, "ping", json!({})).header("mcp-session-id", &session);
        assert_eq!(call.send().await.unwrap().status(), status);
        let end = client().delete(gateway.url("/mcp")).bearer_auth(token.reveal());
        let ended = end.header("mcp-session-id", "0".repeat(64)).send().await.unwrap();
        assert_eq!(ended.status(), 404);
    }
    for method in [reqwest::Method::GET, reqwest::Method::DELETE] {
        let other = client().request(method, gateway.url("/mcp")).bearer_auth(tokens[1].reveal());
        let other = other.header("accept", "text/event-stream").header("mcp-session-id", &session);
        assert_eq!(
            other.send().await.unwrap().status(),
            404,
            "the session belongs to another identity"
        );
    }
    {
        let call = ask(&tokens[0], "ping", json!({})).header("mcp-session-id", &session);
        assert_eq!(call.send().await.unwrap().status(), 200, "the session is still open");
    }
    let anonymous_response = gateway.legacy_request("", "ping", &json!({})).send().await.unwrap();
    assert_eq!(anonymous_response.status(), StatusCode::UNAUTHORIZED);
    assert!(anonymous_response.headers().contains_key("www-authenticate"));
    let list = gateway.modern_request("", "tools/list", &json!({})).bearer_auth(tokens[0].reveal());
    assert_eq!(response_json(list).await["result"]["cacheScope"], "private");
    gateway.stop().await;
}

/// Each row: the headers, the body, and the expected status and error code.
#[tokio::test]
async fn header_body_mismatch_is_rejected() {
    let gateway = TestGateway::start().await;
    let ping = || message(1, "ping", &json!({}));
    let call = |params: Value| message(1, "tools/call", &modern(&params));
    let add = || call(json!({"name": "demo__add", "arguments": {"a": 1, "b": 2}}));
    let version = ("mcp-protocol-version", MODERN);
    let method = ("mcp-method", "tools/call");
    let name = ("mcp-name", "demo__add");
    let rows: [(&[(&str, &str)], Value, u16, Option<i64>); 12] = [
        (&[], ping(), 200, None),
        (&[("mcp-protocol-version", "1999-01-01")], ping(), 400, Some(-32_022)),
        (&[version, method, name], add(), 200, None),
        (&[version, method], add(), 400, Some(-32_020)),
        (&[version, name], add(), 400, Some(-32_020)),
        (&[method, name], add(), 400, Some(-32_020)),
        (&[version, method, ("mcp-name", "demo__fail")], add(), 400, Some(-32_020)),
        (
            &[version, ("mcp-method", "ping")],
            message(1, "ping", &modern(&json!({}))),
            404,
            Some(-32_601),
        ),
        (
            &[version, ("mcp-method", "initialize")],
            message(1, "initialize", &modern(&json!({}))),
            404,
            Some(-32_601),
        ),
        (
            &[version, ("mcp-method", "tools/list")],
            message(1, "tools/list", &json!({})),
            400,
            Some(-32_602),
        ),
        (&[("mcp-session-id", "guessed")], ping(), 404, Some(-32_001)),
        (
            &[version, method, ("mcp-name", "none"), ("mcp-session-id", "x")],
            call(json!({"name": "none"})),
            200,
            Some(-32_602),
        ),
    ];
    for (headers, body, status, code) in rows {
        let mut request = gateway.post("").json(&body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{headers:?} {body}");
        let text: Value = response.json().await.unwrap();
        assert_eq!(text["error"]["code"].as_i64(), code, "{headers:?} {text}");
        assert!(text["id"] == 1 || code == Some(-32_001), "{text}");
    }
    gateway.stop().await;
}

/// Each row: the headers, the body, and the expected status and error code. Before 2026-07-28,
/// `Mcp-Method` and `Mcp-Name` have no meaning, and `initialize` negotiates the version in its body.
#[tokio::test]
async fn odd_headers_before_2026_07_28_are_accepted() {
    let gateway = TestGateway::start().await;
    let hello = || {
        let params = json!({"protocolVersion": LEGACY, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        message(1, "initialize", &params)
    };
    let ping = || message(1, "ping", &json!({}));
    let add = json!({"name": "demo__add", "arguments": {"a": 1, "b": 2}});
    let call = || message(1, "tools/call", &add);
    let with_version = |version: &str| {
        let mut params = add.clone();
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = version.into();
        message(1, "tools/call", &params)
    };
    let version = "mcp-protocol-version";
    let method = ("mcp-method", "tools/call");
    let rows: [(&[(&str, &str)], Value, u16, Option<i64>); 17] = [
        (&[("mcp-method", "initialize")], hello(), 200, None),
        (&[("mcp-method", "tools/list")], hello(), 200, None),
        (&[(version, LEGACY), ("mcp-method", "initialize")], hello(), 200, None),
        (&[(version, MODERN), ("mcp-method", "initialize")], hello(), 200, None),
        (&[(version, "2099-01-01")], hello(), 200, None),
        (&[(version, LEGACY), (version, LEGACY)], hello(), 200, None),
        (&[method, ("mcp-name", "demo__add")], call(), 200, None),
        (&[(version, LEGACY), method, ("mcp-name", "=?base64?ZGVtb19fYWRk?=")], call(), 200, None),
        (&[(version, "2024-11-05"), ("mcp-method", "Tools/Call")], call(), 200, None),
        (&[("mcp-name", "other")], call(), 200, None),
        (&[(version, "")], ping(), 200, None),
        (&[method, ("mcp-name", "demo__add")], with_version(LEGACY), 200, None),
        (&[(version, LEGACY)], with_version(LEGACY), 200, None),
        (&[(version, "2025-06-18")], with_version(LEGACY), 400, Some(-32_020)),
        (&[(version, LEGACY)], with_version(MODERN), 400, Some(-32_020)),
        (&[method, ("mcp-name", "demo__add")], with_version(MODERN), 400, Some(-32_020)),
        (&[(version, LEGACY), (version, "2025-06-18")], ping(), 400, Some(-32_020)),
    ];
    for (headers, body, status, code) in rows {
        let mut request = gateway.post("").json(&body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{headers:?} {body}");
        let text: Value = response.json().await.unwrap();
        assert_eq!(text["error"]["code"].as_i64(), code, "{headers:?} {text}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn batch_is_accepted_only_for_2025_03_26() {
    let gateway = TestGateway::start().await;
    let batch = json!([
        message(1, "ping", &json!({})),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        message(2, "tools/call", &json!({"name": "demo__add", "arguments": {"a": 1, "b": 2}})),
        message(3, "nothing", &json!({})),
        {"jsonrpc": "2.0", "id": 4},
        message(5, "initialize", &json!({})),
    ]);
    let responses = response_json(gateway.post("").json(&batch)).await;
    let codes: Vec<_> = responses.as_array().unwrap().iter().map(|a| &a["error"]["code"]).collect();
    assert_eq!(
        codes,
        [&Value::Null, &Value::Null, &json!(-32_601), &json!(-32_600), &json!(-32_600)]
    );
    assert_eq!(responses[1]["result"]["structuredContent"], json!({"sum": 3}));
    let notes = json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]);
    let response = gateway.post("").json(&notes).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    for (version, body) in [("2025-06-18", &notes), (MODERN, &notes), ("2025-03-26", &json!([]))] {
        let request = gateway.post("").header("mcp-protocol-version", version).json(body);
        assert_eq!(request.send().await.unwrap().status(), 400, "{version}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn batch_response_size_is_limited() {
    let echo = async |input: Value| Ok::<_, toolpost::HandlerError>(input);
    let large = toolpost::Operation::query("large.one", echo).description("x".repeat(400_000));
    let gateway =
        TestGateway::start_with([large.build().unwrap()], GatewaySettings::default()).await;
    let batch: Vec<_> = (0..60).map(|id| message(id, "tools/list", &json!({}))).collect();
    let responses = response_json(gateway.post("").json(&batch)).await;
    let responses = responses.as_array().unwrap();
    assert_eq!(responses.len(), 60);
    let rejected = responses.iter().filter(|response| response["error"]["code"] == -32_000).count();
    assert!((1..60).contains(&rejected), "{rejected} of 60");
    for (id, response) in responses.iter().enumerate() {
        assert_eq!(response["id"], id);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn session_limit_evicts_idle_sessions() {
    let mut settings = GatewaySettings::default();
    settings.mcp.max_sessions = 2;
    let gateway = TestGateway::start_with([], settings).await;
    let sessions = [
        gateway.start_session().await,
        gateway.start_session().await,
        gateway.start_session().await,
    ];
    let mut statuses = Vec::new();
    for session in &sessions {
        let ping = gateway.legacy_request("", "ping", &json!({})).header("mcp-session-id", session);
        statuses.push(ping.send().await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [404, 200, 200]);
    gateway.stop().await;
}
