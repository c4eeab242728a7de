//! The baseline: an axum handler that parses the body and responds.

use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Serialize)]
struct Sum {
    sum: serde_json::Number,
}

/// Serves on a port that it prints.
pub(crate) async fn serve() {
    let router = Router::new().route("/api/demo/add", post(add));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let service = hyper_util::service::TowerToHyperService::new(router.clone());
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(hyper_util::rt::TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}

async fn add(Json(input): Json<Add>) -> Json<Sum> {
    #[expect(clippy::cast_possible_truncation, reason = "the sum fits")]
    let sum = serde_json::Number::from((input.a + input.b) as i64);
    Json(Sum { sum })
}
