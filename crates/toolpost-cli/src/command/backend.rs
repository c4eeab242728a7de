//! Where a command finds operations: in this process or in a running gateway, behind one interface.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolpost::connection::{Client, Connection, ConnectionSettings, IncomingRequests};
use toolpost::hub::Hub;
use toolpost::protocol::Secret;
use toolpost::transport::{CloseReason, Connector, WsConnector};
use toolpost::{Authority, CallError, Change, ErrorCode, Identity, Pipeline};
use toolpost_gateway::{DataDir, auth, builtin};

use super::local_sources::{LocalSources, OperationSelection};
use crate::arguments::{BackendOptions, GatewayTarget, variable};
use crate::error::CommandError;

/// Maximum time to wait for canceled handlers or for the connection to close before the command
/// exits.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Environment variable that holds the access token, as an alternative to `--token`, which is
/// visible in the process list.
pub(super) const TOKEN_VARIABLE: &str = "TOOLPOST_TOKEN";

pub(super) struct Backend {
    pub(super) client: Client,
    kind: BackendKind,
    credential: Credential,
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
        if let Some(url) = options.gateway_url().map_err(CommandError::Usage)? {
            return Self::connect(&url, Credential::explicit(options.token.as_ref())).await;
        }
        let registry = builtin::registry();
        let builtin_changes = Hub::builtin_operations().into_iter().map(Change::Replace);
        registry.apply(builtin_changes).expect("replacing cannot conflict");
        let sources = LocalSources::start(&registry, options.config.as_deref(), scope).await?;
        let pipeline = Pipeline::builder(registry).approval(sources.approval_gate()).build();
        // Local calls run as the `local` identity.
        Ok(Self::in_process(pipeline, Identity::new(auth::LOCAL), sources))
    }

    pub(super) fn in_process(pipeline: Pipeline, caller: Identity, sources: LocalSources) -> Self {
        let caller = Authority::untrusted(Some(caller.into()));
        let client = Client::in_process(pipeline.clone(), caller);
        let kind = BackendKind::Pipeline(pipeline, sources);
        Self { client, kind, credential: Credential::default() }
    }

    /// Connects to a running gateway, as its operator unless another token is given.
    pub(super) async fn connect_as_operator(target: &GatewayTarget) -> Result<Self, CommandError> {
        Self::connect(&target.url(), Credential::for_gateway(target)?).await
    }

    async fn connect(url: &str, credential: Credential) -> Result<Self, CommandError> {
        let connector =
            WsConnector::new(url, credential.token.clone()).map_err(CommandError::usage)?;
        let channel = connector.connect().await.map_err(|error| {
            CommandError::Unreachable(format!("{error}; is `toolpost serve` running there?"))
        })?;
        let mut settings = ConnectionSettings::default();
        // Without `--timeout`, the gateway's own limits apply, including the time a call waits for
        // approval.
        settings.call_timeout = None;
        let (client, connection) = Connection::new(channel, IncomingRequests::Reject, settings);
        let kind = BackendKind::Connection(tokio::spawn(connection.run()));
        Ok(Self { client, kind, credential })
    }

    pub(super) fn is_remote(&self) -> bool {
        matches!(self.kind, BackendKind::Connection(_))
    }

    pub(super) async fn call(&self, operation: &str, input: Value) -> Result<Value, CallError> {
        Ok(self.client.call_json(operation, input).await?.data)
    }

    /// Calls an operation and returns its data or the error to print.
    pub(super) async fn request(
        &self,
        operation: &str,
        input: Value,
    ) -> Result<Value, CommandError> {
        match self.call(operation, input).await {
            Ok(data) => Ok(data),
            Err(error) => Err(self.to_failure(error, operation).await),
        }
    }

    pub(super) async fn list(&self, namespace: Option<&str>) -> Result<Vec<Value>, CallError> {
        let mut all = Vec::new();
        let mut input = json!({});
        if let Some(namespace) = namespace {
            input["namespace"] = namespace.into();
        }
        loop {
            let mut page = self.call("hub.list", input.clone()).await?;
            all.extend(take_array(&mut page, "operations"));
            match page.get_mut("nextCursor").map(Value::take).unwrap_or_default() {
                Value::Null => return Ok(all),
                cursor => input["cursor"] = cursor,
            }
        }
    }

    /// Closes the backend and converts the error of a call into the error to print.
    pub(super) async fn close_with<T>(
        self,
        result: Result<T, CallError>,
        operation: &str,
    ) -> Result<T, CommandError> {
        let result = match result {
            Ok(value) => Ok(value),
            Err(error) => Err(self.to_failure(error, operation).await),
        };
        self.close().await;
        result
    }

    /// Converts a call error into the error to print. A lost connection is reported as unreachable,
    /// not as a failed call.
    pub(super) async fn to_failure(&self, error: CallError, operation: &str) -> CommandError {
        if self.client.is_closed() && *error.code() == ErrorCode::Unavailable {
            return CommandError::Unreachable(error.to_string());
        }
        let rejected = self.client.close_reason();
        if let Some(reason) = rejected.filter(|reason| reason.code == CloseReason::UNAUTHENTICATED)
        {
            // Without a token, the close reason of the protocol does not help the user.
            let message = match self.credential.token {
                Some(_) => format!("the gateway rejected the token: {}", reason.message),
                None => "the gateway requires a token".to_owned(),
            };
            let hint = Some(self.credential.unauthenticated.clone());
            return CommandError::Call { error: CallError::access_denied(message), hint };
        }
        let hint = match error.code() {
            ErrorCode::AccessDenied => self.credential.forbidden.clone(),
            ErrorCode::OperationNotFound
                if error.message().ends_with(&format!(": {operation}")) =>
            {
                Some(self.suggest(operation).await)
            }
            _ => None,
        };
        CommandError::Call { error, hint }
    }

    async fn suggest(&self, operation: &str) -> String {
        if let BackendKind::Pipeline(_, started) = &self.kind
            && let Some(hint) = started.missing_source_hint(operation)
        {
            return hint;
        }
        let ids = self.operation_ids().await;
        let (namespace, name) = operation.split_once('.').unwrap_or((operation, ""));
        if name.is_empty()
            && let Some(suggestion) = describe_source(namespace, &ids)
        {
            return suggestion;
        }
        if let Some(nearest) = toolpost::suggest_name(operation, ids.iter().map(String::as_str)) {
            return format!("did you mean `{nearest}`?");
        }
        self.unknown_source_hint(namespace, &ids)
            .unwrap_or_else(|| "`toolpost list` lists the operations".to_owned())
    }

    /// Returns a hint for a namespace without operations, unless it is a source.
    pub(super) async fn suggest_namespace(&self, namespace: &str) -> Option<String> {
        self.unknown_source_hint(namespace, &self.operation_ids().await)
    }

    async fn operation_ids(&self) -> Vec<String> {
        let listed = self.list(None).await.unwrap_or_default();
        listed.iter().filter_map(|found| found["id"].as_str().map(ToOwned::to_owned)).collect()
    }

    /// Returns a hint for a name that is not a source, with a similar name if there is one. Sources
    /// that were not started for this command count too.
    fn unknown_source_hint(&self, namespace: &str, ids: &[String]) -> Option<String> {
        let configured = match &self.kind {
            BackendKind::Pipeline(_, started) => &started.names[..],
            BackendKind::Connection(_) => &[],
        };
        let of_ids = ids.iter().filter_map(|id| Some(id.split_once('.')?.0));
        let known: Vec<&str> = of_ids.chain(configured.iter().map(String::as_str)).collect();
        if known.contains(&namespace) {
            return None;
        }
        let suggestion = match toolpost::suggest_name(namespace, known.into_iter()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "`toolpost list` lists the operations".to_owned(),
        };
        Some(format!("no source `{namespace}`; {suggestion}"))
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
fn describe_source(namespace: &str, ids: &[String]) -> Option<String> {
    const SHOWN: usize = 8;
    let is_of = |id: &&str| id.split_once('.').is_some_and(|(source, _)| source == namespace);
    let found: Vec<&str> = ids.iter().map(String::as_str).filter(is_of).collect();
    let more = if found.len() > SHOWN { ", …" } else { "" };
    let listed = found[..found.len().min(SHOWN)].join(", ");
    let description = format!("`{namespace}` is a source; its operations are: {listed}{more}");
    (!found.is_empty()).then_some(description)
}

/// Takes a list from a response. A response of another shape, which other hub implementations may
/// send, has none.
pub(super) fn take_array(response: &mut Value, member: &str) -> Vec<Value> {
    match response.get_mut(member).map(Value::take) {
        Some(Value::Array(values)) => values,
        _ => Vec::new(),
    }
}

pub(super) async fn call_as_operator(
    target: &GatewayTarget,
    operation: &str,
    input: Value,
) -> Result<Value, CommandError> {
    let backend = Backend::connect_as_operator(target).await?;
    let response = backend.call(operation, input).await;
    backend.close_with(response, operation).await
}

const TOKEN_HINT: &str =
    "pass a token with --token or TOOLPOST_TOKEN; `toolpost token new` creates one";
const OPERATOR_TOKEN_HINT: &str =
    "set --data to the gateway's data folder, which has the operator's token, or pass --token";
const UNSET_HINT: &str = "TOOLPOST_TOKEN was used; unset it to use the operator's token in the \
                          data folder (--data)";

/// The token sent to a gateway, and the hints to print if the gateway rejects it.
#[derive(Default)]
pub(super) struct Credential {
    pub(super) token: Option<Secret>,
    unauthenticated: String,
    forbidden: Option<String>,
}

impl Credential {
    fn new(token: Option<Secret>, unauthenticated: &str, forbidden: Option<&str>) -> Self {
        let unauthenticated = unauthenticated.to_owned();
        Self { token, unauthenticated, forbidden: forbidden.map(ToOwned::to_owned) }
    }

    pub(super) fn explicit(flag: Option<&Secret>) -> Self {
        let token = flag.cloned().or_else(|| variable(TOKEN_VARIABLE).map(Secret::new));
        Self::new(token, TOKEN_HINT, None)
    }

    /// Uses the given token, or else the operator's token from the data folder. The latter is sent
    /// only to a gateway on this machine, or if `--data` is given.
    pub(super) fn for_gateway(target: &GatewayTarget) -> Result<Self, CommandError> {
        let explicit = Self::explicit(target.token.as_ref());
        if target.token.is_some() {
            return Ok(explicit);
        }
        if explicit.token.is_some() {
            return Ok(Self::new(explicit.token, UNSET_HINT, Some(UNSET_HINT)));
        }
        let is_loopback =
            || WsConnector::new(&target.url(), None).is_ok_and(|connector| connector.is_loopback());
        if target.data.is_some() || is_loopback() {
            let folder =
                DataDir::open_existing(target.data.as_deref()).map_err(CommandError::usage)?;
            if let Some(token) = folder.read_operator_token().map_err(CommandError::usage)? {
                let file = folder.operator_token_path();
                let file = file.display();
                let hint = format!(
                    "the token in {file} belongs to another gateway; {OPERATOR_TOKEN_HINT}"
                );
                return Ok(Self::new(Some(Secret::new(token.reveal())), &hint, None));
            }
        }
        Ok(Self::new(None, OPERATOR_TOKEN_HINT, Some(OPERATOR_TOKEN_HINT)))
    }
}
