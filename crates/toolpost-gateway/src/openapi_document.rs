//! The OpenAPI documents of the HTTP API, filtered by the caller's access.
//!
//! Callers with the same access get the same document. It is generated on first use and cached
//! until the catalog changes.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use toolpost::view::HttpApi;
use toolpost::{Catalog, Identity, Operation};

use crate::gzip::EncodedBody;

/// Maximum number of cached documents. The cache is cleared when it is full.
const MAX_DOCUMENTS: usize = 64;

/// Cached OpenAPI documents of the current catalog.
#[derive(Debug, Default)]
pub(crate) struct OpenApiDocuments(Mutex<DocumentCache>);

#[derive(Debug, Default)]
struct DocumentCache {
    /// The catalog of the cached documents. Documents of another catalog are discarded.
    catalog: Option<Arc<Catalog>>,
    documents: HashMap<DocumentKey, Arc<OnceLock<EncodedBody>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DocumentKey {
    /// The operations in the document: one bit for each operation of the catalog.
    operations: Box<[u64]>,
    base_path: String,
    needs_token: bool,
}

impl OpenApiDocuments {
    /// Returns the document of the operations that an identity can call below `base_path`. Blocks
    /// while the document is generated.
    pub(crate) fn document(
        &self,
        catalog: &Arc<Catalog>,
        identity: &Identity,
        base_path: String,
        needs_token: bool,
    ) -> EncodedBody {
        let mut operations = vec![0; catalog.len().div_ceil(64)].into_boxed_slice();
        for (at, operation) in catalog.list().iter().enumerate() {
            operations[at / 64] |= u64::from(is_served(operation, identity)) << (at % 64);
        }
        let key = DocumentKey { operations, base_path, needs_token };
        let entry = self.entry(catalog, &key);
        let document = entry.get_or_init(|| {
            let mut api = HttpApi::new(env!("CARGO_PKG_VERSION"));
            (api.needs_token, api.base_path) = (needs_token, key.base_path.clone());
            let listed = catalog.list().iter().enumerate();
            let listed = listed.filter(|(at, _)| key.operations[at / 64] & (1 << (at % 64)) != 0);
            EncodedBody::new(api.document(listed.map(|(_, operation)| &**operation)).to_string())
        });
        document.clone()
    }

    fn entry(&self, catalog: &Arc<Catalog>, key: &DocumentKey) -> Arc<OnceLock<EncodedBody>> {
        let mut cache = self.0.lock();
        let is_current = cache.catalog.as_ref().is_some_and(|cached| Arc::ptr_eq(cached, catalog));
        let is_full = cache.documents.len() >= MAX_DOCUMENTS && !cache.documents.contains_key(key);
        if !is_current || is_full {
            cache.documents.clear();
            cache.catalog = Some(Arc::clone(catalog));
        }
        Arc::clone(cache.documents.entry(key.clone()).or_default())
    }
}

/// Whether an identity can call an operation over HTTP: it has access, the operation has a handler,
/// and the operation is not `hub.register`, which requires a hub connection.
fn is_served(operation: &Operation, identity: &Identity) -> bool {
    operation.spec().access_control.is_callable_by(Some(identity))
        && operation.handler().is_some()
        && operation.id().as_str() != "hub.register"
}
