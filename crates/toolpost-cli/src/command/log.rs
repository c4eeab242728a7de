//! `log` and `replay`: the journal of a gateway that runs, or of one that does not.

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
use toolpost_gateway::journal::{self, Archive};
use toolpost_gateway::{DataFolder, admin, builtin};

use super::backend::Backend;
use super::call::{until_interrupted, watched};
use super::signal::StopRequests;
use crate::arguments::{
    ExportOptions, LogCommand, LogFilter, LogOptions, ReplayOptions, Running, VerifyOptions,
};
use crate::failure::Failure;
use crate::output;

/// How long what was begun may take to end.
const PATIENCE: Duration = Duration::from_secs(3);

/// How many calls are listed where nobody says.
const LISTED: u16 = 50;

/// How many calls an export asks for at once.
const PAGE: usize = 500;

pub(crate) async fn log(options: &LogOptions) -> Result<(), Failure> {
    match &options.command {
        Some(LogCommand::Verify(options)) => verify(options).await,
        Some(LogCommand::Export(options)) => export(options).await,
        None if options.follow => follow(options).await,
        None => list(options).await,
    }
}

async fn list(options: &LogOptions) -> Result<(), Failure> {
    let plain = output::is_plain(options.format.json);
    let books = Books::open_for(plain, &options.running).await?;
    let answer = list_all(&books, wanted(options)).await;
    books.close().await;
    print_listed(&answer?, plain, Shown::by(&options.filter))
}

/// The newest calls of every journal, or messages. A gateway answers for its own, and is asked for the others of its
/// folder after that.
async fn list_all(books: &Books, input: Value) -> Result<Vec<Value>, Failure> {
    let answer = books.ask_again("gateway.journal", input.clone()).await?;
    if books.is_off(&answer) {
        output::warning("the journal of this gateway is off; what is shown was written before");
    }
    let asked = answer["gatewayId"].as_str().filter(|_| input.get("gatewayId").is_none());
    let others = asked.map(|asked| gateway_ids(&answer).filter(move |id| *id != asked));
    let mut calls = listed(&answer).to_vec();
    for other in others.into_iter().flatten() {
        let mut input = input.clone();
        input["gatewayId"] = other.into();
        calls.extend_from_slice(listed(&books.ask_again("gateway.journal", input).await?));
    }
    calls.sort_by_key(|call| Reverse((call["time"].as_i64(), call["seq"].as_u64())));
    let most = input["limit"].as_u64().and_then(|limit| usize::try_from(limit).ok());
    calls.truncate(most.unwrap_or(usize::MAX));
    calls.reverse();
    Ok(calls)
}

