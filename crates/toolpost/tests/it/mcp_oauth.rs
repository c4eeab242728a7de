//! The OAuth client against a local authorization server.

mod fixture;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use toolpost::mcp::{
    CredentialStore, FileStore, LoopbackAuthorizer, MemoryStore, OAuth, OAuthError, OAuthSettings,
};
use toolpost::protocol::Secret;
use url::Url;

use fixture::{
    CLIENT_SECRET, HttpReply, OAuthFixture, RESOURCE_METADATA, SERVER_METADATA, expire_tokens, http,
};

fn memory_store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new())
}

/// A folder that is removed on drop.
struct TempDir(std::path::PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("toolpost-oauth-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn store(&self) -> Arc<FileStore> {
        Arc::new(FileStore::new(self.0.join("deep/credentials.json")))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn user_authorizes_once_and_token_is_reused() {
    let fixture = OAuthFixture::start().await;
    let oauth = fixture.client(memory_store(), true);
    assert!(oauth.token().await.unwrap().is_none());
    let token = fixture.call(&oauth, "basic").await.unwrap();
    assert_eq!(fixture.call(&oauth, "basic").await.unwrap(), token);
    for path in [RESOURCE_METADATA, SERVER_METADATA, "/as/register", "/as/authorize", "/as/token"] {
        assert_eq!(fixture.count(path), 1, "{path}");
    }
    let authorize_params = fixture.last_request("/as/authorize").fields;
    assert_eq!(authorize_params["resource"], fixture.url().as_str());
    assert_eq!(authorize_params["scope"], "basic");
    let debug_text = format!("{oauth:?}");
    assert!(!debug_text.contains(&token) && !debug_text.contains(CLIENT_SECRET), "{debug_text}");
}

#[tokio::test]
async fn loopback_authorizer_receives_browser_redirect() {
    let fixture = OAuthFixture::start().await;
    let (address_sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    let open_browser = move |address: &Url| address_sender.send(address.clone()).unwrap();
    let loopback = LoopbackAuthorizer::bind(0, open_browser).await.unwrap();
    let settings = OAuthSettings::default();
    let oauth =
        OAuth::new(http(), fixture.url(), settings, memory_store(), Some(Arc::new(loopback)));
    let browser = async {
        let address = received.recv().await.unwrap();
        let browser = reqwest::Client::new();
        browser.get(address).send().await.unwrap().text().await.unwrap()
    };
    let (token, page) = tokio::join!(fixture.call(&oauth, "basic"), browser);
    assert!(token.is_ok() && page.contains("You can close this window"), "{token:?} {page}");
}

#[tokio::test]
async fn expired_token_is_refreshed_and_refresh_token_rotated() {
    let fixture = OAuthFixture::start().await;
    let store = memory_store();
    let first = fixture.call(&fixture.client(store.clone(), true), "basic").await.unwrap();
    let old = expire_tokens(store.as_ref(), &fixture).await;

    let without_authorizer_client = fixture.client(store.clone(), false);
    let second = without_authorizer_client.token().await.unwrap().unwrap();
    assert_ne!(second.reveal(), first);
    assert_eq!(fixture.last_request("/as/token").fields["refresh_token"], old.reveal());
    assert_eq!(fixture.last_request("/as/token").fields["resource"], fixture.url().as_str());

    let next = expire_tokens(store.as_ref(), &fixture).await;
    assert_ne!(next, old, "the store contains the new token");
    let third = fixture.client(store, false).token().await.unwrap().unwrap();
    assert_ne!(third, second);
    assert_eq!(fixture.count("/as/authorize"), 1);
}

#[tokio::test]
async fn rejected_token_is_refreshed_before_reauthorization() {
    let fixture = OAuthFixture::start().await;
    let oauth = fixture.client(memory_store(), true);
    fixture.call(&oauth, "basic").await.unwrap();
    fixture.state().access.clear();
    fixture.call(&oauth, "basic").await.unwrap();
    assert_eq!((fixture.count("/as/authorize"), fixture.count("/as/token")), (1, 2));

    // A token that is rejected right after its refresh is not refreshed again.
    fixture.state().access.clear();
    fixture.call(&oauth, "basic").await.unwrap();
    assert_eq!((fixture.count("/as/authorize"), fixture.count("/as/token")), (2, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_challenges_share_one_authorization() {
    let fixture = OAuthFixture::start().await;
    let store = memory_store();
    let oauth = fixture.client(store.clone(), true);
    let calls = || join_all((0..20).map(|_| fixture.call(&oauth, "basic")));
    let rows = [("nothing yet", 1, 1), ("revoked", 1, 2)];
    for (name, people, exchanges) in rows {
        let tokens: Vec<String> = calls().await.into_iter().map(Result::unwrap).collect();
        assert!(tokens.iter().all(|token| token == &tokens[0]), "{name}: {tokens:?}");
        assert_eq!(fixture.count("/as/authorize"), people, "{name}");
        assert_eq!(fixture.count("/as/token"), exchanges, "{name}");
        fixture.state().access.clear();
    }

    // Concurrent refreshes before expiry are shared too.
    expire_tokens(store.as_ref(), &fixture).await;
    let fresh = fixture.client(store, false);
    let tokens = join_all((0..20).map(|_| fresh.token())).await;
    assert!(tokens.iter().all(|token| token.as_ref().unwrap().is_some()));
    assert_eq!(fixture.count("/as/token"), 3);

    // A late challenge for the old token returns the new one.
    let old = Secret::new("an-old-token");
    let given = fresh.handle_challenge(401, None, Some(&old)).await.unwrap();
    assert_eq!(Some(given), fresh.token().await.unwrap());
    assert_eq!(fixture.count("/as/token"), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_challenges_share_one_failure() {
    let fixture = OAuthFixture::start().await;
    fixture.state().iss = Some("https://evil.example".to_owned());
    let oauth = fixture.client(memory_store(), true);
    let calls = join_all((0..20).map(|_| fixture.call(&oauth, "basic"))).await;
    assert!(
        calls.iter().all(|call| call.as_ref().is_err_and(|e| e.to_string().contains("issuer")))
    );
    assert_eq!(fixture.count("/as/authorize"), 1, "only one authorization window opens");
    assert_eq!(fixture.count("/as/token"), 0);
}

#[tokio::test]
async fn missing_authorizer_returns_authorization_required() {
    let fixture = OAuthFixture::start().await;
    let store = memory_store();
    let without_authorizer = fixture.client(store.clone(), false);
    let error = fixture.call(&without_authorizer, "basic").await.unwrap_err();
    assert!(
        matches!(&error, OAuthError::AuthorizationRequired { reason, .. } if reason.contains("no token yet"))
    );
    assert_eq!(
        fixture.count(RESOURCE_METADATA),
        0,
        "no metadata is requested without an authorizer"
    );

    fixture.call(&fixture.client(store.clone(), true), "basic").await.unwrap();
    let error = fixture.call(&without_authorizer, "basic admin").await.unwrap_err();
    assert!(
        matches!(&error, OAuthError::AuthorizationRequired { reason, .. } if reason.contains("admin"))
    );

    // The refresh token is revoked too.
    (fixture.state().refresh, fixture.state().access) = Default::default();
    let error = fixture.call(&without_authorizer, "basic").await.unwrap_err();
    assert!(matches!(&error, OAuthError::AuthorizationRequired { .. }), "{error}");
    let requests = fixture.count("/as/token");
    assert!(fixture.call(&without_authorizer, "basic").await.is_err());
    assert_eq!(fixture.count("/as/token"), requests, "a rejected refresh token is not sent again");

    // Another client authorizes, and this client finds the new tokens in the shared store.
    fixture.call(&fixture.client(store, true), "basic").await.unwrap();
    fixture.call(&without_authorizer, "basic").await.unwrap();
}

#[tokio::test]
async fn insufficient_scope_requests_union_and_stops_repeating() {
    let fixture = OAuthFixture::start().await;
    let oauth = fixture.client(memory_store(), true);
    fixture.call(&oauth, "basic").await.unwrap();
    fixture.call(&oauth, "write").await.unwrap();
    assert_eq!(fixture.last_request("/as/authorize").fields["scope"], "basic write");
    fixture.call(&oauth, "basic").await.unwrap();
    assert_eq!(fixture.count("/as/authorize"), 2);

    let token = oauth.token().await.unwrap();
    let header = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    let error = oauth.handle_challenge(403, Some(header), token.as_ref()).await.unwrap_err();
    assert!(
        matches!(error, OAuthError::AttemptsExhausted { .. }),
        "the token already has the scope: {error}"
    );
    let error = oauth.handle_challenge(403, None, token.as_ref()).await.unwrap_err();
    assert!(matches!(error, OAuthError::Forbidden { status: 403, .. }), "{error}");
}

#[tokio::test]
async fn token_exchange_completes_after_caller_is_canceled() {
    let fixture = Arc::new(OAuthFixture::start().await);
    let store = memory_store();
    let oauth = fixture.client(store.clone(), true);
    let held = fixture.token_permits.clone().acquire_many_owned(1_000).await.unwrap();
    let call = tokio::spawn({
        let (fixture, oauth) = (fixture.clone(), oauth.clone());
        async move { fixture.call(&oauth, "basic").await }
    });
    while fixture.count("/as/token") == 0 {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    drop(held);
    oauth.close().await;
    assert!(oauth.token().await.unwrap().is_some());
    assert_eq!(store.load(fixture.url().as_str()).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_store_is_persistent_private_and_shared() {
    let fixture = OAuthFixture::start().await;
    let folder = TempDir::new("file");
    let token = fixture.call(&fixture.client(folder.store(), true), "basic").await.unwrap();
    let path = folder.0.join("deep/credentials.json");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }
    let again = fixture.client(folder.store(), false).token().await.unwrap().unwrap();
    assert_eq!(again.reveal(), token);

    // Twenty clients at once, each with its own store handle: the refresh token is sent once.
    expire_tokens(folder.store().as_ref(), &fixture).await;
    let clients: Vec<OAuth> = (0..20).map(|_| fixture.client(folder.store(), false)).collect();
    let tokens = join_all(clients.iter().map(OAuth::token)).await;
    let tokens: Vec<Secret> = tokens.into_iter().map(|token| token.unwrap().unwrap()).collect();
    assert!(tokens.iter().all(|token| token == &tokens[0]));
    assert_eq!(fixture.count("/as/token"), 2);

    // A damaged file is not overwritten, and its content is not repeated in the error.
    let text = std::fs::read_to_string(&path).unwrap();
    let damaged = text.replacen("\"expires_at\"", "\"expires_at\": [], \"x\"", 1);
    std::fs::write(&path, &damaged).unwrap();
    let error = fixture.client(folder.store(), true).token().await.unwrap_err();
    let message = format!("{error} {error:?}");
    assert!(message.contains("credentials.json") && !message.contains("access-"), "{message}");
    assert!(fixture.call(&fixture.client(folder.store(), true), "basic").await.is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
}

#[tokio::test]
async fn file_store_removes_one_issuer() {
    let folder = TempDir::new("forget");
    let store = folder.store();
    let client = toolpost::mcp::ClientRegistration::new("id");
    for issuer in ["https://a", "https://b", "https://a"] {
        let credentials = toolpost::mcp::Credentials::new(issuer, client.clone());
        store.save("r", credentials).await.unwrap();
    }
    let issuers = || async {
        let stored = store.load("r").await.unwrap();
        stored.into_iter().map(|stored| stored.issuer).collect::<Vec<_>>()
    };
    assert_eq!(issuers().await, ["https://a", "https://b"], "the latest issuer is first");
    store.remove("r", "https://a").await.unwrap();
    assert_eq!(issuers().await, ["https://b"]);
    assert!(store.load("other").await.unwrap().is_empty());
}

/// Each row: the path, the expected error, and the hostile response.
#[tokio::test]
async fn hostile_metadata_is_rejected_before_authorization() {
    let other_server = OAuthFixture::start().await;
    let huge =
        HttpReply(200, String::new(), format!("{{\"resource\":\"{}\"}}", "x".repeat(2 << 20)));
    let rows: [(&str, &str, &dyn Fn(&OAuthFixture) -> HttpReply); 12] = [
        (RESOURCE_METADATA, "larger than", &|_| huge.clone()),
        (RESOURCE_METADATA, "another location", &|_| {
            HttpReply::redirect(302, &other_server.origin)
        }),
        (RESOURCE_METADATA, "another location", &|_| HttpReply::redirect(302, RESOURCE_METADATA)),
        (RESOURCE_METADATA, "describes the resource", &|_| {
            HttpReply::json(200, &json!({"resource": "https://evil.example/mcp"}))
        }),
        (RESOURCE_METADATA, "must use HTTPS", &|fixture| {
            let servers = ["http://192.0.2.1/as"];
            HttpReply::json(
                200,
                &json!({"resource": fixture.url().as_str(), "authorization_servers": servers}),
            )
        }),
        (RESOURCE_METADATA, "invalid response", &|_| HttpReply::json(200, &json!({"resource": 1}))),
        (RESOURCE_METADATA, "status 500", &|_| HttpReply::json(500, &json!({}))),
        (SERVER_METADATA, "larger than", &|_| huge.clone()),
        (SERVER_METADATA, "must use HTTPS", &|fixture| {
            let mut metadata = fixture.server_metadata();
            metadata["token_endpoint"] = json!("http://192.0.2.1/token");
            HttpReply::json(200, &metadata)
        }),
        (SERVER_METADATA, "names the issuer", &|fixture| {
            let mut metadata = fixture.server_metadata();
            metadata["issuer"] = json!("https://evil.example");
            HttpReply::json(200, &metadata)
        }),
        ("/as/register", "another location", &|_| HttpReply::redirect(307, &other_server.origin)),
        ("/as/register", "invalid_redirect_uri", &|_| {
            HttpReply::json(400, &json!({"error": "invalid_redirect_uri"}))
        }),
    ];
    for (path, message, reply) in rows {
        let fixture = OAuthFixture::start().await;
        fixture.override_reply(path, reply(&fixture));
        let error = fixture.call(&fixture.client(memory_store(), true), "basic").await.unwrap_err();
        assert!(error.to_string().contains(message), "{path}: {error}");
        assert_eq!(fixture.count("/as/authorize"), 0, "{path}: {message}");
    }
    assert!(other_server.state().requests.is_empty());
}

#[tokio::test]
async fn hostile_token_endpoint_leaks_and_stores_nothing() {
    let other_server = OAuthFixture::start().await;
    let huge = "x".repeat(2 << 20);
    let rows = [
        ("another location", HttpReply::redirect(307, &other_server.origin)),
        ("another location", HttpReply::redirect(302, &other_server.origin)),
        ("larger than", HttpReply::json(200, &json!({"access_token": huge}))),
        (
            "not a valid header value",
            HttpReply::json(200, &json!({"access_token": "access-\r\nx: y"})),
        ),
        ("not a token response", HttpReply(200, String::new(), "access-token".to_owned())),
        ("server_error", HttpReply::json(400, &json!({"error": "server_error\u{1b}[2J"}))),
    ];
    for (message, reply) in rows {
        let fixture = OAuthFixture::start().await;
        fixture.override_reply("/as/token", reply);
        let store = memory_store();
        let error = fixture.call(&fixture.client(store.clone(), true), "basic").await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(message), "{text}");
        let leaks = ["access-", CLIENT_SECRET, "code-", "\u{1b}"];
        assert!(!leaks.iter().any(|leak| text.contains(leak)), "{text}");
        assert!(store.load(fixture.url().as_str()).await.unwrap().is_empty());
    }
    assert!(other_server.state().requests.is_empty());
}

#[tokio::test]
async fn redirect_from_other_issuer_is_not_exchanged() {
    for iss in [None, Some("https://evil.example".to_owned()), Some("/as".to_owned())] {
        let fixture = OAuthFixture::start().await;
        fixture.state().iss = iss;
        let error = fixture.call(&fixture.client(memory_store(), true), "basic").await.unwrap_err();
        assert!(matches!(error, OAuthError::UntrustedRedirect { .. }), "{error}");
        assert_eq!(fixture.count("/as/token"), 0);
    }
}

#[tokio::test]
async fn plain_http_server_is_given_no_token() {
    let resource = Url::parse("http://mcp.example/mcp").unwrap();
    let store = memory_store();
    let oauth = OAuth::new(http(), resource, OAuthSettings::default(), store, None);
    let error = oauth.handle_challenge(401, None, None).await.unwrap_err();
    assert!(error.to_string().contains("must use HTTPS"), "{error}");
}

#[tokio::test]
async fn unavailable_token_endpoint_does_not_reauthorize() {
    let fixture = OAuthFixture::start().await;
    let store = memory_store();
    fixture.call(&fixture.client(store.clone(), true), "basic").await.unwrap();
    expire_tokens(store.as_ref(), &fixture).await;
    fixture.override_reply("/as/token", HttpReply::json(503, &json!({})));
    let oauth = fixture.client(store.clone(), true);
    let error = oauth.token().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    fixture.state().overrides.clear();
    let token = tokio::time::timeout(Duration::from_secs(10), oauth.token()).await;
    assert!(token.unwrap().unwrap().is_some());
    assert_eq!(fixture.count("/as/authorize"), 1);
}
