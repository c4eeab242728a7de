//! The handler for tool calls.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::result::{self, ResultOptions};
use super::rpc::Param;
use super::source_handle::{SourceHandle, UpstreamCall};
use crate::error::{CallError, HandlerError};
use crate::handler::{CallContext, HandlerOutput, OnceHandler};
use crate::header_params::HeaderParam;
use crate::payload::Payload;
use crate::schema::Schema;
use crate::spec::{OperationKind, OperationSpec};

/// Calls a tool of a server.
pub(super) struct ToolHandler(Arc<ToolHandlerInner>);

struct ToolHandlerInner {
    handle: Arc<SourceHandle>,
    tool_name: String,
    header_params: Vec<HeaderParam>,
    output_schema: Schema,
    is_repeatable: bool,
}

impl ToolHandler {
    pub(super) fn new(
        handle: &Arc<SourceHandle>,
        spec: &OperationSpec,
        headers: Vec<HeaderParam>,
    ) -> Self {
        Self(Arc::new(ToolHandlerInner {
            handle: Arc::clone(handle),
            tool_name: spec.name.clone(),
            header_params: headers,
            output_schema: spec.output_schema.clone(),
            is_repeatable: spec.kind == OperationKind::Query || spec.idempotent,
        }))
    }
}

impl OnceHandler for ToolHandler {
    fn call(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxFuture<'static, Result<HandlerOutput, HandlerError>> {
        let inner = Arc::clone(&self.0);
        async move {
            tokio::select! {
                biased;
                called = inner.call(&context, input) => Ok(HandlerOutput::Envelope(called?)),
                // Dropping the call cancels it at the server.
                () = context.canceled() => {
                    Err(CallError::aborted("the call was canceled").into())
                }
            }
        }
        .boxed()
    }
}

impl ToolHandlerInner {
    async fn call(
        &self,
        context: &CallContext,
        mut input: Payload,
    ) -> Result<crate::Envelope<Payload>, CallError> {
        let headers = self.param_headers(&mut input)?;
        let params =
            [("name", Param::Text(&self.tool_name)), ("arguments", Param::Payload(&input))];
        let upstream_call = UpstreamCall {
            method: "tools/call",
            params: &params,
            subject: Some(&self.tool_name),
            headers,
            is_repeatable: self.is_repeatable,
        };
        let response = self.handle.call(context, upstream_call).await?;
        let options = ResultOptions::from(&*self.handle.settings);
        result::to_envelope(&response, &self.output_schema, options)
            .map_err(|error| CallError::execution(format!("`{}`: {error}", self.handle.name)))
    }

    fn param_headers(&self, input: &mut Payload) -> Result<Vec<(&str, String)>, CallError> {
        if self.header_params.is_empty() {
            return Ok(Vec::new());
        }
        let arguments = input
            .value()
            .map_err(|error| CallError::validation(error.to_string(), &[]).not_sent())?;
        let headers = self.header_params.iter();
        let headers =
            headers.filter_map(|param| Some((&*param.header, param.header_value(arguments)?)));
        Ok(headers.collect())
    }
}
