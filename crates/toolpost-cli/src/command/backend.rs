//! Where a command finds operations: in this process or in a running gateway, behind one interface.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolpost::connection::{Client, Connection, ConnectionSettings, IncomingRequests};
use toolpost::hub::Hub;
use toolpost::protocol::Secret;
use toolpost::transport::{CloseReason, Connector, WsConnector};
use toolpost::{Authority, CallError, Change, ErrorCode, Identity, Pipeline};
use toolpost_gateway::{DataDir, DataError, auth, builtin};

use super::local_sources::{LocalSources, OperationSelection};
use crate::arguments::{BackendOptions, FormatOptions, GatewayTarget, SecretArg};
use crate::error::CommandError;
use crate::output;

/// Maximum time to wait for canceled handlers or for the connection to close before the command
/// exits.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Environment variable that holds the access token, as an alternative to `--token`, which is
/// visible in the process list.
pub(super) const TOKEN_VARIABLE: &str = "TOOLPOST_TOKEN";

pub(super) struct Backend {
    pub(super) client: Client,
    kind: BackendKind,
    hints: AuthHints,
}

/// Whether a token was sent to the gateway.
#[derive(Debug, Clone, Copy, Default)]
enum TokenStatus {
    Sent,
    #[default]
    Missing,
}

impl TokenStatus {
    /// Returns the message for a rejected connection. Without a token, the protocol-level reason is
    /// replaced, because it does not help a user of the command line.
    fn rejection_message(self, reason: &str) -> String {
        match self {
            Self::Sent => format!("the gateway rejected the token: {reason}"),
            Self::Missing => "the gateway requires a token, and none was given".to_owned(),
        }
    }
}

/// Hints to print when the gateway rejects the caller.
#[derive(Default)]
struct AuthHints {
    /// Whether a token was sent.
    token: TokenStatus,
    /// The token is missing or invalid.
    unauthenticated: String,
    /// Hint for an identity without access.
    forbidden: Option<String>,
}

enum BackendKind {
    /// A local pipeline, and the configured sources that it calls.
    Pipeline(Pipeline, LocalSources),
    Connection(JoinHandle<CloseReason>),
}

impl Backend {
    pub(super) async fn open(
        options: &BackendOptions,
        scope: OperationSelection<'_>,
    ) -> Result<Self, CommandError> {
        match options.gateway_url().map_err(CommandError::Usage)? {
            Some(url) => {
                let credential = GatewayCredential::from_flag_or_env(options.token.as_ref());
                let (has_token, unknown) = (credential.status(), TOKEN_HINT.to_owned());
                let hints =
                    AuthHints { token: has_token, unauthenticated: unknown, forbidden: None };
                Self::connect(&url, credential.token(), hints).await
            }
            None => Self::in_process(options, scope).await,
        }
    }

    async fn in_process(
        options: &BackendOptions,
        scope: OperationSelection<'_>,
    ) -> Result<Self, CommandError> {
        let registry = builtin::registry();
        let builtin_changes = Hub::builtin_operations().into_iter().map(Change::Replace);
        registry.apply(builtin_changes).expect("replacing cannot clash");
        let started = LocalSources::start(&registry, options.config.as_deref(), scope).await?;
        let pipeline = Pipeline::builder(registry).approval(started.approval_gate()).build();
        // Local calls run as the `local` identity.
        let caller = Authority::untrusted(Some(Identity::new(auth::LOCAL).into()));
        let client = Client::in_process(pipeline.clone(), caller);
        let hints = AuthHints::default();
        Ok(Self { client, kind: BackendKind::Pipeline(pipeline, started), hints })
    }

    /// Connects to a running gateway, as its operator unless another token is given.
    pub(super) async fn connect_as_operator(target: &GatewayTarget) -> Result<Self, CommandError> {
        let credential = GatewayCredential::for_gateway(target)?;
        Self::connect(&target.url(), credential.token(), credential.hints()).await
    }

    async fn connect(
        url: &str,
        token: Option<Secret>,
        hints: AuthHints,
    ) -> Result<Self, CommandError> {
        let connector =
            WsConnector::new(url, token).map_err(|error| CommandError::Usage(error.to_string()))?;
        let channel = connector.connect().await.map_err(|error| {
            CommandError::Unreachable(format!("{error}; is `toolpost serve` running there?"))
        })?;
        let mut settings = ConnectionSettings::default();
        // Without `--timeout`, the gateway's own limits apply, including the time a call waits for
        // approval.
        settings.call_timeout = None;
        let (client, connection) = Connection::new(channel, IncomingRequests::Reject, settings);
        let kind = BackendKind::Connection(tokio::spawn(connection.run()));
        Ok(Self { client, kind, hints })
    }

    /// Calls one of the hub's built-in operations.
    pub(super) async fn call(&self, operation: &str, input: Value) -> Result<Value, CallError> {
        Ok(self.client.call_json(operation, input).await?.data)
    }

