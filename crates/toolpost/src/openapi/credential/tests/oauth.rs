//! OAuth 2.0 client credentials against a local token endpoint.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;

use super::super::{Credential, CredentialStore, Credentials, OAuth2Client, OperationCredentials};
use super::fixture::{ClientAuthMethod, SECRET, TokenServer, http_client};
use crate::CallError;
use crate::openapi::plan::{SchemeRequirement, SecurityRequirement, SecurityScheme};
use crate::openapi::request::PreparedRequest;
use crate::openapi::request::tests::plans::{fill_request, plan};
use crate::protocol::Secret;
use crate::tls::ClientTls;

fn client(server: &TokenServer) -> OAuth2Client {
    let mut client = OAuth2Client::new("me", Secret::new(SECRET));
    client.token_url = Some(server.token_url());
    client
}

fn credential_store(client: OAuth2Client) -> CredentialStore {
    let generic = vec![Credential::OAuth2(client)];
    CredentialStore::new(
        Credentials { generic, ..Credentials::default() },
        http_client(),
        ClientTls::default(),
    )
    .unwrap()
}

fn security(server: &TokenServer, scopes: &[&str]) -> [SecurityRequirement; 1] {
    let scheme = SecurityScheme::OAuth2 { token_url: Some(server.token_url()) };
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    [vec![SchemeRequirement { name: "o".to_owned(), scheme: Arc::new(scheme), scopes }]]
}

/// Sends a request like the handler does: after a 401, once more with a new token.
async fn call(server: &TokenServer, credentials: &OperationCredentials) -> Result<u16, CallError> {
    let mut prepared = fill_request(plan("/api", Vec::new()), &server.origin, &json!({})).unwrap();
    credentials.apply(&mut prepared).await?;
    let status = send(&prepared).await;
    if status == 401 && credentials.apply_refreshed(&mut prepared).await? {
        return Ok(send(&prepared).await);
    }
    Ok(status)
}

