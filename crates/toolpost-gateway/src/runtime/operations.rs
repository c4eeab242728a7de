//! The operations `gateway.sources` and `gateway.reload`.

use std::sync::{Arc, Weak};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolpost::{
    AccessControl, CallError, DomainError, ErrorDefinition, HandlerError, Operation, Schema,
};

use super::reload::{ReloadError, ReloadTrigger, Reloader};
use crate::admin::scope;
use crate::source::SourceStatus;

/// Error code for a rejected configuration.
const REJECTED_CODE: &str = "CONFIGURATION_REJECTED";

#[derive(Debug, Deserialize, JsonSchema)]
struct EmptyInput {}

#[derive(Debug, Serialize, JsonSchema)]
struct SourceList {
    sources: Vec<SourceStatus>,
}

/// Details of a rejected reload.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "it is only described")]
struct ReloadRejection {
    /// All problems, each with its position.
    problems: Vec<String>,
}

pub(super) fn operations(reloader: &Arc<Reloader>) -> [Operation; 2] {
    let listed = Arc::downgrade(reloader);
    let reloaded = Weak::clone(&listed);
    let rejection = ErrorDefinition::new(
        REJECTED_CODE,
        "The configuration was rejected; the previous one stays active.",
    )
    .with_schema(Schema::of_serialized::<ReloadRejection>())
    .with_http_status(409);
    let builders = [
        Operation::query("gateway.sources", move |_: EmptyInput| {
            let reloader = upgrade(&listed);
            async move {
                let sources = reloader?.source_statuses().await;
                Ok::<_, HandlerError>(SourceList { sources })
            }
        })
        .title("Sources")
        .description("Lists the configured sources and their status.")
        .access(require_scope(scope::READ)),
        Operation::mutation("gateway.reload", move |_: EmptyInput| {
            let reloader = upgrade(&reloaded);
            async move { reloader?.reload(ReloadTrigger::Request).await.map_err(rejection_error) }
        })
        .title("Reload the configuration")
        .description(
            "Reloads the configuration. Unchanged sources keep running. An invalid \
                 configuration is rejected as a whole.",
        )
        .access(require_scope(scope::ADMIN))
        .raises(rejection),
    ];
    builders.map(|builder| builder.build().expect("the operations are well formed"))
}

fn upgrade(reloader: &Weak<Reloader>) -> Result<Arc<Reloader>, HandlerError> {
    reloader.upgrade().ok_or_else(|| CallError::unavailable("the gateway is stopping").into())
}

#[expect(clippy::needless_pass_by_value, reason = "passed to `map_err`")]
fn rejection_error(error: ReloadError) -> HandlerError {
    let details = json!({"problems": error.problems()});
    DomainError::new(REJECTED_CODE, error.to_string()).with_details(details).into()
}

fn require_scope(scope: &str) -> AccessControl {
    let mut access = AccessControl::default();
    access.required_scopes = vec![scope.to_owned()];
    access
}