/// The journals of the data folder.
fn gateway_ids(answer: &Value) -> impl Iterator<Item = &str> {
    answer["gatewayIds"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// What is shown of a journal.
#[derive(Clone, Copy)]
enum Shown {
    Calls,
    Messages,
}

impl Shown {
    fn by(filter: &LogFilter) -> Self {
        if filter.room.is_some() { Self::Messages } else { Self::Calls }
    }
}

/// What is asked for where calls are listed.
fn wanted(options: &LogOptions) -> Value {
    let mut input = asked(&options.filter);
    input["limit"] = options.limit.unwrap_or(LISTED).into();
    if let Some(gateway_id) = &options.gateway {
        input["gatewayId"] = gateway_id.as_str().into();
    }
    input
}

/// The oldest first, for people and for programs: what comes next is further down.
fn print_listed(listed: &[Value], plain: bool, shown: Shown) -> Result<(), Failure> {
    match shown {
        _ if plain => Ok(listed.iter().try_for_each(output::print_plain)?),
        Shown::Calls => Ok(show::table(listed)?),
        Shown::Messages => Ok(show::messages(listed)?),
    }
}

/// The calls of an answer, or the messages of one that was asked for them.
fn listed(answer: &Value) -> &[Value] {
    let messages = answer["messages"].as_array();
    messages.or(answer["calls"].as_array()).map_or(&[][..], Vec::as_slice)
}

async fn follow(options: &LogOptions) -> Result<(), Failure> {
    let plain = output::is_plain(options.format.json);
    let books = Books::open_for(plain, &options.running).await?;
    let Behind::Gateway(backend) = &books.behind else {
        let message = "only a gateway that runs can be followed; is `toolpost serve` running?";
        return Err(Failure::Unreachable(message.to_owned()));
    };
    let mut requests = StopRequests::new()?;
    let result = tokio::select! {
        result = print_followed(backend, options, plain) => result,
        () = requests.next() => Ok(()),
    };
    books.close().await;
    result
}

/// Prints calls as they end, those that are there already first where they are asked for.
async fn print_followed(
    backend: &Backend,
    options: &LogOptions,
    plain: bool,
) -> Result<(), Failure> {
    let mut input = asked(&options.filter);
    input.as_object_mut().expect("an object is what was asked").remove("since");
    let mut calls = backend.client.subscribe(CallRequest::new("gateway.logs", input));
    let (mut shown, mut meanwhile) = (HashSet::new(), Vec::new());
    if options.filter.since.is_some() || options.limit.is_some() {
        let mut listing = std::pin::pin!(backend.ask("gateway.journal", wanted(options)));
        // The stream is asked for first, so that no call ends between the two.
        let answer = loop {
            tokio::select! {
                biased;
                Some(call) = calls.next() => meanwhile.push(call),
                answer = &mut listing => break answer,
            }
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Err(backend.failure(error, "gateway.journal", plain).await),
        };
        let ended = listed(&answer).iter().filter(|call| call.get("endSeq").is_some());
        shown.extend(ended.map(|call| call["seq"].as_u64()));
        let calls: Vec<Value> = listed(&answer).iter().rev().cloned().collect();
        print_listed(&calls, plain, Shown::Calls)?;
    }
    let mut calls = futures::stream::iter(meanwhile).chain(calls);
    while let Some(call) = calls.next().await {
        let call = match call {
            Ok(outcome) => outcome.envelope.data.into_value().map_err(anyhow::Error::from)?,
            Err(error) => return Err(backend.failure(error, "gateway.logs", plain).await),
        };
        if shown.remove(&call["seq"].as_u64()) {
            continue;
        }
        match plain {
            true => output::print_plain(&call)?,
            false => show::line(&call)?,
        }
    }
    Ok(())
}

async fn export(options: &ExportOptions) -> Result<(), Failure> {
    let books = Books::open(&options.running).await?;
    let result = export_all(&books, options).await;
    books.close().await;
    result
}

/// Numbers count in one journal, so each is read to its end before the next.
async fn export_all(books: &Books, options: &ExportOptions) -> Result<(), Failure> {
    for gateway_id in exported(books, options).await? {
        for mut input in kinds_exported(&options.filter) {
            input["gatewayId"] = gateway_id.as_str().into();
            export_one(books, input).await?;
        }
    }
    Ok(())
}

/// Calls first, as ever, and then what was said in all rooms, unless one of the two is asked for.
fn kinds_exported(filter: &LogFilter) -> Vec<Value> {
    let calls = asked(filter);
    if filter.room.is_some() || filter.op.is_some() {
        return vec![calls];
    }
    let mut messages = calls.clone();
    messages["room"] = "*".into();
    vec![calls, messages]
}

/// The journals that are exported.
async fn exported(books: &Books, options: &ExportOptions) -> Result<Vec<String>, Failure> {
    if let Some(gateway_id) = &options.gateway {
        return Ok(vec![gateway_id.clone()]);
    }
    let answer = books.ask_again("gateway.journal", json!({"limit": 0})).await?;
    Ok(gateway_ids(&answer).map(String::from).collect())
}

/// Page after page, from the newest to the oldest.
async fn export_one(books: &Books, mut input: Value) -> Result<(), Failure> {
    input["limit"] = PAGE.into();
    let name = if input.get("room").is_some() { "messages" } else { "calls" };
    loop {
        let answer = books.ask_again("gateway.journal", input.clone()).await?;
        let page = answer[name].as_array().map_or(&[][..], Vec::as_slice);
        page.iter().try_for_each(output::print_plain)?;
        // They are sorted by time, which may go back where a clock is set.
        let first = page.iter().filter_map(|one| one["seq"].as_u64()).min();
        // A page of messages may be short because they are long.
        match first.filter(|_| name == "messages" || page.len() == PAGE) {
            Some(first) => input["before"] = first.into(),
            None => return Ok(()),
        }
    }
}

async fn verify(options: &VerifyOptions) -> Result<(), Failure> {
    let mut input = json!({});
    if let Some(file) = &options.head {
        input["head"] = read_head(file)?;
    }
    let plain = output::is_plain(options.format.json);
    let books = Books::open_for(plain, &options.running).await?;
    let place = books.place.clone();
    let answer = books.ask("gateway.verify", input).await?;
    match plain {
        true => output::print_plain(&answer)?,
        false => show::verdicts(&answer)?,
    }
    if answer["ok"] == true {
        return Ok(());
    }
    if answer["journals"].as_array().is_some_and(Vec::is_empty) {
        output::error(&format!("there is no journal in {place}"));
    }
    show::problems(&answer);
    Err(Failure::Reported)
}

fn read_head(file: &Path) -> Result<Value, Failure> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::Usage(format!("cannot read the head in {}: {error}", file.display()))
    };
    let text = std::fs::read(file).map_err(|error| unreadable(&error))?;
    serde_json::from_slice(&text).map_err(|error| unreadable(&error))
}

