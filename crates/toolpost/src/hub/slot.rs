//! The names of spokes: whose they are, who is behind them, and what they offer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use serde_json::Value;

use super::{SpokeRules, Standing};
use crate::clock::epoch_ms;
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

    pub(super) fn is_online(&self) -> bool {
        self.current.load().is_some()
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
    departures: u64,
}

struct Known {
    /// The identity that first used the name.
    owner: String,
    slot: Arc<Slot>,
    operations: Vec<OperationId>,
    /// What was offered, before it was adjusted; kept where the operator has rules that may change.
    offered: Option<Arc<Vec<Value>>>,
    /// Since when it is online, or offline.
    since: i64,
    /// When it was last left, counted in departures.
    left: u64,
}

impl Spokes {
    pub(super) fn expect(&mut self, name: &str, rules: SpokeRules) {
        self.rules.insert(name.to_owned(), rules);
    }

    /// Forgets what the operator said about a name.
    pub(super) fn unexpect(&mut self, name: &str) {
        self.rules.remove(name);
    }

    /// What can be adjusted anew under other rules: where the calls go, and what was offered. `None`
    /// where that is not known, or the name is another identity's now.
    pub(super) fn offered(&self, name: &str) -> Option<(Arc<Slot>, Arc<Vec<Value>>)> {
        let known = self.known.get(name)?;
        let owner = self.rules.get(name).and_then(|rules| rules.owner.as_deref());
        if owner.is_some_and(|owner| owner != known.owner) {
            return None;
        }
        Some((Arc::clone(&known.slot), Arc::clone(known.offered.as_ref()?)))
    }

    /// Puts other operations in the place of those of a name, and says which of before are gone.
    pub(super) fn adjust(&mut self, name: &str, operations: Vec<OperationId>) -> Vec<OperationId> {
        let Some(known) = self.known.get_mut(name) else { return Vec::new() };
        let before = std::mem::replace(&mut known.operations, operations);
        let kept: HashSet<&OperationId> = known.operations.iter().collect();
        before.into_iter().filter(|id| !kept.contains(id)).collect()
    }

    /// Takes a name from whoever has it: the connection behind it, and what it offered.
    pub(super) fn take(&mut self, name: &str) -> (Option<Client>, Vec<OperationId>) {
        let Some(known) = self.known.remove(name) else { return (None, Vec::new()) };
        let behind = known.slot.current.swap(None);
        (behind.map(|behind| behind.client.clone()), known.operations)
    }

    /// How a name is doing; `None` if nobody has used it.
    pub(super) fn standing(&self, name: &str) -> Option<Standing> {
        let known = self.known.get(name)?;
        let is_online = known.slot.is_online();
        Some(Standing { is_online, since: known.since })
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
    ) -> Result<(Arc<Slot>, Vec<OperationId>), CallError> {
        let reserved = self.rules.get(name).and_then(|rules| rules.owner.as_deref());
        let owner = reserved.or_else(|| self.known.get(name).map(|known| &*known.owner));
        if owner.is_some_and(|owner| owner != identity) {
            let message = format!("the name `{name}` belongs to another identity");
            return Err(CallError::access_denied(message));
        }
        if let Some(known) = self.known.get(name) {
            return Ok((Arc::clone(&known.slot), Vec::new()));
        }
        if catalog.list().iter().any(|operation| operation.id().namespace() == name) {
            let message = format!("the namespace `{name}` is in use by other operations");
            return Err(CallError::access_denied(message));
        }
        let forgotten = self.make_room(name, most)?;
        let slot = Arc::new(Slot { name: name.to_owned(), current: ArcSwapOption::empty() });
        let known = Known {
            owner: identity.to_owned(),
            slot: Arc::clone(&slot),
            operations: Vec::new(),
            offered: None,
            since: epoch_ms(),
            left: 0,
        };
        self.known.insert(name.to_owned(), known);
        Ok((slot, forgotten))
    }

    /// Names that the operator has settled always have room. Among the others, the one that has been
    /// away for the longest makes room for a new one, and its operations are forgotten.
    fn make_room(&mut self, name: &str, most: usize) -> Result<Vec<OperationId>, CallError> {
        let is_settled = |name: &str| self.rules.contains_key(name);
        let others = self.known.keys().filter(|known| !is_settled(known)).count();
        if is_settled(name) || others < most {
            return Ok(Vec::new());
        }
        if most == 0 {
            let message = format!("the name `{name}` is not one that the operator has settled");
            return Err(CallError::access_denied(message));
        }
        let away = self
            .known
            .iter()
            .filter(|(name, known)| !is_settled(name) && known.slot.current.load().is_none());
        let Some(oldest) = away.min_by_key(|(_, known)| known.left).map(|(name, _)| name.clone())
        else {
            let message = format!("{most} spokes are connected, which is the limit");
            return Err(CallError::overloaded(message));
        };
        Ok(self.known.remove(&oldest).map(|known| known.operations).unwrap_or_default())
    }

    /// Puts a peer behind a name in place of whoever was there, and says which operations of before
    /// are gone.
    pub(super) fn settle(
        &mut self,
        name: &str,
        peer: u64,
        client: Client,
        operations: Vec<OperationId>,
        offered: Option<Arc<Vec<Value>>>,
    ) -> Vec<OperationId> {
        let Some(known) = self.known.get_mut(name) else { return Vec::new() };
        if !known.slot.is_behind(peer) {
            known.since = epoch_ms();
        }
        known.slot.current.store(Some(Arc::new(Behind { peer, client })));
        known.offered = offered;
        self.adjust(name, operations)
    }

    /// A peer left: what it offered is offline.
    pub(super) fn leave(&mut self, peer: u64, catalog: &Catalog) -> Vec<Change> {
        let mut changes = Vec::new();
        for known in self.known.values_mut().filter(|known| known.slot.is_behind(peer)) {
            known.slot.current.store(None);
            self.departures += 1;
            (known.left, known.since) = (self.departures, epoch_ms());
            tracing::info!(spoke = known.slot.name, "spoke left");
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
