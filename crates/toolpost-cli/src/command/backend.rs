//! Where a command finds operations: in this process or in a gateway, asked in the same way.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolpost::connection::{Client, Connection, ConnectionSettings, Serve};
use toolpost::hub::Hub;
use toolpost::link::{CloseReason, Connector, WsConnector};
use toolpost::protocol::Secret;
use toolpost::{Authority, CallError, Change, ErrorCode, Identity, Pipeline};
use toolpost_gateway::{DataError, DataFolder, auth, builtin};

use super::started::{Started, Wanted};
use crate::arguments::{Format, Hidden, Remote, Running};
use crate::failure::Failure;
use crate::output;

/// How long a canceled handler, or a gateway that is told goodbye, has before the command ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// The token of those who do not want it in their list of processes.
pub(super) const TOKEN_VARIABLE: &str = "TOOLPOST_TOKEN";

pub(super) struct Backend {
    pub(super) client: Client,
    behind: Behind,
    remedies: Remedies,
}

/// Whether a gateway was shown a token.
#[derive(Debug, Clone, Copy, Default)]
enum HasToken {
    Yes,
    #[default]
    No,
}

impl HasToken {
    /// What it means that the gateway refuses. What the protocol says about its frames helps nobody who
    /// typed a command.
    fn refused(self, words: &str) -> String {
        match self {
            Self::Yes => format!("the gateway does not take the token: {words}"),
            Self::No => "the gateway asks for a token, and none was given".to_owned(),
        }
    }
}

/// What helps whoever is not let in.
#[derive(Default)]
struct Remedies {
    /// Whether a token was shown.
    shown: HasToken,
    /// Nobody knows the token, or there is none.
    unknown: String,
    /// Its owner may not.
    denied: Option<String>,
}

enum Behind {
    /// With the servers of the configuration that it calls.
    Pipeline(Pipeline, Started),
    Connection(JoinHandle<CloseReason>),
}

impl Backend {
    pub(super) async fn open(remote: &Remote, wanted: Wanted<'_>) -> Result<Self, Failure> {
        match remote.gateway().map_err(Failure::Usage)? {
            Some(url) => {
                let shown = Shown::of(remote.token.as_ref());
                let (has_token, unknown) = (shown.has_token(), NEEDED.to_owned());
                let remedies = Remedies { shown: has_token, unknown, denied: None };
                Self::connect(&url, shown.token(), remedies).await
            }
            None => Self::in_process(remote, wanted).await,
        }
    }

    async fn in_process(remote: &Remote, wanted: Wanted<'_>) -> Result<Self, Failure> {
        let registry = builtin::registry();
        let contract = Hub::contract().into_iter().map(Change::Replace);
        registry.apply(contract).expect("replacing cannot clash");
        let started = Started::start(&registry, remote.config.as_deref(), wanted).await?;
        let pipeline = Pipeline::builder(registry).approval(started.gate()).build();
        // The person at the keyboard, who may do what the machine may.
        let caller = Authority::outside(Some(Identity::new(auth::LOCAL).into()));
        let client = Client::in_process(pipeline.clone(), caller);
        let remedies = Remedies::default();
        Ok(Self { client, behind: Behind::Pipeline(pipeline, started), remedies })
    }

    /// Asks a running gateway about itself, as its operator unless another token is given.
    pub(super) async fn operator(running: &Running) -> Result<Self, Failure> {
        let shown = Shown::to(running)?;
        Self::connect(&running.url(), shown.token(), shown.remedies()).await
    }

    async fn connect(
        url: &str,
        token: Option<Secret>,
        remedies: Remedies,
    ) -> Result<Self, Failure> {
        let connector =
            WsConnector::new(url, token).map_err(|error| Failure::Usage(error.to_string()))?;
        let link = connector.connect().await.map_err(|error| {
            Failure::Unreachable(format!("{error}; is `toolpost serve` running there?"))
        })?;
        let mut settings = ConnectionSettings::default();
        // Whoever says nothing waits as long as the gateway lets a call take, a person's word included.
        settings.call_timeout = None;
        let (client, connection) = Connection::new(link, Serve::Nothing, settings);
        let behind = Behind::Connection(tokio::spawn(connection.run()));
        Ok(Self { client, behind, remedies })
    }

    /// Calls one of the hub's own operations.
    pub(super) async fn ask(&self, operation: &str, input: Value) -> Result<Value, CallError> {
        Ok(self.client.execute(operation, input).await?.data)
    }

