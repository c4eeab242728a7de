//! Handles `tools/call`.

use std::borrow::Cow;
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use toolpost::hub::HiddenNamespaces;
use toolpost::json_rpc::RpcError;
use toolpost::view::{Collector, Tool};
use toolpost::{
    CallError, CallRequest, ErrorCode, OperationKind, Outcome, Payload, Progress,
    ResolvedOperation, suggest_name,
};

use super::client::{ClientContext, LogLevel};
use super::notifier::{self, Notifier};
use super::request::McpRequest;
use super::tool_cache::{can_be_tool, is_tool};

/// Maximum number of characters of a tool name in errors and in the journal.
const MAX_NAME_CHARS: usize = 256;

impl McpRequest {
    pub(super) async fn call(
        &mut self,
        out: &mut Vec<u8>,
        notifier: &Notifier,
    ) -> Result<(), RpcError> {
        let (tool, operation) = match self.resolve_tool() {
            Ok(resolved) => resolved,
            Err(rpc_error) => return Err(Box::pin(self.audit_unknown_tool(rpc_error)).await),
        };
        let generation = self.client.generation;
        if !self.client.can_call(&operation) {
            // The pipeline rejects and audits the call before its input is examined.
            let request = self.call_request(&operation, Payload::empty_object());
            let ended = self.client.service.pipeline.call(request, self.client.authority()).await;
            let _ = tool.write_result(out, generation, ended);
            return Ok(());
        }
        // Moved, since the arguments may be large and are not used again.
        let arguments = match self.params.arguments.take() {
            Some(arguments) if arguments.get() != "null" => Payload::from(arguments),
            _ => Payload::empty_object(),
        };
        if let Some(headers) = &self.argument_headers {
            let sent = |name: &str| {
                let header = headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
                header.map(|(_, value)| value.as_str())
            };
            if let Err(message) = tool.check_headers(&arguments, sent) {
                // The audit record omits `message`, which quotes the arguments.
                let error = CallError::validation("the headers do not match the arguments", &[]);
                let request = self.call_request(&operation, Payload::empty_object());
                Box::pin(self.client.audit_rejection(request, &error)).await;
                return Err(RpcError::header_mismatch(message));
            }
        }
        let client_channel = self.client_channel(notifier);
        let ended = match tool.input(arguments) {
            Ok(input) if operation.spec().kind == OperationKind::Subscription => {
                self.collect_subscription(&tool, &operation, input, notifier).await
            }
            Ok(input) => {
                let observer = notifier.progress_sender(self.progress_token(), self.log_level());
                let request = self.call_request(&operation, input).progress(observer);
                let request = request.client_channel(client_channel.clone());
                let call = self.client.service.pipeline.call(request, self.client.authority());
                notifier.request.set_call(call.abort_handle());
                call.await
            }
            Err(error) => {
                let request = self.call_request(&operation, Payload::empty_object());
                Box::pin(self.client.audit_rejection(request, &error)).await;
                Err(error)
            }
        };
        match ended
            .as_ref()
            .err()
            .and_then(|error| self.input_required(error, client_channel.as_ref()))
        {
            Some(Ok(input_required)) => out.extend_from_slice(input_required.as_bytes()),
            Some(Err(rpc_error)) => return Err(rpc_error),
            None => drop(tool.write_result(out, generation, ended)),
        }
        Ok(())
    }

    /// Returns the scopes that the client lacks for the called tool.
    pub(crate) fn missing_scopes(&self) -> Option<Vec<&str>> {
        self.tool()?.operation().spec().access_control.missing_scopes(&self.client.identity)
    }

    /// Returns the called tool. Access is not checked.
    pub(super) fn tool(&self) -> Option<&Arc<Tool>> {
        let tool = self.tool_set.as_ref()?.tool(self.params.name.as_deref()?)?;
        can_be_tool(tool.operation()).then_some(tool)
    }

    /// Returns the called tool and its operation, or the error for an unknown tool.
    fn resolve_tool(&self) -> Result<(Arc<Tool>, ResolvedOperation), RpcError> {
        let (Some(name), Some(tool_set)) = (&self.params.name, &self.tool_set) else {
            return Err(RpcError::invalid_params("`params.name` must be the name of a tool"));
        };
        if let Some(tool) = self.tool() {
            return Ok((Arc::clone(tool), tool_set.catalog().resolved(tool.operation())));
        }
        let is_visible = |tool: &Arc<Tool>| is_tool(tool.operation(), &self.client.identity);
        let displayed_name: String = name.chars().take(MAX_NAME_CHARS).collect();
        let names = tool_set.tools().iter().filter(|tool| is_visible(tool)).map(|tool| tool.name());
        // A shared source prefix does not make names similar.
        let source = name.find("__").map_or("", |end| &name[..end + 2]);
        let suggestion = self
            .suggests_names
            .then(|| {
                suggest_name(
                    &name[source.len()..],
                    names.filter_map(|tool_name| tool_name.strip_prefix(source)),
                )
            })
            .flatten();
        let hint = suggestion.map(|suggestion| format!("; did you mean `{source}{suggestion}`?"));
        let hint = hint.unwrap_or_default();
        Err(RpcError::invalid_params(format!("unknown tool: `{displayed_name}`{hint}")))
    }

