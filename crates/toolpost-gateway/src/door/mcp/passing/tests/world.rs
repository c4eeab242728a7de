//! Operations that pretend to be the methods of a server.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolpost::mcp::METHOD_META;
use toolpost::view::Era;
use toolpost::{
    Authority, CallError, Handler, Identity, Kind, Operation, OperationSpec, Output, Payload,
    Pipeline, Registry,
};

use super::super::{Fault, Passing};

/// What nobody but a silent source takes.
const AMPLE: Duration = Duration::from_secs(30);

/// Sources, and somebody who asks.
pub(super) struct World {
    pub(super) pipeline: Pipeline,
    pub(super) caller: Authority,
    pub(super) source: Option<&'static str>,
    pub(super) patience: Duration,
}

impl World {
    pub(super) fn new() -> Self {
        Self::of(Pipeline::new(Registry::new()))
    }

    pub(super) fn of(pipeline: Pipeline) -> Self {
        Self { pipeline, caller: Authority::outside(None), source: None, patience: AMPLE }
    }

    /// Somebody who holds these scopes.
    pub(super) fn with_scopes(mut self, scopes: &[&str]) -> Self {
        let identity = Identity::new("ann").with_scopes(scopes.to_vec());
        self.caller = Authority::outside(Some(Arc::new(identity)));
        self
    }

    /// The method of a source; `source` may hold the names of hubs. It answers with JSON text.
    pub(super) fn method(
        self,
        source: &str,
        method: &str,
        answer: impl Fn(Value) -> Result<String, CallError> + Send + Sync + 'static,
    ) -> Self {
        self.scoped_method(source, method, &[], answer)
    }

    /// As [`World::method`], for those who hold the scopes.
    pub(super) fn scoped_method(
        self,
        source: &str,
        method: &str,
        scopes: &[&str],
        answer: impl Fn(Value) -> Result<String, CallError> + Send + Sync + 'static,
    ) -> Self {
        let answer = Arc::new(answer);
        let handler = Handler::once_fn(move |_, input: Payload| {
            let answer = Arc::clone(&answer);
            async move {
                let text = answer(input.into_value()?)?;
                Ok(Output::Data(Payload::from_json(text)?))
            }
        });
        self.register(source, method, scopes, handler)
    }

    /// A method that never answers.
    pub(super) fn silent(self, source: &str, method: &str) -> Self {
        let handler = Handler::once_fn(|_, _| std::future::pending());
        self.register(source, method, &[], handler)
    }

    /// A method that always answers the same.
    pub(super) fn fixed(self, source: &str, method: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        self.method(source, method, move |_| Ok(text.clone()))
    }

    /// A method that tells what it was asked.
    pub(super) fn telling(self, source: &'static str, method: &str) -> Self {
        self.method(
            source,
            method,
            move |input| Ok(json!({"at": source, "got": input}).to_string()),
        )
    }

    /// A method that always fails.
    pub(super) fn failing(self, source: &str, method: &str, error: CallError) -> Self {
        self.method(source, method, move |_| Err(error.clone()))
    }

    fn register(self, source: &str, method: &str, scopes: &[&str], handler: Handler) -> Self {
        let id = format!("{source}.{method}").parse().unwrap();
        let mut spec = OperationSpec::new(&id, Kind::Query);
        spec.meta = Some(Map::from_iter([(METHOD_META.to_owned(), method.into())]));
        let scopes = scopes.iter().map(|scope| (*scope).to_owned());
        spec.access_control.required_scopes = scopes.collect();
        let operation = Operation::from_spec(spec).handler(handler).build().unwrap();
        self.pipeline.registry().register(operation).unwrap();
        self
    }

    fn passing(&self, era: Era) -> Passing<'_> {
        let Self { pipeline, caller, source, patience } = self;
        let knows_callers = false;
        let (source, patience, respondent) = (*source, *patience, None);
        Passing {
            pipeline,
            caller,
            source,
            era,
            respondent,
            metadata: None,
            patience,
            knows_callers,
        }
    }

    /// The text of the result; the method must be one of these.
    pub(super) async fn ask(&self, era: Era, method: &str, params: Value) -> Result<String, Fault> {
        let params = RawValue::from_string(params.to_string()).unwrap();
        let passing = self.passing(era);
        let answered = sendable(passing.answer(method, Some(&params))).await.unwrap();
        answered.map(|json| String::from_utf8(json).unwrap())
    }

    /// As [`World::ask`] from an old client.
    pub(super) async fn text(&self, method: &str, params: Value) -> Result<String, Fault> {
        self.ask(Era::Legacy, method, params).await
    }

    /// As [`World::text`], parsed.
    pub(super) async fn value(&self, method: &str, params: Value) -> Result<Value, Fault> {
        let text = self.text(method, params).await?;
        Ok(serde_json::from_str(&text).unwrap())
    }

    pub(super) async fn knows(&self, method: &str) -> bool {
        self.passing(Era::Legacy).answer(method, None).await.is_some()
    }
}

/// A door answers in whichever thread there is.
fn sendable<F: Future + Send>(future: F) -> F {
    future
}

/// What a server said instead of a result, as its source tells it.
pub(super) fn said(code: i64, message: &'static str, data: &Value) -> CallError {
    CallError::execution(message).with_details(json!({"jsonrpcCode": code, "data": data}))
}
