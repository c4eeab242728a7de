//! Tokens at the HTTP endpoint: which callers are admitted, which are challenged, and which
//! operations each can call.

use reqwest::header::{HeaderValue, WWW_AUTHENTICATE};
use serde_json::{Value, json};
use toolpost::{
    AccessControl, Handler, HandlerOutput, Identity, Operation, OperationKind, OperationSpec,
};
use toolpost_gateway::auth::{Authenticator, Token, TokenHash};
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, GatewayBuilder, builtin};

use super::hub::HubClient;
use super::{TestGateway, client};

/// `who.am` returns the caller's id. `who.admin` does the same and requires the scope `admin`.
fn gateway() -> GatewayBuilder {
    let registry = builtin::registry();
    for (id, scopes) in [("who.am", vec![]), ("who.admin", vec!["admin".to_owned()])] {
        let mut spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Query);
        spec.access_control = AccessControl::default();
        spec.access_control.required_scopes = scopes;
        let response = Handler::once_fn(async |context: toolpost::CallContext, _| {
            let name = context.identity().map(|identity| identity.id.clone());
            Ok(HandlerOutput::dynamic(json!(name)))
        });
        registry.register(Operation::from_spec(spec).handler(response).build().unwrap()).unwrap();
    }
    Gateway::builder(registry)
}

/// Each row: the path, the `Authorization` header, the status, and a part of the response.
async fn check(running: &TestGateway, rows: &[(&str, Option<&str>, u16, &str)]) {
    for (path, authorization, status, message) in rows {
        let mut request = client().post(running.url(path)).json(&json!({}));
        if let Some(value) = authorization {
            request = request.header("authorization", *value);
        }
        let response = request.send().await.unwrap();
        let row = format!("{path} {}", authorization.is_some());
        assert_eq!(response.status().as_u16(), *status, "{row}");
        let challenge = response.headers().get(WWW_AUTHENTICATE).map(HeaderValue::to_str);
        match challenge {
            Some(challenge) => {
                assert_eq!(*status, 401, "{row}");
                assert!(challenge.unwrap().starts_with("Bearer realm="), "{row}");
                assert_eq!(response.headers()["content-type"], "application/problem+json");
            }
            None => assert_ne!(*status, 401, "{row}"),
        }
        let text = response.text().await.unwrap();
        assert!(text.contains(message), "{row}: {text}");
        if let Some((_, secret)) = authorization.and_then(|value| value.split_once(' ')) {
            assert!(secret.is_empty() || !text.contains(secret), "{row}: {text}");
        }
    }
}

#[tokio::test]
async fn without_identities_callers_are_local_and_tokens_fail() {
    let running = TestGateway::serve(gateway(), "127.0.0.1:0").await;
    let unknown = "invalid token";
    check(
        &running,
        &[
            ("/api/who/am", None, 200, "\"local\""),
            ("/api/who/admin", None, 403, "`local` lacks the scope `admin`"),
            ("/api/who/am", Some("Bearer tpt_whatever"), 401, unknown),
            ("/api/who/am", Some("Bearer "), 401, "must be `Bearer` and a token"),
            ("/api/who/am", Some("Basic YTpi"), 401, "must be `Bearer` and a token"),
        ],
    )
    .await;
    running.stop().await;
}

#[tokio::test]
async fn with_identities_a_valid_token_is_required() {
    let (ci, root) = (Token::generate().unwrap(), Token::generate().unwrap());
    let authenticator = Authenticator::with_tokens([
        (ci.hash(), Identity::new("ci")),
        (root.hash(), Identity::new("root").with_scopes(["admin"])),
    ]);
    let running = TestGateway::serve(gateway().authenticator(authenticator), "127.0.0.1:0").await;
    let as_ci = format!("Bearer {}", ci.reveal());
    let as_root = format!("bearer  {}", root.reveal());
    let cut = &as_ci[..as_ci.len() - 1];
    let missing = "missing token";
    check(
        &running,
        &[
            ("/api/who/am", None, 401, missing),
            ("/api/who/none", None, 401, missing),
            ("/api/demo.x/add", None, 401, missing),
            ("/api/demo/clock", None, 401, missing),
            ("/api/who/am", Some(cut), 401, "invalid token"),
            ("/api/who/am", Some("Bearer"), 401, "must be `Bearer` and a token"),
            ("/api/who/am", Some(ci.reveal()), 401, "must be `Bearer` and a token"),
            ("/api/who/am", Some(&as_ci), 200, "\"ci\""),
            ("/api/who/am", Some(&as_root), 200, "\"root\""),
            ("/api/who/admin", Some(&as_ci), 403, "`ci` lacks the scope `admin`"),
            ("/api/who/admin", Some(&as_root), 200, "\"root\""),
            ("/api/who/none", Some(&as_ci), 404, "Operation not found"),
        ],
    )
    .await;
    let health = client().get(running.url("/health")).send().await.unwrap();
    assert_eq!(health.status(), 200, "a health check needs no token");
    running.stop().await;
}

