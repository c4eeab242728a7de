//! `call` and `subscribe`: run an operation and print what it gives.

use std::collections::BTreeSet;
use std::io::IsTerminal;

use futures::StreamExt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolpost::connection::{CallAbort, Client};
use toolpost::{CallError, CallRequest, Kind, OperationSpec, Outcome, Progress, ProgressSender};

use super::backend::Backend;
use super::connect::Spinner;
use super::signal::StopRequests;
use super::started::Wanted;
use crate::arguments::{CallOptions, Invocation};
use crate::failure::Failure;
use crate::{input, output};

/// Progress that waits to be drawn; a full channel drops reports.
const PROGRESS_QUEUE: usize = 16;

pub(crate) async fn call(invocation: Invocation) -> Result<(), Failure> {
    let mut requests = StopRequests::new()?;
    let mut ready = until_interrupted(&mut requests, prepare(invocation)).await?;
    if ready.kind == Kind::Subscription {
        let id = ready.operation;
        wind_up(ready.backend, &mut requests).await;
        return Err(Failure::Usage(format!(
            "{id} is a subscription; use `toolpost subscribe {id}`"
        )));
    }
    let client = ready.backend.client.clone();
    let result = watched(&client, ready.request(), &mut requests, None).await;
    let shown = match result {
        Ok(outcome) => print(&outcome, &ready.options),
        Err(error) => Err(ready.failed(error).await),
    };
    wind_up(ready.backend, &mut requests).await;
    shown
}

/// Makes a call that shows its progress and that an interrupt aborts at its source. `what` is shown until
/// there is progress.
pub(super) async fn watched(
    client: &Client,
    request: CallRequest<'_>,
    requests: &mut StopRequests,
    what: Option<String>,
) -> Result<Outcome, CallError> {
    let (sender, reports) = mpsc::channel(PROGRESS_QUEUE);
    let calling = client.call(request.progress(ProgressSender::new(sender)));
    let abort = calling.abort_handle();
    tokio::select! {
        result = calling => result,
        never = draw(reports, what) => match never {},
        never = abort_on_signals(requests, abort) => match never {},
    }
}

pub(crate) async fn subscribe(invocation: Invocation) -> Result<(), Failure> {
    let mut requests = StopRequests::new()?;
    let mut ready = until_interrupted(&mut requests, prepare(invocation)).await?;
    let client = ready.backend.client.clone();
    let mut values = client.subscribe(ready.request());
    let printing = async {
        let mut shown = Ok(());
        while let Some(value) = values.next().await {
            let value = match value {
                Ok(value) => value,
                Err(error) => return Err(ready.failed(error).await),
            };
            match print(&value, &ready.options) {
                // A tool that failed once is a failure in the end; the stream goes on.
                Err(Failure::Reported) => shown = Err(Failure::Reported),
                other => other?,
            }
        }
        shown
    };
    let result = tokio::select! {
        result = printing => result,
        () = requests.next() => {
            Err(ready.failed(CallError::aborted("the call was aborted: interrupted")).await)
        }
    };
    // Dropping it aborts it at its source.
    drop(values);
    wind_up(ready.backend, &mut requests).await;
    result
}

struct Ready {
    backend: Backend,
    operation: String,
    kind: Kind,
    input: Value,
    options: CallOptions,
}

impl Ready {
    fn request(&mut self) -> CallRequest<'_> {
        let request = CallRequest::new(&self.operation, self.input.take()).door("cli");
        match self.options.timeout {
            Some(timeout) => request.timeout(timeout),
            None => request,
        }
    }

    async fn failed(&self, error: CallError) -> Failure {
        self.backend.failure(error, &self.operation, wants_json(&self.options)).await
    }
}

async fn prepare(invocation: Invocation) -> Result<Ready, Failure> {
    let (options, operation, words) = invocation.resolve().map_err(Failure::Usage)?;
    let backend = Backend::open(&options.remote, Wanted::Operation(&operation)).await?;
    let spec = match backend.ask("hub.schema", json!({"id": operation})).await {
        Ok(spec) => spec,
        Err(error) => return Err(backend.fail(error, &operation, wants_json(&options)).await),
    };
    match read_input(spec, &operation, &words) {
        Ok((kind, input)) => Ok(Ready { backend, operation, kind, input, options }),
        Err(failure) => {
            backend.close().await;
            Err(failure)
        }
    }
}

