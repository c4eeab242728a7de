//! `log` and `replay`: read the journal through a running gateway or directly from its files.

mod show;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use toolpost::connection::Client;
use toolpost::hub::Hub;
use toolpost::{Authority, CallError, CallRequest, Change, Pipeline};
use toolpost_gateway::config::Config;
use toolpost_gateway::journal::{self, JournalReader};
use toolpost_gateway::{DataDir, admin};

use super::backend::Backend;
use super::call::{call_with_progress, until_interrupted};
use super::signal::StopRequests;
use crate::arguments::{
    ExportOptions, GatewayTarget, LogCommand, LogFilter, LogOptions, ReplayOptions, VerifyOptions,
};
use crate::error::CommandError;
use crate::output;

/// Maximum time to wait for running calls on close.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// Number of calls listed without `--limit`.
const DEFAULT_LIMIT: u16 = 50;

/// Number of calls per page of an export.
const EXPORT_PAGE_SIZE: usize = 500;

pub(crate) async fn log(options: &LogOptions) -> Result<(), CommandError> {
    match &options.command {
        Some(LogCommand::Verify(options)) => verify(options).await,
        Some(LogCommand::Export(options)) => export(options).await,
        None if options.follow => follow(options).await,
        None => list(options).await,
    }
}

async fn list(options: &LogOptions) -> Result<(), CommandError> {
    let is_json = output::wants_json(options.format.json);
    let journal_client = JournalClient::open_for(is_json, &options.target).await?;
    let response = list_all(&journal_client, list_input(options)).await;
    journal_client.close().await;
    print_entries(&response?, is_json, LogContent::from_filter(&options.filter))
}

/// Returns the newest calls or messages of every journal. A gateway returns its own journal by
/// default; the other journals in its data folder are requested separately.
async fn list_all(
    journal_client: &JournalClient,
    input: Value,
) -> Result<Vec<Value>, CommandError> {
    let response = journal_client.call("gateway.journal", input.clone()).await?;
    if journal_client.is_journal_off(&response) {
        output::warning("the journal of this gateway is off; showing earlier records");
    }
    let gateway_id = response["gatewayId"].as_str().filter(|_| input.get("gatewayId").is_none());
    let others =
        gateway_id.map(|gateway_id| gateway_ids(&response).filter(move |id| *id != gateway_id));
    let mut calls = entries(&response).to_vec();
    for other in others.into_iter().flatten() {
        let mut input = input.clone();
        input["gatewayId"] = other.into();
        calls.extend_from_slice(entries(&journal_client.call("gateway.journal", input).await?));
    }
    calls.sort_by_key(|call| Reverse((call["time"].as_i64(), call["seq"].as_u64())));
    let max = input["limit"].as_u64().and_then(|limit| usize::try_from(limit).ok());
    calls.truncate(max.unwrap_or(usize::MAX));
    calls.reverse();
    Ok(calls)
}

