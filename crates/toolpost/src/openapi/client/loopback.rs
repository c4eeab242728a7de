//! Direct connections to services on the loopback interface.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use reqwest::header::{ACCEPT, HeaderValue};
use tower_http::decompression::Decompression;
use tower_service::Service;
use url::{Position, Url};

use super::error::HttpError;
use crate::loopback::{LoopbackClient, LoopbackError, StreamingBody};
use crate::openapi::request::PreparedRequest;

/// Maximum number of origins with a direct client. Others use the general HTTP client.
const MAX_ORIGINS: usize = 16;

/// Loopback clients by origin.
#[derive(Debug)]
pub(super) struct LoopbackClients {
    clients: Mutex<Vec<(String, LoopbackClient)>>,
    connect_timeout: Duration,
}

impl LoopbackClients {
    pub(super) fn new(connect_timeout: Duration) -> Self {
        Self { clients: Mutex::default(), connect_timeout }
    }

    /// Returns the client for a loopback URL, or `None` if the URL needs the general HTTP client.
    pub(super) fn client_for(&self, url: &Url) -> Option<LoopbackClient> {
        let origin = &url[..Position::BeforePath];
        let mut clients = self.clients.lock();
        if let Some((_, pooled)) = clients.iter().find(|(pooled, _)| pooled == origin) {
            return Some(pooled.clone());
        }
        let client = LoopbackClient::for_server(url, self.connect_timeout)
            .filter(|_| clients.len() < MAX_ORIGINS)?;
        clients.push((origin.to_owned(), client.clone()));
        Some(client)
    }
}

/// Sends a request through a loopback client.
pub(super) async fn send(
    client: LoopbackClient,
    prepared: &PreparedRequest,
) -> Result<reqwest::Response, HttpError> {
    let failed = |error: LoopbackError| HttpError::from_loopback(&error, &prepared.url);
    let request = build_request(prepared).map_err(failed)?;
    let response = Decompression::new(client).call(request).await.map_err(failed)?;
    Ok(response.map(reqwest::Body::wrap).into())
}

fn build_request(
    prepared: &PreparedRequest,
) -> Result<hyper::Request<reqwest::Body>, LoopbackError> {
    let body = prepared.body.clone().map(reqwest::Body::from).unwrap_or_default();
    let mut request = hyper::Request::new(body);
    *request.method_mut() = prepared.method.clone();
    let path = prepared.url[Position::BeforePath..Position::AfterQuery].parse();
    *request.uri_mut() = path.map_err(|error: hyper::http::uri::InvalidUri| {
        LoopbackError::InvalidRequest(error.to_string())
    })?;
    *request.headers_mut() = prepared.headers.clone();
    request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    Ok(request)
}

/// The service that the decompression layer wraps.
impl Service<hyper::Request<reqwest::Body>> for LoopbackClient {
    type Response = hyper::Response<StreamingBody>;
    type Error = LoopbackError;
    type Future = BoxFuture<'static, Result<Self::Response, LoopbackError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LoopbackError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: hyper::Request<reqwest::Body>) -> Self::Future {
        let client = self.clone();
        async move { client.send(request).await }.boxed()
    }
}