fn read_input(spec: Value, operation: &str, words: &[String]) -> Result<(Kind, Value), Failure> {
    let spec: OperationSpec = serde_json::from_value(spec)
        .map_err(|error| anyhow::anyhow!("the spec of {operation} cannot be read: {error}"))?;
    let input = input::build(Some(&spec), words).map_err(Failure::Usage)?;
    for key in input::unknown_keys(&spec, &input) {
        output::warning(&format!("{operation} has no input `{key}`"));
    }
    Ok((spec.kind, input))
}

/// Whether a program reads errors from standard output; where only data is wanted, none does.
fn wants_json(options: &CallOptions) -> bool {
    !options.data && output::is_plain(options.json)
}

/// Before there is a call, an interrupt ends the command.
pub(super) async fn until_interrupted<T>(
    requests: &mut StopRequests,
    work: impl Future<Output = T>,
) -> T {
    tokio::select! {
        done = work => done,
        () = requests.next() => std::process::exit(130),
    }
}

/// Prints what a call gave; a tool that says it failed has failed.
fn print(outcome: &Outcome, options: &CallOptions) -> Result<(), Failure> {
    for warning in outcome.warnings() {
        output::warning(&format!("the output does not fit its schema: {warning}"));
    }
    if options.data {
        output::print_json(&outcome.envelope.data, options.json)?;
    } else {
        output::print_json(outcome, options.json)?;
    }
    if outcome.envelope.is_error() { Err(Failure::Reported) } else { Ok(()) }
}

enum Never {}

/// The first signal asks the call to stop; the second one ends the command on the spot.
async fn abort_on_signals(requests: &mut StopRequests, abort: CallAbort) -> Never {
    requests.next().await;
    abort.abort("interrupted");
    requests.next().await;
    std::process::exit(130);
}

/// Lets a canceled handler notice; whoever interrupts again does not want to wait for it.
async fn wind_up(backend: Backend, requests: &mut StopRequests) {
    tokio::select! {
        () = backend.close() => {}
        () = requests.next() => std::process::exit(130),
    }
}

/// Shows progress on a terminal, once there is any; until then what is done, if that is said.
async fn draw(mut reports: mpsc::Receiver<Progress>, what: Option<String>) -> Never {
    let mut waiting = what.map(Spinner::new);
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = |template| {
        let style = ProgressStyle::with_template(template);
        style.unwrap_or_else(|_| ProgressStyle::default_bar())
    };
    let (share, turning) = (style("{bar:32} {percent:>3}% {msg}"), style("{spinner} {pos} {msg}"));
    let _clear = Clear(&bar);
    let mut told = Told::default();
    while let Some(report) = reports.recv().await {
        waiting.take();
        told.tell(report.message.as_deref());
        if let Some(total) = report.total.filter(|total| *total > 0.0) {
            bar.set_style(share.clone());
            bar.set_length(1_000);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of one thousand"
            )]
            bar.set_position((report.progress / total * 1_000.0).clamp(0.0, 1_000.0) as u64);
        } else {
            // Nobody knows how far it is to the end.
            bar.set_style(turning.clone());
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count, which saturates"
            )]
            bar.set_position(report.progress.max(0.0) as u64);
        }
        let message = report.message.unwrap_or_default();
        bar.set_message(output::harmless(&message).into_owned());
    }
    std::future::pending().await
}

/// What was said of the progress where there is no terminal to draw it on: one line for each kind of
/// message, so that whoever reads a log learns what is waited for and is not flooded.
#[derive(Default)]
struct Told {
    kinds: BTreeSet<String>,
}

impl Told {
    /// How many kinds are told of; a source may say anything.
    const MOST: usize = 32;

    fn tell(&mut self, message: Option<&str>) {
        let Some(message) = message.filter(|_| !std::io::stderr().is_terminal()) else { return };
        if self.is_new(message) {
            output::remark(message);
        }
    }

    /// Messages that differ only in their numbers are of one kind.
    fn is_new(&mut self, message: &str) -> bool {
        let kind: String = message.chars().filter(|c| !c.is_ascii_digit()).collect();
        !message.is_empty() && self.kinds.len() < Self::MOST && self.kinds.insert(kind)
    }
}

/// Takes the bar off the screen, also when drawing is interrupted by the answer.
struct Clear<'a>(&'a ProgressBar);

impl Drop for Clear<'_> {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_message_is_told_once() {
        let mut told = Told::default();
        for (message, expected) in [
            ("", false),
            ("waits for approval until 12:00", true),
            ("waits for approval until 12:05", false),
            ("reads page 1", true),
            ("reads page 20", false),
        ] {
            assert_eq!(told.is_new(message), expected, "{message}");
        }
    }
}
