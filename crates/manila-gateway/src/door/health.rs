//! `/health`: the process is alive and this is what it serves.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::app::Gateway;

pub(super) async fn health(State(gateway): State<Gateway>) -> Json<Value> {
    let status = if gateway.0.stopping.is_cancelled() { "stopping" } else { "ok" };
    Json(json!({
        "status": status,
        "operations": gateway.pipeline().registry().catalog().len(),
        "inFlight": gateway.pipeline().in_flight(),
    }))
}
