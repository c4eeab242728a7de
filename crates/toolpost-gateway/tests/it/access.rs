//! The access matrix: who × what × through which door. What is expected is worked out from the rules
//! by a few lines of its own, and has to be the answer at every door, listings included.

mod doors;
mod world;

use serde_json::json;

use doors::{CALLS, LISTS, call, list};
use world::{Need, OPERATIONS, Operation, Who, World};

/// What becomes of a call, by the rules alone: a refusal, or what it comes to.
fn expected(
    world: &World,
    who: &Who,
    operation: &Operation,
    outcome: &'static str,
) -> &'static str {
    if who.token.is_none() && !world.is_open {
        return "UNAUTHENTICATED";
    }
    let is_let_in = match operation.need {
        Need::Nothing => true,
        Need::All(scopes) => scopes.iter().all(|scope| who.scopes.contains(scope)),
        Need::Any(scopes) => scopes.iter().any(|scope| who.scopes.contains(scope)),
        Need::Document(number) => who.documents.contains(&"*") || who.documents.contains(&number),
    };
    if is_let_in { outcome } else { "ACCESS_DENIED" }
}

/// Whether somebody may call an operation with any input at all, so that he sees it.
fn is_seen(world: &World, who: &Who, operation: &Operation) -> bool {
    match operation.need {
        Need::Document(_) => (who.token.is_some() || world.is_open) && !who.documents.is_empty(),
        _ => expected(world, who, operation, "seen") == "seen",
    }
}

async fn check(world: &World) -> usize {
    let mut checked = 0;
    for who in &world.callers {
        for door in CALLS {
            for operation in OPERATIONS {
                let Some(found) = call(world, door, who, operation).await else { continue };
                let row = format!("{} calls {} by {door}", who.name, operation.id);
                let outcome = door.outcome(operation);
                assert_eq!(found, expected(world, who, operation, outcome), "{row}");
                checked += 1;
            }
        }
        for door in LISTS {
            let Some(found) = list(world, door, who).await else { continue };
            checked += 1;
            let is_refused = who.token.is_none() && !world.is_open;
            let found = match found {
                Err(refused) => {
                    assert!(is_refused && refused == "UNAUTHENTICATED", "{door:?}: {refused}");
                    continue;
                }
                Ok(found) => found,
            };
            assert!(!is_refused, "{} lists by {door:?}", who.name);
            let wanted = OPERATIONS.iter().filter(|operation| {
                is_seen(world, who, operation) && (door.lists_all() || operation.is_tool())
            });
            let mut wanted: Vec<String> =
                wanted.map(|operation| door.name_of(operation.id)).collect();
            wanted.sort();
            wanted.dedup();
            let all: Vec<String> = OPERATIONS.iter().map(|one| door.name_of(one.id)).collect();
            let mut found: Vec<String> =
                found.into_iter().filter(|name| all.contains(name)).collect();
            found.sort();
            assert_eq!(found, wanted, "{} lists by {door:?}", who.name);
        }
    }
    checked
}

#[tokio::test]
async fn the_answer_is_the_same_at_every_door_for_everybody() {
    let world = World::closed().await;
    let checked = check(&world).await;
    assert!(checked > 600, "{checked} cells were looked at");
    world.stop().await;
}

#[tokio::test]
async fn an_open_gateway_lets_everybody_call_and_nobody_administrate() {
    let world = World::open().await;
    let checked = check(&world).await;
    assert!(checked > 200, "{checked} cells were looked at");
    world.stop().await;
}

/// Whoever may not call learns from an error neither a schema nor a name, and from `/health` no number.
#[tokio::test]
async fn errors_tell_nothing_of_what_is_hidden() {
    let world = World::closed().await;
    let who = world.callers.iter().find(|who| who.name == "nobody special").unwrap();
    let token = who.token.as_deref().unwrap();
    let http = super::client();
    for (method, path) in [
        ("GET", "/api/t/all?a=x"),
        ("POST", "/api/t/all"),
        ("PUT", "/api/t/all"),
        ("OPTIONS", "/api/t/all"),
        ("HEAD", "/api/t/all"),
    ] {
        let request = http.request(method.parse().unwrap(), world.running.url(path));
        let response = request.bearer_auth(token).body("no json").send().await.unwrap();
        assert_eq!(response.status(), 403, "{method} {path}");
        let text = response.text().await.unwrap();
        assert!(!text.contains("expected") && !text.contains("query,"), "{method}: {text}");
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "t__al", "arguments": {}}});
    let request = http.post(world.running.url("/mcp")).bearer_auth(token).json(&call);
    let said = request.send().await.unwrap().text().await.unwrap();
    assert!(said.contains("unknown tool") && !said.contains("t__all"), "{said}");
    let searched = http.post(world.running.url("/api/hub/search")).bearer_auth(token);
    let searched = searched.json(&json!({"query": "all any", "limit": 100}));
    let found = searched.send().await.unwrap().text().await.unwrap();
    assert!(!found.contains("t.all") && !found.contains("t.any"), "{found}");
    let health = http.get(world.running.url("/health")).send().await.unwrap();
    let health: serde_json::Value = health.json().await.unwrap();
    assert!(health.get("operations").is_none(), "{health}");
    world.stop().await;
}

/// What an MCP client has to know to ask for more, where an authorization server could give it.
#[tokio::test]
async fn whoever_lacks_a_scope_is_told_which() {
    let world = World::closed().await;
    let who = world.callers.iter().find(|who| who.name == "nobody special").unwrap();
    let token = who.token.as_deref().unwrap();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "t__all", "arguments": {}}});
    for (path, body, below) in [("/mcp", &call, "/mcp"), ("/api/t/all", &json!({}), "")] {
        let request = super::client().post(world.running.url(path)).bearer_auth(token);
        let response = request.json(body).send().await.unwrap();
        assert_eq!(response.status(), 403, "{path}");
        let challenge = response.headers()["www-authenticate"].to_str().unwrap();
        let metadata =
            format!("{}{below}", world.running.url("/.well-known/oauth-protected-resource"));
        let expected = format!(
            r#"Bearer realm="toolpost", error="insufficient_scope", scope="a b", resource_metadata="{metadata}""#
        );
        assert_eq!(challenge, expected, "{path}");
    }
    world.stop().await;
}
