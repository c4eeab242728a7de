//! `hub.register`: registers a spoke's name and operations.

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::MutexGuard;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::forward::ForwardHandler;
use super::spoke_registry::{SpokeRegistry, SpokeRoute};
use super::{HubInner, RESERVED_NAMES, SpokeConfig};
use crate::access::Identity;
use crate::connection::Client;
use crate::error::{CallError, HandlerError};
use crate::fair_queue::compute;
use crate::handler::CallContext;
use crate::json::{error_message, text_bytes};
use crate::operation::{Operation, ResultPolicy};
use crate::registry::Change;
use crate::schema::{Schema, SchemaError};
use crate::spec::{OperationId, OperationSpec};
use crate::transport::CloseReason;

/// Maximum length of a spoke name, and of an id of an operation, in bytes.
const MAX_ID_BYTES: usize = 256;

pub(super) fn operation() -> Operation {
    Operation::mutation("hub.register", register)
        .title("Register operations")
        .description("Registers the operations of the calling connection under a name.")
        .idempotent()
        .build()
        .expect("built-in operations are valid")
}

/// The connection of a `hub.register` call, attached to its context.
pub(super) struct CallingConnection {
    hub: Weak<HubInner>,
    connection_id: u64,
    identity: Arc<Identity>,
    /// Set before the first call on the connection.
    pub(super) client: OnceLock<Client>,
}

impl CallingConnection {
    pub(super) fn new(hub: &Arc<HubInner>, connection_id: u64, identity: Arc<Identity>) -> Self {
        Self { hub: Arc::downgrade(hub), connection_id, identity, client: OnceLock::new() }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct RegisterInput {
    /// Name of the spoke. It prefixes the operation ids: `fs.read` of the spoke `box` becomes
    /// `box.fs.read`.
    name: String,
    /// Operations of the spoke. They replace the ones registered before.
    operations: Vec<Value>,
}

/// Result of a registration.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct RegisterOutput {
    /// Ids of the registered operations, as callers see them.
    pub(super) registered: Vec<String>,
    pub(super) refused: Vec<RejectedOperation>,
}

/// An operation that was rejected.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct RejectedOperation {
    pub(super) id: String,
    pub(super) reason: String,
}

async fn register(
    context: CallContext,
    input: RegisterInput,
) -> Result<RegisterOutput, HandlerError> {
    let Some(registrant) = context.attached::<CallingConnection>() else {
        let message = "hub.register must be called over a hub connection";
        return Err(CallError::validation(message, &[]).into());
    };
    let (Some(hub), Some(client)) = (registrant.hub.upgrade(), registrant.client.get()) else {
        return Err(CallError::unavailable("the hub has shut down").into());
    };
    let identity = &registrant.identity;
    let registered = hub
        .register_spoke(
            &context,
            &input.name,
            identity,
            registrant.connection_id,
            client,
            input.operations,
        )
        .await?;
    tracing::info!(
        spoke = input.name,
        identity = %identity.key(),
        registered = registered.registered.len(),
        rejected = registered.refused.len(),
        "spoke registered"
    );
    Ok(registered)
}

