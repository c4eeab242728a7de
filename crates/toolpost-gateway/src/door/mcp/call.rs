//! `tools/call`.

use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use tokio::time::Instant;
use toolpost::view::{Collector, Tool};
use toolpost::{
    Authority, CallError, CallRequest, ErrorCode, Kind, Outcome, Payload, Progress, nearest,
};

use super::ask::Ask;
use super::boxes::{can_be_tool, is_tool};
use super::level::Level;
use super::message::Fault;
use super::outlet::{self, Outlet};
use super::refused_call::{LONGEST_NAME, operation_of};
use crate::door::refusal;

impl Ask {
    pub(super) async fn call(&mut self, out: &mut Vec<u8>, outlet: &Outlet) -> Result<(), Fault> {
        let tool = match self.tool() {
            Ok(tool) => tool,
            Err(fault) => return Err(Box::pin(self.unknown(fault)).await),
        };
        let era = self.asker.era;
        if !is_tool(tool.operation(), &self.asker.identity) {
            // Refused by the pipeline, which writes it down, before anything is said of its input.
            let request = self.request(&tool, Payload::empty_object());
            let ended = self.asker.gateway.pipeline().call(request, self.authority()).await;
            let _ = tool.write_result(out, era, ended);
            return Ok(());
        }
        // Moved, since they may be large and nobody looks at them again.
        let arguments = match self.params.arguments.take() {
            Some(arguments) if arguments.get() != "null" => Payload::from(arguments),
            _ => Payload::empty_object(),
        };
        if let Some(headers) = &self.headers {
            let sent = |name: &str| {
                let mut values = headers.get_all(name).iter();
                let value = values.next()?.to_str().ok().filter(|_| values.next().is_none());
                // No argument is a null, so what is unreadable or there twice agrees with none.
                Some(value.unwrap_or("\0"))
            };
            if let Err(words) = tool.check_headers(&arguments, sent) {
                // Not in those words, which quote the arguments.
                let error = CallError::validation("the headers say something else", &[]);
                let request = self.request(&tool, Payload::empty_object());
                Box::pin(self.note(request, &error)).await;
                return Err(Fault::header_mismatch(words));
            }
        }
        let respondent = self.respondent(outlet);
        let ended = match tool.input(arguments) {
            Ok(input) if tool.operation().spec().kind == Kind::Subscription => {
                self.collect(&tool, input, outlet).await
            }
            Ok(input) => {
                let watch = outlet.watch(self.token(), self.level());
                let request = self.request(&tool, input).progress(watch);
                let request = request.respondent(respondent.clone());
                let call = self.asker.gateway.pipeline().call(request, self.authority());
                outlet.started(call.abort_handle());
                call.await
            }
            Err(error) => {
                let request = self.request(&tool, Payload::empty_object());
                Box::pin(self.note(request, &error)).await;
                Err(error)
            }
        };
        match ended.as_ref().err().and_then(|error| self.asked(error, respondent.as_ref())) {
            Some(Ok(wanted)) => out.extend_from_slice(wanted.as_bytes()),
            Some(Err(fault)) => return Err(fault),
            None => drop(tool.write_result(out, era, ended)),
        }
        Ok(())
    }

    /// The scopes that the client lacks for the tool that it calls.
    pub(super) fn missing_scopes(&self) -> Option<Vec<String>> {
        let name = self.params.name.as_deref().filter(|_| self.method == "tools/call")?;
        let toolbox = self.asker.toolbox();
        let tool = toolbox.tool(name).filter(|tool| can_be_tool(tool.operation()))?;
        let control = &tool.operation().spec().access_control;
        let scopes = control.missing_scopes(&self.asker.identity)?;
        Some(scopes.into_iter().map(str::to_owned).collect())
    }

    /// The tool that is named, which the client may not be allowed to call.
    fn tool(&self) -> Result<Arc<Tool>, Fault> {
        let Some(name) = &self.params.name else {
            return Err(Fault::invalid_params("`params.name` must be the name of a tool"));
        };
        let toolbox = self.asker.toolbox();
        let is_seen = |tool: &Arc<Tool>| is_tool(tool.operation(), &self.asker.identity);
        if let Some(tool) = toolbox.tool(name).filter(|tool| can_be_tool(tool.operation())) {
            return Ok(Arc::clone(tool));
        }
        let shown: String = name.chars().take(LONGEST_NAME).collect();
        let names = toolbox.tools().iter().filter(|tool| is_seen(tool)).map(|tool| tool.name());
        // The source is a part that names share without being alike.
        let source = name.find("__").map_or("", |end| &name[..end + 2]);
        let meant = self
            .hints
            .then(|| {
                nearest(&name[source.len()..], names.filter_map(|one| one.strip_prefix(source)))
            })
            .flatten();
        let hint = meant.map(|meant| format!("; did you mean `{source}{meant}`?"));
        let hint = hint.unwrap_or_default();
        Err(Fault::invalid_params(format!("unknown tool: `{shown}`{hint}")))
    }