    /// The list of operations, all pages of it.
    pub(super) async fn list(&self, namespace: Option<&str>) -> Result<Vec<Value>, CallError> {
        let mut all = Vec::new();
        let mut cursor = Value::Null;
        loop {
            let mut input = json!({});
            for (name, value) in [("namespace", json!(namespace)), ("cursor", cursor)] {
                if !value.is_null() {
                    input[name] = value;
                }
            }
            let mut page = self.ask("hub.list", input).await?;
            all.extend(take_operations(&mut page));
            cursor = page.get_mut("nextCursor").map(Value::take).unwrap_or_default();
            if cursor.is_null() {
                return Ok(all);
            }
        }
    }

    /// The operations that words fit best.
    pub(super) async fn search(&self, words: &str, limit: u16) -> Result<Vec<Value>, CallError> {
        let mut found = self.ask("hub.search", json!({"query": words, "limit": limit})).await?;
        Ok(take_operations(&mut found))
    }

    /// Ends what was opened, and then says what to print about a failure.
    pub(super) async fn fail(self, error: CallError, operation: &str, json: bool) -> Failure {
        let failure = self.failure(error, operation, json).await;
        self.close().await;
        failure
    }

    /// What to print about a failure; a gateway that is gone is another one than a call that failed.
    pub(super) async fn failure(&self, error: CallError, operation: &str, json: bool) -> Failure {
        if self.client.is_closed() && *error.code() == ErrorCode::Unavailable {
            return Failure::Unreachable(error.to_string());
        }
        let is_unknown = *error.code() == ErrorCode::OperationNotFound
            && error.message().ends_with(&format!(": {operation}"));
        let refused = self.client.close_reason();
        let refused = refused.filter(|reason| reason.code == CloseReason::UNAUTHENTICATED);
        if let Some(reason) = refused {
            let error = CallError::access_denied(self.remedies.shown.refused(&reason.words));
            return Failure::Call { error, hint: Some(self.remedies.unknown.clone()), json };
        }
        let hint = match () {
            () if *error.code() == ErrorCode::AccessDenied => self.remedies.denied.clone(),
            () if is_unknown => Some(self.suggest(operation).await),
            () => None,
        };
        Failure::Call { error, hint, json }
    }

    async fn suggest(&self, operation: &str) -> String {
        if let Behind::Pipeline(_, started) = &self.behind
            && let Some(hint) = started.hint(operation)
        {
            return hint;
        }
        let listed = self.list(None).await.unwrap_or_default();
        let ids: Vec<&str> = listed.iter().filter_map(|found| found["id"].as_str()).collect();
        let (namespace, name) = operation.split_once('.').unwrap_or((operation, ""));
        if name.is_empty()
            && let Some(words) = beginning(namespace, &ids)
        {
            return words;
        }
        if let Some(nearest) = toolpost::nearest(operation, ids.iter().copied()) {
            return format!("did you mean `{nearest}`?");
        }
        self.nearest_source(namespace, &ids)
            .unwrap_or_else(|| "`toolpost list` shows every operation".to_owned())
    }

    /// What to say about a namespace in which there is nothing.
    pub(super) async fn suggest_namespace(&self, namespace: &str) -> Option<String> {
        let listed = self.list(None).await.unwrap_or_default();
        let ids: Vec<&str> = listed.iter().filter_map(|found| found["id"].as_str()).collect();
        let known = ids.iter().filter_map(|id| Some(id.split_once('.')?.0));
        if known.chain(self.configured().iter().map(String::as_str)).any(|name| name == namespace) {
            return None;
        }
        let unknown =
            || format!("there is no source `{namespace}`; `toolpost list` shows what there is");
        Some(self.nearest_source(namespace, &ids).unwrap_or_else(unknown))
    }

    /// The sources of the configuration, started or not.
    fn configured(&self) -> &[String] {
        match &self.behind {
            Behind::Pipeline(_, started) => started.names(),
            Behind::Connection(_) => &[],
        }
    }

    /// The source that was probably meant, also one that was not started for this command.
    fn nearest_source(&self, namespace: &str, ids: &[&str]) -> Option<String> {
        let of_ids = ids.iter().filter_map(|id| Some(id.split_once('.')?.0));
        let configured = self.configured().iter().map(String::as_str);
        let known: Vec<&str> = of_ids.chain(configured).collect();
        if known.contains(&namespace) {
            return None;
        }
        let nearest = toolpost::nearest(namespace, known.into_iter())?;
        Some(format!("there is no source `{namespace}`; did you mean `{nearest}`?"))
    }

    /// Lets what was canceled notice it, here or at the far end, and ends the servers.
    pub(super) async fn close(self) {
        match self.behind {
            Behind::Pipeline(pipeline, started) => {
                pipeline.drain(PATIENCE).await;
                started.close().await;
            }
            Behind::Connection(running) => {
                self.client.close(CloseReason::done());
                let _ = tokio::time::timeout(PATIENCE, running).await;
            }
        }
    }
}

