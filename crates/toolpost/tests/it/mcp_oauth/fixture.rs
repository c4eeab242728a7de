//! An MCP server and its authorization server on one port, with their clients and users.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use data_encoding::BASE64URL_NOPAD;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use toolpost::mcp::{Authorizer, CredentialStore, OAuth, OAuthError, OAuthSettings};
use toolpost::protocol::Secret;
use url::{Url, form_urlencoded};

pub(super) const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource/mcp";
pub(super) const SERVER_METADATA: &str = "/.well-known/oauth-authorization-server/as";
/// Must not appear in an error or a log.
pub(super) const CLIENT_SECRET: &str = "secret-of-the-client";

type Fields = BTreeMap<String, String>;

/// A status, headers and a body.
#[derive(Clone)]
pub(super) struct HttpReply(pub(super) u16, pub(super) String, pub(super) String);

impl HttpReply {
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self(status, "content-type: application/json\r\n".to_owned(), body.to_string())
    }

    pub(super) fn redirect(status: u16, to: &str) -> Self {
        Self(status, format!("location: {to}\r\n"), String::new())
    }
}

/// A received request.
#[derive(Clone, Debug)]
pub(super) struct RecordedRequest {
    pub(super) path: String,
    pub(super) fields: Fields,
    pub(super) authorization: String,
    body: String,
}

#[derive(Default)]
pub(super) struct ServerState {
    pub(super) requests: Vec<RecordedRequest>,
    /// Replies that replace the regular ones, by path.
    pub(super) overrides: HashMap<String, HttpReply>,
    /// The `iss` parameter of the authorization redirect.
    pub(super) iss: Option<String>,
    /// Access tokens and their scopes.
    pub(super) access: HashMap<String, String>,
    /// The valid refresh token and its scope.
    pub(super) refresh: Option<(String, String)>,
    code: Option<(String, Fields)>,
    count: usize,
}

/// The MCP server and the authorization server; dropping it stops both.
pub(super) struct OAuthFixture {
    pub(super) origin: String,
    state: Arc<Mutex<ServerState>>,
    /// Each token request takes one permit; a test takes all of them to block the requests.
    pub(super) token_permits: Arc<Semaphore>,
    task: JoinHandle<()>,
}

impl OAuthFixture {
    pub(super) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(ServerState::default()));
        let token_permits = Arc::new(Semaphore::new(1_000));
        state.lock().unwrap().iss = Some(format!("{origin}/as"));
        let served = (origin.clone(), state.clone(), token_permits.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (origin, state, token_permits) = served.clone();
                tokio::spawn(async move { serve(stream, &origin, &state, &token_permits).await });
            }
        });
        Self { origin, state, token_permits, task }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap()
    }

    pub(super) fn url(&self) -> Url {
        Url::parse(&format!("{}/mcp", self.origin)).unwrap()
    }

    pub(super) fn override_reply(&self, path: &str, reply: HttpReply) {
        self.state().overrides.insert(path.to_owned(), reply);
    }

    /// Number of requests to a path.
    pub(super) fn count(&self, path: &str) -> usize {
        self.state().requests.iter().filter(|request| request.path == path).count()
    }

    /// Returns the last request to a path.
    pub(super) fn last_request(&self, path: &str) -> RecordedRequest {
        self.state().requests.iter().rev().find(|request| request.path == path).unwrap().clone()
    }

    pub(super) fn server_metadata(&self) -> Value {
        metadata(&self.origin)
    }

    /// Creates a client of this server, optionally with an authorizer.
    pub(super) fn client(&self, store: Arc<dyn CredentialStore>, authorizer: bool) -> OAuth {
        let authorizer =
            authorizer.then(|| Arc::new(AutoAuthorizer(http())) as Arc<dyn Authorizer>);
        OAuth::new(http(), self.url(), OAuthSettings::default(), store, authorizer)
    }

    /// Sends a request like the transport, up to three times, handling the challenge after each
    /// rejection.
    pub(super) async fn call(&self, oauth: &OAuth, scope: &str) -> Result<String, OAuthError> {
        let mut token = oauth.token().await?;
        for _ in 0..3 {
            let mut request = http().post(self.url()).header("x-scope", scope);
            if let Some(token) = &token {
                request = request.bearer_auth(token.reveal());
            }
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            if status == 200 {
                return Ok(token.unwrap().reveal().to_owned());
            }
            let header = response.headers().get("www-authenticate").map(|it| it.to_str().unwrap());
            token = Some(oauth.handle_challenge(status, header, token.as_ref()).await?);
        }
        panic!("the server rejects every token");
    }
}

impl Drop for OAuthFixture {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) fn http() -> reqwest::Client {
    // The test servers do not use TLS, and loading the system certificates is slow.
    let builder = reqwest::Client::builder().tls_certs_only([]);
    builder.redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

/// Authorizes every request immediately.
#[derive(Debug)]
pub(super) struct AutoAuthorizer(pub(super) reqwest::Client);

impl Authorizer for AutoAuthorizer {
    fn redirect_uri(&self) -> Url {
        Url::parse("http://127.0.0.1:9/callback").unwrap()
    }

    fn authorize(&self, address: Url) -> BoxFuture<'_, Result<Url, OAuthError>> {
        async move {
            let response = self.0.get(address).send().await.unwrap();
            Ok(Url::parse(response.headers()["location"].to_str().unwrap()).unwrap())
        }
        .boxed()
    }
}

