//! What runs when a tool of a server is called.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::desk::{Desk, Errand};
use super::header::HeaderParam;
use super::result::{self, Reading};
use super::rpc::Param;
use crate::error::{CallError, HandlerError};
use crate::handler::{CallContext, OnceHandler, Output};
use crate::payload::Payload;
use crate::schema::Schema;
use crate::spec::{Kind, OperationSpec};

/// Calls a tool.
pub(super) struct ToolHandler(Arc<Facts>);

struct Facts {
    desk: Arc<Desk>,
    tool: String,
    headers: Vec<HeaderParam>,
    output: Schema,
    is_repeatable: bool,
}

impl ToolHandler {
    pub(super) fn new(desk: &Arc<Desk>, spec: &OperationSpec, headers: Vec<HeaderParam>) -> Self {
        Self(Arc::new(Facts {
            desk: Arc::clone(desk),
            tool: spec.name.clone(),
            headers,
            output: spec.output_schema.clone(),
            is_repeatable: spec.kind == Kind::Query || spec.idempotent,
        }))
    }
}

impl OnceHandler for ToolHandler {
    fn call(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxFuture<'static, Result<Output, HandlerError>> {
        let facts = Arc::clone(&self.0);
        async move {
            tokio::select! {
                biased;
                called = facts.call(&context, input) => Ok(Output::Envelope(called?)),
                // Dropping the call tells the server.
                () = context.cancelled() => {
                    Err(CallError::aborted("the call was canceled").into())
                }
            }
        }
        .boxed()
    }
}

impl Facts {
    async fn call(
        &self,
        context: &CallContext,
        mut input: Payload,
    ) -> Result<crate::Envelope<Payload>, CallError> {
        let headers = self.headers(&mut input)?;
        let params = [("name", Param::Text(&self.tool)), ("arguments", Param::Payload(&input))];
        let errand = Errand {
            method: "tools/call",
            params: &params,
            subject: Some(&self.tool),
            headers,
            is_repeatable: self.is_repeatable,
        };
        let answer = self.desk.run(context, errand).await?;
        let reading = Reading::from(&*self.desk.settings);
        result::envelope(&answer, &self.output, reading)
            .map_err(|error| CallError::execution(format!("`{}`: {error}", self.desk.name)))
    }

    fn headers(&self, input: &mut Payload) -> Result<Vec<(&str, String)>, CallError> {
        if self.headers.is_empty() {
            return Ok(Vec::new());
        }
        let arguments = input
            .value()
            .map_err(|error| CallError::validation(error.to_string(), &[]).before_sending())?;
        let headers = self.headers.iter();
        let headers = headers.filter_map(|param| Some((&*param.header, param.value(arguments)?)));
        Ok(headers.collect())
    }
}
