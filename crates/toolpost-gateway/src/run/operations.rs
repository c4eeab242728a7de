//! `gateway.sources` and `gateway.reload`.

use std::sync::{Arc, Weak};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolpost::{
    AccessControl, CallError, DomainError, ErrorDefinition, HandlerError, Operation, Schema,
};

use super::reload::{Asker, ReloadError, Reloaded, Reloader};
use crate::admin::scope;
use crate::source::SourceSight;

/// What a configuration that cannot hold is called on the wire.
const REFUSED: &str = "CONFIGURATION_REFUSED";

#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Debug, Serialize, JsonSchema)]
struct Listed {
    sources: Vec<SourceSight>,
}

/// The details of a refusal.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "it is only described")]
struct Refusal {
    /// Everything that is wrong, each with its place.
    problems: Vec<String>,
}

pub(super) fn operations(reloader: &Arc<Reloader>) -> [Operation; 2] {
    let (seen, changed) = (Arc::downgrade(reloader), Arc::downgrade(reloader));
    let refused = ErrorDefinition::new(REFUSED, "The configuration cannot hold; the old one does.")
        .with_schema(Schema::of::<Refusal>())
        .with_http_status(409);
    let builders = [
        Operation::query("gateway.sources", move |_: Nothing| list(seen.clone()))
            .title("Sources")
            .description("How each source of the configuration is doing.")
            .access(needs(scope::READ)),
        Operation::mutation("gateway.reload", move |_: Nothing| reload(changed.clone()))
            .title("Read the configuration again")
            .description(
                "Reads the configuration again and makes it hold. What did not change is not \
                 touched; one that cannot hold changes nothing.",
            )
            .access(needs(scope::ADMIN))
            .raises(refused),
    ];
    builders.map(|builder| builder.build().expect("the operations are well formed"))
}

async fn list(reloader: Weak<Reloader>) -> Result<Listed, HandlerError> {
    let reloader = living(&reloader)?;
    Ok(Listed { sources: reloader.sight().await })
}

async fn reload(reloader: Weak<Reloader>) -> Result<Reloaded, HandlerError> {
    let reloader = living(&reloader)?;
    reloader.reload(Asker::Person).await.map_err(|error| refusal(&error))
}

fn living(reloader: &Weak<Reloader>) -> Result<Arc<Reloader>, HandlerError> {
    reloader.upgrade().ok_or_else(|| CallError::unavailable("the gateway is stopping").into())
}

fn refusal(error: &ReloadError) -> HandlerError {
    let problems = error.problems();
    DomainError::new(REFUSED, error.to_string()).with_details(json!({"problems": problems})).into()
}

fn needs(scope: &str) -> AccessControl {
    let mut access = AccessControl::default();
    access.required_scopes = vec![scope.to_owned()];
    access
}
