//! The commands, one module each.

mod add;
mod approval;
mod backend;
mod call;
mod catalog;
mod config_file;
mod document;
mod envelope;
mod local_sources;
mod log;
mod mcp;
mod mcp_connect;
mod normalize;
mod openapi;
mod reload;
mod room;
mod serve;
mod signal;
mod sources;
mod token;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::{AddCommand, Arguments, Command, RoomCommand};
use crate::error::CommandError;

pub(crate) async fn run(command: Command) -> Result<(), CommandError> {
    match command {
        Command::Serve(options) => serve::serve(&options).await,
        Command::Mcp(options) => mcp::mcp(&options).await,
        Command::Init(options) => config_file::init(&options),
        Command::Add(AddCommand::Mcp(options)) => add::add_mcp(&options).await,
        Command::Add(AddCommand::Openapi(options)) => openapi::add_openapi(&options).await,
        Command::Import(options) => openapi::import(&options).await,
        Command::Remove(source) => config_file::remove(&source),
        Command::Reload(target) => reload::reload(&target).await,
        Command::Sources(target) => sources::sources(&target).await,
        Command::List(options) => catalog::list(&options).await,
        Command::Search(options) => catalog::search(&options).await,
        Command::Schema { what, backend } => catalog::schema(&what, &backend).await,
        Command::Call(invocation) => call::call(invocation).await,
        Command::Subscribe(invocation) => call::subscribe(invocation).await,
        Command::Approvals(target) => approval::approvals(&target).await,
        Command::Approve { call, input } => approval::approve(&call, input).await,
        Command::Reject { call, reason } => approval::reject(&call, reason).await,
        Command::Normalize { input, keep_extras } => normalize::normalize(&input, keep_extras),
        Command::Cast(input) => normalize::cast(&input),
        Command::Decode(input) => envelope::decode(&input),
        Command::Encode(input) => envelope::encode(&input),
        Command::Log(options) => log::log(&options).await,
        Command::Replay(options) => log::replay(&options).await,
        Command::Token(command) => token::token(command),
        Command::Room(RoomCommand::Join(options)) => room::join(&options).await,
        Command::Room(RoomCommand::Allows(options)) => room::allows(&options),
        Command::Completions { shell } => completions(shell),
    }
}

fn completions(shell: Shell) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "toolpost", &mut script);
    Ok(std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?)
}