/// Returns the ids of the gateways with a journal in the data folder.
fn gateway_ids(response: &Value) -> impl Iterator<Item = &str> {
    response["gatewayIds"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// What is listed from a journal.
#[derive(Clone, Copy)]
enum LogContent {
    Calls,
    Messages,
}

impl LogContent {
    fn from_filter(filter: &LogFilter) -> Self {
        if filter.room.is_some() { Self::Messages } else { Self::Calls }
    }
}

/// Builds the input of `gateway.journal` for listing calls.
fn list_input(options: &LogOptions) -> Value {
    let mut input = filter_input(&options.filter);
    input["limit"] = options.limit.unwrap_or(DEFAULT_LIMIT).into();
    if let Some(gateway_id) = &options.gateway {
        input["gatewayId"] = gateway_id.as_str().into();
    }
    input
}

/// Prints entries, oldest first, as JSON lines or as a table.
fn print_entries(
    entries: &[Value],
    is_json: bool,
    content: LogContent,
) -> Result<(), CommandError> {
    match content {
        _ if is_json => Ok(entries.iter().try_for_each(output::print_json_line)?),
        LogContent::Calls => Ok(show::print_calls(entries)?),
        LogContent::Messages => Ok(show::print_messages(entries)?),
    }
}

/// Returns the messages of a response if a room was requested, and its calls otherwise.
fn entries(response: &Value) -> &[Value] {
    let messages = response["messages"].as_array();
    messages.or(response["calls"].as_array()).map_or(&[][..], Vec::as_slice)
}

async fn follow(options: &LogOptions) -> Result<(), CommandError> {
    let is_json = output::wants_json(options.format.json);
    let journal_client = JournalClient::open_for(is_json, &options.target).await?;
    let JournalBackend::Gateway(backend) = &journal_client.backend else {
        let message = "--follow needs a running gateway; is `toolpost serve` running?";
        return Err(CommandError::Unreachable(message.to_owned()));
    };
    let mut requests = StopRequests::new()?;
    let result = tokio::select! {
        result = print_tail(backend, options, is_json) => result,
        () = requests.next() => Ok(()),
    };
    journal_client.close().await;
    result
}

/// Prints calls as they end. With `--since` or `--limit`, prints the calls already in the journal
/// first.
async fn print_tail(
    backend: &Backend,
    options: &LogOptions,
    is_json: bool,
) -> Result<(), CommandError> {
    let mut input = filter_input(&options.filter);
    input.as_object_mut().expect("an object is what was asked").remove("since");
    let mut calls = backend.client.subscribe(CallRequest::new("gateway.logs", input));
    let (mut printed_seqs, mut buffered) = (HashSet::new(), Vec::new());
    if options.filter.since.is_some() || options.limit.is_some() {
        let mut listing = std::pin::pin!(backend.call("gateway.journal", list_input(options)));
        // The subscription starts before the listing, so that no call is missed between the two.
        let response = loop {
            tokio::select! {
                biased;
                Some(call) = calls.next() => buffered.push(call),
                response = &mut listing => break response,
            }
        };
        let response = match response {
            Ok(response) => response,
            Err(error) => return Err(backend.to_failure(error, "gateway.journal", is_json).await),
        };
        let ended = entries(&response).iter().filter(|call| call.get("endSeq").is_some());
        printed_seqs.extend(ended.map(|call| call["seq"].as_u64()));
        let calls: Vec<Value> = entries(&response).iter().rev().cloned().collect();
        print_entries(&calls, is_json, LogContent::Calls)?;
    }
    let mut calls = futures::stream::iter(buffered).chain(calls);
    while let Some(call) = calls.next().await {
        let call = match call {
            Ok(outcome) => outcome.envelope.data.into_value().map_err(anyhow::Error::from)?,
            Err(error) => return Err(backend.to_failure(error, "gateway.logs", is_json).await),
        };
        if printed_seqs.remove(&call["seq"].as_u64()) {
            continue;
        }
        match is_json {
            true => output::print_json_line(&call)?,
            false => show::print_call(&call)?,
        }
    }
    Ok(())
}

async fn export(options: &ExportOptions) -> Result<(), CommandError> {
    let journal_client = JournalClient::open(&options.target).await?;
    let result = export_all(&journal_client, options).await;
    journal_client.close().await;
    result
}

/// Exports one journal after the other, because sequence numbers are only unique within a journal.
async fn export_all(
    journal_client: &JournalClient,
    options: &ExportOptions,
) -> Result<(), CommandError> {
    for gateway_id in exported_gateways(journal_client, options).await? {
        for mut input in export_inputs(&options.filter) {
            input["gatewayId"] = gateway_id.as_str().into();
            export_pages(journal_client, input).await?;
        }
    }
    Ok(())
}

/// Returns one query for calls and one for the messages of all rooms. With `--room` or `--op`,
/// returns only the one requested.
fn export_inputs(filter: &LogFilter) -> Vec<Value> {
    let calls = filter_input(filter);
    if filter.room.is_some() || filter.op.is_some() {
        return vec![calls];
    }
    let mut messages = calls.clone();
    messages["room"] = "*".into();
    vec![calls, messages]
}

/// Returns the ids of the gateways whose journals are exported.
async fn exported_gateways(
    journal_client: &JournalClient,
    options: &ExportOptions,
) -> Result<Vec<String>, CommandError> {
    if let Some(gateway_id) = &options.gateway {
        return Ok(vec![gateway_id.clone()]);
    }
    let response = journal_client.call("gateway.journal", json!({"limit": 0})).await?;
    Ok(gateway_ids(&response).map(String::from).collect())
}

/// Exports all pages, from the newest to the oldest.
async fn export_pages(
    journal_client: &JournalClient,
    mut input: Value,
) -> Result<(), CommandError> {
    input["limit"] = EXPORT_PAGE_SIZE.into();
    let name = if input.get("room").is_some() { "messages" } else { "calls" };
    loop {
        let response = journal_client.call("gateway.journal", input.clone()).await?;
        let page = response[name].as_array().map_or(&[][..], Vec::as_slice);
        page.iter().try_for_each(output::print_json_line)?;
        // Entries are sorted by time, which can go backward when the clock is set, so the last
        // entry need not have the smallest `seq`.
        let first = page.iter().filter_map(|entry| entry["seq"].as_u64()).min();
        // A page of messages can be short because of its size limit, so only an empty page is the
        // last.
        match first.filter(|_| name == "messages" || page.len() == EXPORT_PAGE_SIZE) {
            Some(first) => input["before"] = first.into(),
            None => return Ok(()),
        }
    }
}

async fn verify(options: &VerifyOptions) -> Result<(), CommandError> {
    let mut input = json!({});
    if let Some(file) = &options.head {
        input["head"] = read_head(file)?;
    }
    let is_json = output::wants_json(options.format.json);
    let journal_client = JournalClient::open_for(is_json, &options.target).await?;
    let location = journal_client.location.clone();
    let response = journal_client.call_and_close("gateway.verify", input).await?;
    match is_json {
        true => output::print_json_line(&response)?,
        false => show::print_reports(&response)?,
    }
    if response["ok"] == true {
        return Ok(());
    }
    if response["journals"].as_array().is_some_and(Vec::is_empty) {
        output::error(&format!("there is no journal in {location}"));
    }
    show::print_problems(&response);
    Err(CommandError::Reported)
}

fn read_head(file: &Path) -> Result<Value, CommandError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        CommandError::Usage(format!("cannot read the head in {}: {error}", file.display()))
    };
    let text = std::fs::read(file).map_err(|error| unreadable(&error))?;
    serde_json::from_slice(&text).map_err(|error| unreadable(&error))
}