#[tokio::test]
async fn with_identities_any_host_passes_but_no_foreign_origin() {
    let token = Token::generate().unwrap();
    let authenticator = Authenticator::with_tokens([(token.hash(), Identity::new("ci"))]);
    let gateway = gateway().authenticator(authenticator);
    let mut running = TestGateway::serve(gateway, "0.0.0.0:0").await;
    running.address.set_ip([127, 0, 0, 1].into());
    for (host, origin, status) in [
        ("hub.example", None, 200),
        ("hub.example", Some("https://hub.example"), 200),
        ("hub.example", Some("https://evil.example"), 403),
        ("hub.example", Some("null"), 403),
    ] {
        let mut request = client().post(running.url("/api/who/am")).bearer_auth(token.reveal());
        request = request.header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{host} {origin:?}");
        let body: Value = response.json().await.unwrap();
        assert!(status == 200 || body["detail"].as_str().unwrap().contains("another host"));
    }
    running.stop().await;
}

/// Two identities choose the same request id, and one of them claims it as the parent of its call.
#[tokio::test]
async fn request_ids_are_recorded_per_identity() {
    let data = std::env::temp_dir().join(format!("toolpost-request-ids-{}", std::process::id()));
    let identity = |name: &str| {
        let hash = TokenHash::of(&format!("tpt_{name}"));
        format!("[identity.{name}]\ntoken_hash = \"{hash}\"\nscopes = [\"toolpost:read\"]\n")
    };
    let text = identity("ada") + &identity("bob");
    let config = Config::parse("toolpost.toml".as_ref(), &text, &|_| None).unwrap();
    let builder = Gateway::builder(builtin::registry()).config(config).journal(&data);
    let running = TestGateway::serve(builder, "127.0.0.1:0").await;
    let post = |name: &str, path: &str, input: &Value| {
        let request = client().post(running.url(path)).bearer_auth(format!("tpt_{name}"));
        request.header("x-request-id", "same").json(input).send()
    };
    let add = json!({"a": 2, "b": 3});
    for name in ["ada", "bob"] {
        let response = post(name, "/api/demo/add", &add).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.headers()["x-request-id"].as_bytes()),
            (200, &b"same"[..])
        );
    }
    let mut bob = HubClient::with_token(running.address, "tpt_bob").await;
    let payload = json!({"requestId": "child", "operationId": "demo.note",
        "input": {"text": "x"}, "parentRequestId": "same"});
    bob.send_json(&json!({"type": "call.requested", "id": "child", "payload": payload})).await;
    assert_eq!(bob.recv_event().await["type"], "call.responded");

    let journal = async |query: Value| -> Value {
        post("ada", "/api/gateway/journal", &query).await.unwrap().json().await.unwrap()
    };
    let found = journal(json!({"id": "bob/same"})).await;
    assert_eq!(found["calls"][0]["identity"], "bob", "{found}");
    let found = journal(json!({"op": "demo.add"})).await;
    let ids: Vec<&Value> = found["calls"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, ["bob/same", "ada/same"], "{found}");
    let found = journal(json!({"op": "demo.note"})).await;
    let child = &found["calls"][0];
    assert_eq!(
        (&child["id"], &child["parent"]),
        (&json!("bob/child"), &json!("bob/same")),
        "{found}"
    );
    let ambiguous = journal(json!({"id": "same"})).await;
    assert!(ambiguous.to_string().contains("several calls have the id `same`"), "{ambiguous}");
    running.stop().await;
    let _ = std::fs::remove_dir_all(data);
}
