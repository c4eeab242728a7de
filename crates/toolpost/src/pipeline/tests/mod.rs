//! The pipeline as its callers see it: order, refusals, cancellation, nesting, panics.

mod cancellation;
mod isolation;
mod nesting;
mod results;
mod stages;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::access::Identity;
use crate::error::HandlerError;
use crate::handler::{CallContext, Handler, Output};
use crate::operation::{Operation, OperationBuilder};
use crate::spec::{Kind, OperationSpec};

/// What happened, in the order in which it happened.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl AuditSink for Log {
    fn enter(&self, call: &CallView<'_>) -> Entered {
        self.add(format!("enter {}", call.operation_id));
        Entered { mark: Some(7), step: Step::Now(Ok(())) }
    }

    fn exit(&self, call: &CallView<'_>, ending: &Ending<'_>, _: Duration) -> Step<()> {
        assert_eq!(call.mark, Some(7));
        let how = match ending {
            Ending::Answered(_) => "ok".to_owned(),
            Ending::Failed(error) => error.code().to_string(),
            Ending::Completed { values } => format!("completed {values}"),
        };
        self.add(format!("exit {} {how}", call.operation_id));
        Step::Now(Ok(()))
    }
}

fn spec(id: &str, kind: Kind) -> OperationSpec {
    OperationSpec::new(&id.parse().unwrap(), kind)
}

/// An operation over JSON.
fn dynamic<F, Fut>(id: &str, kind: Kind, run: F) -> OperationBuilder
where
    F: Fn(CallContext, Value) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, HandlerError>> + Send + 'static,
{
    let run = Arc::new(run);
    Operation::from_spec(spec(id, kind)).handler(Handler::once_fn(move |context, input| {
        let run = Arc::clone(&run);
        async move { Ok(Output::dynamic(run(context, input.into_value()?).await?)) }
    }))
}

/// An operation that logs when it starts and when it learns that it should stop.
fn waiting(id: &str, kind: Kind, log: &Log) -> OperationBuilder {
    let log = log.clone();
    dynamic(id, kind, move |context, _| {
        let log = log.clone();
        async move {
            log.add(format!("{} starts", context.operation()));
            context.cancelled().await;
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

fn outside(scopes: &[&str]) -> Authority {
    Authority::outside(Some(Arc::new(Identity::new("ci").with_scopes(scopes.to_vec()))))
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
