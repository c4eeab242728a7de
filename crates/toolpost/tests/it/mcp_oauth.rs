//! The OAuth client against a real authorization server on this machine.

mod world;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use toolpost::mcp::{
    CredentialStore, FileStore, Loopback, MemoryStore, OAuth, OAuthError, OAuthSettings,
};
use toolpost::protocol::Secret;
use url::Url;

use world::{CLIENT_SECRET, RESOURCE_METADATA, Reply, SERVER_METADATA, World, age, http};

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new())
}

/// A folder that is removed in the end.
struct Folder(std::path::PathBuf);

impl Folder {
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

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_person_is_asked_once_and_the_token_is_used_from_then_on() {
    let world = World::start().await;
    let oauth = world.client(memory(), true);
    assert!(oauth.token().await.unwrap().is_none());
    let token = world.call(&oauth, "basic").await.unwrap();
    assert_eq!(world.call(&oauth, "basic").await.unwrap(), token);
    for path in [RESOURCE_METADATA, SERVER_METADATA, "/as/register", "/as/authorize", "/as/token"] {
        assert_eq!(world.count(path), 1, "{path}");
    }
    let asked = world.last("/as/authorize").fields;
    assert_eq!(asked["resource"], world.url().as_str());
    assert_eq!(asked["scope"], "basic");
    let shown = format!("{oauth:?}");
    assert!(!shown.contains(&token) && !shown.contains(CLIENT_SECRET), "{shown}");
}

#[tokio::test]
async fn a_person_comes_back_through_the_browser() {
    let world = World::start().await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let tell = move |address: &Url| told.send(address.clone()).unwrap();
    let loopback = Loopback::bind(0, tell).await.unwrap();
    let settings = OAuthSettings::default();
    let oauth = OAuth::new(http(), world.url(), settings, memory(), Some(Arc::new(loopback)));
    let browser = async {
        let address = heard.recv().await.unwrap();
        let browser = reqwest::Client::new();
        browser.get(address).send().await.unwrap().text().await.unwrap()
    };
    let (token, page) = tokio::join!(world.call(&oauth, "basic"), browser);
    assert!(token.is_ok() && page.contains("You can close this window"), "{token:?} {page}");
}

#[tokio::test]
async fn a_token_that_ends_is_renewed_and_its_refresh_token_replaced() {
    let world = World::start().await;
    let store = memory();
    let first = world.call(&world.client(store.clone(), true), "basic").await.unwrap();
    let old = age(store.as_ref(), &world).await;

    let alone = world.client(store.clone(), false);
    let second = alone.token().await.unwrap().unwrap();
    assert_ne!(second.reveal(), first);
    assert_eq!(world.last("/as/token").fields["refresh_token"], old.reveal());
    assert_eq!(world.last("/as/token").fields["resource"], world.url().as_str());

    let next = age(store.as_ref(), &world).await;
    assert_ne!(next, old, "the store has the new one");
    let third = world.client(store, false).token().await.unwrap().unwrap();
    assert_ne!(third, second);
    assert_eq!(world.count("/as/authorize"), 1);
}

#[tokio::test]
async fn a_token_that_is_refused_is_refreshed_before_a_person_is_asked() {
    let world = World::start().await;
    let oauth = world.client(memory(), true);
    world.call(&oauth, "basic").await.unwrap();
    world.inside().access.clear();
    world.call(&oauth, "basic").await.unwrap();
    assert_eq!((world.count("/as/authorize"), world.count("/as/token")), (1, 2));

    // A token that is refused right after it was refreshed is no matter of refreshing.
    world.inside().access.clear();
    world.call(&oauth, "basic").await.unwrap();
    assert_eq!((world.count("/as/authorize"), world.count("/as/token")), (2, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_are_refused_wait_for_one() {
    let world = World::start().await;
    let store = memory();
    let oauth = world.client(store.clone(), true);
    let calls = || join_all((0..20).map(|_| world.call(&oauth, "basic")));
    let rows = [("nothing yet", 1, 1), ("revoked", 1, 2)];
    for (name, people, exchanges) in rows {
        let tokens: Vec<String> = calls().await.into_iter().map(Result::unwrap).collect();
        assert!(tokens.iter().all(|token| token == &tokens[0]), "{name}: {tokens:?}");
        assert_eq!(world.count("/as/authorize"), people, "{name}");
        assert_eq!(world.count("/as/token"), exchanges, "{name}");
        world.inside().access.clear();
    }

    // Renewals ahead of time are shared as well.
    age(store.as_ref(), &world).await;
    let fresh = world.client(store, false);
    let tokens = join_all((0..20).map(|_| fresh.token())).await;
    assert!(tokens.iter().all(|token| token.as_ref().unwrap().is_some()));
    assert_eq!(world.count("/as/token"), 3);

    // Whoever comes late with the old token is given the new one.
    let old = Secret::new("an-old-token");
    let given = fresh.challenged(401, None, Some(&old)).await.unwrap();
    assert_eq!(Some(given), fresh.token().await.unwrap());
    assert_eq!(world.count("/as/token"), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_fail_fail_together() {
    let world = World::start().await;
    world.inside().iss = Some("https://evil.example".to_owned());
    let oauth = world.client(memory(), true);
    let calls = join_all((0..20).map(|_| world.call(&oauth, "basic"))).await;
    assert!(
        calls.iter().all(|call| call.as_ref().is_err_and(|e| e.to_string().contains("issuer")))
    );
    assert_eq!(world.count("/as/authorize"), 1, "nobody sees twenty windows");
    assert_eq!(world.count("/as/token"), 0);
}

#[tokio::test]
async fn without_a_person_it_says_that_one_is_needed() {
    let world = World::start().await;
    let store = memory();
    let nobody = world.client(store.clone(), false);
    let error = world.call(&nobody, "basic").await.unwrap_err();
    assert!(
        matches!(&error, OAuthError::NeedsPerson { reason, .. } if reason.contains("no token yet"))
    );
    assert_eq!(world.count(RESOURCE_METADATA), 0, "nobody is bothered in vain");

    world.call(&world.client(store.clone(), true), "basic").await.unwrap();
    let error = world.call(&nobody, "basic admin").await.unwrap_err();
    assert!(matches!(&error, OAuthError::NeedsPerson { reason, .. } if reason.contains("admin")));

    // The refresh token is over as well.
    (world.inside().refresh, world.inside().access) = Default::default();
    let error = world.call(&nobody, "basic").await.unwrap_err();
    assert!(matches!(&error, OAuthError::NeedsPerson { .. }), "{error}");
    let requests = world.count("/as/token");
    assert!(world.call(&nobody, "basic").await.is_err());
    assert_eq!(world.count("/as/token"), requests, "a refused refresh token is not sent again");

    // A person mends it, and the other client finds what that one brought.
    world.call(&world.client(store, true), "basic").await.unwrap();
    world.call(&nobody, "basic").await.unwrap();
}

#[tokio::test]
async fn more_scope_is_asked_for_beside_what_there_was_and_not_forever() {
    let world = World::start().await;
    let oauth = world.client(memory(), true);
    world.call(&oauth, "basic").await.unwrap();
    world.call(&oauth, "write").await.unwrap();
    assert_eq!(world.last("/as/authorize").fields["scope"], "basic write");
    world.call(&oauth, "basic").await.unwrap();
    assert_eq!(world.count("/as/authorize"), 2);

    let token = oauth.token().await.unwrap();
    let header = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    let error = oauth.challenged(403, Some(header), token.as_ref()).await.unwrap_err();
    assert!(matches!(error, OAuthError::Exhausted { .. }), "it has that scope: {error}");
    let error = oauth.challenged(403, None, token.as_ref()).await.unwrap_err();
    assert!(matches!(error, OAuthError::Forbidden { status: 403, .. }), "{error}");
}

#[tokio::test]
async fn what_was_handed_in_is_kept_although_nobody_waits() {
    let world = Arc::new(World::start().await);
    let store = memory();
    let oauth = world.client(store.clone(), true);
    let held = world.gate.clone().acquire_many_owned(1_000).await.unwrap();
    let call = tokio::spawn({
        let (world, oauth) = (world.clone(), oauth.clone());
        async move { world.call(&oauth, "basic").await }
    });
    while world.count("/as/token") == 0 {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    drop(held);
    oauth.close().await;
    assert!(oauth.token().await.unwrap().is_some());
    assert_eq!(store.load(world.url().as_str()).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_survives_is_private_and_serves_several() {
    let world = World::start().await;
    let folder = Folder::new("file");
    let token = world.call(&world.client(folder.store(), true), "basic").await.unwrap();
    let path = folder.0.join("deep/credentials.json");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }
    let again = world.client(folder.store(), false).token().await.unwrap().unwrap();
    assert_eq!(again.reveal(), token);

    // Twenty at once, each with its own handle: the refresh token is handed in once.
    age(folder.store().as_ref(), &world).await;
    let clients: Vec<OAuth> = (0..20).map(|_| world.client(folder.store(), false)).collect();
    let tokens = join_all(clients.iter().map(OAuth::token)).await;
    let tokens: Vec<Secret> = tokens.into_iter().map(|token| token.unwrap().unwrap()).collect();
    assert!(tokens.iter().all(|token| token == &tokens[0]));
    assert_eq!(world.count("/as/token"), 2);

    // What is damaged is neither overwritten nor repeated.
    let text = std::fs::read_to_string(&path).unwrap();
    let damaged = text.replacen("\"expires_at\"", "\"expires_at\": [], \"x\"", 1);
    std::fs::write(&path, &damaged).unwrap();
    let error = world.client(folder.store(), true).token().await.unwrap_err();
    let said = format!("{error} {error:?}");
    assert!(said.contains("credentials.json") && !said.contains("access-"), "{said}");
    assert!(world.call(&world.client(folder.store(), true), "basic").await.is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
}

#[tokio::test]
async fn a_file_forgets_one_issuer_at_a_time() {
    let folder = Folder::new("forget");
    let store = folder.store();
    let client = toolpost::mcp::ClientRegistration::new("id");
    for issuer in ["https://a", "https://b", "https://a"] {
        let credentials = toolpost::mcp::Credentials::new(issuer, client.clone());
        store.save("r", credentials).await.unwrap();
    }
    let issuers = || async {
        let kept = store.load("r").await.unwrap();
        kept.into_iter().map(|kept| kept.issuer).collect::<Vec<_>>()
    };
    assert_eq!(issuers().await, ["https://a", "https://b"], "the latest is the first");
    store.forget("r", "https://a").await.unwrap();
    assert_eq!(issuers().await, ["https://b"]);
    assert!(store.load("other").await.unwrap().is_empty());
}

/// Every answer that must not be taken, and what is said of it.
#[tokio::test]
async fn hostile_answers_are_refused_before_anything_is_given_away() {
    let elsewhere = World::start().await;
    let huge = Reply(200, String::new(), format!("{{\"resource\":\"{}\"}}", "x".repeat(2 << 20)));
    let rows: [(&str, &str, &dyn Fn(&World) -> Reply); 12] = [
        (RESOURCE_METADATA, "larger than", &|_| huge.clone()),
        (RESOURCE_METADATA, "somewhere else", &|_| Reply::redirect(302, &elsewhere.origin)),
        (RESOURCE_METADATA, "somewhere else", &|_| Reply::redirect(302, RESOURCE_METADATA)),
        (RESOURCE_METADATA, "is about the resource", &|_| {
            Reply::json(200, &json!({"resource": "https://evil.example/mcp"}))
        }),
        (RESOURCE_METADATA, "has to be HTTPS", &|world| {
            let servers = ["http://192.0.2.1/as"];
            Reply::json(
                200,
                &json!({"resource": world.url().as_str(), "authorization_servers": servers}),
            )
        }),
        (RESOURCE_METADATA, "unusable answer", &|_| Reply::json(200, &json!({"resource": 1}))),
        (RESOURCE_METADATA, "status 500", &|_| Reply::json(500, &json!({}))),
        (SERVER_METADATA, "larger than", &|_| huge.clone()),
        (SERVER_METADATA, "has to be HTTPS", &|world| {
            let mut metadata = world.server_metadata();
            metadata["token_endpoint"] = json!("http://192.0.2.1/token");
            Reply::json(200, &metadata)
        }),
        (SERVER_METADATA, "is of the issuer", &|world| {
            let mut metadata = world.server_metadata();
            metadata["issuer"] = json!("https://evil.example");
            Reply::json(200, &metadata)
        }),
        ("/as/register", "somewhere else", &|_| Reply::redirect(307, &elsewhere.origin)),
        ("/as/register", "invalid_redirect_uri", &|_| {
            Reply::json(400, &json!({"error": "invalid_redirect_uri"}))
        }),
    ];
    for (path, words, reply) in rows {
        let world = World::start().await;
        world.instead(path, reply(&world));
        let error = world.call(&world.client(memory(), true), "basic").await.unwrap_err();
        assert!(error.to_string().contains(words), "{path}: {error}");
        assert_eq!(world.count("/as/authorize"), 0, "{path}: {words}");
    }
    assert!(elsewhere.inside().seen.is_empty());
}

#[tokio::test]
async fn hostile_token_endpoints_get_and_give_nothing() {
    let elsewhere = World::start().await;
    let huge = "x".repeat(2 << 20);
    let rows = [
        ("somewhere else", Reply::redirect(307, &elsewhere.origin)),
        ("somewhere else", Reply::redirect(302, &elsewhere.origin)),
        ("larger than", Reply::json(200, &json!({"access_token": huge}))),
        ("fit a header", Reply::json(200, &json!({"access_token": "access-\r\nx: y"}))),
        ("not the description", Reply(200, String::new(), "access-token".to_owned())),
        ("server_error", Reply::json(400, &json!({"error": "server_error\u{1b}[2J"}))),
    ];
    for (words, reply) in rows {
        let world = World::start().await;
        world.instead("/as/token", reply);
        let store = memory();
        let error = world.call(&world.client(store.clone(), true), "basic").await.unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(said.contains(words), "{said}");
        let leaks = ["access-", CLIENT_SECRET, "code-", "\u{1b}"];
        assert!(!leaks.iter().any(|leak| said.contains(leak)), "{said}");
        assert!(store.load(world.url().as_str()).await.unwrap().is_empty());
    }
    assert!(elsewhere.inside().seen.is_empty());
}

#[tokio::test]
async fn answers_of_another_issuer_are_not_handed_in() {
    for iss in [None, Some("https://evil.example".to_owned()), Some("/as".to_owned())] {
        let world = World::start().await;
        world.inside().iss = iss;
        let error = world.call(&world.client(memory(), true), "basic").await.unwrap_err();
        assert!(matches!(error, OAuthError::Response { .. }), "{error}");
        assert_eq!(world.count("/as/token"), 0);
    }
}

#[tokio::test]
async fn a_server_on_the_network_without_encryption_is_given_no_token() {
    let resource = Url::parse("http://mcp.example/mcp").unwrap();
    let store = memory();
    let oauth = OAuth::new(http(), resource, OAuthSettings::default(), store, None);
    let error = oauth.challenged(401, None, None).await.unwrap_err();
    assert!(error.to_string().contains("has to be HTTPS"), "{error}");
}

#[tokio::test]
async fn an_authorization_server_that_is_down_is_no_reason_to_ask_a_person() {
    let world = World::start().await;
    let store = memory();
    world.call(&world.client(store.clone(), true), "basic").await.unwrap();
    age(store.as_ref(), &world).await;
    world.instead("/as/token", Reply::json(503, &json!({})));
    let oauth = world.client(store.clone(), true);
    let error = oauth.token().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    world.inside().instead.clear();
    let token = tokio::time::timeout(Duration::from_secs(10), oauth.token()).await;
    assert!(token.unwrap().unwrap().is_some());
    assert_eq!(world.count("/as/authorize"), 1);
}
