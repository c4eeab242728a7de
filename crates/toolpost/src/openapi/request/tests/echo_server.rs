//! A server that responds to each request with what it received.

use std::convert::Infallible;

use data_encoding::BASE64;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::Url;

use crate::openapi::request::PreparedRequest;

/// The echo server. Dropping it stops the server.
pub(in crate::openapi) struct EchoServer {
    pub(in crate::openapi) url: Url,
    client: reqwest::Client,
    task: JoinHandle<()>,
}

/// A request as the server received it.
#[derive(Debug)]
pub(in crate::openapi) struct ReceivedRequest {
    pub(in crate::openapi) method: String,
    /// Path and query, exactly as received.
    pub(in crate::openapi) target: String,
    headers: Vec<(String, String)>,
    pub(in crate::openapi) body: Vec<u8>,
}

impl EchoServer {
    pub(in crate::openapi) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = hyper::server::conn::http1::Builder::new();
                let served = connection.serve_connection(TokioIo::new(stream), service_fn(echo));
                tokio::spawn(async move { served.await.ok() });
            }
        });
        // TLS is not used, and loading the system certificates is slow.
        let client = reqwest::Client::builder().tls_certs_only([]).no_proxy();
        Self { url: address, client: client.build().unwrap(), task }
    }

    /// Sends a request and returns what the server received.
    pub(in crate::openapi) async fn send(&self, prepared: PreparedRequest) -> ReceivedRequest {
        let mut request = reqwest::Request::new(prepared.method, prepared.url);
        *request.headers_mut() = prepared.headers;
        *request.body_mut() = prepared.body.map(reqwest::Body::from);
        let response = self.client.execute(request).await.unwrap().bytes().await.unwrap();
        ReceivedRequest::from(serde_json::from_slice::<Value>(&response).unwrap())
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ReceivedRequest {
    pub(in crate::openapi) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(key, _)| key == name);
        let (_, value) = found.next()?;
        assert!(found.next().is_none(), "{name} is duplicated");
        Some(value)
    }

    pub(in crate::openapi) fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    pub(in crate::openapi) fn query(&self) -> &str {
        self.target.split_once('?').map(|(_, query)| query).unwrap_or_default()
    }
}

impl From<Value> for ReceivedRequest {
    fn from(echoed: Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let headers = echoed["headers"].as_array().unwrap().iter();
        Self {
            method: text(&echoed["method"]),
            target: text(&echoed["target"]),
            headers: headers.map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
            body: BASE64.decode(text(&echoed["body"]).as_bytes()).unwrap(),
        }
    }
}

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let headers: Vec<[&str; 2]> =
        head.headers.iter().map(|(name, value)| [name.as_str(), value.to_str().unwrap()]).collect();
    let echoed = json!({
        "method": head.method.as_str(),
        "target": head.uri.to_string(),
        "headers": headers,
        "body": BASE64.encode(&body),
    });
    Ok(Response::new(Full::from(echoed.to_string())))
}
