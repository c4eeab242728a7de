//! The access matrix: callers × operations × endpoints. An independent implementation of the rules
//! computes the expected outcome, which every endpoint must match, including its listings.

mod endpoints;
mod fixture;

use serde_json::json;

use endpoints::{CALL_PATHS, LIST_ENDPOINTS, call, list};
use fixture::{Fixture, OPERATIONS, Operation, Requirement, TestCaller};

/// Computes the outcome of a call from the rules alone: an error code, or `outcome`.
fn expected_outcome(
    fixture: &Fixture,
    caller: &TestCaller,
    operation: &Operation,
    outcome: &'static str,
) -> &'static str {
    if caller.token.is_none() && !fixture.is_open {
        return "UNAUTHENTICATED";
    }
    let is_let_in = match operation.requirement {
        Requirement::Open => true,
        Requirement::All(scopes) => scopes.iter().all(|scope| caller.scopes.contains(scope)),
        Requirement::Any(scopes) => scopes.iter().any(|scope| caller.scopes.contains(scope)),
        Requirement::Document(number) => {
            caller.documents.contains(&"*") || caller.documents.contains(&number)
        }
    };
    if is_let_in { outcome } else { "ACCESS_DENIED" }
}

/// Whether the caller can call the operation with some input, so that it is listed.
fn is_visible(fixture: &Fixture, caller: &TestCaller, operation: &Operation) -> bool {
    match operation.requirement {
        Requirement::Document(_) => {
            (caller.token.is_some() || fixture.is_open) && !caller.documents.is_empty()
        }
        _ => expected_outcome(fixture, caller, operation, "seen") == "seen",
    }
}

async fn check_matrix(fixture: &Fixture) -> usize {
    let mut checked = 0;
    for caller in &fixture.callers {
        for endpoint in CALL_PATHS {
            for operation in OPERATIONS {
                let Some(found) = call(fixture, endpoint, caller, operation).await else {
                    continue;
                };
                let row = format!("{} calls {} by {endpoint}", caller.name, operation.id);
                let outcome = endpoint.outcome(operation);
                assert_eq!(found, expected_outcome(fixture, caller, operation, outcome), "{row}");
                checked += 1;
            }
        }
        for endpoint in LIST_ENDPOINTS {
            let Some(found) = list(fixture, endpoint, caller).await else { continue };
            checked += 1;
            let is_rejected = caller.token.is_none() && !fixture.is_open;
            let found = match found {
                Err(rejected) => {
                    assert!(
                        is_rejected && rejected == "UNAUTHENTICATED",
                        "{endpoint:?}: {rejected}"
                    );
                    continue;
                }
                Ok(found) => found,
            };
            assert!(!is_rejected, "{} lists by {endpoint:?}", caller.name);
            let expected_names = OPERATIONS.iter().filter(|operation| {
                is_visible(fixture, caller, operation)
                    && (endpoint.lists_non_tools() || operation.is_listed_tool())
            });
            let mut expected_names: Vec<String> =
                expected_names.map(|operation| endpoint.name_of(operation.id)).collect();
            expected_names.sort();
            expected_names.dedup();
            let all: Vec<String> = OPERATIONS.iter().map(|one| endpoint.name_of(one.id)).collect();
            let mut found: Vec<String> =
                found.into_iter().filter(|name| all.contains(name)).collect();
            found.sort();
            assert_eq!(found, expected_names, "{} lists by {endpoint:?}", caller.name);
        }
    }
    checked
}

#[tokio::test]
async fn access_result_is_equal_on_every_endpoint() {
    let fixture = Fixture::with_auth().await;
    let checked = check_matrix(&fixture).await;
    assert!(checked > 600, "{checked} cells were checked");
    fixture.stop().await;
}

#[tokio::test]
async fn open_gateway_allows_calls_but_not_administration() {
    let fixture = Fixture::without_auth().await;
    let checked = check_matrix(&fixture).await;
    assert!(checked > 200, "{checked} cells were checked");
    fixture.stop().await;
}

/// Without access, errors reveal neither schemas nor names, and `/health` reveals no counts.
#[tokio::test]
async fn errors_do_not_reveal_hidden_operations() {
    let fixture = Fixture::with_auth().await;
    let caller = fixture.callers.iter().find(|caller| caller.name == "no scopes").unwrap();
    let token = caller.token.as_deref().unwrap();
    let http = super::client();
    for (method, path) in [
        ("GET", "/api/t/all?a=x"),
        ("POST", "/api/t/all"),
        ("PUT", "/api/t/all"),
        ("OPTIONS", "/api/t/all"),
        ("HEAD", "/api/t/all"),
    ] {
        let request = http.request(method.parse().unwrap(), fixture.running.url(path));
        let response = request.bearer_auth(token).body("no json").send().await.unwrap();
        assert_eq!(response.status(), 403, "{method} {path}");
        let text = response.text().await.unwrap();
        assert!(!text.contains("expected") && !text.contains("query,"), "{method}: {text}");
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "t__al", "arguments": {}}});
    let request = http.post(fixture.running.url("/mcp")).bearer_auth(token).json(&call);
    let message = request.send().await.unwrap().text().await.unwrap();
    assert!(message.contains("unknown tool") && !message.contains("t__all"), "{message}");
    let searched = http.post(fixture.running.url("/api/hub/search")).bearer_auth(token);
    let searched = searched.json(&json!({"query": "all any", "limit": 100}));
    let found = searched.send().await.unwrap().text().await.unwrap();
    assert!(!found.contains("t.all") && !found.contains("t.any"), "{found}");
    let health = http.get(fixture.running.url("/health")).send().await.unwrap();
    let health: serde_json::Value = health.json().await.unwrap();
    assert!(health.get("operations").is_none(), "{health}");
    fixture.stop().await;
}

/// The challenge contains what an MCP client needs to request more scopes from an authorization
/// server.
#[tokio::test]
async fn missing_scope_is_named_in_the_challenge() {
    let fixture = Fixture::with_auth().await;
    let caller = fixture.callers.iter().find(|caller| caller.name == "no scopes").unwrap();
    let token = caller.token.as_deref().unwrap();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "t__all", "arguments": {}}});
    for (path, body, below) in [("/mcp", &call, "/mcp"), ("/api/t/all", &json!({}), "")] {
        let request = super::client().post(fixture.running.url(path)).bearer_auth(token);
        let response = request.json(body).send().await.unwrap();
        assert_eq!(response.status(), 403, "{path}");
        let challenge = response.headers()["www-authenticate"].to_str().unwrap();
        let metadata =
            format!("{}{below}", fixture.running.url("/.well-known/oauth-protected-resource"));
        let expected = format!(
            r#"Bearer realm="toolpost", error="insufficient_scope", scope="a b", resource_metadata="{metadata}""#
        );
        assert_eq!(challenge, expected, "{path}");
    }
    fixture.stop().await;
}
