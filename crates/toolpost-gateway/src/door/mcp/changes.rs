//! What clients are told when there are other tools, prompts or resources than before, and when a
//! resource that they follow has changed.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use toolpost::Operation;
use toolpost::view::{Era, Listing};

use super::ask::Asker;
use super::following::Following;
use super::message::{self, Id};
use super::params::Filter;

/// Follows what one client sees.
#[derive(Debug)]
pub(super) struct Changes {
    asker: Asker,
    filter: Filter,
    /// The request that the notifications belong to, from 2026-07-28 on.
    subscription: Option<Id>,
    /// The resources that the client follows.
    following: Arc<Following>,
    catalogs: watch::Receiver<u64>,
    /// Until when changes that were seen are gathered.
    settling: Option<Instant>,
    tools: Arc<Listing>,
    prompts: Vec<Arc<Operation>>,
    resources: Vec<Arc<Operation>>,
}

impl Changes {
    pub(super) fn new(asker: Asker, filter: Filter, subscription: Option<Id>) -> Self {
        // Before looking, so that nothing changes unseen in between.
        let mut catalogs = asker.gateway.pipeline().registry().changes();
        catalogs.mark_unchanged();
        Self {
            tools: asker.listing(),
            prompts: offers(&asker, "prompts/"),
            resources: offers(&asker, "resources/"),
            following: match &subscription {
                // Each subscription has what it asked for, and a client of before has one for all.
                None => asker.following.clone().unwrap_or_default(),
                Some(_) => Arc::default(),
            },
            asker,
            filter,
            subscription,
            catalogs,
            settling: None,
        }
    }

    /// Whether a request of the client is behind it.
    pub(super) fn is_subscription(&self) -> bool {
        self.subscription.is_some()
    }

    /// Follows the resources that the subscription asks for, as far as that can be done.
    pub(super) async fn begin(&mut self) {
        let wanted = std::mem::take(&mut self.filter.resource_subscriptions);
        self.filter.resource_subscriptions = self.following.follow_all(&self.asker, wanted).await;
    }

    /// The notification that a subscription begins with.
    pub(super) fn acknowledgement(&self) -> Vec<u8> {
        let notifications = self.filter.honored();
        self.notification("subscriptions/acknowledged", json!({"notifications": notifications}))
    }

    /// The result that a subscription ends with when it is not the client who ends it.
    pub(super) fn farewell(&self) -> Option<Vec<u8>> {
        let id = self.subscription.as_ref()?;
        let mut out = message::begin_result(id);
        let meta = self.meta();
        let result = json!({"resultType": "complete", "_meta": meta});
        out.extend_from_slice(result.to_string().as_bytes());
        out.push(b'}');
        Some(out)
    }

    /// Waits for the next changes and gives their notifications; nothing when there will be none.
    ///
    /// # Cancellation
    ///
    /// Nothing is lost when it is dropped: a change that was seen is remembered.
    pub(super) async fn next(&mut self) -> Option<Vec<Vec<u8>>> {
        loop {
            let settled = match self.settling {
                Some(settled) => settled,
                None => {
                    tokio::select! {
                        changed = self.catalogs.changed() => changed.ok()?,
                        () = self.following.updated() => {}
                    }
                    // Changes come in flocks: a source registers its operations one by one.
                    let settle = self.asker.gateway.0.mcp.settings().settle;
                    *self.settling.insert(Instant::now() + settle)
                }
            };
            tokio::time::sleep_until(settled).await;
            self.settling = None;
            let mut found = self.updates();
            // What the select saw is still to be looked at, and so is what came since.
            self.catalogs.mark_unchanged();
            found.extend(self.found());
            if !found.is_empty() {
                return Some(found);
            }
        }
    }

    fn updates(&self) -> Vec<Vec<u8>> {
        let updated = self.following.take(&self.asker).into_iter();
        updated.map(|uri| self.notification("resources/updated", json!({"uri": &*uri}))).collect()
    }

    fn found(&mut self) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let tools = self.asker.listing();
        if !self.tools.says_the_same_as(&tools) && self.filter.tools_list_changed {
            found.push(self.notification("tools/list_changed", json!({})));
        }
        self.tools = tools;
        let prompts = offers(&self.asker, "prompts/");
        if !same(&prompts, &self.prompts) && self.filter.prompts_list_changed {
            found.push(self.notification("prompts/list_changed", json!({})));
        }
        self.prompts = prompts;
        let resources = offers(&self.asker, "resources/");
        if !same(&resources, &self.resources) && self.filter.resources_list_changed {
            found.push(self.notification("resources/list_changed", json!({})));
        }
        self.resources = resources;
        found
    }

    fn notification(&self, name: &str, mut params: Value) -> Vec<u8> {
        if self.asker.era == Era::Modern {
            params["_meta"] = self.meta().into();
        }
        message::notification(&format!("notifications/{name}"), &params)
    }

    fn meta(&self) -> Map<String, Value> {
        let id = self.subscription.as_ref().and_then(|id| serde_json::from_str(id.json()).ok());
        let id = id.map(|id| ("io.modelcontextprotocol/subscriptionId".to_owned(), id));
        id.into_iter().collect()
    }
}

/// The operations behind one part of the protocol. A source replaces them when its own list changed.
fn offers(asker: &Asker, part: &str) -> Vec<Arc<Operation>> {
    let catalog = asker.gateway.pipeline().registry().catalog();
    let is_shown = |operation: &&Arc<Operation>| {
        let source = asker.view.source.as_deref();
        source.is_none_or(|source| operation.id().namespace() == source)
            && toolpost::mcp::method_of(operation.spec()).is_some_and(|name| name.starts_with(part))
            && operation.spec().access_control.admits(Some(&asker.identity))
    };
    catalog.list().iter().filter(is_shown).cloned().collect()
}

fn same(left: &[Arc<Operation>], right: &[Arc<Operation>]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| Arc::ptr_eq(left, right))
}