/// The operations of a source whose name was given for one of them.
fn beginning(namespace: &str, ids: &[&str]) -> Option<String> {
    const SHOWN: usize = 8;
    let is_of = |id: &&&str| id.split_once('.').is_some_and(|(source, _)| source == namespace);
    let found: Vec<&str> = ids.iter().filter(is_of).copied().collect();
    let more = if found.len() > SHOWN { ", …" } else { "" };
    let shown = found[..found.len().min(SHOWN)].join(", ");
    let words = format!("`{namespace}` is a source; its operations are: {shown}{more}");
    (!found.is_empty()).then_some(words)
}

/// The summaries in an answer of the hub; a gateway of another make may send anything.
fn take_operations(answer: &mut Value) -> Vec<Value> {
    match answer.get_mut("operations").map(Value::take) {
        Some(Value::Array(operations)) => operations,
        _ => Vec::new(),
    }
}

/// What a running gateway answers to its operator.
pub(super) async fn ask_operator(
    running: &Running,
    format: Format,
    operation: &str,
    input: Value,
) -> Result<Value, Failure> {
    let backend = Backend::operator(running).await?;
    match backend.ask(operation, input).await {
        Ok(answer) => {
            backend.close().await;
            Ok(answer)
        }
        Err(error) => Err(backend.fail(error, operation, output::is_plain(format.json)).await),
    }
}

/// What a running gateway is shown: what was given, else the operator's token.
pub(super) fn token_of(running: &Running) -> Result<Option<Secret>, Failure> {
    Ok(Shown::to(running)?.token())
}

/// The token that was given to this command, if one was.
pub(super) fn given_token(running: &Running) -> Option<Secret> {
    Shown::of(running.token.as_ref()).token()
}

/// What a gateway is shown, and where that came from.
enum Shown {
    Nothing,
    Typed(Secret),
    Variable(Secret),
    /// The operator's, with the file that it is kept in.
    Operator(Secret, PathBuf),
}

const NEEDED: &str = "give one with --token or TOOLPOST_TOKEN; `toolpost token new` makes one";
const OPERATORS: &str =
    "the operator's token is in the gateway's data folder, which --data names; or use --token";

impl Shown {
    /// What the caller wants to be known by. An empty variable is how shells and services say none.
    fn of(typed: Option<&Hidden>) -> Self {
        let set = || std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.trim().is_empty());
        match typed {
            Some(token) => Self::Typed(Secret::new(token.0.clone())),
            None => set().map_or(Self::Nothing, |token| Self::Variable(Secret::new(token))),
        }
    }

    /// What a gateway is shown by its operator, unless another token is given.
    fn to(running: &Running) -> Result<Self, Failure> {
        match Self::of(running.token.as_ref()) {
            // The token of the gateway on this machine is nobody else's to see.
            Self::Nothing if running.data.is_some() || is_loopback(&running.url()) => {
                operator_token(running.data.as_deref())
            }
            shown => Ok(shown),
        }
    }

    fn token(&self) -> Option<Secret> {
        match self {
            Self::Nothing => None,
            Self::Typed(token) | Self::Variable(token) | Self::Operator(token, _) => {
                Some(token.clone())
            }
        }
    }

    /// What helps the operator whom the gateway does not take for one.
    fn remedies(&self) -> Remedies {
        let unset = format!(
            "the token in {TOKEN_VARIABLE} was shown; where that is not set, the operator's is read \
             from the data folder, which --data names"
        );
        let (unknown, denied) = match self {
            Self::Nothing => (OPERATORS.to_owned(), Some(OPERATORS.to_owned())),
            Self::Typed(_) => (NEEDED.to_owned(), None),
            Self::Variable(_) => (unset.clone(), Some(unset)),
            Self::Operator(_, file) => {
                let file = file.display();
                (format!("the token in {file} is of another gateway; {OPERATORS}"), None)
            }
        };
        Remedies { shown: self.has_token(), unknown, denied }
    }

    fn has_token(&self) -> HasToken {
        if matches!(self, Self::Nothing) { HasToken::No } else { HasToken::Yes }
    }
}

fn is_loopback(url: &str) -> bool {
    WsConnector::new(url, None).is_ok_and(|connector| connector.is_loopback())
}

/// The token that a gateway on this machine has left for its operator.
fn operator_token(data: Option<&Path>) -> Result<Shown, Failure> {
    let wrong = |error: DataError| Failure::Usage(error.to_string());
    let folder = DataFolder::look(data).map_err(wrong)?;
    let token = folder.read_operator_token().map_err(wrong)?;
    Ok(token.map_or(Shown::Nothing, |token| {
        Shown::Operator(Secret::new(token.reveal()), folder.operator_token_path())
    }))
}
