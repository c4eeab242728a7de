//! `/openapi.json`: the HTTP API, described for whoever asks.
//!
//! Callers who may call the same get the same bytes, which are written by the first of them and kept
//! until the catalog changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use sha2::{Digest, Sha256};
use toolpost::view::HttpApi;
use toolpost::{Catalog, Identity, Operation};

use super::bearer;
use super::etag;
use super::http::{accepts_gzip, gzip};
use super::problem::ProblemDetails;
use crate::app::Gateway;

/// How many documents are kept; whoever has more kinds of callers has them written again.
const MAX_DOCUMENTS: usize = 64;

/// The documents of the catalog of the moment.
#[derive(Debug, Default)]
pub(crate) struct OpenApiDocuments(Mutex<DocumentCache>);

#[derive(Debug, Default)]
struct DocumentCache {
    /// What they are about; those of another catalog are thrown away.
    catalog: Option<Arc<Catalog>>,
    documents: HashMap<OperationMask, Arc<CachedDocument>>,
}

/// What a document shows: one bit for each operation.
type OperationMask = Box<[u64]>;

/// A document, made by the first who asks for it; whoever asks meanwhile waits on a thread that may
/// wait.
#[derive(Debug, Default)]
struct CachedDocument {
    plain: OnceLock<EncodedDocument>,
    gzip: OnceLock<Option<EncodedDocument>>,
}

/// Bytes, and the tag that no others have.
#[derive(Debug, Clone)]
struct EncodedDocument {
    bytes: Bytes,
    etag: HeaderValue,
}

pub(super) async fn document(
    State(gateway): State<Gateway>,
    headers: HeaderMap,
) -> Result<Response, Response> {
    handle(gateway, &headers).await.map_err(ProblemDetails::into_response)
}

async fn handle(gateway: Gateway, headers: &HeaderMap) -> Result<Response, ProblemDetails> {
    let identity = bearer::authenticate(gateway.authenticator(), "/openapi.json", headers).await?;
    let is_gzip = accepts_gzip(headers);
    let render_task = tokio::task::spawn_blocking(move || render(&gateway, &identity, is_gzip));
    let document = render_task.await.map_err(|error| {
        tracing::error!(%error, "failed to render the OpenAPI document");
        ProblemDetails::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    })?;
    Ok(respond(document, headers))
}

fn respond((document, is_gzip): (EncodedDocument, bool), headers: &HeaderMap) -> Response {
    let is_not_modified = etag::matches_etag(headers, &document.etag);
    let mut response = Response::new(match is_not_modified {
        true => Body::empty(),
        false => Body::from(document.bytes),
    });
    if is_not_modified {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let response_headers = response.headers_mut();
    response_headers.insert(header::ETAG, document.etag);
    // It is for this caller, and may be another after the next change.
    response_headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response_headers
        .insert(header::VARY, HeaderValue::from_static("accept-encoding, authorization"));
    if !is_not_modified {
        response_headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if is_gzip {
            response_headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
    response
}

fn render(gateway: &Gateway, identity: &Identity, is_gzip: bool) -> (EncodedDocument, bool) {
    let catalog = gateway.pipeline().registry().catalog();
    let visible = visible_operations(&catalog, identity);
    let document = gateway.0.openapi_documents.get_or_create(&catalog, &visible);
    let plain = document.plain.get_or_init(|| {
        let mut api = HttpApi::new(env!("CARGO_PKG_VERSION"));
        api.needs_token = !gateway.authenticator().allows_anonymous();
        let operations = catalog.list().iter().enumerate();
        let operations = operations.filter(|(at, _)| visible[at / 64] & (1 << (at % 64)) != 0);
        EncodedDocument::with_etag(
            api.document(operations.map(|(_, operation)| &**operation)).to_string().into(),
            "",
        )
    });
    let compressed = || {
        document.gzip.get_or_init(|| {
            Some(EncodedDocument::with_etag(gzip(&plain.bytes).ok()?.into(), "-gzip"))
        })
    };
    match is_gzip.then(compressed).and_then(Option::as_ref) {
        Some(compressed) => (compressed.clone(), true),
        None => (plain.clone(), false),
    }
}

fn visible_operations(catalog: &Catalog, identity: &Identity) -> OperationMask {
    let mut visible = vec![0; catalog.len().div_ceil(64)];
    for (at, operation) in catalog.list().iter().enumerate() {
        if is_served(operation, identity) {
            visible[at / 64] |= 1 << (at % 64);
        }
    }
    visible.into()
}

/// Whether somebody can call an operation here: it may be called, something runs it, and it is not
/// what peers say on a connection of their own.
fn is_served(operation: &Operation, identity: &Identity) -> bool {
    operation.spec().access_control.is_callable_by(Some(identity))
        && operation.handler().is_some()
        && operation.id().as_str() != "hub.register"
}

impl OpenApiDocuments {
    fn get_or_create(
        &self,
        catalog: &Arc<Catalog>,
        visible: &OperationMask,
    ) -> Arc<CachedDocument> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = cache.catalog.as_ref().is_some_and(|cache| Arc::ptr_eq(cache, catalog));
        if !is_current
            || cache.documents.len() >= MAX_DOCUMENTS && !cache.documents.contains_key(visible)
        {
            cache.documents.clear();
            cache.catalog = Some(Arc::clone(catalog));
        }
        Arc::clone(cache.documents.entry(visible.clone()).or_default())
    }
}

impl EncodedDocument {
    fn with_etag(bytes: Bytes, suffix: &str) -> Self {
        let digits = data_encoding::HEXLOWER.encode(&Sha256::digest(&bytes)[..16]);
        let tag = HeaderValue::try_from(format!("\"{digits}{suffix}\""));
        Self { bytes, etag: tag.expect("digits can stand in a header") }
    }
}