pub(crate) async fn replay(options: &ReplayOptions) -> Result<(), CommandError> {
    let is_json = output::wants_json(options.format.json);
    let mut requests = StopRequests::new()?;
    let opening = JournalClient::open_for(is_json, &options.target);
    let journal_client = until_interrupted(&mut requests, opening).await?;
    let input = json!({"id": options.id, "run": options.run});
    let mut request = CallRequest::new("gateway.replay", input);
    if let Some(timeout) = options.timeout {
        request = request.timeout(timeout);
    }
    let label = format!("replaying call {}", options.id);
    let label = options.run.then_some(label);
    let response =
        match call_with_progress(journal_client.client(), request, &mut requests, label).await {
            Ok(outcome) => Ok(outcome.envelope.data.into_value().map_err(anyhow::Error::from)?),
            Err(error) => Err(journal_client.to_failure(error, "gateway.replay").await),
        };
    journal_client.close().await;
    print_replay(&response?, is_json)
}

fn print_replay(response: &Value, is_json: bool) -> Result<(), CommandError> {
    match is_json {
        true => output::print_json_line(response)?,
        false => show::print_replay(response)?,
    }
    match response["same"] == false || response.get("problems").is_some() {
        true => Err(CommandError::Reported),
        false => Ok(()),
    }
}

fn filter_input(filter: &LogFilter) -> Value {
    let mut input = json!({});
    let LogFilter { op, since, identity, room, .. } = filter;
    for (name, value) in [("op", op), ("since", since), ("identity", identity), ("room", room)] {
        if let Some(value) = value {
            input[name] = value.as_str().into();
        }
    }
    if filter.errors {
        input["errors"] = true.into();
    }
    input
}