async fn serve(
    mut stream: TcpStream,
    origin: &str,
    state: &Mutex<ServerState>,
    token_permits: &Semaphore,
) -> Option<()> {
    let (line, headers, body) = read_request(&mut stream).await?;
    let target = line.split(' ').nth(1)?;
    let url = Url::parse(&format!("{origin}{target}")).ok()?;
    let mut fields: Fields = url.query_pairs().into_owned().collect();
    fields.extend(form_urlencoded::parse(body.as_bytes()).into_owned());
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let (path, authorization) = (url.path().to_owned(), header("authorization"));
    let request = RecordedRequest { path, fields, authorization, body };
    state.lock().unwrap().requests.push(request.clone());
    let _passed =
        if request.path == "/as/token" { Some(token_permits.acquire().await) } else { None };
    let HttpReply(status, headers, body) =
        state.lock().unwrap().handle(origin, &request, &header("x-scope"));
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} x\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.ok()
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, HashMap<String, String>, String)> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let mut lines = head.lines();
        let line = lines.next()?.to_owned();
        let headers: HashMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers.get("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
        if body.len() >= length {
            return Some((line, headers, body.to_owned()));
        }
    }
}

fn metadata(origin: &str) -> Value {
    json!({
        "issuer": format!("{origin}/as"),
        "authorization_endpoint": format!("{origin}/as/authorize"),
        "token_endpoint": format!("{origin}/as/token"),
        "registration_endpoint": format!("{origin}/as/register"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
        "authorization_response_iss_parameter_supported": true,
    })
}

impl ServerState {
    fn handle(&mut self, origin: &str, request: &RecordedRequest, scope: &str) -> HttpReply {
        if let Some(reply) = self.overrides.get(&request.path) {
            return reply.clone();
        }
        match request.path.as_str() {
            "/mcp" => self.resource(origin, request, scope),
            RESOURCE_METADATA => HttpReply::json(
                200,
                &json!({
                    "resource": format!("{origin}/mcp"),
                    "authorization_servers": [format!("{origin}/as")],
                    "scopes_supported": ["basic"],
                }),
            ),
            SERVER_METADATA => HttpReply::json(200, &metadata(origin)),
            "/as/register" => self.register(request),
            "/as/authorize" => self.authorize(request),
            "/as/token" => self.token(request),
            _ => HttpReply(404, String::new(), "<html>".to_owned()),
        }
    }

    fn resource(&self, origin: &str, request: &RecordedRequest, scope: &str) -> HttpReply {
        let metadata_param = format!("resource_metadata=\"{origin}{RESOURCE_METADATA}\"");
        let token = request.authorization.strip_prefix("Bearer ").unwrap_or_default();
        let (status, challenge) = match self.access.get(token) {
            None => (401, format!("Bearer {metadata_param}")),
            Some(has) if scope.split(' ').all(|scope| has.split(' ').any(|has| has == scope)) => {
                return HttpReply::json(200, &json!({}));
            }
            Some(_) => (
                403,
                format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\", {metadata_param}"),
            ),
        };
        HttpReply(status, format!("www-authenticate: {challenge}\r\n"), String::new())
    }

    fn register(&mut self, request: &RecordedRequest) -> HttpReply {
        let registration: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!(registration["application_type"], "native");
        assert_eq!(registration["token_endpoint_auth_method"], "client_secret_post");
        self.count += 1;
        let id = format!("client-{}", self.count);
        HttpReply::json(201, &json!({"client_id": id, "client_secret": CLIENT_SECRET}))
    }

    fn authorize(&mut self, request: &RecordedRequest) -> HttpReply {
        self.count += 1;
        let code = format!("code-{}", self.count);
        let mut to = Url::parse(&request.fields["redirect_uri"]).unwrap();
        to.query_pairs_mut()
            .append_pair("code", &code)
            .append_pair("state", &request.fields["state"]);
        if let Some(iss) = &self.iss {
            to.query_pairs_mut().append_pair("iss", iss);
        }
        self.code = Some((code, request.fields.clone()));
        HttpReply::redirect(302, to.as_str())
    }

    fn token(&mut self, request: &RecordedRequest) -> HttpReply {
        let rejected = HttpReply::json(400, &json!({"error": "invalid_grant"}));
        let fields = &request.fields;
        assert_eq!(fields["client_secret"], CLIENT_SECRET);
        let scope = if fields["grant_type"] == "refresh_token" {
            match self.refresh.take() {
                Some((good, scope)) if good == fields["refresh_token"] => scope,
                // Reuse of a refresh token revokes the current one.
                _ => return rejected,
            }
        } else {
            let Some((code, authorize_params)) = self.code.take() else { return rejected };
            let digest = BASE64URL_NOPAD.encode(&Sha256::digest(&fields["code_verifier"]));
            assert_eq!((&code, &digest), (&fields["code"], &authorize_params["code_challenge"]));
            for name in ["client_id", "redirect_uri", "resource"] {
                assert_eq!(fields[name], authorize_params[name], "{name}");
            }
            authorize_params.get("scope").cloned().unwrap_or_default()
        };
        self.count += 1;
        let (access, refresh) =
            (format!("access-{}", self.count), format!("refresh-{}", self.count));
        self.access.insert(access.clone(), scope.clone());
        self.refresh = Some((refresh.clone(), scope.clone()));
        let body = json!({
            "access_token": access, "refresh_token": refresh, "scope": scope,
            "token_type": "Bearer", "expires_in": 3600,
        });
        HttpReply::json(200, &body)
    }
}

/// Marks the stored tokens as expired and returns the refresh token.
pub(super) async fn expire_tokens(store: &dyn CredentialStore, fixture: &OAuthFixture) -> Secret {
    let key = fixture.url().to_string();
    let mut credentials = store.load(&key).await.unwrap().remove(0);
    let tokens = credentials.tokens.as_mut().unwrap();
    tokens.expires_at = Some(tokens.obtained_at);
    let refresh = tokens.refresh.clone().unwrap();
    store.save(&key, credentials).await.unwrap();
    refresh
}
