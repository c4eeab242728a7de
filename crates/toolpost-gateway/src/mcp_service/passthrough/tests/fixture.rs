//! Operations that simulate the methods of MCP servers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolpost::view::ProtocolGeneration;
use toolpost::{
    CallError, Handler, HandlerOutput, Identity, Operation, OperationKind, OperationSpec, Payload,
    Pipeline, Registry,
};

use super::super::{Passthrough, RpcError};
use crate::mcp_service::{ClientContext, McpEndpointSettings, McpService, McpView};

/// A timeout that only a silent source reaches.
const AMPLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Sources and a caller.
pub(super) struct Fixture {
    pub(super) pipeline: Pipeline,
    pub(super) identity: Arc<Identity>,
    pub(super) source: Option<&'static str>,
    pub(super) source_timeout: Duration,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::from_pipeline(Pipeline::new(Registry::new()))
    }

    pub(super) fn from_pipeline(pipeline: Pipeline) -> Self {
        Self {
            pipeline,
            identity: Arc::new(Identity::new("ann")),
            source: None,
            source_timeout: AMPLE_TIMEOUT,
        }
    }

    /// Sets a caller with these scopes.
    pub(super) fn with_scopes(mut self, scopes: &[&str]) -> Self {
        self.identity = Arc::new(Identity::new("ann").with_scopes(scopes.to_vec()));
        self
    }

    /// Adds a method that returns JSON text. `source` may include the names of hubs.
    pub(super) fn method(
        self,
        source: &str,
        method: &str,
        response: impl Fn(Value) -> Result<String, CallError> + Send + Sync + 'static,
    ) -> Self {
        self.scoped_method(source, method, &[], response)
    }

    /// Like [`Fixture::method`], with required scopes.
    pub(super) fn scoped_method(
        self,
        source: &str,
        method: &str,
        scopes: &[&str],
        response: impl Fn(Value) -> Result<String, CallError> + Send + Sync + 'static,
    ) -> Self {
        let response = Arc::new(response);
        let handler = Handler::once_fn(move |_, input: Payload| {
            let response = Arc::clone(&response);
            async move {
                let text = response(input.into_value()?)?;
                Ok(HandlerOutput::Data(Payload::from_json(text)?))
            }
        });
        self.register(source, method, scopes, handler)
    }

    /// Adds a method that never responds.
    pub(super) fn silent(self, source: &str, method: &str) -> Self {
        let handler = Handler::once_fn(|_, _| std::future::pending());
        self.register(source, method, &[], handler)
    }

    /// Adds a method with a fixed response.
    pub(super) fn fixed(self, source: &str, method: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        self.method(source, method, move |_| Ok(text.clone()))
    }

    /// Adds a method that returns its source and its input.
    pub(super) fn echoing(self, source: &'static str, method: &str) -> Self {
        self.method(
            source,
            method,
            move |input| Ok(json!({"at": source, "got": input}).to_string()),
        )
    }

    /// Adds a method that always fails.
    pub(super) fn failing(self, source: &str, method: &str, error: CallError) -> Self {
        self.method(source, method, move |_| Err(error.clone()))
    }

    fn register(self, source: &str, method: &str, scopes: &[&str], handler: Handler) -> Self {
        let id = format!("{source}.{method}").parse().unwrap();
        let mut spec = OperationSpec::new(&id, OperationKind::Query);
        spec.meta.get_or_insert_default().mcp_method = Some(method.to_owned());
        let scopes = scopes.iter().map(|scope| (*scope).to_owned());
        spec.access_control.required_scopes = scopes.collect();
        let operation = Operation::from_spec(spec).handler(handler).build().unwrap();
        self.pipeline.registry().register(operation).unwrap();
        self
    }

    fn client(&self, generation: ProtocolGeneration) -> ClientContext {
        let settings =
            McpEndpointSettings { source_timeout: self.source_timeout, ..Default::default() };
        let (authenticator, stopping) = Default::default();
        ClientContext {
            service: McpService::new(self.pipeline.clone(), authenticator, stopping, settings),
            endpoint: toolpost::Endpoint::Mcp,
            identity: Arc::clone(&self.identity),
            view: McpView { source: self.source.map(Into::into), ..Default::default() },
            generation,
            state: None,
        }
    }

    /// Sends a request and returns the result as text. The method must be supported.
    pub(super) async fn request(
        &self,
        generation: ProtocolGeneration,
        method: &str,
        params: Value,
    ) -> Result<String, RpcError> {
        let params = RawValue::from_string(params.to_string()).unwrap();
        let client = &self.client(generation);
        let passing = Passthrough { client, client_channel: None, metadata: None, approval: None };
        let responded = assert_send(passing.handle(method, Some(&params))).await;
        responded.map(|json| String::from_utf8(json).unwrap())
    }

    /// Like [`Fixture::request`], from a legacy client.
    pub(super) async fn request_text(
        &self,
        method: &str,
        params: Value,
    ) -> Result<String, RpcError> {
        self.request(ProtocolGeneration::Legacy, method, params).await
    }

    /// Like `request_text`, but returns parsed JSON.
    pub(super) async fn request_json(
        &self,
        method: &str,
        params: Value,
    ) -> Result<Value, RpcError> {
        let text = self.request_text(method, params).await?;
        Ok(serde_json::from_str(&text).unwrap())
    }

    pub(super) async fn supports(&self, method: &str) -> bool {
        let client = &self.client(ProtocolGeneration::Legacy);
        let passing = Passthrough { client, client_channel: None, metadata: None, approval: None };
        !matches!(passing.handle(method, None).await, Err(error) if error.code == RpcError::METHOD_NOT_FOUND)
    }
}

/// Asserts that a future is `Send`, as endpoints require.
fn assert_send<F: Future + Send>(future: F) -> F {
    future
}

/// The error of an MCP server, as its source reports it.
pub(super) fn server_error(code: i64, message: &'static str, data: &Value) -> CallError {
    CallError::execution(message).with_details(json!({"jsonrpcCode": code, "data": data}))
}
