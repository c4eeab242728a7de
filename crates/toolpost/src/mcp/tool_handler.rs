//! The handler for tool calls.

use std::sync::Arc;

use super::json;
use super::result::{self, ResultOptions};
use super::rpc::Param;
use super::source_handle::SourceHandle;
use crate::error::CallError;
use crate::handler::{CallContext, Handler, HandlerOutput};
use crate::header_params::HeaderParam;
use crate::payload::Payload;
use crate::schema::Schema;
use crate::spec::{OperationKind, OperationSpec};

/// Calls a tool of a server.
struct ToolHandler {
    handle: Arc<SourceHandle>,
    tool_name: String,
    header_params: Vec<HeaderParam>,
    output_schema: Schema,
    is_repeatable: bool,
}

pub(super) fn handler(
    handle: &Arc<SourceHandle>,
    spec: &OperationSpec,
    header_params: Vec<HeaderParam>,
) -> Handler {
    let tool = Arc::new(ToolHandler {
        handle: Arc::clone(handle),
        tool_name: spec.name.clone(),
        header_params,
        output_schema: spec.output_schema.clone(),
        is_repeatable: spec.kind == OperationKind::Query || spec.idempotent,
    });
    Handler::once_fn(move |context, input| {
        let tool = Arc::clone(&tool);
        async move { Ok(HandlerOutput::Envelope(tool.call(&context, input).await?)) }
    })
}

impl ToolHandler {
    async fn call(
        &self,
        context: &CallContext,
        mut input: Payload,
    ) -> Result<crate::Envelope<Payload>, CallError> {
        let headers = self.param_headers(&mut input)?;
        let params =
            [("name", Param::Text(&self.tool_name)), ("arguments", Param::Payload(&input))];
        let mut request = self.handle.request(context, "tools/call", &params);
        (request.subject, request.headers) = (Some(self.tool_name.as_str()), headers);
        let response = self.handle.call(context, &request, self.is_repeatable).await?;
        let response = json::without_transport_meta(response);
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
