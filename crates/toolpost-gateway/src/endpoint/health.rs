//! `/health`: liveness. `/ready`: readiness. `/metrics`: Prometheus metrics.
//!
//! All three respond even while calls are rejected.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use toolpost::{Identity, Operation};

use super::bearer;
use super::problem::ProblemDetails;
use crate::admin::scope;
use crate::app::Gateway;
use crate::telemetry::{Exposition, SourceHealth};

pub(super) async fn health(State(gateway): State<Gateway>) -> Json<Value> {
    let status = if gateway.0.readiness() == "stopping" { "stopping" } else { "ok" };
    let mut health = json!({"status": status, "inFlight": gateway.pipeline().in_flight()});
    // Without authentication, the number of operations that an anonymous caller can access is
    // included.
    if gateway.authenticator().allows_anonymous() {
        let anonymous = gateway.authenticator().lookup_token(None).ok();
        let catalog = gateway.pipeline().registry().catalog();
        let is_visible = |operation: &&Arc<Operation>| {
            operation.spec().access_control.is_callable_by(anonymous.as_deref())
        };
        health["operations"] = catalog.list().iter().filter(is_visible).count().into();
    }
    if let Some(journal) = &gateway.0.journal {
        let mut journal_health = journal.health();
        // If authentication is enabled, only the status is public.
        if let Some(members) =
            journal_health.as_object_mut().filter(|_| !gateway.authenticator().allows_anonymous())
        {
            members.retain(|name, _| name == "status");
        }
        health["journal"] = journal_health;
    }
    Json(health)
}

/// `GET /ready`: 200 if the gateway is ready, else 503. Sources that are down do not affect
/// readiness; they are listed for callers with the read scope.
pub(super) async fn ready(State(gateway): State<Gateway>, headers: HeaderMap) -> Response {
    let status = gateway.0.readiness();
    let mut body = json!({"status": status});
    let identity = bearer::authenticate(gateway.authenticator(), "/ready", &headers).await.ok();
    if has_read_scope(identity.as_ref()) {
        let sources = gateway.0.source_statuses();
        let names = |predicate: fn(&SourceHealth) -> bool| -> Value {
            let selected = sources.iter().filter(|(_, health)| predicate(health));
            selected.map(|(name, _)| name.as_str()).collect()
        };
        body["down"] = names(|health| !health.is_up);
        body["breakerOpen"] = names(|health| health.is_breaker_tripped);
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

/// `GET /metrics`. Requires the read scope, except on a gateway without authentication, which
/// listens only on loopback.
pub(super) async fn metrics(State(gateway): State<Gateway>, headers: HeaderMap) -> Response {
    let identity = match bearer::authenticate(gateway.authenticator(), "/metrics", &headers).await {
        Ok(identity) => identity,
        Err(problem) => return problem.into_response(),
    };
    if !gateway.authenticator().allows_anonymous() && !has_read_scope(Some(&identity)) {
        let message = format!("the scope `{}` is required to read metrics", scope::READ);
        return ProblemDetails::new(StatusCode::FORBIDDEN, message).into_response();
    }
    ([(header::CONTENT_TYPE, Exposition::CONTENT_TYPE)], gateway.0.render_metrics()).into_response()
}

fn has_read_scope(identity: Option<&Arc<Identity>>) -> bool {
    identity.is_some_and(|identity| identity.scopes.iter().any(|held| held == scope::READ))
}
