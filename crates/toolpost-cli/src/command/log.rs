//! `log` and `replay`: read the journal through a running gateway or directly from its files.

mod show;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::Path;

use futures::StreamExt;
use serde_json::{Value, json};
use toolpost::hub::Hub;
use toolpost::{CallRequest, Change, Pipeline};
use toolpost_gateway::config::Config;
use toolpost_gateway::journal::{self, JournalReader};
use toolpost_gateway::{DataDir, admin};

use super::backend::{Backend, Credential, RunningGateway, announce_gateway};
use super::call::{call_with_progress, until_interrupted};
use super::local_sources::LocalSources;
use super::signal::Signals;
use crate::arguments::{
    ExportOptions, GatewayTarget, LogCommand, LogFilter, LogOptions, ReplayOptions, ShowOptions,
    VerifyOptions,
};
use crate::error::CommandError;
use crate::output;

const JOURNAL: &str = "gateway.journal";

const DEFAULT_LIMIT: u16 = 50;

const EXPORT_PAGE_SIZE: usize = 500;

pub(crate) async fn log(options: &LogOptions) -> Result<(), CommandError> {
    match &options.command {
        Some(LogCommand::Show(options)) => show(options).await,
        Some(LogCommand::Verify(options)) => verify(options).await,
        Some(LogCommand::Export(options)) => export(options).await,
        None if options.follow => follow(options).await,
        None => list(options).await,
    }
}

async fn list(options: &LogOptions) -> Result<(), CommandError> {
    let journal = open(&options.target, false).await?;
    let entries = list_all(&journal, list_input(options)).await;
    journal.backend.close().await;
    Ok(print_entries(&entries?, options.filter.room.is_some())?)
}

/// Returns the newest calls or messages of every journal. A gateway returns its own journal by
/// default; the other journals in its data folder are requested separately.
async fn list_all(journal: &Source, input: Value) -> Result<Vec<Value>, CommandError> {
    let backend = &journal.backend;
    let response = journal.query(input.clone()).await?;
    if backend.is_remote() && response.get("gatewayId").is_none() {
        output::warning("the journal of this gateway is off; showing existing records");
    }
    let gateway_id = response["gatewayId"].as_str().filter(|_| input.get("gatewayId").is_none());
    let others =
        gateway_id.map(|gateway_id| gateway_ids(&response).filter(move |id| *id != gateway_id));
    let mut calls = entries(&response).to_vec();
    for other in others.into_iter().flatten() {
        let mut input = input.clone();
        input["gatewayId"] = other.into();
        calls.extend_from_slice(entries(&backend.request(JOURNAL, input).await?));
    }
    calls.sort_by_key(|call| Reverse((call["time"].as_i64(), call["seq"].as_u64())));
    let max = input["limit"].as_u64().and_then(|limit| usize::try_from(limit).ok());
    calls.truncate(max.unwrap_or(usize::MAX));
    calls.reverse();
    Ok(calls)
}