    /// Lists the operations, reading all pages.
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
            let mut page = self.call("hub.list", input).await?;
            all.extend(take_operations(&mut page));
            cursor = page.get_mut("nextCursor").map(Value::take).unwrap_or_default();
            if cursor.is_null() {
                return Ok(all);
            }
        }
    }

    /// Returns the operations that match the query best.
    pub(super) async fn search(&self, query: &str, limit: u16) -> Result<Vec<Value>, CallError> {
        let mut found = self.call("hub.search", json!({"query": query, "limit": limit})).await?;
        Ok(take_operations(&mut found))
    }

    /// Closes the backend and returns the error to print.
    pub(super) async fn close_with_failure(
        self,
        error: CallError,
        operation: &str,
        json: bool,
    ) -> CommandError {
        let failure = self.to_failure(error, operation, json).await;
        self.close().await;
        failure
    }

    /// Converts a call error into the error to print. A lost connection is reported as unreachable,
    /// not as a failed call.
    pub(super) async fn to_failure(
        &self,
        error: CallError,
        operation: &str,
        json: bool,
    ) -> CommandError {
        if self.client.is_closed() && *error.code() == ErrorCode::Unavailable {
            return CommandError::Unreachable(error.to_string());
        }
        let is_unknown = *error.code() == ErrorCode::OperationNotFound
            && error.message().ends_with(&format!(": {operation}"));
        let rejected = self.client.close_reason();
        let rejected = rejected.filter(|reason| reason.code == CloseReason::UNAUTHENTICATED);
        if let Some(reason) = rejected {
            let error =
                CallError::access_denied(self.hints.token.rejection_message(&reason.message));
            return CommandError::Call {
                error,
                hint: Some(self.hints.unauthenticated.clone()),
                json,
            };
        }
        let hint = match () {
            () if *error.code() == ErrorCode::AccessDenied => self.hints.forbidden.clone(),
            () if is_unknown => Some(self.suggest(operation).await),
            () => None,
        };
        CommandError::Call { error, hint, json }
    }

    async fn suggest(&self, operation: &str) -> String {
        if let BackendKind::Pipeline(_, started) = &self.kind
            && let Some(hint) = started.missing_source_hint(operation)
        {
            return hint;
        }
        let listed = self.list(None).await.unwrap_or_default();
        let ids: Vec<&str> = listed.iter().filter_map(|found| found["id"].as_str()).collect();
        let (namespace, name) = operation.split_once('.').unwrap_or((operation, ""));
        if name.is_empty()
            && let Some(suggestion) = describe_source(namespace, &ids)
        {
            return suggestion;
        }
        if let Some(nearest) = toolpost::suggest_name(operation, ids.iter().copied()) {
            return format!("did you mean `{nearest}`?");
        }
        self.suggest_source(namespace, &ids)
            .unwrap_or_else(|| "`toolpost list` shows every operation".to_owned())
    }

    /// Returns a hint for a namespace without operations.
    pub(super) async fn suggest_namespace(&self, namespace: &str) -> Option<String> {
        let listed = self.list(None).await.unwrap_or_default();
        let ids: Vec<&str> = listed.iter().filter_map(|found| found["id"].as_str()).collect();
        let known = ids.iter().filter_map(|id| Some(id.split_once('.')?.0));
        if known
            .chain(self.configured_sources().iter().map(String::as_str))
            .any(|name| name == namespace)
        {
            return None;
        }
        let unknown =
            || format!("there is no source `{namespace}`; `toolpost list` shows what there is");
        Some(self.suggest_source(namespace, &ids).unwrap_or_else(unknown))
    }

    /// Returns the configured sources, started or not.
    fn configured_sources(&self) -> &[String] {
        match &self.kind {
            BackendKind::Pipeline(_, started) => started.names(),
            BackendKind::Connection(_) => &[],
        }
    }

    /// Suggests a source with a similar name, including sources that were not started for this
    /// command.
    fn suggest_source(&self, namespace: &str, ids: &[&str]) -> Option<String> {
        let of_ids = ids.iter().filter_map(|id| Some(id.split_once('.')?.0));
        let configured = self.configured_sources().iter().map(String::as_str);
        let known: Vec<&str> = of_ids.chain(configured).collect();
        if known.contains(&namespace) {
            return None;
        }
        let nearest = toolpost::suggest_name(namespace, known.into_iter())?;
        Some(format!("there is no source `{namespace}`; did you mean `{nearest}`?"))
    }

    /// Closes the backend. Gives canceled calls time to finish, locally or in the gateway, and
    /// stops local servers.
    pub(super) async fn close(self) {
        match self.kind {
            BackendKind::Pipeline(pipeline, started) => {
                pipeline.drain(CLOSE_TIMEOUT).await;
                started.close().await;
            }
            BackendKind::Connection(running) => {
                self.client.close(CloseReason::normal());
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, running).await;
            }
        }
    }
}

