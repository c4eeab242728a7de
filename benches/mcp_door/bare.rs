//! What the door is measured beside: axum alone, which parses a body and answers.

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

/// Answers on a port that it prints; a list of tools is kept ready as text.
pub(crate) async fn serve(tools: &Value) {
    let tools: Arc<str> = format!(r#""result":{{"tools":{tools}}}"#).into();
    let router = Router::new().route("/mcp", post(answer)).with_state(tools);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let service = TowerToHyperService::new(router.clone());
        let serving = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(serving);
    }
}

async fn answer(State(tools): State<Arc<str>>, body: Bytes) -> Response {
    let mut message: Value = serde_json::from_slice(&body).unwrap();
    let id = message["id"].take();
    if message["method"] == "tools/list" {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},{tools}}}"#);
        return ([(CONTENT_TYPE, "application/json")], answer).into_response();
    }
    let arguments = message["params"]["arguments"].take();
    let content = json!([{"type": "text", "text": arguments.to_string()}]);
    let result = json!({"content": content, "structuredContent": arguments});
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
    ([(CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}