fn gateway_ids(response: &Value) -> impl Iterator<Item = &str> {
    response["gatewayIds"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn list_input(options: &LogOptions) -> Value {
    let mut input = json!(options.filter);
    input["limit"] = options.limit.unwrap_or(DEFAULT_LIMIT).into();
    if let Some(gateway_id) = &options.gateway {
        input["gatewayId"] = gateway_id.as_str().into();
    }
    input
}

/// Prints entries, oldest first, as JSON lines or as a table.
fn print_entries(entries: &[Value], is_room: bool) -> std::io::Result<()> {
    match output::is_json() {
        true => entries.iter().try_for_each(output::print_json_line),
        false => show::print_table(entries, is_room),
    }
}

/// Returns the messages of a response if a room was requested, and its calls otherwise.
fn entries(response: &Value) -> &[Value] {
    let messages = response["messages"].as_array();
    messages.or(response["calls"].as_array()).map_or(&[][..], Vec::as_slice)
}

async fn follow(options: &LogOptions) -> Result<(), CommandError> {
    let backend = Backend::connect_as_operator(&options.target).await?;
    let mut requests = Signals::stop()?;
    let result = tokio::select! {
        result = print_tail(&backend, options) => result,
        () = requests.next() => Ok(()),
    };
    backend.close().await;
    result
}

/// Prints calls as they end. With `--since` or `--limit`, prints the calls already in the journal
/// first.
async fn print_tail(backend: &Backend, options: &LogOptions) -> Result<(), CommandError> {
    let mut input = json!(options.filter);
    input.as_object_mut().expect("the filter is an object").remove("since");
    let mut calls = backend.client.subscribe(CallRequest::new("gateway.logs", input));
    let (mut printed_seqs, mut buffered) = (HashSet::new(), Vec::new());
    if options.filter.since.is_some() || options.limit.is_some() {
        let mut listing = std::pin::pin!(backend.request(JOURNAL, list_input(options)));
        // The subscription starts before the listing, so that no call is missed between the two.
        let response = loop {
            tokio::select! {
                biased;
                Some(call) = calls.next() => buffered.push(call),
                response = &mut listing => break response,
            }
        };
        let response = response?;
        let ended = entries(&response).iter().filter(|call| call.get("endSeq").is_some());
        printed_seqs.extend(ended.map(|call| call["seq"].as_u64()));
        let calls: Vec<Value> = entries(&response).iter().rev().cloned().collect();
        print_entries(&calls, false)?;
    }
    let mut calls = futures::stream::iter(buffered).chain(calls);
    while let Some(call) = calls.next().await {
        let call = match call {
            Ok(outcome) => outcome.envelope.data.into_value().map_err(anyhow::Error::from)?,
            Err(error) => return Err(backend.to_failure(error, "gateway.logs").await),
        };
        if printed_seqs.remove(&call["seq"].as_u64()) {
            continue;
        }
        match output::is_json() {
            true => output::print_json_line(&call)?,
            false => show::print_call(&call)?,
        }
    }
    Ok(())
}

async fn show(options: &ShowOptions) -> Result<(), CommandError> {
    let journal = open(&options.target, false).await?;
    let response = journal.query(json!({"id": options.id})).await;
    journal.backend.close().await;
    Ok(entries(&response?).iter().try_for_each(output::print_json)?)
}

async fn export(options: &ExportOptions) -> Result<(), CommandError> {
    let journal = open(&options.target, false).await?;
    let result = export_all(&journal, options).await;
    journal.backend.close().await;
    result
}

/// Exports one journal after the other, because sequence numbers are only unique within a journal.
async fn export_all(journal: &Source, options: &ExportOptions) -> Result<(), CommandError> {
    let backend = &journal.backend;
    let gateway_ids = match &options.gateway {
        Some(gateway_id) => vec![gateway_id.clone()],
        None => {
            let response = journal.query(json!({"limit": 0})).await?;
            gateway_ids(&response).map(String::from).collect()
        }
    };
    for gateway_id in gateway_ids {
        for mut input in export_inputs(&options.filter) {
            input["gatewayId"] = gateway_id.as_str().into();
            export_pages(backend, input).await?;
        }
    }
    Ok(())
}

/// Returns one query for calls and one for the messages of all rooms. With `--room` or `--op`,
/// returns only the one requested.
fn export_inputs(filter: &LogFilter) -> Vec<Value> {
    let calls = json!(filter);
    if filter.room.is_some() || filter.op.is_some() {
        return vec![calls];
    }
    let mut messages = calls.clone();
    messages["room"] = "*".into();
    vec![calls, messages]
}

/// Exports all pages, from the newest to the oldest.
async fn export_pages(backend: &Backend, mut input: Value) -> Result<(), CommandError> {
    input["limit"] = EXPORT_PAGE_SIZE.into();
    let name = if input.get("room").is_some() { "messages" } else { "calls" };
    loop {
        let response = backend.request(JOURNAL, input.clone()).await?;
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
    let Source { backend, location } = open(&options.target, false).await?;
    let response = backend.call("gateway.verify", input).await;
    let response = backend.close_with(response, "gateway.verify").await?;
    match output::is_json() {
        true => output::print_json_line(&response)?,
        false => show::print_reports(&response)?,
    }
    if response["ok"] == true {
        return Ok(());
    }
    if response["journals"].as_array().is_some_and(Vec::is_empty) {
        output::error(&format!("no journal in {location}"));
    }
    show::print_problems(&response);
    Err(CommandError::Reported)
}

fn read_head(file: &Path) -> Result<Value, CommandError> {
    let head = std::fs::read(file).map_err(anyhow::Error::from);
    head.and_then(|text| Ok(serde_json::from_slice(&text)?)).map_err(|error| {
        CommandError::Usage(format!("cannot read the head in {}: {error}", file.display()))
    })
}

pub(crate) async fn replay(options: &ReplayOptions) -> Result<(), CommandError> {
    let mut requests = Signals::stop()?;
    let opening = open(&options.target, true);
    let backend = until_interrupted(&mut requests, opening).await?.backend;
    let input = json!({"id": options.id, "run": options.run});
    let mut request = CallRequest::new("gateway.replay", input);
    if let Some(timeout) = options.timeout {
        request = request.timeout(timeout);
    }
    let label = options.run.then(|| format!("replaying call {}", options.id));
    let result = call_with_progress(&backend.client, request, &mut requests, label).await;
    let outcome = backend.close_with(result, "gateway.replay").await?;
    let response = outcome.envelope.data.into_value().map_err(anyhow::Error::from)?;
    output::print_value(&response, || show::replay_lines(&response).join("\n"))?;
    match response["same"] == false || response.get("problems").is_some() {
        true => Err(CommandError::Reported),
        false => Ok(()),
    }
}

/// Where the journals are read.
struct Source {
    backend: Backend,
    location: String,
}

impl Source {
    /// Queries the journals. A folder without a journal is an error.
    async fn query(&self, input: Value) -> Result<Value, CommandError> {
        if !self.backend.is_remote() {
            let response = self.backend.request(JOURNAL, json!({"limit": 0})).await?;
            if gateway_ids(&response).next().is_none() {
                let remedy = "set --data to the data folder of a gateway";
                return Err(anyhow::anyhow!("no journal in {}; {remedy}", self.location).into());
            }
        }
        self.backend.request(JOURNAL, input).await
    }
}

/// Opens the journal files of `--data`, the gateway at `--url`, the running gateway of this
/// configuration, or else the files in the data folder. With `any_config`, a running gateway may
/// have another configuration.
async fn open(target: &GatewayTarget, any_config: bool) -> Result<Source, CommandError> {
    if let Some(url) = target.url() {
        let backend = Backend::connect_as_operator(target).await?;
        return Ok(Source { backend, location: format!("the data folder of {url}") });
    }
    let data = DataDir::open_existing(target.data.as_deref()).map_err(CommandError::usage)?;
    let location = data.path().display().to_string();
    if target.data.is_none() {
        let credential = Credential::for_operator(target.token.as_ref(), &data)?;
        let running = RunningGateway::connect(&data, credential).await?;
        let file = Config::discover();
        if let Some(running) = running.filter(|one| any_config || one.uses(file.as_deref())) {
            announce_gateway();
            return Ok(Source { backend: running.into_backend(), location });
        }
    }
    Ok(Source { backend: open_files(data.path()), location })
}

/// Opens the journal files. The data folder determines where the records are, not the local
/// configuration.
fn open_files(data: &Path) -> Backend {
    let reader = JournalReader::new(data, &journal::JournalSettings::default());
    let registry = super::serve::demo_registry(&local_config());
    let all = journal::operations(&reader, &registry).into_iter().chain(Hub::builtin_operations());
    registry.apply(all.map(Change::Replace)).expect("replacing cannot conflict");
    // Access to the files replaces the token.
    Backend::in_process(Pipeline::new(registry), admin::operator(), LocalSources::default())
}

/// Loads the local configuration, which determines the operations a replay preview sees. It does
/// not affect the journal.
fn local_config() -> Config {
    let loaded = Config::discover().map(|file| Config::load(&file)).transpose();
    loaded.map(Option::unwrap_or_default).unwrap_or_else(|error| {
        output::warning(&format!(
            "ignoring the invalid configuration in the current folder: {error}"
        ));
        Config::default()
    })
}
