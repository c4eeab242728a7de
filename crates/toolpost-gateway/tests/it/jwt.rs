//! JWT authentication, with an authorization server on loopback that the gateway trusts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use futures::future::BoxFuture;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use toolpost::mcp::{Authorizer, OAuthError};
use toolpost::{AccessControl, HandlerError, Operation, Pipeline, Registry};
use toolpost_gateway::auth::{Authenticator, JwtSettings, TokenHash};
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, McpEnv, builtin};
use url::Url;

use super::hub::HubClient;
use super::{TestGateway, client};

/// The responses of the server by path, and the request counts.
#[derive(Default)]
pub(super) struct IssuerState {
    pub(super) responses: HashMap<String, (u16, String)>,
    pub(super) request_counts: HashMap<String, usize>,
    /// Signs the tokens issued at `/token`; `token_requests` holds the requests.
    signer: Option<Arc<Signer>>,
    pub(super) token_requests: Vec<HashMap<String, String>>,
    /// Whether the server accepts connections and never responds.
    pub(super) silent: bool,
}

/// An authorization server with one replaceable key.
pub(super) struct Issuer {
    pub(super) address: String,
    pub(super) state: Arc<Mutex<IssuerState>>,
    task: JoinHandle<()>,
}

/// A signing key and the key id it is published under.
pub(super) struct Signer(Ed25519KeyPair, &'static str);

impl Signer {
    pub(super) fn new(name: &'static str) -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap(), name)
    }

    fn jwk(&self) -> Value {
        let x = BASE64URL_NOPAD.encode(self.0.public_key().as_ref());
        json!({"kty": "OKP", "crv": "Ed25519", "kid": self.1, "x": x})
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let header = json!({"alg": "EdDSA", "kid": self.1});
        let message = format!("{}.{}", part(&header), part(claims));
        let signature = BASE64URL_NOPAD.encode(self.0.sign(message.as_bytes()).as_ref());
        format!("{message}.{signature}")
    }
}

impl Issuer {
    pub(super) async fn start(signers: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let inside = Arc::new(Mutex::new(IssuerState::default()));
        let served = Arc::clone(&inside);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_connection(stream, Arc::clone(&served)));
            }
        });
        let issuer = Self { address, state: inside, task };
        let metadata =
            json!({"issuer": issuer.address, "jwks_uri": format!("{}/keys", issuer.address)});
        issuer.set_response("/.well-known/oauth-authorization-server", 200, &metadata);
        issuer.publish_keys(signers);
        issuer
    }

    fn set_response(&self, path: &str, status: u16, body: &Value) {
        let response = (status, body.to_string());
        self.state.lock().unwrap().responses.insert(path.to_owned(), response);
    }

    pub(super) fn publish_keys(&self, signers: &[&Signer]) {
        let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
        self.set_response("/keys", 200, &json!({"keys": keys}));
    }

    fn request_count(&self, path: &str) -> usize {
        self.state.lock().unwrap().request_counts.get(path).copied().unwrap_or_default()
    }

    /// Returns claims that are valid for one hour.
    pub(super) fn claims(&self) -> Value {
        json!({"iss": self.address, "aud": "toolpost", "sub": "ada", "exp": unix_now() + 3_600,
            "scope": "files:read"})
    }

    pub(super) fn settings(&self) -> JwtSettings {
        let mut settings = JwtSettings::new(&self.address, vec!["toolpost".to_owned()]);
        settings.reserved_names = vec!["operator".to_owned(), "ci".to_owned()];
        settings.fetch_timeout = Duration::from_millis(500);
        settings
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve_connection(stream: TcpStream, inside: Arc<Mutex<IssuerState>>) {
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    stream.read_line(&mut first).await.unwrap();
    let (mut line, mut host, mut length) = (String::new(), String::new(), 0);
    while stream.read_line(&mut line).await.unwrap() > 2 {
        match line.trim().to_ascii_lowercase().split_once(": ") {
            Some(("host", value)) => value.clone_into(&mut host),
            Some(("content-length", value)) => length = value.parse().unwrap(),
            _ => {}
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let target = first.split(' ').nth(1).unwrap_or_default();
    let url = Url::parse(&format!("http://{host}{target}")).unwrap();
    let (silent, found) = {
        let mut inside = inside.lock().unwrap();
        *inside.request_counts.entry(url.path().to_owned()).or_default() += 1;
        (inside.silent, inside.respond(&url, &body))
    };
    if silent {
        return std::future::pending().await;
    }
    let (status, header, body) = found;
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\n{header}\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
    let _ = stream.shutdown().await;
}

impl IssuerState {
    /// Returns the status, a header and the body.
    fn respond(&mut self, url: &Url, body: &[u8]) -> (u16, String, String) {
        let origin = url.origin().ascii_serialization();
        let pairs: HashMap<String, String> = url.query_pairs().into_owned().collect();
        match (url.path(), self.signer.clone()) {
            // The authorization request is approved immediately.
            ("/authorize", Some(_)) => {
                let mut back = Url::parse(&pairs["redirect_uri"]).unwrap();
                let message = [("code", "c"), ("state", &*pairs["state"]), ("iss", &*origin)];
                back.query_pairs_mut().extend_pairs(message);
                (302, format!("location: {back}\r\n"), String::new())
            }
            ("/token", Some(signer)) => {
                let form: HashMap<String, String> =
                    url::form_urlencoded::parse(body).into_owned().collect();
                let claims = json!({"iss": origin, "aud": form["resource"], "sub": "ada",
                    "exp": unix_now() + 60});
                self.token_requests.push(form);
                let token = json!({"access_token": signer.sign(&claims), "token_type": "Bearer"});
                (200, String::new(), token.to_string())
            }
            (path, _) => {
                let (status, body) =
                    self.responses.get(path).cloned().unwrap_or((404, String::new()));
                (status, String::new(), body)
            }
        }
    }
}

/// An authorizer that follows the redirect without user consent.
#[derive(Debug)]
struct AutoApprove;

impl Authorizer for AutoApprove {
    fn redirect_uri(&self) -> Url {
        Url::parse("http://127.0.0.1:9/callback").unwrap()
    }

    fn authorize(&self, address: Url) -> BoxFuture<'_, Result<Url, OAuthError>> {
        Box::pin(async move {
            let builder = reqwest::Client::builder().no_proxy();
            let http = builder.redirect(reqwest::redirect::Policy::none()).build().unwrap();
            let response = http.get(address).send().await.unwrap();
            Ok(Url::parse(response.headers()["location"].to_str().unwrap()).unwrap())
        })
    }
}

/// A client that has only the URL of `/mcp` discovers the authorization server, gets a token for
/// this gateway only, and calls an operation.
#[tokio::test]
async fn mcp_client_discovers_auth_server_and_connects() {
    let signer = Arc::new(Signer::new("one"));
    let issuer = Issuer::start(&[&signer]).await;
    issuer.state.lock().unwrap().signer = Some(Arc::clone(&signer));
    let at = |path: &str| format!("{}{path}", issuer.address);
    let metadata = json!({"issuer": issuer.address, "jwks_uri": at("/keys"),
        "authorization_endpoint": at("/authorize"), "token_endpoint": at("/token"),
        "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true});
    issuer.set_response("/.well-known/oauth-authorization-server", 200, &metadata);

    let gateway = Gateway::builder(builtin::registry());
    let gateway = gateway.authenticator(Authenticator::with_tokens([]));
    let running = TestGateway::serve(gateway, "127.0.0.1:0").await;
    let resource = running.url("/mcp");
    let settings = JwtSettings::new(&issuer.address, vec![resource.clone()]);
    let trusting = Authenticator::with_tokens([]).with_jwt(settings);
    running.gateway.authenticator().replace(&trusting);

    let rejected = client().post(&resource).json(&json!({})).send().await.unwrap();
    assert_eq!(rejected.status(), 401);
    let metadata_url = running.url("/.well-known/oauth-protected-resource");
    let expected = format!("Bearer realm=\"toolpost\", resource_metadata=\"{metadata_url}/mcp\"");
    assert_eq!(rejected.headers()["www-authenticate"], expected);
    for (below, resource) in [("/mcp", &resource), ("", &running.url(""))] {
        let found = client().get(format!("{metadata_url}{below}")).send().await.unwrap();
        let found: Value = found.json().await.unwrap();
        assert_eq!(found["resource"], **resource);
        assert_eq!(found["authorization_servers"], json!([issuer.address]));
    }

    let text = format!(
        "[source.gw]\nmcp = {{ url = \"{resource}?tools=all\", oauth = {{ client_id = \"me\" }} }}\n"
    );
    let config = Config::parse("toolpost.toml".as_ref(), &text, &|_| None).unwrap();
    let mut parts = McpEnv::default();
    parts.oauth.authorizer = Some(Arc::new(AutoApprove));
    let registry = Registry::new();
    let source = parts.start(&registry, &config.sources[0]).unwrap().unwrap();
    let mut changes = registry.watch_changes();
    while registry.catalog().get("gw.demo__add").is_none() {
        let changed = tokio::time::timeout(Duration::from_secs(30), changes.changed()).await;
        assert!(changed.is_ok(), "{:?}", source.status().borrow());
    }
    let client = Pipeline::new(registry);
    let sum = client.call_trusted("gw.demo__add", json!({"a": 2, "b": 3})).await.unwrap();
    assert_eq!(sum.data["sum"], 5);
    let granted = issuer.state.lock().unwrap().token_requests.clone();
    assert!(granted.iter().all(|form| form["resource"] == resource), "{granted:?}");
    source.close().await;
    running.stop().await;
}

pub(super) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

async fn gateway(settings: JwtSettings) -> TestGateway {
    let known = [(TokenHash::of("tpt_ci"), toolpost::Identity::new("ci"))];
    let authenticator = Authenticator::with_tokens(known).with_jwt(settings);
    let gateway = Gateway::builder(builtin::registry());
    TestGateway::serve(gateway.authenticator(authenticator), "127.0.0.1:0").await
}

/// Calls an operation with a token and returns the status and the body.
async fn call(running: &TestGateway, token: &str) -> (u16, String) {
    let request = client().post(running.url("/api/demo/add")).bearer_auth(token);
    let response = request.json(&json!({"a": 2, "b": 3})).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

/// Each row: a change to valid claims, the status, and a part of the response.
#[tokio::test]
async fn jwt_is_accepted_or_rejected_with_reason_everywhere() {
    let key = Signer::new("one");
    let issuer = Issuer::start(&[&key]).await;
    let mut settings = issuer.settings();
    settings.resources_claim = Some("may".to_owned());
    settings.capabilities_claim = Some("can".to_owned());
    let running = gateway(settings).await;
    let base = unix_now();
    let good = issuer.claims();
    for (different, status, message) in [
        (json!({}), 200, "5"),
        (json!({"aud": ["x", "toolpost"]}), 200, "5"),
        (json!({"iss": "https://evil.example"}), 401, "another issuer"),
        (json!({"aud": "other"}), 401, "another audience"),
        (json!({"exp": base - 60}), 401, "expired"),
        (json!({"exp": base - 10}), 200, "5"),
        (json!({"nbf": base + 120}), 401, "is not valid yet"),
        (json!({"nbf": base + 10}), 200, "5"),
        (json!({"sub": "operator"}), 401, "another identity of this gateway"),
        (json!({"sub": "ci"}), 401, "another identity of this gateway"),
        (json!({"sub": null}), 401, "it has no valid subject"),
        (json!({"may": {"repo:x": ["read"]}, "can": ["a"]}), 200, "5"),
        (json!({"may": ["repo:x"]}), 401, "its resources are invalid"),
        (json!({"can": "a"}), 401, "its capabilities are invalid"),
    ] {
        let mut claims = good.clone();
        for (name, value) in different.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let token = key.sign(&claims);
        let (found, text) = call(&running, &token).await;
        assert_eq!(found, status, "{different}: {text}");
        assert!(text.contains(message), "{different}: {text}");
        assert!(!text.contains(&token), "the error does not contain the token");
        // The other endpoints behave the same.
        let mcp = client().post(running.url("/mcp")).bearer_auth(&token);
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        assert_eq!(mcp.json(&ping).send().await.unwrap().status(), status, "{different}");
        let mut peer = HubClient::with_token(running.address, &token).await;
        match status {
            200 => peer.assert_works(&different.to_string()).await,
            _ => assert_eq!(peer.recv_close().await.0, 4401, "{different}"),
        }
    }
    assert_eq!(issuer.request_count("/keys"), 1, "keys are fetched once");
    assert_eq!(call(&running, "tpt_ci").await.0, 200, "tokens of identities stay valid");
    assert_eq!(call(&running, "a.b.c").await.0, 401);
    running.stop().await;
}

#[tokio::test]
async fn key_rotation_works_and_refetch_is_rate_limited() {
    let (first, second, evil) = (Signer::new("one"), Signer::new("two"), Signer::new("three"));
    let issuer = Issuer::start(&[&first]).await;
    let mut settings = issuer.settings();
    settings.refresh = (Duration::from_secs(3_600), Duration::from_secs(3_600));
    let running = gateway(settings.clone()).await;
    let claims = issuer.claims();
    assert_eq!(call(&running, &first.sign(&claims)).await.0, 200);
    for _ in 0..3 {
        assert_eq!(call(&running, &evil.sign(&claims)).await.0, 401);
    }
    assert_eq!(issuer.request_count("/keys"), 1, "the keys are not fetched again immediately");
    running.stop().await;

    // When a refetch is allowed, the new key is found, and tokens of the old key are rejected.
    settings.refresh.1 = Duration::ZERO;
    let running = gateway(settings).await;
    assert_eq!(call(&running, &first.sign(&claims)).await.0, 200);
    issuer.publish_keys(&[&second]);
    assert_eq!(call(&running, &first.sign(&claims)).await.0, 200, "the keys are cached");
    assert_eq!(call(&running, &second.sign(&claims)).await.0, 200);
    assert_eq!(call(&running, &first.sign(&claims)).await.0, 401);
    running.stop().await;
}

#[tokio::test]
async fn cached_keys_are_used_while_issuer_is_down() {
    let key = Signer::new("one");
    let issuer = Issuer::start(&[&key]).await;
    let mut settings = issuer.settings();
    // Keys are stale at once, so every call would fetch them.
    settings.refresh = (Duration::ZERO, Duration::ZERO);
    let running = gateway(settings.clone()).await;
    let claims = issuer.claims();
    assert_eq!(call(&running, &key.sign(&claims)).await.0, 200);
    issuer.set_response("/keys", 500, &json!({}));
    let other = |sub: &str| {
        let mut claims = claims.clone();
        claims["sub"] = sub.into();
        key.sign(&claims)
    };
    assert_eq!(
        call(&running, &other("bob")).await.0,
        200,
        "cached keys are used after a server error"
    );
    issuer.set_response("/keys", 200, &json!({"keys": "none"}));
    assert_eq!(call(&running, &other("carl")).await.0, 200, "nonsense");
    issuer.state.lock().unwrap().responses.insert("/keys".into(), (200, " ".repeat(2 << 20)));
    assert_eq!(call(&running, &other("dora")).await.0, 200, "too much");
    // One call waits for the unresponsive server; other calls do not.
    issuer.state.lock().unwrap().silent = true;
    let before = issuer.request_count("/.well-known/oauth-authorization-server");
    let (url, token) = (running.url("/api/demo/add"), other("emil"));
    let slow = tokio::spawn(async move {
        let request = client().post(url).bearer_auth(token).json(&json!({"a": 2, "b": 3}));
        request.send().await.unwrap().status().as_u16()
    });
    while issuer.request_count("/.well-known/oauth-authorization-server") == before {
        tokio::task::yield_now().await;
    }
    assert_eq!(call(&running, &other("fay")).await.0, 200);
    assert!(!slow.is_finished(), "it still waits");
    assert_eq!(slow.await.unwrap(), 200);
    running.stop().await;

    // Without cached keys the call fails, and the next one fails without another fetch.
    settings.refresh.1 = Duration::from_secs(3_600);
    let running = gateway(settings).await;
    for expected in ["is not reachable", "retried later"] {
        let (status, message) = call(&running, &other("gil")).await;
        assert_eq!(status, 503, "{message}");
        assert!(message.contains(expected), "{message}");
    }
    running.stop().await;
}

#[tokio::test]
async fn metadata_of_other_issuer_is_rejected() {
    let key = Signer::new("one");
    let issuer = Issuer::start(&[&key]).await;
    let keys = format!("{}/keys", issuer.address);
    for metadata in [
        json!({"issuer": "https://evil.example", "jwks_uri": keys}),
        json!({"issuer": format!("{}/", issuer.address), "jwks_uri": keys}),
        json!({"issuer": issuer.address, "jwks_uri": "http://evil.example/keys"}),
        json!({"issuer": issuer.address}),
    ] {
        issuer.set_response("/.well-known/oauth-authorization-server", 200, &metadata);
        let running = gateway(issuer.settings()).await;
        assert_eq!(call(&running, &key.sign(&issuer.claims())).await.0, 503, "{metadata}");
        running.stop().await;
    }
    // With a configured JWKS URL, the metadata is not fetched.
    let mut settings = issuer.settings();
    settings.jwks = Some(keys.parse().unwrap());
    let running = gateway(settings).await;
    assert_eq!(call(&running, &key.sign(&issuer.claims())).await.0, 200);
    running.stop().await;
}

/// Each row: the next configuration, and whether connections with a JWT are closed.
#[tokio::test]
async fn jwt_connections_close_when_auth_settings_change() {
    let key = Signer::new("one");
    let issuer = Issuer::start(&[&key]).await;
    let auth = format!("[auth]\nissuer = \"{}\"\naudience = [\"toolpost\"]\n", issuer.address);
    let with_identity = |name: &str| {
        format!("{auth}[identity.{name}]\ntoken_hash = \"{}\"\n", TokenHash::of("tpt_x"))
    };
    let config = |text: &str| Config::parse("toolpost.toml".as_ref(), text, &|_| None).unwrap();
    for (next, ends) in [
        (with_identity("bob"), false),
        (with_identity("ada"), true),
        (auth.replace("\"toolpost\"", "\"other\""), true),
        (with_identity("bob").replace(&auth, ""), true),
    ] {
        let builder = Gateway::builder(builtin::registry()).config(config(&auth));
        let running = TestGateway::serve(builder, "127.0.0.1:0").await;
        let mut peer = HubClient::with_token(running.address, &key.sign(&issuer.claims())).await;
        peer.assert_works("before").await;
        running.gateway.apply_config(config(&next)).await.unwrap();
        match ends {
            true => assert_eq!(peer.recv_close().await.0, 4401, "{next}"),
            false => peer.assert_works(&next).await,
        }
        running.stop().await;
    }
}

/// The scopes of an operation are external text. They cannot add parameters to the challenge.
#[tokio::test]
async fn challenge_escapes_scopes_with_special_characters() {
    let key = Signer::new("one");
    let issuer = Issuer::start(&[&key]).await;
    let running = gateway(issuer.settings()).await;
    for (name, scope) in [
        ("quote", "a\", resource_metadata=\"https://evil.example"),
        ("backslash", "a\\"),
        ("line", "a\r\nset-cookie: b=c"),
        ("accent", "é"),
    ] {
        let mut access = AccessControl::default();
        access.required_scopes.push(scope.to_owned());
        let operation = Operation::query(&format!("t.{name}"), async |_: Value| {
            Ok::<_, HandlerError>(json!({}))
        });
        let operation = operation.access(access).build().unwrap();
        running.gateway.pipeline().registry().register(operation).unwrap();
        for path in [format!("/api/t/{name}"), "/mcp".to_owned()] {
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": format!("t__{name}"), "arguments": {}}});
            let request = client().post(running.url(&path)).bearer_auth(key.sign(&issuer.claims()));
            let request = request.header("accept", "application/json, text/event-stream");
            let response = request.json(&call).send().await.unwrap();
            assert_eq!(response.status(), 403, "{path}");
            assert!(!response.headers().contains_key("set-cookie"));
            let challenge = response.headers()["www-authenticate"].to_str().unwrap();
            assert_eq!(challenge.matches("resource_metadata=").count(), 1, "{challenge}");
            assert_eq!(challenge.matches('"').count() % 2, 0, "{challenge}");
            assert!(!challenge.contains("evil"), "{challenge}");
        }
    }
    running.stop().await;
}
