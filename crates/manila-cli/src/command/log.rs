//! `log` and `replay`: the journal of a gateway that runs, or of one that does not.

mod show;

use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use manila::connection::Client;
use manila::hub::Hub;
use manila::{Authority, CallError, CallRequest, Change, Pipeline};
use manila_gateway::config::Config;
use manila_gateway::journal::{self, Archive};
use manila_gateway::{DataFolder, admin, builtin};
use serde_json::{Value, json};

use super::backend::Backend;
use super::signal::StopRequests;
use crate::arguments::{
    ExportOptions, LogCommand, LogFilter, LogOptions, ReplayOptions, Running, VerifyOptions,
};
use crate::failure::Failure;
use crate::output;

/// How long what was begun may take to end.
const PATIENCE: Duration = Duration::from_secs(3);

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
    let mut input = asked(&options.filter);
    input["limit"] = options.limit.into();
    let plain = output::is_plain(options.format.json);
    let answer = Books::open(&options.running).await?.ask("gateway.journal", input).await?;
    let calls = answer["calls"].as_array().map_or(&[][..], Vec::as_slice);
    match plain {
        true => Ok(calls.iter().try_for_each(output::print_plain)?),
        false => Ok(show::table(calls)?),
    }
}

async fn follow(options: &LogOptions) -> Result<(), Failure> {
    let Books::Gateway(backend) = Books::open(&options.running).await? else {
        let message = "only a gateway that runs can be followed; is `manila serve` running?";
        return Err(Failure::Unreachable(message.to_owned()));
    };
    let mut input = asked(&options.filter);
    input.as_object_mut().expect("an object is what was asked").remove("since");
    let plain = output::is_plain(options.format.json);
    let mut requests = StopRequests::new()?;
    let mut calls = backend.client.subscribe(CallRequest::new("gateway.logs", input));
    let following = async {
        while let Some(call) = calls.next().await {
            let call = match call {
                Ok(outcome) => outcome.envelope.data.into_value().map_err(anyhow::Error::from)?,
                Err(error) => return Err(backend.failure(error, "gateway.logs", plain).await),
            };
            match plain {
                true => output::print_plain(&call)?,
                false => show::line(&call)?,
            }
        }
        Ok(())
    };
    let result = tokio::select! {
        result = following => result,
        () = requests.next() => Ok(()),
    };
    drop(calls);
    backend.close().await;
    result
}

async fn export(options: &ExportOptions) -> Result<(), Failure> {
    let books = Books::open(&options.running).await?;
    let result = export_all(&books, &options.filter).await;
    books.close().await;
    result
}

/// Numbers count in one journal, so each is read to its end before the next.
async fn export_all(books: &Books, filter: &LogFilter) -> Result<(), Failure> {
    for gateway_id in books.gateway_ids()? {
        let mut input = asked(filter);
        if let Some(gateway_id) = gateway_id {
            input["gatewayId"] = gateway_id.into();
        }
        export_one(books, input).await?;
    }
    Ok(())
}

/// Page after page, from the newest call to the oldest.
async fn export_one(books: &Books, mut input: Value) -> Result<(), Failure> {
    input["limit"] = PAGE.into();
    loop {
        let mut answer = books.ask_again("gateway.journal", input.clone()).await?;
        let calls = answer["calls"].as_array_mut().map(std::mem::take).unwrap_or_default();
        for call in &calls {
            output::print_plain(call)?;
        }
        // They are sorted by time, which may go back where a clock is set.
        let first = calls.iter().filter_map(|call| call["seq"].as_u64()).min();
        match first.filter(|_| calls.len() == PAGE) {
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
    let answer = Books::open(&options.running).await?.ask("gateway.verify", input).await?;
    match output::is_plain(options.format.json) {
        true => output::print_plain(&answer)?,
        false => show::verdicts(&answer)?,
    }
    let is_ok = answer["ok"] == true;
    if !is_ok {
        show::problems(&answer);
        return Err(Failure::Reported);
    }
    Ok(())
}

fn read_head(file: &Path) -> Result<Value, Failure> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::Usage(format!("cannot read the head in {}: {error}", file.display()))
    };
    let text = std::fs::read(file).map_err(|error| unreadable(&error))?;
    serde_json::from_slice(&text).map_err(|error| unreadable(&error))
}

pub(crate) async fn replay(options: &ReplayOptions) -> Result<(), Failure> {
    let input = json!({"id": options.id, "run": options.run});
    let answer = Books::open(&options.running).await?.ask("gateway.replay", input).await?;
    match output::is_plain(options.format.json) {
        true => output::print_plain(&answer)?,
        false => show::replay(&answer)?,
    }
    match answer["same"] == false || answer.get("problems").is_some() {
        true => Err(Failure::Reported),
        false => Ok(()),
    }
}

fn asked(filter: &LogFilter) -> Value {
    let mut input = json!({});
    for (name, value) in [("op", &filter.op), ("since", &filter.since), ("who", &filter.who)] {
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
enum Books {
    Gateway(Backend),
    Files(Pipeline, Client, Archive),
}

impl Books {
    /// An address that was typed is meant; where none was, and nobody is there, the files will do.
    async fn open(running: &Running) -> Result<Self, Failure> {
        match Backend::operator(running).await {
            Ok(backend) => Ok(Self::Gateway(backend)),
            Err(Failure::Unreachable(_)) if running.may_be_away() => Self::files(running),
            Err(failure) => Err(failure),
        }
    }

    fn files(running: &Running) -> Result<Self, Failure> {
        let data = DataFolder::open(running.data.as_deref()).map_err(anyhow::Error::from)?;
        let config =
            Config::here().map(|file| Config::load(&file)).transpose()?.unwrap_or_default();
        let archive = Archive::new(data.path(), &config.journal);
        let registry = builtin::registry();
        let all = journal::operations(&archive, &registry).into_iter().chain(Hub::contract());
        registry.apply(all.map(Change::Replace)).expect("replacing cannot clash");
        let pipeline = Pipeline::new(registry);
        // Whoever can read the files needs no token to.
        let caller = Authority::outside(Some(admin::operator().into()));
        let client = Client::in_process(pipeline.clone(), caller);
        Ok(Self::Files(pipeline, client, archive))
    }

    /// Whose journals are read: a gateway that runs answers for its own, which is `None`.
    fn gateway_ids(&self) -> Result<Vec<Option<String>>, Failure> {
        match self {
            Self::Gateway(_) => Ok(vec![None]),
            Self::Files(_, _, archive) => {
                let found = archive.gateway_ids().map_err(anyhow::Error::from)?;
                Ok(found.into_iter().map(Some).collect())
            }
        }
    }

    async fn ask(self, operation: &str, input: Value) -> Result<Value, Failure> {
        let answer = self.ask_again(operation, input).await;
        self.close().await;
        answer
    }

    async fn ask_again(&self, operation: &str, input: Value) -> Result<Value, Failure> {
        match self {
            Self::Gateway(backend) => match backend.ask(operation, input).await {
                Ok(answer) => Ok(answer),
                Err(error) => Err(backend.failure(error, operation, false).await),
            },
            Self::Files(_, client, _) => match client.execute(operation, input).await {
                Ok(envelope) => Ok(envelope.data),
                Err(error) => Err(failed(error)),
            },
        }
    }

    async fn close(self) {
        match self {
            Self::Gateway(backend) => backend.close().await,
            Self::Files(pipeline, ..) => drop(pipeline.drain(PATIENCE).await),
        }
    }
}

fn failed(error: CallError) -> Failure {
    Failure::Call { error, hint: None, json: false }
}
