//! `hub.register`: a spoke says who it is and what it offers.

use std::sync::{Arc, MutexGuard, OnceLock, Weak};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::forward::Forward;
use super::slot::{Slot, Spokes};
use super::{Inner, RESERVED_NAMES, SpokeRules};
use crate::access::Identity;
use crate::connection::Client;
use crate::error::{CallError, HandlerError};
use crate::handler::CallContext;
use crate::link::CloseReason;
use crate::operation::{Operation, ResultPolicy};
use crate::registry::Change;
use crate::spec::{OperationId, OperationSpec};

pub(super) fn operation() -> Operation {
    Operation::mutation("hub.register", register)
        .title("Offer operations")
        .description("Offers the operations of the connection that it is called on, under a name.")
        .idempotent()
        .build()
        .expect("the contract is well formed")
}

/// The connection that a call came in on, as the handler of `hub.register` sees it.
pub(super) struct Registrant {
    hub: Weak<Inner>,
    number: u64,
    identity: Arc<Identity>,
    /// Set as soon as there is one, which is before the first call.
    client: OnceLock<Client>,
}

impl Registrant {
    pub(super) fn new(hub: &Arc<Inner>, number: u64, identity: Arc<Identity>) -> Self {
        Self { hub: Arc::downgrade(hub), number, identity, client: OnceLock::new() }
    }

    pub(super) fn set_client(&self, client: Client) {
        let _ = self.client.set(client);
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Offer {
    /// The name of the spoke: `fs.read` of the spoke `box` becomes `box.fs.read`.
    name: String,
    /// What it offers, instead of whatever it offered before.
    operations: Vec<Value>,
}

/// What became of an offer.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Registered {
    /// The ids under which operations can be called now.
    pub(super) registered: Vec<String>,
    pub(super) refused: Vec<Refused>,
}

/// An operation that was not taken.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Refused {
    pub(super) id: String,
    pub(super) reason: String,
}

async fn register(context: CallContext, offer: Offer) -> Result<Registered, HandlerError> {
    let Some(registrant) = context.attached::<Registrant>() else {
        let message = "hub.register offers the operations of a connection: call it on one";
        return Err(CallError::validation(message, &[]).into());
    };
    let (Some(hub), Some(client)) = (registrant.hub.upgrade(), registrant.client.get()) else {
        return Err(CallError::unavailable("the hub is gone").into());
    };
    let identity = &registrant.identity.id;
    let registered =
        hub.install(&offer.name, identity, registrant.number, client, offer.operations).await?;
    tracing::info!(
        spoke = offer.name,
        %identity,
        registered = registered.registered.len(),
        refused = registered.refused.len(),
        "spoke registered"
    );
    Ok(registered)
}

impl Inner {
    /// Puts what a peer offers into the registry, under a name that its identity may use.
    pub(super) async fn install(
        &self,
        name: &str,
        identity: &str,
        number: u64,
        client: &Client,
        offered: Vec<Value>,
    ) -> Result<Registered, CallError> {
        check_name(name)?;
        if offered.len() > self.settings.operations {
            let most = self.settings.operations;
            return Err(CallError::overloaded(format!("a spoke offers at most {most} operations")));
        }
        let (slot, rules) = self.claim(name, identity)?;
        // Only what the operator has rules for can be adjusted otherwise later.
        let kept = rules.adjust.is_some().then(|| Arc::new(offered.clone()));
        let (operations, refused) = build_aside(slot, rules, offered).await?;
        let mut spokes = self.spokes();
        // A peer that has left in the meantime stays away: nobody would take it offline again.
        if client.is_closed() {
            return Err(CallError::unavailable("the connection has ended"));
        }
        let ids: Vec<OperationId> = operations.iter().map(|made| made.id().clone()).collect();
        let registered = ids.iter().map(OperationId::to_string).collect();
        let gone = spokes.settle(name, number, client.clone(), ids, kept);
        let changes = gone.into_iter().map(Change::Unregister);
        let changes = changes.chain(operations.into_iter().map(Change::Replace));
        self.pipeline.registry().apply(changes).expect("replacing cannot clash");
        Ok(Registered { registered, refused })
    }

    /// Puts what a name offers into the registry once more, under other rules. Whoever cannot be judged
    /// by them is sent away, and may come again.
    pub(super) fn renew(&self, name: &str) {
        let mut spokes = self.spokes();
        let Some((slot, offered)) = spokes.offered(name) else {
            return self.send_away(spokes, name);
        };
        let (operations, _) = build(&slot, &spokes.rules(name), Vec::clone(&offered));
        let ids = operations.iter().map(|made| made.id().clone()).collect();
        let gone = spokes.adjust(name, ids).into_iter().map(Change::Unregister);
        let is_offline = !slot.is_online();
        let come = operations.into_iter().map(|made| {
            let is_offline = is_offline || made.is_offline();
            Change::Replace(made.with_offline(is_offline))
        });
        self.pipeline.registry().apply(gone.chain(come)).expect("replacing cannot clash");
    }