/// Lists the operations of a source, for a source name given in place of an operation id.
fn describe_source(namespace: &str, ids: &[&str]) -> Option<String> {
    const SHOWN: usize = 8;
    let is_of = |id: &&&str| id.split_once('.').is_some_and(|(source, _)| source == namespace);
    let found: Vec<&str> = ids.iter().filter(is_of).copied().collect();
    let more = if found.len() > SHOWN { ", …" } else { "" };
    let listed = found[..found.len().min(SHOWN)].join(", ");
    let description = format!("`{namespace}` is a source; its operations are: {listed}{more}");
    (!found.is_empty()).then_some(description)
}

/// Takes the operation summaries from a hub response. A response of another shape, which other hub
/// implementations may send, has none.
fn take_operations(response: &mut Value) -> Vec<Value> {
    match response.get_mut("operations").map(Value::take) {
        Some(Value::Array(operations)) => operations,
        _ => Vec::new(),
    }
}

/// Calls an operation of a running gateway as its operator.
pub(super) async fn call_as_operator(
    target: &GatewayTarget,
    format: FormatOptions,
    operation: &str,
    input: Value,
) -> Result<Value, CommandError> {
    let backend = Backend::connect_as_operator(target).await?;
    match backend.call(operation, input).await {
        Ok(response) => {
            backend.close().await;
            Ok(response)
        }
        Err(error) => {
            Err(backend.close_with_failure(error, operation, output::wants_json(format.json)).await)
        }
    }
}

/// Returns the token to send to a running gateway: the one given, or else the operator's token.
pub(super) fn gateway_token(target: &GatewayTarget) -> Result<Option<Secret>, CommandError> {
    Ok(GatewayCredential::for_gateway(target)?.token())
}

/// Returns the token given by option or environment variable, if any.
pub(super) fn explicit_token(target: &GatewayTarget) -> Option<Secret> {
    GatewayCredential::from_flag_or_env(target.token.as_ref()).token()
}

/// The credential sent to a gateway, by origin.
enum GatewayCredential {
    Absent,
    Flag(Secret),
    Environment(Secret),
    /// The operator's token and the file it was read from.
    Operator(Secret, PathBuf),
}

const TOKEN_HINT: &str =
    "pass one with --token or TOOLPOST_TOKEN; `toolpost token new` creates one";
const OPERATOR_TOKEN_HINT: &str =
    "the operator's token is in the gateway's data folder, which --data names; or use --token";

impl GatewayCredential {
    /// Returns the token from the flag or the environment. An empty variable counts as unset.
    fn from_flag_or_env(flag: Option<&SecretArg>) -> Self {
        let set = || std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.trim().is_empty());
        match flag {
            Some(token) => Self::Flag(Secret::new(token.0.clone())),
            None => set().map_or(Self::Absent, |token| Self::Environment(Secret::new(token))),
        }
    }

    /// Returns the given token, or else the operator's token from the data folder.
    fn for_gateway(target: &GatewayTarget) -> Result<Self, CommandError> {
        match Self::from_flag_or_env(target.token.as_ref()) {
            // The operator's token is sent only to a gateway on this machine, or if `--data` is
            // given.
            Self::Absent if target.data.is_some() || is_loopback(&target.url()) => {
                operator_token(target.data.as_deref())
            }
            credential => Ok(credential),
        }
    }

    fn token(&self) -> Option<Secret> {
        match self {
            Self::Absent => None,
            Self::Flag(token) | Self::Environment(token) | Self::Operator(token, _) => {
                Some(token.clone())
            }
        }
    }

    /// Returns hints for an operator command that the gateway rejects.
    fn hints(&self) -> AuthHints {
        let unset = format!(
            "the token in {TOKEN_VARIABLE} was sent; unset it to use the operator's token from the \
             data folder (--data)"
        );
        let (unknown, denied) = match self {
            Self::Absent => (OPERATOR_TOKEN_HINT.to_owned(), Some(OPERATOR_TOKEN_HINT.to_owned())),
            Self::Flag(_) => (TOKEN_HINT.to_owned(), None),
            Self::Environment(_) => (unset.clone(), Some(unset)),
            Self::Operator(_, file) => {
                let file = file.display();
                (
                    format!(
                        "the token in {file} belongs to another gateway; {OPERATOR_TOKEN_HINT}"
                    ),
                    None,
                )
            }
        };
        AuthHints { token: self.status(), unauthenticated: unknown, forbidden: denied }
    }

    fn status(&self) -> TokenStatus {
        if matches!(self, Self::Absent) { TokenStatus::Missing } else { TokenStatus::Sent }
    }
}

fn is_loopback(url: &str) -> bool {
    WsConnector::new(url, None).is_ok_and(|connector| connector.is_loopback())
}

/// Reads the operator's token from the data folder of a gateway on this machine.
fn operator_token(data: Option<&Path>) -> Result<GatewayCredential, CommandError> {
    let wrong = |error: DataError| CommandError::Usage(error.to_string());
    let folder = DataDir::open_existing(data).map_err(wrong)?;
    let token = folder.read_operator_token().map_err(wrong)?;
    Ok(token.map_or(GatewayCredential::Absent, |token| {
        GatewayCredential::Operator(Secret::new(token.reveal()), folder.operator_token_path())
    }))
}