impl HubInner {
    /// Registers the operations of a peer under a spoke name, if its identity can use the name.
    pub(super) async fn register_spoke(
        &self,
        context: &CallContext,
        name: &str,
        identity: &Arc<Identity>,
        connection_id: u64,
        client: &Client,
        specs: Vec<Value>,
    ) -> Result<RegisterOutput, CallError> {
        validate_name(name)?;
        if specs.len() > self.settings.max_operations {
            let max = self.settings.max_operations;
            return Err(CallError::overloaded(format!(
                "a spoke can register at most {max} operations"
            )));
        }
        let (route, rules) = self.claim_name(name, identity)?;
        let bytes = specs.iter().map(text_bytes).sum();
        self.spokes().reserve_bytes(name, bytes)?;
        // The original specs are kept only for a transform, which may change later.
        let retained_specs = rules.transform.is_some().then(|| Arc::new(specs.clone()));
        let max_text_bytes = self.settings.max_description_bytes;
        let build = move || build_operations(&route, &rules, specs, max_text_bytes);
        let (operations, rejected) = compute(context, |_| build()).await?;
        let mut spokes = self.spokes();
        // The disconnect was already handled, so the operations would stay online.
        if client.is_closed() {
            return Err(CallError::unavailable("the connection has ended"));
        }
        let ids: Vec<OperationId> = operations.iter().map(|made| made.id().clone()).collect();
        let registered = ids.iter().map(OperationId::to_string).collect();
        let removed_ids = spokes.attach(name, connection_id, client.clone(), ids, retained_specs);
        let removals = removed_ids.into_iter().map(Change::Unregister);
        self.apply(removals.chain(operations.into_iter().map(Change::Replace)));
        Ok(RegisterOutput { registered, refused: rejected })
    }

    /// Rebuilds the operations of a name with its current configuration. If that fails, disconnects
    /// the spoke, which can register again.
    pub(super) fn reapply_config(&self, name: &str) {
        let mut spokes = self.spokes();
        let Some((route, specs)) = spokes.registered_specs(name) else {
            return self.evict_spoke(spokes, name);
        };
        let (operations, _) = build_operations(
            &route,
            &spokes.config(name),
            Vec::clone(&specs),
            self.settings.max_description_bytes,
        );
        let ids = operations.iter().map(|made| made.id().clone()).collect();
        let removals = spokes.replace_operations(name, ids).into_iter().map(Change::Unregister);
        let is_offline = !route.is_online();
        let come = operations.into_iter().map(|made| {
            let is_offline = is_offline || made.is_offline();
            Change::Replace(made.with_offline(is_offline))
        });
        self.apply(removals.chain(come));
    }

    /// Removes a name and its operations, and closes its connection.
    pub(super) fn evict_spoke(&self, mut spokes: MutexGuard<'_, SpokeRegistry>, name: &str) {
        let client = self.remove_spoke(&mut spokes, name);
        drop(spokes);
        if let Some(client) = client {
            client.close(CloseReason::new(
                CloseReason::SERVICE_RESTART,
                format!("the configuration of `{name}` changed; reconnect"),
            ));
        }
    }

    /// Removes a name and its operations, and returns its connection.
    pub(super) fn remove_spoke(&self, spokes: &mut SpokeRegistry, name: &str) -> Option<Client> {
        let (client, removed) = spokes.remove(name);
        self.apply(removed.into_iter().map(Change::Unregister));
        client
    }

    fn claim_name(
        &self,
        name: &str,
        identity: &Arc<Identity>,
    ) -> Result<(Arc<SpokeRoute>, SpokeConfig), CallError> {
        let mut spokes = self.spokes();
        let catalog = self.pipeline.registry().catalog();
        let (route, forgotten) =
            spokes.claim(name, identity, self.settings.max_spokes, &catalog)?;
        self.apply(forgotten.into_iter().map(Change::Unregister));
        Ok((route, spokes.config(name)))
    }
}

/// Builds the operations of another hub on a blocking thread, because their schemas are compiled.
pub(super) async fn build_operations_off_thread(
    route: Arc<SpokeRoute>,
    config: SpokeConfig,
    specs: Vec<Value>,
) -> Result<(Vec<Operation>, Vec<RejectedOperation>), CallError> {
    let building = move || build_operations(&route, &config, specs, usize::MAX);
    let built = tokio::task::spawn_blocking(building).await;
    built.map_err(|error| CallError::unknown("the operations cannot be built").with_cause(error))
}

pub(super) fn validate_name(name: &str) -> Result<(), CallError> {
    if RESERVED_NAMES.contains(&name) {
        let message = format!("the name `{name}` is reserved; choose another");
        return Err(CallError::access_denied(message));
    }
    if name.len() > MAX_ID_BYTES {
        let message = format!("a spoke name has at most {MAX_ID_BYTES} bytes");
        return Err(CallError::validation(message, &[]));
    }
    OperationId::new(name, "x")
        .map(drop)
        .map_err(|error| CallError::validation(format!("invalid spoke name: {error}"), &[]))
}

