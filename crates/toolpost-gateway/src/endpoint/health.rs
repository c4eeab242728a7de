//! `/health`: liveness. `/ready`: readiness. `/metrics`: Prometheus metrics.
//!
//! All three respond even while calls are rejected.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use toolpost::{Identity, Operation, Pipeline};

use super::bearer::{self, PeerCertificate};
use super::problem::ProblemDetails;
use crate::admin::scope;
use crate::auth::Authenticator;
use crate::journal::Journal;
use crate::telemetry::{Exposition, SourceHealth};

/// Paths that are served even if no connection is left.
pub(crate) const PROBE_PATHS: [&str; 3] = ["/health", "/ready", "/metrics"];

/// State of the endpoint.
#[derive(Debug, Clone)]
pub(crate) struct HealthEndpoint {
    pub(crate) pipeline: Pipeline,
    pub(crate) authenticator: Authenticator,
    pub(crate) journal: Option<Journal>,
    pub(crate) status: Arc<dyn GatewayStatus>,
}

/// The status of a gateway.
pub(crate) trait GatewayStatus: Debug + Send + Sync {
    /// Returns whether the gateway is ready for calls.
    fn readiness(&self) -> Readiness;

    /// Returns the health of every source.
    fn sources(&self) -> BTreeMap<String, SourceHealth>;

    /// Renders the Prometheus metrics.
    fn metrics(&self) -> String;
}

/// Whether a gateway is ready for new calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Readiness {
    Starting,
    Ready,
    /// Calls fail because they cannot be recorded.
    Failing,
    Stopping,
}

pub(crate) async fn health(State(endpoint): State<HealthEndpoint>) -> Json<Value> {
    let HealthEndpoint { pipeline, authenticator, journal, status } = endpoint;
    let status = if status.readiness() == Readiness::Stopping { "stopping" } else { "ok" };
    let mut health = json!({"status": status, "inFlight": pipeline.in_flight()});
    // Without authentication, the number of accessible operations is included.
    if let Ok(anonymous) = authenticator.lookup_token(None) {
        let catalog = pipeline.registry().catalog();
        let is_visible = |operation: &&Arc<Operation>| {
            operation.spec().access_control.is_callable_by(Some(&anonymous))
        };
        health["operations"] = catalog.list().iter().filter(is_visible).count().into();
    }
    if let Some(journal) = journal {
        let mut journal_health = journal.health();
        // If authentication is enabled, only the status is public.
        if let Some(members) =
            journal_health.as_object_mut().filter(|_| !authenticator.allows_anonymous())
        {
            members.retain(|name, _| name == "status");
        }
        health["journal"] = journal_health;
    }
    Json(health)
}

/// `GET /ready`: 200 if the gateway is ready, else 503. Sources that are down do not affect
/// readiness; they are listed for callers with the read scope.
pub(crate) async fn ready(
    State(endpoint): State<HealthEndpoint>,
    certificate: PeerCertificate,
    headers: HeaderMap,
) -> Response {
    let readiness = endpoint.status.readiness();
    let mut body = json!({"status": readiness});
    let identity =
        bearer::authenticate(&endpoint.authenticator, "/ready", &headers, &certificate).await.ok();
    if has_read_scope(identity.as_ref()) {
        let sources = endpoint.status.sources();
        let names = |predicate: fn(&SourceHealth) -> bool| -> Value {
            let selected = sources.iter().filter(|(_, health)| predicate(health));
            selected.map(|(name, _)| name.as_str()).collect()
        };
        body["down"] = names(|health| !health.is_up);
        body["breakerOpen"] = names(|health| health.is_breaker_tripped);
    }
    if readiness == Readiness::Ready {
        return Json(body).into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], Json(body)).into_response()
}

/// `GET /metrics`. Requires the read scope, unless there is no authentication.
pub(crate) async fn metrics(
    State(endpoint): State<HealthEndpoint>,
    certificate: PeerCertificate,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ProblemDetails> {
    let HealthEndpoint { authenticator, status, .. } = endpoint;
    let identity = bearer::authenticate(&authenticator, "/metrics", &headers, &certificate).await?;
    if !authenticator.allows_anonymous() && !has_read_scope(Some(&identity)) {
        let message = format!("the scope `{}` is required to read metrics", scope::READ);
        return Err(ProblemDetails::new(StatusCode::FORBIDDEN, message));
    }
    Ok(([(header::CONTENT_TYPE, Exposition::CONTENT_TYPE)], status.metrics()))
}

fn has_read_scope(identity: Option<&Arc<Identity>>) -> bool {
    identity.is_some_and(|identity| identity.scopes.iter().any(|held| held == scope::READ))
}
