//! The `toolpost` command-line program.

mod arguments;
mod command;
mod error;
mod input;
mod log_limit;
mod output;
mod token_estimate;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use arguments::{Arguments, Command, LogFormat};
use error::CommandError;
use log_limit::LogLimit;

/// JSON needs many small allocations, which mimalloc makes about twice as fast as the system
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(rest) = arguments::watch_child_args() {
        return toolpost::mcp::watch_child(rest);
    }
    let mut arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => match arguments::missing_separator_hint(std::env::args()) {
            Some(message) if error.kind() == clap::error::ErrorKind::UnknownArgument => {
                return CommandError::Usage(message).report(false);
            }
            _ => error.exit(),
        },
    };
    match arguments.resolve() {
        Ok(mode) => output::set_mode(mode),
        Err(message) => return CommandError::Usage(message).report(false),
    }
    start_logging(&arguments.command);
    let prints_json_errors = arguments.command.prints_json_errors();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(prints_json_errors),
    }
}

fn run(command: Command) -> Result<(), CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(command::run(command));
    // A pending read of standard input, or other work in a background thread, must not keep the
    // process running.
    runtime.shutdown_background();
    result
}

/// Starts logging to standard error. Commands other than `serve` and `mcp` report their own result
/// and log only errors and gateway warnings. `TOOLPOST_LOG` overrides the filter.
fn start_logging(command: &Command) {
    let format = match command {
        Command::Serve(options) => Some(options.run.log_format),
        Command::Mcp(options) => Some(options.run.log_format),
        _ => None,
    };
    let default = if format.is_some() { "info" } else { "error,toolpost_gateway=warn" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("TOOLPOST_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // A log that cannot be written must not fail a call.
        .log_internal_errors(false)
        .with_ansi(output::supports_color(&std::io::stderr()));
    let lines = match format {
        Some(LogFormat::Text) => lines.boxed(),
        Some(LogFormat::Json) => lines.json().flatten_event(true).boxed(),
        None => lines.without_time().with_target(false).boxed(),
    };
    tracing_subscriber::registry().with(lines).with(LogLimit::default()).with(filter).init();
}
