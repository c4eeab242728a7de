//! OAuth 2.0 client credentials against a real token endpoint.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;

use super::super::{Credential, Credentials, Keyring, Keys, OAuth2Client};
use super::world::{SECRET, Takes, World, http};
use crate::CallError;
use crate::openapi::plan::{Credential as Wanted, Requirement, Scheme};
use crate::openapi::request::Prepared;
use crate::openapi::request::tests::plans::{filled, plan};
use crate::protocol::Secret;

fn client(world: &World) -> OAuth2Client {
    let mut client = OAuth2Client::new("me", Secret::new(SECRET));
    client.token_url = Some(world.token_url());
    client
}

fn keyring(client: OAuth2Client) -> Keyring {
    let generic = vec![Credential::OAuth2(client)];
    Keyring::new(Credentials { generic, ..Credentials::default() }, http()).unwrap()
}

fn security(world: &World, scopes: &[&str]) -> [Requirement; 1] {
    let scheme = Scheme::OAuth2 {
        token_url: Some(world.token_url()),
        refresh_url: None,
        has_client_credentials: true,
    };
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    [vec![Wanted { name: "o".to_owned(), scheme: Arc::new(scheme), scopes }]]
}

/// A call as it is made: once more with another token after a 401.
async fn call(world: &World, keys: &Keys) -> Result<u16, CallError> {
    let mut prepared = filled(plan("/api", Vec::new()), &world.origin, &json!({})).unwrap();
    keys.show(&mut prepared).await?;
    let status = sent(&prepared).await;
    if status == 401 && keys.show_again(&mut prepared).await? {
        return Ok(sent(&prepared).await);
    }
    Ok(status)
}

