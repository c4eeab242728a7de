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
use super::http::{gzip, takes_gzip};
use super::problem::Problem;
use super::tag;
use crate::app::Gateway;

/// How many documents are kept; whoever has more kinds of callers has them written again.
const MOST: usize = 64;

/// The documents of the catalog of the moment.
#[derive(Debug, Default)]
pub(crate) struct Documents(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// What they are about; those of another catalog are thrown away.
    catalog: Option<Arc<Catalog>>,
    documents: HashMap<Shown, Arc<Document>>,
}

/// What a document shows: one bit for each operation.
type Shown = Box<[u64]>;

/// A document, made by the first who asks for it; whoever asks meanwhile waits on a thread that may
/// wait.
#[derive(Debug, Default)]
struct Document {
    plain: OnceLock<Form>,
    packed: OnceLock<Option<Form>>,
}

/// Bytes, and the tag that no others have.
#[derive(Debug, Clone)]
struct Form {
    bytes: Bytes,
    tag: HeaderValue,
}

pub(super) async fn document(
    State(gateway): State<Gateway>,
    headers: HeaderMap,
) -> Result<Response, Response> {
    answer(gateway, &headers).await.map_err(Problem::into_response)
}

async fn answer(gateway: Gateway, headers: &HeaderMap) -> Result<Response, Problem> {
    let identity = bearer::identify(gateway.authenticator(), "/openapi.json", headers).await?;
    let is_packed = takes_gzip(headers);
    let writing = tokio::task::spawn_blocking(move || written(&gateway, &identity, is_packed));
    let form = writing.await.map_err(|error| {
        tracing::error!(%error, "the document of the HTTP API could not be written");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    })?;
    Ok(respond(form, headers))
}

fn respond((form, is_packed): (Form, bool), headers: &HeaderMap) -> Response {
    let is_known = tag::is_known(headers, &form.tag);
    let mut response = Response::new(match is_known {
        true => Body::empty(),
        false => Body::from(form.bytes),
    });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let said = response.headers_mut();
    said.insert(header::ETAG, form.tag);
    // It is for this caller, and may be another after the next change.
    said.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    said.insert(header::VARY, HeaderValue::from_static("accept-encoding, authorization"));
    if !is_known {
        said.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if is_packed {
            said.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
    response
}

fn written(gateway: &Gateway, identity: &Identity, is_packed: bool) -> (Form, bool) {
    let catalog = gateway.pipeline().registry().catalog();
    let shown = shown(&catalog, identity);
    let document = gateway.0.documents.get(&catalog, &shown);
    let plain = document.plain.get_or_init(|| {
        let mut api = HttpApi::new(env!("CARGO_PKG_VERSION"));
        api.needs_token = !gateway.authenticator().is_open();
        let operations = catalog.list().iter().enumerate();
        let operations = operations.filter(|(at, _)| shown[at / 64] & (1 << (at % 64)) != 0);
        Form::of(api.document(operations.map(|(_, operation)| &**operation)).to_string().into(), "")
    });
    let packed =
        || document.packed.get_or_init(|| Some(Form::of(gzip(&plain.bytes).ok()?.into(), "-gzip")));
    match is_packed.then(packed).and_then(Option::as_ref) {
        Some(packed) => (packed.clone(), true),
        None => (plain.clone(), false),
    }
}

fn shown(catalog: &Catalog, identity: &Identity) -> Shown {
    let mut shown = vec![0; catalog.len().div_ceil(64)];
    for (at, operation) in catalog.list().iter().enumerate() {
        if is_served(operation, identity) {
            shown[at / 64] |= 1 << (at % 64);
        }
    }
    shown.into()
}

/// Whether somebody can call an operation here: it may be called, something runs it, and it is not
/// what peers say on a connection of their own.
fn is_served(operation: &Operation, identity: &Identity) -> bool {
    operation.spec().access_control.admits(Some(identity))
        && operation.handler().is_some()
        && operation.id().as_str() != "hub.register"
}

impl Documents {
    fn get(&self, catalog: &Arc<Catalog>, shown: &Shown) -> Arc<Document> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of_now = known.catalog.as_ref().is_some_and(|known| Arc::ptr_eq(known, catalog));
        if !is_of_now || known.documents.len() >= MOST && !known.documents.contains_key(shown) {
            known.documents.clear();
            known.catalog = Some(Arc::clone(catalog));
        }
        Arc::clone(known.documents.entry(shown.clone()).or_default())
    }
}

impl Form {
    fn of(bytes: Bytes, suffix: &str) -> Self {
        let digits = data_encoding::HEXLOWER.encode(&Sha256::digest(&bytes)[..16]);
        let tag = HeaderValue::try_from(format!("\"{digits}{suffix}\""));
        Self { bytes, tag: tag.expect("digits can stand in a header") }
    }
}
