//! The `toolpost` command-line program.

mod arguments;
mod command;
mod error;
mod input;
mod output;
mod token_estimate;

use std::process::ExitCode;

use clap::Parser;

use arguments::{AddCommand, Arguments, Command, LogFormat, RoomCommand};
use error::{CommandError, ErrorFormat};

/// JSON needs many small allocations, which mimalloc makes about twice as fast as the system
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    #[cfg(unix)]
    if let Some(rest) = arguments::watch_child_args() {
        return toolpost::mcp::watch_child(rest);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => match arguments::missing_separator_hint(std::env::args()) {
            Some(message) if error.kind() == clap::error::ErrorKind::UnknownArgument => {
                return CommandError::Usage(message).report(ErrorFormat::Text);
            }
            _ => error.exit(),
        },
    };
    start_logging(&arguments.command);
    let reader = match arguments.command.prints_json() {
        true => ErrorFormat::Json,
        false => ErrorFormat::Text,
    };
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(reader),
    }
}

fn run(command: Command) -> Result<(), CommandError> {
    match command {
        Command::Add { command: AddCommand::Openapi(options) } => {
            runtime()?.block_on(command::add_openapi(&options))
        }
        Command::Init(options) => command::init(&options),
        Command::Import(options) => runtime()?.block_on(command::import(&options)),
        Command::Add { command: AddCommand::Mcp(options) } => {
            runtime()?.block_on(command::add_mcp(&options))
        }
        Command::Remove(options) => command::remove(&options),
        Command::Reload(options) => runtime()?.block_on(command::reload(&options)),
        Command::Sources(options) => runtime()?.block_on(command::sources(&options)),
        Command::List(options) => runtime()?.block_on(command::list(&options)),
        Command::Search(options) => runtime()?.block_on(command::search(&options)),
        Command::Schema { what, format, .. } if what == "envelope" => {
            command::envelope_schema(format)
        }
        Command::Schema { what, format, .. } if what == "events" => command::event_schema(format),
        Command::Schema { what, format, .. } if what == "config" => command::config_schema(format),
        Command::Schema { what, remote, format } => {
            runtime()?.block_on(command::schema(&what, &remote, format))
        }
        Command::Approvals { running, format } => {
            runtime()?.block_on(command::approvals(&running, format))
        }
        Command::Approve(options) => runtime()?.block_on(command::approve(&options)),
        Command::Reject(options) => runtime()?.block_on(command::reject(&options)),
        Command::Normalize(options) => command::normalize(&options),
        Command::Cast(options) => command::cast(&options),
        Command::Decode(input) => command::decode(&input),
        Command::Encode(input) => command::encode(&input),
        Command::Log(options) => runtime()?.block_on(command::log(&options)),
        Command::Replay(options) => runtime()?.block_on(command::replay(&options)),
        Command::Token { command } => command::token(command),
        Command::Room { command: RoomCommand::Allows(options) } => command::allows(&options),
        Command::Room { command: RoomCommand::Join(options) } => {
            let runtime = runtime()?;
            let joined = runtime.block_on(command::join(&options));
            // A pending read of standard input must not keep the process running.
            runtime.shutdown_background();
            joined
        }
        Command::Completions { shell } => command::completions(shell),
        Command::Call(invocation) => runtime()?.block_on(command::call(invocation)),
        Command::Subscribe(invocation) => runtime()?.block_on(command::subscribe(invocation)),
        Command::Serve(options) => {
            let runtime = runtime()?;
            let served = runtime.block_on(command::serve(&options));
            // The gateway has drained. Work left in background threads is discarded.
            runtime.shutdown_background();
            served
        }
        Command::Mcp(options) => {
            let runtime = runtime()?;
            let served = runtime.block_on(command::mcp(&options));
            // A pending read of standard input must not keep the process running.
            runtime.shutdown_background();
            served
        }
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

/// Starts logging to standard error. Commands other than `serve` and `mcp` report their own result
/// and log only errors and gateway warnings. `TOOLPOST_LOG` overrides the filter.
fn start_logging(command: &Command) {
    let format = match command {
        Command::Serve(options) => Some(options.log_format),
        Command::Mcp(options) => Some(options.log_format),
        _ => None,
    };
    let default = if format.is_some() { "info" } else { "error,toolpost_gateway=warn" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("TOOLPOST_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A log that cannot be written must not fail a call.
        .log_internal_errors(false)
        .with_ansi(output::supports_color(&std::io::stderr()));
    match format {
        Some(LogFormat::Text) => builder.init(),
        Some(LogFormat::Json) => builder.json().flatten_event(true).init(),
        None => builder.without_time().with_target(false).init(),
    }
}
