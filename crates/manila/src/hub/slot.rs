//! The names of spokes: whose they are, who is behind them, and what they offer.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::SpokeRules;
use crate::connection::Client;
use crate::error::{CallError, ErrorCode};
use crate::registry::{Catalog, Change};
use crate::spec::OperationId;

/// A name, and the connection that stands behind it while there is one.
pub(super) struct Slot {
    pub(super) name: String,
    current: ArcSwapOption<Behind>,
}

struct Behind {
    peer: u64,
    client: Client,
}

impl Slot {
    /// Whoever answers for the name now.
    pub(super) fn client(&self) -> Result<Client, CallError> {
        match &*self.current.load() {
            Some(behind) => Ok(behind.client.clone()),
            None => {
                let message = format!("`{}` is offline", self.name);
                Err(CallError::unavailable(message).before_sending())
            }
        }
    }

    /// An error of a call that went to the client; a lost connection is said to be this one's.
    pub(super) fn name_loss(&self, client: &Client, error: CallError) -> CallError {
        match client.close_reason() {
            Some(reason) if *error.code() == ErrorCode::Unavailable => {
                error.reworded(format!("the connection to `{}` was lost: {reason}", self.name))
            }
            _ => error,
        }
    }

    fn is_behind(&self, peer: u64) -> bool {
        self.current.load().as_ref().is_some_and(|behind| behind.peer == peer)
    }
}

/// Every name that was ever used.
#[derive(Default)]
pub(super) struct Spokes {
    known: HashMap<String, Known>,
    rules: HashMap<String, SpokeRules>,
}

struct Known {
    /// The identity that first used the name.
    owner: String,
    slot: Arc<Slot>,
    operations: Vec<OperationId>,
}

impl Spokes {
    pub(super) fn expect(&mut self, name: &str, rules: SpokeRules) {
        self.rules.insert(name.to_owned(), rules);
    }

    pub(super) fn rules(&self, name: &str) -> SpokeRules {
        self.rules.get(name).cloned().unwrap_or_default()
    }

    /// The slot of a name for an identity that may use it.
    pub(super) fn claim(
        &mut self,
        name: &str,
        identity: &str,
        most: usize,
        catalog: &Catalog,
    ) -> Result<Arc<Slot>, CallError> {
        let reserved = self.rules.get(name).and_then(|rules| rules.owner.as_deref());
        let owner = reserved.or_else(|| self.known.get(name).map(|known| &*known.owner));
        if owner.is_some_and(|owner| owner != identity) {
            let message = format!("the name `{name}` belongs to another identity");
            return Err(CallError::access_denied(message));
        }
        if let Some(known) = self.known.get(name) {
            return Ok(Arc::clone(&known.slot));
        }
        if catalog.list().iter().any(|operation| operation.id().namespace() == name) {
            let message = format!("the namespace `{name}` is in use by other operations");
            return Err(CallError::access_denied(message));
        }
        if self.known.len() >= most {
            let message = format!("{most} names are known to this hub, which is the limit");
            return Err(CallError::overloaded(message));
        }
        let slot = Arc::new(Slot { name: name.to_owned(), current: ArcSwapOption::empty() });
        let known =
            Known { owner: identity.to_owned(), slot: Arc::clone(&slot), operations: Vec::new() };
        self.known.insert(name.to_owned(), known);
        Ok(slot)
    }

    /// Puts a peer behind a name in place of whoever was there, and says which operations of before
    /// are gone.
    pub(super) fn settle(
        &mut self,
        name: &str,
        peer: u64,
        client: Client,
        operations: Vec<OperationId>,
    ) -> Vec<OperationId> {
        let Some(known) = self.known.get_mut(name) else { return Vec::new() };
        known.slot.current.store(Some(Arc::new(Behind { peer, client })));
        let before = std::mem::replace(&mut known.operations, operations);
        before.into_iter().filter(|id| !known.operations.contains(id)).collect()
    }

    /// A peer left: what it offered is offline.
    pub(super) fn leave(&mut self, peer: u64, catalog: &Catalog) -> Vec<Change> {
        let mut changes = Vec::new();
        for known in self.known.values().filter(|known| known.slot.is_behind(peer)) {
            known.slot.current.store(None);
            let operations = known.operations.iter().filter_map(|id| catalog.get(id.as_str()));
            changes.extend(operations.map(|operation| {
                Change::Replace(crate::operation::Operation::clone(operation).with_offline(true))
            }));
        }
        changes
    }

    /// How many names are online, and how many are not.
    pub(super) fn count(&self) -> (usize, usize) {
        let is_online = |known: &&Known| known.slot.current.load().is_some();
        let online = self.known.values().filter(is_online).count();
        (online, self.known.len() - online)
    }
}