/// Builds operations from specs. Invalid specs are returned as rejected, with the reason.
fn build_operations(
    route: &Arc<SpokeRoute>,
    config: &SpokeConfig,
    specs: Vec<Value>,
    max_text_bytes: usize,
) -> (Vec<Operation>, Vec<RejectedOperation>) {
    let (mut operations, mut rejected) = (Vec::<Operation>::new(), Vec::new());
    let mut taken = std::collections::HashSet::new();
    for (index, input) in specs.into_iter().enumerate() {
        let label = spec_id(&input).unwrap_or_else(|| format!("operations[{index}]"));
        let reason = match build_operation(route, config, input, max_text_bytes) {
            Ok(made) if taken.insert(made.id().clone()) => {
                operations.push(made);
                continue;
            }
            Ok(_) => "duplicate operation id".to_owned(),
            Err(reason) => reason,
        };
        rejected.push(RejectedOperation { id: label, reason });
    }
    (operations, rejected)
}

fn spec_id(input: &Value) -> Option<String> {
    let (namespace, name) = (input.get("namespace")?.as_str()?, input.get("name")?.as_str()?);
    Some(format!("{namespace}.{name}"))
}

fn build_operation(
    route: &Arc<SpokeRoute>,
    config: &SpokeConfig,
    input: Value,
    max_text_bytes: usize,
) -> Result<Operation, String> {
    let is_offline = input.get("status").is_some_and(|status| status == "offline");
    let mut listed: OperationSpec =
        serde_json::from_value(input).map_err(|error| error_message(&error))?;
    let own = listed.id().map_err(|error| error.to_string())?;
    check_texts(&listed, max_text_bytes)?;
    match listed.input_schema.compile() {
        // Its calls are rejected, because their input cannot be validated.
        Err(error @ SchemaError::OverBudget { .. }) => {
            tracing::warn!(operation = %own, spoke = %route.source.name, %error, "operation is unavailable: input schema over budget");
        }
        compiled => compiled.map_err(|error| format!("inputSchema: {error}"))?,
    }
    match listed.output_schema.compile() {
        Err(error @ SchemaError::OverBudget { .. }) => {
            tracing::warn!(operation = %own, spoke = %route.source.name, %error, "output schema is ignored");
            listed.output_schema = Schema::unknown();
        }
        compiled => compiled.map_err(|error| format!("outputSchema: {error}"))?,
    }
    (listed.namespace, listed.name) = (route.source.name.to_string(), own.to_string());
    let (listed, policy) = match &config.transform {
        Some(transform) => transform(listed).ok_or("excluded by the configuration of this hub")?,
        None => (listed, ResultPolicy::default()),
    };
    let forward = ForwardHandler {
        route: Arc::clone(route),
        operation: own.to_string(),
        timeout: config.timeout,
    };
    let handler = forward.into_handler(listed.kind);
    let made = Operation::from_spec(listed).handler(handler).policy(policy).build();
    let made = made.map_err(|error| error.to_string())?;
    Ok(made.with_offline(is_offline).with_source(&route.source))
}

/// Checks the texts of a spec, which callers receive in lists and search results.
fn check_texts(listed: &OperationSpec, max: usize) -> Result<(), String> {
    let title = listed.title.as_deref().unwrap_or_default();
    let tags: usize = listed.tags.iter().map(String::len).sum();
    let bytes = listed.description.len() + title.len() + tags;
    if bytes > max {
        return Err(format!(
            "the title, the description and the tags have {bytes} bytes; the limit is {max} \
             (limits.spoke_description_bytes)"
        ));
    }
    let name = listed.namespace.len() + listed.name.len();
    match name > MAX_ID_BYTES {
        true => Err(format!("the id has {name} bytes; the limit is {MAX_ID_BYTES}")),
        false => Ok(()),
    }
}
