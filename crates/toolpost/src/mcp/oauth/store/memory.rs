//! Credential store in memory.

use std::collections::HashMap;

use futures::FutureExt;
use futures::future::ready;
use parking_lot::Mutex;

use super::{CredentialStore, Credentials, StoreFuture};

/// Keeps credentials in memory until the process exits.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<HashMap<String, Vec<Credentials>>>);

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl CredentialStore for MemoryStore {
    fn load<'a>(&'a self, resource: &'a str) -> StoreFuture<'a, Vec<Credentials>> {
        ready(Ok(self.0.lock().get(resource).cloned().unwrap_or_default())).boxed()
    }

    fn save<'a>(&'a self, resource: &'a str, credentials: Credentials) -> StoreFuture<'a, ()> {
        let mut stored = self.0.lock();
        upsert(stored.entry(resource.to_owned()).or_default(), credentials);
        ready(Ok(())).boxed()
    }

    fn remove<'a>(&'a self, resource: &'a str, issuer: &'a str) -> StoreFuture<'a, ()> {
        if let Some(list) = self.0.lock().get_mut(resource) {
            list.retain(|stored| stored.issuer != issuer);
        }
        ready(Ok(())).boxed()
    }
}

/// Inserts credentials at the front, replacing those of the same issuer.
pub(super) fn upsert(list: &mut Vec<Credentials>, credentials: Credentials) {
    list.retain(|stored| stored.issuer != credentials.issuer);
    list.insert(0, credentials);
}
