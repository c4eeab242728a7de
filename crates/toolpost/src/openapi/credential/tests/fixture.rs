//! A test service and its token endpoint on one port.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use data_encoding::BASE64;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::{Url, form_urlencoded};

/// Client secret, which must not appear in an error or a log.
pub(super) const SECRET: &str = "s%cret of: the client";

pub(super) fn http_client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().tls_certs_only([]).no_proxy();
    builder.redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

/// How the token endpoint expects the client secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientAuthMethod {
    Basic,
    Post,
}

pub(super) struct TokenServerState {
    pub(super) auth_method: ClientAuthMethod,
    /// Response that overrides the normal behavior of the token endpoint.
    pub(super) canned_response: Option<(u16, String)>,
    pub(super) expires_in: Value,
    /// Tokens that the service accepts.
    pub(super) valid_tokens: HashSet<String>,
    /// Received token requests: the form, and whether it was accepted.
    pub(super) token_requests: Vec<(BTreeMap<String, String>, bool)>,
}

/// The test service with its token endpoint. Dropping it stops the server.
pub(super) struct TokenServer {
    pub(super) origin: Url,
    state: Arc<Mutex<TokenServerState>>,
    task: JoinHandle<()>,
}

impl TokenServer {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let state = Arc::new(Mutex::new(TokenServerState {
            auth_method: ClientAuthMethod::Basic,
            canned_response: None,
            expires_in: json!(3600),
            valid_tokens: HashSet::new(),
            token_requests: Vec::new(),
        }));
        let served = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = served.clone();
                let service = service_fn(move |request| serve(state.clone(), request));
                let connection = hyper::server::conn::http1::Builder::new();
                let connection = connection.serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move { connection.await.ok() });
            }
        });
        Self { origin, state, task }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, TokenServerState> {
        self.state.lock().unwrap()
    }

    pub(super) fn token_url(&self) -> Url {
        self.origin.join("token").unwrap()
    }

    /// Returns the number of issued tokens.
    pub(super) fn issued_token_count(&self) -> usize {
        self.state().token_requests.iter().filter(|(_, taken)| *taken).count()
    }
}

impl Drop for TokenServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    state: Arc<Mutex<TokenServerState>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let authorization = head.headers.get("authorization").map(|value| value.to_str().unwrap());
    let mut state = state.lock().unwrap();
    let (status, text) = match head.uri.path() {
        "/token" => state.handle_token_request(authorization, &body),
        _ => {
            let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
            let is_good = token.is_some_and(|token| state.valid_tokens.contains(token));
            (if is_good { 200 } else { 401 }, String::new())
        }
    };
    let mut response = Response::builder().status(status);
    if (300..400).contains(&status) {
        response = response.header("location", text.clone());
    }
    Ok(response.body(Full::from(text)).unwrap())
}

impl TokenServerState {
    fn handle_token_request(&mut self, authorization: Option<&str>, body: &[u8]) -> (u16, String) {
        let form: BTreeMap<String, String> = form_urlencoded::parse(body).into_owned().collect();
        if let Some(instead) = &self.canned_response {
            self.token_requests.push((form, false));
            return instead.clone();
        }
        let is_known = match self.auth_method {
            ClientAuthMethod::Basic => {
                authorization.and_then(parse_basic_auth) == Some(("me".into(), SECRET.into()))
            }
            ClientAuthMethod::Post => {
                let of = |name: &str| form.get(name).map(String::as_str);
                authorization.is_none()
                    && (of("client_id"), of("client_secret")) == (Some("me"), Some(SECRET))
            }
        };
        let is_good = is_known && form["grant_type"] == "client_credentials";
        self.token_requests.push((form, is_good));
        if !is_good {
            return (401, json!({"error": "invalid_client"}).to_string());
        }
        let token = format!("token-{}", self.token_requests.len());
        self.valid_tokens.insert(token.clone());
        let expires_in = self.expires_in.clone();
        let response =
            json!({"access_token": token, "token_type": "bearer", "expires_in": expires_in});
        (200, response.to_string())
    }
}

/// Parses the client id and secret of a Basic header. Each of them is form-encoded.
fn parse_basic_auth(authorization: &str) -> Option<(String, String)> {
    let pair = BASE64.decode(authorization.strip_prefix("Basic ")?.as_bytes()).ok()?;
    let pair = String::from_utf8(pair).ok()?;
    let (id, secret) = pair.split_once(':')?;
    let decode = |text: &str| {
        let pair = format!("x={text}");
        form_urlencoded::parse(pair.as_bytes()).next().map(|(_, text)| text.into_owned())
    };
    Some((decode(id)?, decode(secret)?))
}
