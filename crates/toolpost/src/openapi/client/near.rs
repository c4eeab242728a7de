//! The short way to services on this machine.

use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::{ACCEPT, HeaderValue};
use tower_http::decompression::Decompression;
use tower_service::Service;
use url::{Position, Url};

use super::failure::Failure;
use crate::direct::{Direct, DirectError, Flowing};
use crate::openapi::request::Prepared;

/// How many services on this machine are remembered; the others are reached as if they were far away.
const MOST: usize = 16;

/// The ways that were found, by the beginning of the address.
#[derive(Debug)]
pub(super) struct Near {
    ways: Mutex<Vec<(String, Direct)>>,
    connect_timeout: Duration,
}

impl Near {
    pub(super) fn new(connect_timeout: Duration) -> Self {
        Self { ways: Mutex::default(), connect_timeout }
    }

    /// The way to an address, if it is near.
    pub(super) fn way(&self, url: &Url) -> Option<Direct> {
        let origin = &url[..Position::BeforePath];
        let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = ways.iter().find(|(known, _)| known == origin) {
            return Some(known.clone());
        }
        let way = Direct::to(url, self.connect_timeout).filter(|_| ways.len() < MOST)?;
        ways.push((origin.to_owned(), way.clone()));
        Some(way)
    }
}

/// Sends a request the short way.
///
/// # Errors
///
/// The service cannot be reached, or the connection broke.
pub(super) async fn send(way: Direct, prepared: &Prepared) -> Result<reqwest::Response, Failure> {
    let failed = |error: DirectError| Failure::of_way(&error, &prepared.url);
    let request = request(prepared).map_err(failed)?;
    let response = Decompression::new(Unpacked(way)).call(request).await.map_err(failed)?;
    Ok(response.map(reqwest::Body::wrap).into())
}

fn request(prepared: &Prepared) -> Result<hyper::Request<reqwest::Body>, DirectError> {
    let body = prepared.body.clone().map(reqwest::Body::from).unwrap_or_default();
    let mut request = hyper::Request::new(body);
    *request.method_mut() = prepared.method.clone();
    let path = prepared.url[Position::BeforePath..Position::AfterQuery].parse();
    *request.uri_mut() = path.map_err(|error: hyper::http::uri::InvalidUri| {
        DirectError::Unsendable(error.to_string())
    })?;
    *request.headers_mut() = prepared.headers.clone();
    request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    Ok(request)
}

/// What sends, for those who unpack the answer.
#[derive(Clone)]
struct Unpacked(Direct);

impl Service<hyper::Request<reqwest::Body>> for Unpacked {
    type Response = hyper::Response<Flowing>;
    type Error = DirectError;
    type Future = BoxFuture<'static, Result<Self::Response, DirectError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DirectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: hyper::Request<reqwest::Body>) -> Self::Future {
        let way = self.0.clone();
        async move { way.send(request).await }.boxed()
    }
}
