//! `call` and `subscribe`: run an operation and print its results.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io::IsTerminal;

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolpost::connection::{Client, ClientAbortHandle};
use toolpost::json::error_message;
use toolpost::{
    CallError, CallRequest, Endpoint, OperationSpec, Outcome, Progress, ProgressSender,
};

use super::backend::Backend;
use super::local_sources::OperationSelection;
use super::mcp_connect::{progress_bar, progress_style, spinner};
use super::signal::Signals;
use crate::arguments::{CallOptions, Invocation};
use crate::error::CommandError;
use crate::input;
use crate::output::{self, OutputFormat};

/// Maximum number of progress reports waiting to be drawn. Further reports are dropped.
const PROGRESS_QUEUE: usize = 16;

pub(crate) async fn call(invocation: Invocation) -> Result<(), CommandError> {
    let mut stop_requests = Signals::stop()?;
    let mut prepared = until_interrupted(&mut stop_requests, prepare(invocation)).await?;
    let client = prepared.backend.client.clone();
    let result = call_with_progress(&client, prepared.request(), &mut stop_requests, None).await;
    let print_result = match result {
        Ok(outcome) => {
            warn(&outcome);
            print(&outcome)
        }
        Err(error) => Err(prepared.to_failure(error).await),
    };
    until_interrupted(&mut stop_requests, prepared.backend.close()).await;
    print_result
}

/// Makes a call, shows its progress and aborts it on interrupt. `label` is shown until the first
/// progress report.
pub(super) async fn call_with_progress(
    client: &Client,
    request: CallRequest<'_>,
    stop_requests: &mut Signals,
    label: Option<String>,
) -> Result<Outcome, CallError> {
    let (sender, reports) = mpsc::channel(PROGRESS_QUEUE);
    let calling = client.call(request.progress(ProgressSender::new(sender)));
    let abort = calling.abort_handle();
    tokio::select! {
        result = calling => result,
        never = draw_progress(reports, label) => match never {},
        never = abort_on_signals(stop_requests, abort) => match never {},
    }
}

pub(crate) async fn subscribe(invocation: Invocation) -> Result<(), CommandError> {
    let mut stop_requests = Signals::stop()?;
    let mut prepared = until_interrupted(&mut stop_requests, prepare(invocation)).await?;
    let client = prepared.backend.client.clone();
    let mut values = client.subscribe(prepared.request());
    let printing = async {
        let (mut print_result, mut is_warned) = (Ok(()), false);
        while let Some(value) = values.next().await {
            let value = match value {
                Ok(value) => value,
                Err(error) => return Err(prepared.to_failure(error).await),
            };
            // A stream of such values would repeat the warning.
            if !is_warned {
                warn(&value);
                is_warned = !value.warnings().is_empty();
            }
            match print(&value) {
                // A failed tool result makes the command fail at the end; the stream continues.
                Err(CommandError::Reported) => print_result = Err(CommandError::Reported),
                other => other?,
            }
        }
        print_result
    };
    let result = tokio::select! {
        result = printing => result,
        () = stop_requests.next() => {
            Err(prepared.to_failure(CallError::aborted("the call was aborted: interrupted")).await)
        }
    };
    // Dropping the stream aborts the subscription at its source.
    drop(values);
    until_interrupted(&mut stop_requests, prepared.backend.close()).await;
    result
}

struct PreparedCall {
    backend: Backend,
    operation: String,
    input: Value,
    options: CallOptions,
}

impl PreparedCall {
    fn request(&mut self) -> CallRequest<'_> {
        let key = self.options.idempotency_key.take().map(Into::into);
        let request = CallRequest::new(&self.operation, self.input.take())
            .endpoint(Endpoint::Cli)
            .idempotency_key(key);
        match self.options.timeout {
            Some(timeout) => request.timeout(timeout),
            None => request,
        }
    }

    async fn to_failure(&self, error: CallError) -> CommandError {
        self.backend.to_failure(error, &self.operation).await
    }
}

async fn prepare(invocation: Invocation) -> Result<PreparedCall, CommandError> {
    let (options, operation, arguments) = invocation.into_parts();
    let (document, pairs) = input::split(&arguments);
    let input = input::parse_document(document).map_err(CommandError::Usage)?;
    let backend =
        Backend::open(&options.backend, OperationSelection::Operation(&operation)).await?;
    if pairs.is_empty() {
        return Ok(PreparedCall { backend, operation, input, options });
    }
    let spec = match backend.call("hub.schema", json!({"id": operation})).await {
        Ok(spec) => spec,
        Err(error) => return backend.close_with(Err(error), &operation).await,
    };
    match add_pairs(spec, &operation, input, pairs) {
        Ok(input) => Ok(PreparedCall { backend, operation, input, options }),
        Err(failure) => {
            backend.close().await;
            Err(failure)
        }
    }
}