async fn sent(prepared: &Prepared) -> u16 {
    let request = http().post(prepared.url.clone()).headers(prepared.headers.clone());
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_share_one_token_and_one_renewal() {
    let world = World::start().await;
    let keyring = keyring(client(&world));
    // Each operation has keys of its own, and all of them have one token.
    let keys: Vec<Keys> =
        (0..20).map(|_| keyring.keys(&security(&world, &["read"])).unwrap()).collect();
    for (name, given) in [("nothing yet", 1), ("kept", 1)] {
        let calls = join_all(keys.iter().map(|keys| call(&world, keys))).await;
        assert!(calls.iter().all(|call| matches!(call, Ok(200))), "{name}: {calls:?}");
        assert_eq!(world.given(), given, "{name}");
    }
    assert_eq!(world.inside().asked[0].0["scope"], "read");
    world.inside().good.clear();
    let calls = join_all(keys.iter().map(|keys| call(&world, keys))).await;
    assert!(calls.iter().all(|call| matches!(call, Ok(200))), "revoked: {calls:?}");
    assert_eq!(world.given(), 2, "revoked");

    let other = keyring.keys(&security(&world, &["write"])).unwrap();
    assert_eq!(call(&world, &other).await.unwrap(), 200);
    assert_eq!(world.given(), 3, "another scope is another token");
    let said = format!("{keyring:?} {keys:?}");
    assert!(!said.contains(SECRET) && !said.contains("token-1"), "{said}");
}

#[tokio::test]
async fn a_service_that_is_never_content_is_asked_twice() {
    let world = World::start().await;
    let keys = keyring(client(&world)).keys(&[]).unwrap();
    world.inside().expires_in = json!(null);
    let mut prepared = filled(plan("/api", Vec::new()), &world.origin, &json!({})).unwrap();
    keys.show(&mut prepared).await.unwrap();
    world.inside().good.clear();
    assert!(keys.show_again(&mut prepared).await.unwrap());
    assert_eq!((sent(&prepared).await, world.given()), (200, 2));
    let fixed = Credentials {
        generic: vec![Credential::Bearer(Secret::new("x"))],
        ..Credentials::default()
    };
    let keys = Keyring::new(fixed, http()).unwrap().keys(&[]).unwrap();
    assert_eq!(call(&world, &keys).await.unwrap(), 401, "there is no other than a fixed one");
}

#[tokio::test]
async fn the_secret_stands_where_the_server_takes_it() {
    for takes in [Takes::Header, Takes::Form] {
        let world = World::start().await;
        world.inside().takes = takes;
        let mut client = client(&world);
        client.scopes = vec!["b".to_owned(), "a".to_owned()];
        client.parameters = [("audience".to_owned(), "https://a".to_owned())].into();
        let keys = keyring(client).keys(&security(&world, &["ignored"])).unwrap();
        assert_eq!(call(&world, &keys).await.unwrap(), 200, "{takes:?}");
        let first = world.inside().asked.len();
        assert_eq!(first, if takes == Takes::Header { 1 } else { 2 });
        {
            let inside = world.inside();
            let (form, _) = inside.asked.last().unwrap();
            assert_eq!((form["scope"].as_str(), form["audience"].as_str()), ("a b", "https://a"));
            assert_eq!(form.contains_key("client_secret"), takes == Takes::Form);
        }
        world.inside().good.clear();
        assert_eq!(call(&world, &keys).await.unwrap(), 200, "{takes:?}");
        assert_eq!(world.inside().asked.len(), first + 1, "what was learnt is kept");
    }
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends() {
    let world = World::start().await;
    let keys = keyring(client(&world)).keys(&[]).unwrap();
    for (expires_in, life) in [(json!(1000), 970), (json!("100"), 90), (json!(10.7), 9)] {
        world.inside().expires_in = expires_in.clone();
        world.inside().good.clear();
        let before = world.given();
        assert_eq!(call(&world, &keys).await.unwrap(), 200);
        let moments = [(life - 1, 1), (2, 2)];
        for (seconds, given) in moments {
            forward(seconds).await;
            let mut prepared = filled(plan("/api", Vec::new()), &world.origin, &json!({})).unwrap();
            keys.show(&mut prepared).await.unwrap();
            assert_eq!(world.given() - before, given, "{expires_in} {seconds}");
        }
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_renewed_is_used_to_its_end() {
    let world = World::start().await;
    let keys = keyring(client(&world)).keys(&[]).unwrap();
    world.inside().expires_in = json!(100);
    assert_eq!(call(&world, &keys).await.unwrap(), 200);
    world.inside().instead = Some((503, String::new()));
    forward(95).await;
    assert_eq!(call(&world, &keys).await.unwrap(), 200);
    forward(6).await;
    let error = call(&world, &keys).await.unwrap_err();
    assert_eq!(error.code().as_str(), "UNAVAILABLE");
    assert!(error.message().contains("503"), "{error}");
}

/// Time passes for tokens, and not for the network.
async fn forward(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn hostile_token_endpoints_get_and_give_nothing() {
    let elsewhere = World::start().await;
    let huge = json!({"access_token": "x".repeat(1 << 20)}).to_string();
    let echo = json!({"error": "invalid_client", "error_description": format!("no {SECRET}\n")});
    let rows = [
        ("somewhere else", 307, elsewhere.token_url().to_string(), 1),
        ("somewhere else", 302, elsewhere.token_url().to_string(), 1),
        ("larger than", 200, huge, 1),
        ("fit a header", 200, json!({"access_token": "token-\r\nx: y"}).to_string(), 1),
        ("fit a header", 200, json!({"access_token": ""}).to_string(), 1),
        (
            "type Bearer",
            200,
            json!({"access_token": "token-1", "token_type": "mac"}).to_string(),
            1,
        ),
        ("no access token", 200, json!({"x": "token-1"}).to_string(), 1),
        ("not the description", 200, "token-1".to_owned(), 1),
        ("status 204", 204, String::new(), 1),
        ("refuses: invalid_client (no …", 400, echo.to_string(), 2),
        ("refuses: invalid_scope", 400, json!({"error": "invalid_scope"}).to_string(), 1),
        ("refuses: status 403", 403, String::new(), 2),
    ];
    for (words, status, body, requests) in rows {
        let world = World::start().await;
        world.inside().instead = Some((status, body));
        let keys = keyring(client(&world)).keys(&[]).unwrap();
        let error = call(&world, &keys).await.unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(error.message().contains(words), "{error}");
        assert!(!said.contains(SECRET) && !said.contains("token-"), "{said}");
        assert_eq!(world.inside().asked.len(), requests, "{words}");
        // Those who come at once are told the same, and the server is left in peace.
        assert!(call(&world, &keys).await.is_err());
        assert_eq!(world.inside().asked.len(), requests, "{words}");
    }
    assert!(elsewhere.inside().asked.is_empty());
}

#[test]
fn secrets_go_encrypted_or_not_off_this_machine() {
    let rows = [
        ("https://a.example/token", true),
        ("http://localhost:1/token", true),
        ("http://[::1]:1/token", true),
        ("http://a.example/token", false),
        ("http://192.168.0.1/token", false),
        ("https://me:hush@a.example/token", false),
        ("ftp://localhost/token", false),
    ];
    for (url, good) in rows {
        let mut client = OAuth2Client::new("me", Secret::new(SECRET));
        client.token_url = Some(url.parse().unwrap());
        match keyring(client).keys(&[]) {
            Ok(_) => assert!(good, "{url}"),
            Err(error) => {
                let said = format!("{error} {error:?}");
                assert!(!good && !said.contains("hush"), "{said}");
            }
        }
    }
}
