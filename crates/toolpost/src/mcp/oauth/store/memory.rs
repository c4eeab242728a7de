//! Credentials that end with the process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use super::{CredentialStore, Credentials, StoreError};

/// Credentials that end with the process.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<HashMap<String, Vec<Credentials>>>);

impl MemoryStore {
    /// A store with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock_entries(&self) -> MutexGuard<'_, HashMap<String, Vec<Credentials>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CredentialStore for MemoryStore {
    fn load<'a>(
        &'a self,
        resource: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Credentials>, StoreError>> {
        ready(Ok(self.lock_entries().get(resource).cloned().unwrap_or_default())).boxed()
    }

    fn save<'a>(
        &'a self,
        resource: &'a str,
        credentials: Credentials,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut stored = self.lock_entries();
        upsert(stored.entry(resource.to_owned()).or_default(), credentials);
        ready(Ok(())).boxed()
    }

    fn remove<'a>(
        &'a self,
        resource: &'a str,
        issuer: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        if let Some(list) = self.lock_entries().get_mut(resource) {
            list.retain(|stored| stored.issuer != issuer);
        }
        ready(Ok(())).boxed()
    }
}

/// The latest is the first, and there is one for each issuer.
pub(super) fn upsert(list: &mut Vec<Credentials>, credentials: Credentials) {
    list.retain(|stored| stored.issuer != credentials.issuer);
    list.insert(0, credentials);
}