async fn send(prepared: &PreparedRequest) -> u16 {
    let request = http_client().post(prepared.url.clone()).headers(prepared.headers.clone());
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_calls_share_one_token_and_one_refresh() {
    let server = TokenServer::start().await;
    let credential_store = credential_store(client(&server));
    // Each operation has its own credentials, and all of them share one token.
    let credentials: Vec<OperationCredentials> = (0..20)
        .map(|_| credential_store.for_operation(&security(&server, &["read"])).unwrap())
        .collect();
    for (name, given) in [("nothing yet", 1), ("kept", 1)] {
        let calls =
            join_all(credentials.iter().map(|credentials| call(&server, credentials))).await;
        assert!(calls.iter().all(|call| matches!(call, Ok(200))), "{name}: {calls:?}");
        assert_eq!(server.issued_token_count(), given, "{name}");
    }
    assert_eq!(server.state().token_requests[0].0["scope"], "read");
    server.state().valid_tokens.clear();
    let calls = join_all(credentials.iter().map(|credentials| call(&server, credentials))).await;
    assert!(calls.iter().all(|call| matches!(call, Ok(200))), "revoked: {calls:?}");
    assert_eq!(server.issued_token_count(), 2, "revoked");

    let other = credential_store.for_operation(&security(&server, &["write"])).unwrap();
    assert_eq!(call(&server, &other).await.unwrap(), 200);
    assert_eq!(server.issued_token_count(), 3, "another scope is another token");
    let message = format!("{credential_store:?} {credentials:?}");
    assert!(!message.contains(SECRET) && !message.contains("token-1"), "{message}");
}

#[tokio::test]
async fn persistent_401_is_retried_once_with_a_new_token() {
    let server = TokenServer::start().await;
    let credentials = credential_store(client(&server)).for_operation(&[]).unwrap();
    server.state().expires_in = json!(null);
    let mut prepared = fill_request(plan("/api", Vec::new()), &server.origin, &json!({})).unwrap();
    credentials.apply(&mut prepared).await.unwrap();
    server.state().valid_tokens.clear();
    assert!(credentials.apply_refreshed(&mut prepared).await.unwrap());
    assert_eq!((send(&prepared).await, server.issued_token_count()), (200, 2));
    let fixed = Credentials {
        generic: vec![Credential::Bearer(Secret::new("x"))],
        ..Credentials::default()
    };
    let credentials = CredentialStore::new(fixed, http_client(), ClientTls::default())
        .unwrap()
        .for_operation(&[])
        .unwrap();
    assert_eq!(call(&server, &credentials).await.unwrap(), 401, "a fixed token is not replaced");
}

#[tokio::test]
async fn client_secret_is_sent_in_header_or_form() {
    for takes in [ClientAuthMethod::Basic, ClientAuthMethod::Post] {
        let server = TokenServer::start().await;
        server.state().auth_method = takes;
        let mut client = client(&server);
        client.scopes = vec!["b".to_owned(), "a".to_owned()];
        client.parameters = [("audience".to_owned(), "https://a".to_owned())].into();
        let credentials =
            credential_store(client).for_operation(&security(&server, &["ignored"])).unwrap();
        assert_eq!(call(&server, &credentials).await.unwrap(), 200, "{takes:?}");
        let first = server.state().token_requests.len();
        assert_eq!(first, if takes == ClientAuthMethod::Basic { 1 } else { 2 });
        {
            let inside = server.state();
            let (form, _) = inside.token_requests.last().unwrap();
            assert_eq!((form["scope"].as_str(), form["audience"].as_str()), ("a b", "https://a"));
            assert_eq!(form.contains_key("client_secret"), takes == ClientAuthMethod::Post);
        }
        server.state().valid_tokens.clear();
        assert_eq!(call(&server, &credentials).await.unwrap(), 200, "{takes:?}");
        assert_eq!(
            server.state().token_requests.len(),
            first + 1,
            "the detected authentication method is kept"
        );
    }
}

#[tokio::test]
async fn token_is_refreshed_before_expiry() {
    let server = TokenServer::start().await;
    let credentials = credential_store(client(&server)).for_operation(&[]).unwrap();
    for (expires_in, life) in [(json!(1000), 970), (json!("100"), 90), (json!(10.7), 9)] {
        server.state().expires_in = expires_in.clone();
        server.state().valid_tokens.clear();
        let before = server.issued_token_count();
        assert_eq!(call(&server, &credentials).await.unwrap(), 200);
        let moments = [(life - 1, 1), (2, 2)];
        for (seconds, given) in moments {
            advance_time(seconds).await;
            let mut prepared =
                fill_request(plan("/api", Vec::new()), &server.origin, &json!({})).unwrap();
            credentials.apply(&mut prepared).await.unwrap();
            assert_eq!(server.issued_token_count() - before, given, "{expires_in} {seconds}");
        }
    }
}

#[tokio::test]
async fn token_is_used_until_expiry_when_refresh_fails() {
    let server = TokenServer::start().await;
    let credentials = credential_store(client(&server)).for_operation(&[]).unwrap();
    server.state().expires_in = json!(100);
    assert_eq!(call(&server, &credentials).await.unwrap(), 200);
    server.state().canned_response = Some((503, String::new()));
    advance_time(95).await;
    assert_eq!(call(&server, &credentials).await.unwrap(), 200);
    advance_time(6).await;
    let error = call(&server, &credentials).await.unwrap_err();
    assert_eq!(error.code().as_str(), "UNAVAILABLE");
    assert!(error.message().contains("503"), "{error}");
}

/// Advances the clock for token expiry. The clock runs again before the next network access.
async fn advance_time(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn hostile_token_endpoint_is_rejected_without_leaking_secrets() {
    let elsewhere = TokenServer::start().await;
    let huge = json!({"access_token": "x".repeat(1 << 20)}).to_string();
    let echo = json!({"error": "invalid_client", "error_description": format!("no {SECRET}\n")});
    let rows = [
        ("it redirects to another location", 307, elsewhere.token_url().to_string(), 1),
        ("it redirects to another location", 302, elsewhere.token_url().to_string(), 1),
        ("larger than", 200, huge, 1),
        ("not a valid header value", 200, json!({"access_token": "token-\r\nx: y"}).to_string(), 1),
        ("not a valid header value", 200, json!({"access_token": ""}).to_string(), 1),
        (
            "type Bearer",
            200,
            json!({"access_token": "token-1", "token_type": "mac"}).to_string(),
            1,
        ),
        ("no access token", 200, json!({"x": "token-1"}).to_string(), 1),
        ("not a token response", 200, "token-1".to_owned(), 1),
        ("status 204", 204, String::new(), 1),
        ("rejected the request: invalid_client (no …", 400, echo.to_string(), 2),
        (
            "rejected the request: invalid_scope",
            400,
            json!({"error": "invalid_scope"}).to_string(),
            1,
        ),
        ("rejected the request: status 403", 403, String::new(), 2),
    ];
    for (text, status, body, requests) in rows {
        let server = TokenServer::start().await;
        server.state().canned_response = Some((status, body));
        let credentials = credential_store(client(&server)).for_operation(&[]).unwrap();
        let error = call(&server, &credentials).await.unwrap_err();
        let rendered = format!("{error} {error:?}");
        assert!(error.message().contains(text), "{error}");
        assert!(!rendered.contains(SECRET) && !rendered.contains("token-"), "{rendered}");
        assert_eq!(server.state().token_requests.len(), requests, "{text}");
        // The error is cached: an immediate second call fails without another token request.
        assert!(call(&server, &credentials).await.is_err());
        assert_eq!(server.state().token_requests.len(), requests, "{text}");
    }
    assert!(elsewhere.state().token_requests.is_empty());
}

#[test]
fn token_url_must_be_https_or_loopback() {
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
        match credential_store(client).for_operation(&[]) {
            Ok(_) => assert!(good, "{url}"),
            Err(error) => {
                let message = format!("{error} {error:?}");
                assert!(!good && !message.contains("hush"), "{message}");
            }
        }
    }
}
