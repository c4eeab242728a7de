//! `/health`: the process is alive. `/ready`: new calls are wanted. `/metrics`: how it has been.
//!
//! All three answer while calls are refused: whoever asks wants to know just then.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use toolpost::{Identity, Operation};

use super::bearer;
use super::problem::Problem;
use crate::admin::scope;
use crate::app::Gateway;
use crate::telemetry::{Page, Standing};

pub(super) async fn health(State(gateway): State<Gateway>) -> Json<Value> {
    let status = if gateway.0.readiness() == "stopping" { "stopping" } else { "ok" };
    let mut health = json!({"status": status, "inFlight": gateway.pipeline().in_flight()});
    // Whoever is not asked who he is sees everything that an open gateway offers, and no more.
    if gateway.authenticator().is_open() {
        let nobody = gateway.authenticator().authenticate(None).ok();
        let catalog = gateway.pipeline().registry().catalog();
        let is_seen =
            |operation: &&Arc<Operation>| operation.spec().access_control.admits(nobody.as_deref());
        health["operations"] = catalog.list().iter().filter(is_seen).count().into();
    }
    if let Some(journal) = &gateway.0.journal {
        let mut how = journal.health();
        // Whose it is and how long, a stranger need not know.
        if let Some(members) = how.as_object_mut().filter(|_| !gateway.authenticator().is_open()) {
            members.retain(|name, _| name == "status");
        }
        health["journal"] = how;
    }
    Json(health)
}

/// 200 when new calls are wanted, else 503. Which sources are down makes nothing unready, and is told
/// to those who may see sources.
pub(super) async fn ready(State(gateway): State<Gateway>, headers: HeaderMap) -> Response {
    let status = gateway.0.readiness();
    let mut body = json!({"status": status});
    let identity = bearer::identify(gateway.authenticator(), "/ready", &headers).await.ok();
    if may_see(identity.as_ref()) {
        let sources = gateway.0.sources();
        let names = |is_told: fn(&Standing) -> bool| -> Value {
            let told = sources.iter().filter(|(_, standing)| is_told(standing));
            told.map(|(name, _)| name.as_str()).collect()
        };
        body["down"] = names(|standing| !standing.is_up);
        body["leftAlone"] = names(|standing| standing.is_left_alone);
    }
    let code = match status {
        "ready" => StatusCode::OK,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = (code, Json(body)).into_response();
    if code != StatusCode::OK {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Open where nobody is asked who he is, which is only on this machine; else for those who may see
/// how the gateway is.
pub(super) async fn metrics(State(gateway): State<Gateway>, headers: HeaderMap) -> Response {
    let identity = match bearer::identify(gateway.authenticator(), "/metrics", &headers).await {
        Ok(identity) => identity,
        Err(problem) => return problem.into_response(),
    };
    if !gateway.authenticator().is_open() && !may_see(Some(&identity)) {
        let message = format!("the metrics are for those with the scope `{}`", scope::READ);
        return Problem::new(StatusCode::FORBIDDEN, message).into_response();
    }
    ([(header::CONTENT_TYPE, Page::CONTENT_TYPE)], gateway.0.metrics()).into_response()
}

fn may_see(identity: Option<&Arc<Identity>>) -> bool {
    identity.is_some_and(|identity| identity.scopes.iter().any(|held| held == scope::READ))
}
