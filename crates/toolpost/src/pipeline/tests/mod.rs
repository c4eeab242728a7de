//! Pipeline tests through the public API: order, rejections, cancellation, nesting, panics.

mod cancellation;
mod isolation;
mod nested;
mod results;
mod stages;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::access::Identity;
use crate::error::HandlerError;
use crate::handler::{CallContext, Handler, HandlerOutput};
use crate::operation::{Operation, OperationBuilder};
use crate::spec::{OperationKind, OperationSpec};

/// Log of events in the order of their occurrence.
#[derive(Clone, Default)]
struct EventLog(Arc<Mutex<Vec<String>>>);

impl EventLog {
    fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl AuditSink for EventLog {
    fn enter(&self, call: &CallView<'_>) -> AuditEntry {
        self.add(format!("enter {}", call.operation_id));
        AuditEntry { id: Some(7), result: HookResult::Ready(Ok(())) }
    }

    fn exit(
        &self,
        call: &CallView<'_>,
        audit_outcome: &AuditOutcome<'_>,
        _: Duration,
    ) -> HookResult<()> {
        assert_eq!(call.audit_id, Some(7));
        let label = match audit_outcome {
            AuditOutcome::Succeeded(_) => "ok".to_owned(),
            AuditOutcome::Failed(error) => error.code().to_string(),
            AuditOutcome::Completed { values, .. } => format!("completed {values}"),
        };
        self.add(format!("exit {} {label}", call.operation_id));
        HookResult::Ready(Ok(()))
    }
}

fn spec(id: &str, kind: OperationKind) -> OperationSpec {
    OperationSpec::new(&id.parse().unwrap(), kind)
}

/// Creates an operation from a function over JSON values.
fn dynamic_operation<F, Fut>(id: &str, kind: OperationKind, run: F) -> OperationBuilder
where
    F: Fn(CallContext, Value) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, HandlerError>> + Send + 'static,
{
    let run = Arc::new(run);
    Operation::from_spec(spec(id, kind)).handler(Handler::once_fn(move |context, input| {
        let run = Arc::clone(&run);
        async move { Ok(HandlerOutput::dynamic(run(context, input.into_value()?).await?)) }
    }))
}

/// Creates an operation that logs its start, waits for cancellation, and logs its stop.
fn waiting_operation(id: &str, kind: OperationKind, log: &EventLog) -> OperationBuilder {
    let log = log.clone();
    dynamic_operation(id, kind, move |context, _| {
        let log = log.clone();
        async move {
            log.add(format!("{} starts", context.operation()));
            context.canceled().await;
            log.add(format!("{} stops", context.operation()));
            Ok(json!("stopped"))
        }
    })
}

fn registry(operations: impl IntoIterator<Item = OperationBuilder>) -> Registry {
    let registry = Registry::new();
    for operation in operations {
        registry.register(operation.build().unwrap()).unwrap();
    }
    registry
}

fn untrusted(scopes: &[&str]) -> Authority {
    Authority::untrusted(Some(Arc::new(Identity::new("ci").with_scopes(scopes.to_vec()))))
}

fn trusted() -> Authority {
    Authority::trusted(None)
}

fn code<T>(result: Result<T, CallError>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.code().to_string(),
    }
}