/// Client for the journal operations, in a running gateway or in this process over the journal
/// files.
struct JournalClient {
    backend: JournalBackend,
    /// Whether output is JSON.
    is_json: bool,
    /// Description of where the journals are, for messages.
    location: String,
}

enum JournalBackend {
    Gateway(Box<Backend>),
    Files(Pipeline, Client),
}

impl JournalClient {
    /// Opens the journal for JSON output.
    async fn open(target: &GatewayTarget) -> Result<Self, CommandError> {
        Self::open_for(true, target).await
    }

    /// Connects to the gateway. If it is unreachable and no address was given, opens the journal
    /// files instead.
    async fn open_for(is_json: bool, target: &GatewayTarget) -> Result<Self, CommandError> {
        let (backend_kind, journal_location) = match Backend::connect_as_operator(target).await {
            Ok(backend) => {
                let backend_kind = JournalBackend::Gateway(Box::new(backend));
                (backend_kind, format!("the data folder of {}", target.url()))
            }
            Err(CommandError::Unreachable(_)) if target.allows_offline() => {
                let data = DataDir::open_existing(target.data.as_deref())
                    .map_err(|error| CommandError::Usage(error.to_string()))?;
                (JournalBackend::open_files(data.path()), data.path().display().to_string())
            }
            Err(failure) => return Err(failure),
        };
        Ok(Self { backend: backend_kind, is_json, location: journal_location })
    }

    /// Whether the journal of the running gateway is off.
    fn is_journal_off(&self, response: &Value) -> bool {
        matches!(self.backend, JournalBackend::Gateway(_)) && response.get("gatewayId").is_none()
    }

    fn client(&self) -> &Client {
        match &self.backend {
            JournalBackend::Gateway(backend) => &backend.client,
            JournalBackend::Files(_, client) => client,
        }
    }

    async fn call_and_close(self, operation: &str, input: Value) -> Result<Value, CommandError> {
        let response = self.call(operation, input).await;
        self.close().await;
        response
    }

    async fn call(&self, operation: &str, input: Value) -> Result<Value, CommandError> {
        match self.client().call_json(operation, input).await {
            Ok(envelope) => Ok(envelope.data),
            Err(error) => Err(self.to_failure(error, operation).await),
        }
    }

    async fn to_failure(&self, error: CallError, operation: &str) -> CommandError {
        match &self.backend {
            JournalBackend::Gateway(backend) => {
                backend.to_failure(error, operation, self.is_json).await
            }
            JournalBackend::Files(..) => {
                CommandError::Call { error, hint: None, json: self.is_json }
            }
        }
    }

    async fn close(self) {
        match self.backend {
            JournalBackend::Gateway(backend) => backend.close().await,
            JournalBackend::Files(pipeline, ..) => drop(pipeline.drain(DRAIN_TIMEOUT).await),
        }
    }
}

impl JournalBackend {
    /// Opens the journal files. The data folder determines where the records are, not the local
    /// configuration.
    fn open_files(data: &Path) -> Self {
        let config = local_config();
        let reader = JournalReader::new(data, &journal::JournalSettings::default());
        let registry = super::serve::demo_registry(&config);
        let all =
            journal::operations(&reader, &registry).into_iter().chain(Hub::builtin_operations());
        registry.apply(all.map(Change::Replace)).expect("replacing cannot clash");
        let pipeline = Pipeline::new(registry);
        // Access to the files replaces the token.
        let caller = Authority::untrusted(Some(admin::operator().into()));
        let client = Client::in_process(pipeline.clone(), caller);
        Self::Files(pipeline, client)
    }
}

/// Loads the local configuration, which determines the operations a replay preview sees. It does
/// not affect the journal.
fn local_config() -> Config {
    let loaded = Config::discover().map(|file| Config::load(&file)).transpose();
    loaded.map(Option::unwrap_or_default).unwrap_or_else(|error| {
        output::warning(&format!("the configuration here cannot be used: {error}"));
        Config::default()
    })
}