    /// Audits a call to a tool that does not exist or that the client cannot access. If its source
    /// is unavailable, the error message includes the reason.
    async fn audit_unknown_tool(&self, rpc_error: RpcError) -> RpcError {
        let (Some(name), Some(tool_set)) = (&self.params.name, &self.tool_set) else {
            return rpc_error;
        };
        let (id, catalog) = (operation_id_of(name), tool_set.catalog());
        let request = CallRequest::new(&id, Payload::empty_object())
            .catalog(Arc::clone(catalog))
            .endpoint(self.client.endpoint);
        if catalog.get(&id).is_some() {
            let error = CallError::access_denied("the client cannot access this tool");
            self.client.audit_rejection(request, &error).await;
            return rpc_error;
        }
        match self.client.service.pipeline.call(request, self.client.authority()).await {
            Err(error) if *error.code() == ErrorCode::Unavailable => RpcError {
                message: format!("{}; {}", rpc_error.message, error.message()),
                ..rpc_error
            },
            _ => rpc_error,
        }
    }

    fn progress_token(&self) -> Option<&RawValue> {
        self.params.meta.as_ref()?.progress_token.as_deref()
    }

    fn call_request<'o>(
        &self,
        operation: &'o ResolvedOperation,
        input: Payload,
    ) -> CallRequest<'o> {
        let request = CallRequest::resolved(operation, input)
            .endpoint(self.client.endpoint)
            .approval(self.approval.clone())
            .idempotency_key(self.params.idempotency_key())
            .metadata(self.params.metadata());
        match &self.tool_set {
            // Operations that are not listed as tools are not found through tools either.
            Some(tool_set) if operation.spec().summarizes => {
                request.attach(Arc::new(HiddenNamespaces(tool_set.unlisted_namespaces())))
            }
            _ => request,
        }
    }

    /// Collects the values of a subscription into one result and notifies the client of each value.
    async fn collect_subscription(
        &self,
        tool: &Tool,
        operation: &ResolvedOperation,
        input: Payload,
        notifier: &Notifier,
    ) -> Result<Outcome, CallError> {
        let settings = &self.client.service.settings();
        let pipeline = &self.client.service.pipeline;
        // The values are sent as progress, so the observer gets no progress token.
        let observer = notifier.progress_sender(None, self.log_level());
        let request = self.call_request(operation, input).progress(observer);
        let mut values = pipeline.start_subscription(request, self.client.authority());
        notifier.request.set_call(values.abort_handle());
        let mut collector =
            Collector::new(settings.max_subscription_values, settings.max_subscription_bytes);
        let deadline = Instant::now() + settings.max_subscription_duration;
        let stopping = &self.client.service.stopping;
        while !collector.is_full() {
            let next = tokio::select! {
                biased;
                next = values.next() => next,
                () = tokio::time::sleep_until(deadline) => {
                    let seconds = settings.max_subscription_duration.as_secs();
                    collector.mark_incomplete(format!("stopped after {seconds} s"));
                    break;
                }
                () = stopping.cancelled() => {
                    collector.mark_incomplete("stopped because the gateway is shutting down");
                    break;
                }
            };
            let Some(outcome) = next else { return Ok(collector.finish(tool)) };
            let outcome = outcome?;
            self.notify_value(&outcome, collector.len() + 1, notifier);
            collector.push(outcome);
        }
        // A subscription that ends exactly at the limit is complete.
        if collector.is_full() && !matches!(values.next().now_or_never(), Some(None)) {
            collector.mark_incomplete(format!("stopped after {} values", collector.len()));
        }
        Ok(collector.finish(tool))
    }

    /// Sends a value as progress if the client sent a progress token, or else as a log message.
    fn notify_value(&self, outcome: &Outcome, number: usize, notifier: &Notifier) {
        let Some(notifications) = &notifier.notifications else { return };
        let value = || serde_json::to_string(&outcome.envelope.data).expect("a payload is JSON");
        let note = match self.progress_token() {
            Some(token) => {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "the values are counted in hundreds"
                )]
                let report = Progress::new(number as f64).with_message(value());
                notifier::encode_progress(token.get(), &report)
            }
            None if self.log_level().is_some_and(|level| level <= LogLevel::INFO) => {
                let logger = self.params.name.as_deref().unwrap_or_default();
                notifier::encode_log("info", logger, &value())
            }
            None => return,
        };
        // If the channel is full, the notification is dropped. The value is also in the result.
        let _ = notifications.try_send(note);
    }
}

impl ClientContext {
    async fn audit_rejection(&self, request: CallRequest<'_>, error: &CallError) {
        self.service.pipeline.record_rejected(request, self.authority(), error).await;
    }

    /// Audits a request that is rejected before its params are parsed, if it is a tool call.
    pub(crate) async fn audit_rejected_call(
        &self,
        method: &str,
        params: Option<&RawValue>,
        rpc_error: &RpcError,
    ) {
        /// The tool name, which can be read even if other params are invalid.
        #[derive(Deserialize)]
        struct ToolCallName<'a> {
            #[serde(borrow)]
            name: Cow<'a, str>,
        }
        let params = params.filter(|_| method == "tools/call");
        let parsed = params.and_then(|params| serde_json::from_str(params.get()).ok());
        let Some(ToolCallName { name }) = parsed else { return };
        let error = match rpc_error.code {
            RpcError::OVERLOADED => CallError::overloaded(rpc_error.message.clone()),
            _ => CallError::validation(rpc_error.message.clone(), &[]),
        };
        let id = operation_id_of(&name);
        let request = CallRequest::new(&id, Payload::empty_object()).endpoint(self.endpoint);
        self.audit_rejection(request, &error).await;
    }
}

/// Returns the operation id for a tool name, whether or not the operation exists.
fn operation_id_of(name: &str) -> String {
    name.chars().take(MAX_NAME_CHARS).collect::<String>().replacen("__", ".", 1)
}