pub(crate) async fn replay(options: &ReplayOptions) -> Result<(), Failure> {
    let plain = output::is_plain(options.format.json);
    let mut requests = StopRequests::new()?;
    let opening = Books::open_for(plain, &options.running);
    let books = until_interrupted(&mut requests, opening).await?;
    let input = json!({"id": options.id, "run": options.run});
    let mut request = CallRequest::new("gateway.replay", input);
    if let Some(timeout) = options.timeout {
        request = request.timeout(timeout);
    }
    let what = format!("calling {} once more", options.id);
    let what = options.run.then_some(what);
    let answer = match watched(books.client(), request, &mut requests, what).await {
        Ok(outcome) => Ok(outcome.envelope.data.into_value().map_err(anyhow::Error::from)?),
        Err(error) => Err(books.failed(error, "gateway.replay").await),
    };
    books.close().await;
    print_replayed(&answer?, plain)
}

fn print_replayed(answer: &Value, plain: bool) -> Result<(), Failure> {
    match plain {
        true => output::print_plain(answer)?,
        false => show::replay(answer)?,
    }
    match answer["same"] == false || answer.get("problems").is_some() {
        true => Err(Failure::Reported),
        false => Ok(()),
    }
}

fn asked(filter: &LogFilter) -> Value {
    let mut input = json!({});
    let LogFilter { op, since, who, room, .. } = filter;
    for (name, value) in [("op", op), ("since", since), ("who", who), ("room", room)] {
        if let Some(value) = value {
            input[name] = value.as_str().into();
        }
    }
    if filter.errors {
        input["errors"] = true.into();
    }
    input
}

/// The same operations, in a gateway that runs or in this process over the files of one that does not.
struct Books {
    behind: Behind,
    /// Whether programs read what is printed.
    plain: bool,
    /// Where the journals are, in words.
    place: String,
}

enum Behind {
    Gateway(Box<Backend>),
    Files(Pipeline, Client),
}

impl Books {
    /// For programs.
    async fn open(running: &Running) -> Result<Self, Failure> {
        Self::open_for(true, running).await
    }

    /// An address that was typed is meant; where none was, and nobody is there, the files will do.
    async fn open_for(plain: bool, running: &Running) -> Result<Self, Failure> {
        let (behind, place) = match Backend::operator(running).await {
            Ok(backend) => {
                let behind = Behind::Gateway(Box::new(backend));
                (behind, format!("the data folder of {}", running.url()))
            }
            Err(Failure::Unreachable(_)) if running.may_be_away() => {
                let data = DataFolder::look(running.data.as_deref())
                    .map_err(|error| Failure::Usage(error.to_string()))?;
                (Behind::files(data.path()), data.path().display().to_string())
            }
            Err(failure) => return Err(failure),
        };
        Ok(Self { behind, plain, place })
    }

    /// Whether a gateway runs and writes nothing down.
    fn is_off(&self, answer: &Value) -> bool {
        matches!(self.behind, Behind::Gateway(_)) && answer.get("gatewayId").is_none()
    }

    fn client(&self) -> &Client {
        match &self.behind {
            Behind::Gateway(backend) => &backend.client,
            Behind::Files(_, client) => client,
        }
    }

    async fn ask(self, operation: &str, input: Value) -> Result<Value, Failure> {
        let answer = self.ask_again(operation, input).await;
        self.close().await;
        answer
    }

    async fn ask_again(&self, operation: &str, input: Value) -> Result<Value, Failure> {
        match self.client().execute(operation, input).await {
            Ok(envelope) => Ok(envelope.data),
            Err(error) => Err(self.failed(error, operation).await),
        }
    }

    async fn failed(&self, error: CallError, operation: &str) -> Failure {
        match &self.behind {
            Behind::Gateway(backend) => backend.failure(error, operation, self.plain).await,
            Behind::Files(..) => Failure::Call { error, hint: None, json: self.plain },
        }
    }

    async fn close(self) {
        match self.behind {
            Behind::Gateway(backend) => backend.close().await,
            Behind::Files(pipeline, ..) => drop(pipeline.drain(PATIENCE).await),
        }
    }
}

impl Behind {
    /// Where the records are is told by the folder, and not by the configuration of whoever looks.
    fn files(data: &Path) -> Self {
        let config = configured();
        let archive = Archive::new(data, &journal::Settings::default());
        let registry = builtin::registry_for(&config);
        let all = journal::operations(&archive, &registry).into_iter().chain(Hub::contract());
        registry.apply(all.map(Change::Replace)).expect("replacing cannot clash");
        let pipeline = Pipeline::new(registry);
        // Whoever can read the files needs no token to.
        let caller = Authority::outside(Some(admin::operator().into()));
        let client = Client::in_process(pipeline.clone(), caller);
        Self::Files(pipeline, client)
    }
}

/// What is configured here, which says what a replay finds and nothing about the journal.
fn configured() -> Config {
    let loaded = Config::here().map(|file| Config::load(&file)).transpose();
    loaded.map(Option::unwrap_or_default).unwrap_or_else(|error| {
        output::warning(&format!("the configuration here cannot be used: {error}"));
        Config::default()
    })
}