/// Adds the `--key value` pairs to the input. Their values are parsed by the input schema.
fn add_pairs(
    spec: Value,
    operation: &str,
    input: Value,
    pairs: &[String],
) -> Result<Value, CommandError> {
    let spec: OperationSpec = serde_json::from_value(spec).map_err(|error| {
        anyhow::anyhow!("invalid spec of {operation}: {}", error_message(&error))
    })?;
    let input = input::add_pairs(&spec, input, pairs).map_err(CommandError::Usage)?;
    if let Some(message) = input::describe_unknown_keys(&spec, &input) {
        output::warning(&format!("{operation} {message}"));
    }
    Ok(input)
}

/// Runs work before or after a call. An interrupt exits the process.
pub(super) async fn until_interrupted<T>(
    stop_requests: &mut Signals,
    work: impl Future<Output = T>,
) -> T {
    tokio::select! {
        done = work => done,
        () = stop_requests.next() => std::process::exit(130),
    }
}

/// Prints the first warning about an outcome, if there are any.
fn warn(outcome: &Outcome) {
    if let [first, rest @ ..] = outcome.warnings() {
        let more = match rest.len() {
            0 => String::new(),
            more => format!(" (and {more} more; `--output envelope` lists all)"),
        };
        output::warning(&format!("the output does not match its schema: {first}{more}"));
    }
}

/// Prints the outcome of a call. Returns an error if the tool reported a failure.
fn print(outcome: &Outcome) -> Result<(), CommandError> {
    let data = &outcome.envelope.data;
    match output::format() {
        Some(OutputFormat::Data) => output::print_json(data)?,
        Some(OutputFormat::Table) if !output::json_requested() => {
            let data = serde_json::to_value(data).map_err(anyhow::Error::from)?;
            output::print_text(&output::data_table(&data))?;
        }
        _ => output::print_json(outcome)?,
    }
    if outcome.envelope.is_error() { Err(CommandError::Reported) } else { Ok(()) }
}

/// The first signal aborts the call, the second exits the process.
async fn abort_on_signals(stop_requests: &mut Signals, abort: ClientAbortHandle) -> Infallible {
    stop_requests.next().await;
    abort.abort("interrupted");
    stop_requests.next().await;
    std::process::exit(130);
}

/// Draws progress on a terminal. Shows `label`, if any, until the first report.
async fn draw_progress(mut reports: mpsc::Receiver<Progress>, label: Option<String>) -> Infallible {
    let mut waiting = label.map(spinner);
    // Nothing is drawn before the first report.
    let bar = progress_bar();
    let share = progress_style("{bar:32} {percent:>3}% {msg}");
    let counting = progress_style("{spinner} {pos} {msg}");
    let turning = progress_style("{spinner} {msg}");
    let mut logged_kinds = BTreeSet::new();
    while let Some(report) = reports.recv().await {
        waiting.take();
        let message = report.message.unwrap_or_default();
        // Each kind of message is logged once, so that a log shows what the call waits for without
        // being flooded.
        if !std::io::stderr().is_terminal() && is_new_kind(&mut logged_kinds, &message) {
            output::notice(&message);
        }
        let position = match report.total.filter(|total| *total > 0.0) {
            Some(total) => {
                bar.set_style(share.clone());
                bar.set_length(1_000);
                (report.progress / total).clamp(0.0, 1.0) * 1_000.0
            }
            // A fraction without a total, such as that of a pending approval, is not a count.
            None => {
                let style = if report.progress < 1.0 { &turning } else { &counting };
                bar.set_style(style.clone());
                report.progress.max(0.0)
            }
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and a large count saturates"
        )]
        bar.set_position(position as u64);
        bar.set_message(output::sanitize(&message).into_owned());
    }
    std::future::pending().await
}

/// Maximum number of kinds of progress messages to log, because sources choose the messages.
const MAX_MESSAGE_KINDS: usize = 32;

/// Whether a progress message is of a new kind, which is remembered. Messages that differ only in
/// digits are of the same kind.
fn is_new_kind(kinds: &mut BTreeSet<String>, message: &str) -> bool {
    let kind: String = message.chars().filter(|c| !c.is_ascii_digit()).collect();
    !message.is_empty() && kinds.len() < MAX_MESSAGE_KINDS && kinds.insert(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_log_prints_each_message_kind_once() {
        let mut kinds = BTreeSet::new();
        for (message, expected) in [
            ("", false),
            ("pending approval, expires in 10m", true),
            ("pending approval, expires in 9m", false),
            ("reads page 1", true),
            ("reads page 20", false),
        ] {
            assert_eq!(is_new_kind(&mut kinds, message), expected, "{message}");
        }
    }
}
