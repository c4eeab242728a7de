//! `call` and `subscribe`: run an operation and print what it gives.

use std::time::Duration;

use futures::StreamExt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use manila::{
    AbortHandle, Authority, CallError, CallRequest, Identity, Kind, Operation, Outcome, Pipeline,
    Progress, ProgressSender,
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::catalog::unknown;
use super::registry;
use super::signal::StopRequests;
use crate::arguments::{CallOptions, Invocation};
use crate::failure::Failure;
use crate::{input, output};

/// Progress that waits to be drawn; a full channel drops reports.
const PROGRESS_QUEUE: usize = 16;

/// How long a cancelled handler has to notice before the command ends anyway.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn call(invocation: Invocation) -> Result<(), Failure> {
    let mut requests = StopRequests::new()?;
    let mut ready = prepare(invocation)?;
    if ready.kind == Kind::Subscription {
        let id = &ready.operation;
        return Err(Failure::Usage(format!("{id} is a subscription; use `manila subscribe {id}`")));
    }
    let (sender, reports) = mpsc::channel(PROGRESS_QUEUE);
    let pipeline = ready.pipeline.clone();
    let request = ready.request().progress(ProgressSender::new(sender));
    let call = pipeline.call(request, caller());
    let abort = call.abort_handle();
    let result = tokio::select! {
        result = call => result,
        never = draw(reports) => match never {},
        never = abort_on_signals(&mut requests, abort) => match never {},
    };
    let shown = result
        .map_err(|error| failed(error, &ready.options))
        .and_then(|outcome| print(&outcome, &ready.options));
    wind_up(&pipeline, &mut requests).await;
    shown
}

pub(crate) async fn subscribe(invocation: Invocation) -> Result<(), Failure> {
    let mut requests = StopRequests::new()?;
    let mut ready = prepare(invocation)?;
    let pipeline = ready.pipeline.clone();
    let mut values = pipeline.start_subscription(ready.request(), caller());
    let abort = values.abort_handle();
    let printing = async {
        let mut shown = Ok(());
        while let Some(value) = values.next().await {
            let value = value.map_err(|error| failed(error, &ready.options))?;
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
        never = abort_on_signals(&mut requests, abort) => match never {},
    };
    drop(values);
    wind_up(&pipeline, &mut requests).await;
    result
}

struct Ready {
    pipeline: Pipeline,
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
}

fn prepare(invocation: Invocation) -> Result<Ready, Failure> {
    let (options, operation, words) = invocation.resolve().map_err(Failure::Usage)?;
    let registry = registry();
    let catalog = registry.catalog();
    let Some(found) = catalog.get(&operation) else {
        return Err(unknown(&catalog, &operation, wants_json(&options)));
    };
    let input = input::build(Some(found.spec()), &words).map_err(Failure::Usage)?;
    for key in input::unknown_keys(found.spec(), &input) {
        output::warning(&format!("{operation} has no input `{key}`"));
    }
    let kind = Operation::spec(found).kind;
    Ok(Ready { pipeline: Pipeline::new(registry), operation, kind, input, options })
}

/// The person at the keyboard, who may do what the machine may.
fn caller() -> Authority {
    Authority::outside(Some(Identity::new("local").into()))
}

fn failed(error: CallError, options: &CallOptions) -> Failure {
    Failure::Call { error, hint: None, json: wants_json(options) }
}

/// Whether a program reads errors from standard output; where only data is wanted, none does.
fn wants_json(options: &CallOptions) -> bool {
    !options.data && output::is_plain(options.json)
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
async fn abort_on_signals(requests: &mut StopRequests, abort: AbortHandle) -> Never {
    requests.next().await;
    abort.abort("interrupted");
    requests.next().await;
    std::process::exit(130);
}

/// Lets a cancelled handler notice; whoever interrupts again does not want to wait for it.
async fn wind_up(pipeline: &Pipeline, requests: &mut StopRequests) {
    tokio::select! {
        _ = pipeline.drain(PATIENCE) => {}
        () = requests.next() => std::process::exit(130),
    }
}

/// Shows progress on a terminal, once there is any.
async fn draw(mut reports: mpsc::Receiver<Progress>) -> Never {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:32} {percent:>3}% {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let _clear = Clear(&bar);
    while let Some(report) = reports.recv().await {
        if let Some(total) = report.total.filter(|total| *total > 0.0) {
            bar.set_length(1_000);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of one thousand"
            )]
            bar.set_position((report.progress / total * 1_000.0).clamp(0.0, 1_000.0) as u64);
        }
        bar.set_message(report.message.unwrap_or_default());
    }
    std::future::pending().await
}

/// Takes the bar off the screen, also when drawing is interrupted by the answer.
struct Clear<'a>(&'a ProgressBar);

impl Drop for Clear<'_> {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