    /// Takes a name from whoever has it.
    pub(super) fn send_away(&self, mut spokes: MutexGuard<'_, Spokes>, name: &str) {
        let client = self.take(&mut spokes, name);
        drop(spokes);
        if let Some(client) = client {
            client.close(CloseReason::new(
                CloseReason::SERVICE_RESTART,
                format!("what holds for `{name}` has changed; connect again"),
            ));
        }
    }

    /// Takes a name and what it offers out, and gives the connection behind it.
    pub(super) fn take(&self, spokes: &mut Spokes, name: &str) -> Option<Client> {
        let (client, gone) = spokes.take(name);
        let gone = gone.into_iter().map(Change::Unregister);
        self.pipeline.registry().apply(gone).expect("removing cannot clash");
        client
    }

    fn claim(&self, name: &str, identity: &str) -> Result<(Arc<Slot>, SpokeRules), CallError> {
        let mut spokes = self.spokes();
        let catalog = self.pipeline.registry().catalog();
        let (slot, forgotten) = spokes.claim(name, identity, self.settings.spokes, &catalog)?;
        let changes = forgotten.into_iter().map(Change::Unregister);
        self.pipeline.registry().apply(changes).expect("removing cannot clash");
        Ok((slot, spokes.rules(name)))
    }
}

/// Compiling thousands of schemas takes a while, in which nobody else should have to wait.
async fn build_aside(
    slot: Arc<Slot>,
    rules: SpokeRules,
    offered: Vec<Value>,
) -> Result<(Vec<Operation>, Vec<Refused>), CallError> {
    const QUICK: usize = 32;
    if offered.len() <= QUICK {
        return Ok(build(&slot, &rules, offered));
    }
    let built = tokio::task::spawn_blocking(move || build(&slot, &rules, offered)).await;
    built.map_err(|error| CallError::unknown("the offer could not be read").with_cause(error))
}

fn check_name(name: &str) -> Result<(), CallError> {
    if RESERVED_NAMES.contains(&name) {
        let message = format!("the name `{name}` is the gateway's own; choose another");
        return Err(CallError::access_denied(message));
    }
    OperationId::new(name, "x").map(drop).map_err(|error| {
        CallError::validation(format!("a spoke cannot be called that: {error}"), &[])
    })
}

/// One odd operation is refused with its reason; the others stay.
fn build(
    slot: &Arc<Slot>,
    rules: &SpokeRules,
    offered: Vec<Value>,
) -> (Vec<Operation>, Vec<Refused>) {
    let (mut operations, mut refused) = (Vec::<Operation>::new(), Vec::new());
    let mut taken = std::collections::HashSet::new();
    for (index, offer) in offered.into_iter().enumerate() {
        let label = label(&offer).unwrap_or_else(|| format!("operations[{index}]"));
        match build_one(slot, rules, offer) {
            Ok(Some(made)) if taken.insert(made.id().clone()) => operations.push(made),
            Ok(Some(_)) => {
                let reason = "it was offered twice".to_owned();
                refused.push(Refused { id: label, reason });
            }
            Ok(None) => {
                let reason = "it is excluded by the configuration of this hub".to_owned();
                refused.push(Refused { id: label, reason });
            }
            Err(reason) => refused.push(Refused { id: label, reason }),
        }
    }
    (operations, refused)
}

fn label(offer: &Value) -> Option<String> {
    let (namespace, name) = (offer.get("namespace")?.as_str()?, offer.get("name")?.as_str()?);
    Some(format!("{namespace}.{name}"))
}

fn build_one(
    slot: &Arc<Slot>,
    rules: &SpokeRules,
    offer: Value,
) -> Result<Option<Operation>, String> {
    let is_offline = offer.get("status").is_some_and(|status| status == "offline");
    let spec: OperationSpec = serde_json::from_value(offer).map_err(|error| error.to_string())?;
    let own = spec.id().map_err(|error| error.to_string())?;
    for (schema, what) in
        [(&spec.input_schema, "inputSchema"), (&spec.output_schema, "outputSchema")]
    {
        schema.compile().map_err(|error| format!("{what}: {error}"))?;
    }
    let mut listed = spec;
    (listed.namespace, listed.name) = (slot.name.clone(), own.to_string());
    let (listed, policy) = match &rules.adjust {
        Some(adjust) => match adjust(listed) {
            Some(adjusted) => adjusted,
            None => return Ok(None),
        },
        None => (listed, ResultPolicy::default()),
    };
    let forward =
        Forward { slot: Arc::clone(slot), operation: own.to_string(), timeout: rules.timeout };
    let handler = forward.handler(listed.kind);
    let made = Operation::from_spec(listed).handler(handler).policy(policy).build();
    let made = made.map(|made| made.with_offline(is_offline).with_via(&slot.name));
    made.map(Some).map_err(|error| error.to_string())
}
