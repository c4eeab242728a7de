//! The baseline: an axum handler that parses the body and responds.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Serves on a port that it prints. The list of tools is serialized in advance.
pub(crate) async fn serve(tools: &Value) {
    let tools: Arc<str> = format!(r#""result":{{"tools":{tools}}}"#).into();
    let router = Router::new().route("/mcp", post(respond)).with_state(tools);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let service = TowerToHyperService::new(router.clone());
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}

async fn respond(State(tools): State<Arc<str>>, body: Bytes) -> Response {
    let mut message: Value = serde_json::from_slice(&body).unwrap();
    let id = message["id"].take();
    if message["method"] == "tools/list" {
        let response = format!(r#"{{"jsonrpc":"2.0","id":{id},{tools}}}"#);
        return ([(CONTENT_TYPE, "application/json")], response).into_response();
    }
    let arguments = message["params"]["arguments"].take();
    let content = json!([{"type": "text", "text": arguments.to_string()}]);
    let result = json!({"content": content, "structuredContent": arguments});
    let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
    ([(CONTENT_TYPE, "application/json")], response.to_string()).into_response()
}
