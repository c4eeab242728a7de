//! `/openapi.json`: the description of the HTTP API.

use std::sync::Arc;

use axum::extract::{OriginalUri, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use toolpost::Registry;

use super::bearer::{self, PeerCertificate};
use super::etag;
use super::problem::ProblemDetails;
use crate::auth::Authenticator;
use crate::openapi_document::OpenApiDocuments;

/// State of the endpoint.
#[derive(Debug, Clone)]
pub(crate) struct OpenApiEndpoint {
    registry: Registry,
    authenticator: Authenticator,
    documents: Arc<OpenApiDocuments>,
}

impl OpenApiEndpoint {
    pub(crate) fn new(registry: Registry, authenticator: Authenticator) -> Self {
        Self { registry, authenticator, documents: Arc::default() }
    }
}

pub(crate) async fn serve(
    State(endpoint): State<OpenApiEndpoint>,
    OriginalUri(original): OriginalUri,
    uri: Uri,
    certificate: PeerCertificate,
    headers: HeaderMap,
) -> Result<Response, ProblemDetails> {
    // The path below which the gateway is nested in another router.
    let base_path = original.path().strip_suffix(uri.path()).unwrap_or_default().to_owned();
    let OpenApiEndpoint { registry, authenticator, documents } = endpoint;
    let identity =
        bearer::authenticate(&authenticator, "/openapi.json", &headers, &certificate).await?;
    let needs_token = !authenticator.allows_anonymous();
    let rendering = tokio::task::spawn_blocking(move || {
        documents.document(&registry.catalog(), &identity, base_path, needs_token)
    });
    let document = rendering.await.map_err(|error| {
        tracing::error!(%error, "failed to render the OpenAPI document");
        ProblemDetails::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    })?;
    // The document depends on the caller and can change at any time.
    let caching = ("private, no-cache", "accept-encoding, authorization");
    Ok(etag::respond(&document, &headers, "application/json", caching))
}