    /// A tool that is not there, or not for this client, was called all the same. The pipeline writes it
    /// down, and knows whether its source should be there.
    async fn unknown(&self, fault: Fault) -> Fault {
        let Some(name) = &self.params.name else { return fault };
        let id = operation_of(name);
        let pipeline = self.asker.gateway.pipeline();
        let request = CallRequest::new(&id, Payload::empty_object()).door(self.asker.door);
        if pipeline.registry().catalog().get(&id).is_some() {
            let error = CallError::access_denied("this tool is not for this client");
            self.note(request, &error).await;
            return fault;
        }
        match pipeline.call(request, self.authority()).await {
            Err(error) if *error.code() == ErrorCode::Unavailable => {
                Fault { message: format!("{}; {}", fault.message, error.message()), ..fault }
            }
            _ => fault,
        }
    }

    async fn note(&self, request: CallRequest<'_>, error: &CallError) {
        refusal::note(&self.asker.gateway, request, &self.asker.identity, error).await;
    }

    fn token(&self) -> Option<&serde_json::value::RawValue> {
        let token = self.params.meta.as_ref()?.progress_token.as_deref()?;
        token
            .get()
            .starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
            .then_some(token)
    }

    fn authority(&self) -> Authority {
        Authority::outside(Some(Arc::clone(&self.asker.identity)))
    }

    fn request<'t>(&self, tool: &'t Tool, input: Payload) -> CallRequest<'t> {
        let request = CallRequest::new(tool.id().as_str(), input).door(self.asker.door);
        match self.params.metadata() {
            Some(metadata) => request.metadata(metadata),
            None => request,
        }
    }

    /// The values of a subscription: each is told as it comes, and all of them are the result.
    async fn collect(
        &self,
        tool: &Tool,
        input: Payload,
        outlet: &Outlet,
    ) -> Result<Outcome, CallError> {
        let settings = &self.asker.gateway.0.mcp.settings();
        let pipeline = self.asker.gateway.pipeline();
        // Its values are the progress that is told.
        let watch = outlet.watch(None, self.level());
        let request = self.request(tool, input).progress(watch);
        let mut values = pipeline.start_subscription(request, self.authority());
        outlet.started(values.abort_handle());
        let mut collector =
            Collector::new(settings.subscription_values, settings.subscription_bytes);
        let deadline = Instant::now() + settings.subscription_time;
        let stopping = &self.asker.gateway.0.stopping;
        while !collector.is_full() {
            let next = tokio::select! {
                biased;
                next = values.next() => next,
                () = tokio::time::sleep_until(deadline) => {
                    let seconds = settings.subscription_time.as_secs();
                    collector.end_early(format!("it was stopped after {seconds} s"));
                    break;
                }
                () = stopping.cancelled() => {
                    collector.end_early("it was stopped because the gateway stops");
                    break;
                }
            };
            let Some(outcome) = next else { return Ok(collector.finish(tool)) };
            let outcome = outcome?;
            self.tell(&outcome, collector.len() + 1, outlet);
            collector.push(outcome);
        }
        // One that ends with the last value that there is room for was not stopped.
        if collector.is_full() && !matches!(values.next().now_or_never(), Some(None)) {
            collector.end_early(format!("it was stopped after {} values", collector.len()));
        }
        Ok(collector.finish(tool))
    }

    /// Tells a value as progress where the client asked for that, else as a line of the log.
    fn tell(&self, outcome: &Outcome, number: usize, outlet: &Outlet) {
        let Some(notes) = &outlet.notes else { return };
        let value = || serde_json::to_string(&outcome.envelope.data).expect("a payload is JSON");
        let note = match self.token() {
            Some(token) => {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "the values are counted in hundreds"
                )]
                let report = Progress::new(number as f64).with_message(value());
                outlet::progress(token.get(), &report)
            }
            None if self.level().is_some_and(|level| level <= Level::INFO) => {
                let logger = self.params.name.as_deref().unwrap_or_default();
                outlet::line("info", logger, &value())
            }
            None => return,
        };
        // Full: the value is in the result too.
        let _ = notes.try_send(note);
    }
}
