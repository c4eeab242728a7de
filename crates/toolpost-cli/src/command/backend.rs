//! Where a command finds operations: in this process or in a running gateway, behind one interface.

use std::io::{ErrorKind, IsTerminal};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use toolpost::connection::{Client, Connection, ConnectionSettings, IncomingRequests};
use toolpost::hub::Hub;
use toolpost::protocol::Secret;
use toolpost::transport::{Channel, CloseReason, Connector, WsConnector, WsSettings, connect_ws};
use toolpost::{Authority, CallError, Change, ClientTls, ErrorCode, Identity, Pipeline};
use toolpost_gateway::config::Config;
use toolpost_gateway::{CONFIG_HEADER, DataDir, DataError, auth, builtin};

use super::local_sources::{LocalSources, OperationSelection};
use crate::arguments::{
    BackendChoice, BackendOptions, GatewayTarget, TOKEN_WITHOUT_GATEWAY, TlsOptions, variable,
};
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
        match options.choice().map_err(CommandError::Usage)? {
            BackendChoice::Url(url) => {
                let credential = Credential::explicit(options.token.as_ref());
                return Self::connect(&url, credential, &options.tls).await;
            }
            BackendChoice::RunningGateway => {
                if let Some(data) = optional_data_dir(options.data.as_deref())? {
                    let credential = Credential::optional(options.token.as_ref());
                    let running = RunningGateway::connect(&data, credential).await?;
                    let file = options.config.clone().or_else(Config::discover);
                    if let Some(running) = running.filter(|one| one.uses(file.as_deref())) {
                        announce_gateway();
                        return Ok(running.into_backend());
                    }
                }
                if options.token.is_some() {
                    return Err(CommandError::usage(TOKEN_WITHOUT_GATEWAY));
                }
            }
            BackendChoice::ThisProcess => {}
        }
        let registry = builtin::registry();
        let builtin_changes = Hub::builtin_operations().into_iter().map(Change::Replace);
        registry.apply(builtin_changes).expect("replacing cannot conflict");
        let sources = LocalSources::start(&registry, options.config.as_deref(), scope).await?;
        let pipeline = Pipeline::builder(registry).approval(sources.approval_gate()).build();
        // Local calls run as the `local` identity.
        Ok(Self::in_process(pipeline, auth::local(), sources))
    }

    pub(super) fn in_process(pipeline: Pipeline, caller: Identity, sources: LocalSources) -> Self {
        let caller = Authority::untrusted(Some(caller.into()));
        let client = Client::in_process(pipeline.clone(), caller);
        let kind = BackendKind::Pipeline(pipeline, sources);
        Self { client, kind, credential: Credential::default() }
    }

    /// Connects to the gateway at the URL, or else to the running gateway of the data folder, as its
    /// operator unless another token is given.
    pub(super) async fn connect_as_operator(target: &GatewayTarget) -> Result<Self, CommandError> {
        if let Some(url) = target.url() {
            let credential = Credential::for_operator_at_url(target.token.as_ref());
            return Self::connect(&url, credential, &target.tls).await;
        }
        let data = DataDir::open_existing(target.data.as_deref()).map_err(CommandError::usage)?;
        let credential = Credential::for_operator(target.token.as_ref(), &data)?;
        match RunningGateway::connect(&data, credential).await? {
            Some(running) => Ok(running.into_backend()),
            None => Err(no_gateway(&data)),
        }
    }

    pub(super) async fn connect(
        url: &str,
        credential: Credential,
        tls: &TlsOptions,
    ) -> Result<Self, CommandError> {
        let connector = connector(url, credential.token.clone(), tls)?;
        let channel = connector.connect().await.map_err(|error| {
            CommandError::Unreachable(format!("{error}; is `toolpost serve` running there?"))
        })?;
        Ok(Self::over(channel, credential))
    }

    fn over(channel: Channel, credential: Credential) -> Self {
        let mut settings = ConnectionSettings::default();
        // Without `--timeout`, the gateway's own limits apply, including the time a call waits for
        // approval.
        settings.call_timeout = None;
        let (client, connection) = Connection::new(channel, IncomingRequests::Reject, settings);
        let kind = BackendKind::Connection(tokio::spawn(connection.run()));
        Self { client, kind, credential }
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

/// Returns a connector to the gateway at a URL. Warns if the token is sent without encryption.
pub(super) fn connector(
    url: &str,
    token: Option<Secret>,
    options: &TlsOptions,
) -> Result<WsConnector, CommandError> {
    let connect = |token: Option<Secret>, tls: &ClientTls| {
        WsConnector::with_tls(url, token, WsSettings::default(), tls)
    };
    let mut tls = client_tls(options)?;
    if options.insecure {
        let has_token = token.is_some();
        tls.insecure = false;
        if has_token && connect(token.clone(), &tls).is_err() {
            tracing::warn!(url, "the token is sent without encryption (--insecure)");
        }
        tls.insecure = true;
    }
    connect(token, &tls).map_err(CommandError::usage)
}

/// Returns the settings of connections to the gateway at a URL.
pub(super) fn client_tls(options: &TlsOptions) -> Result<ClientTls, CommandError> {
    let mut tls = ClientTls::default();
    tls.insecure = options.insecure;
    if let Some(file) = &options.ca {
        let read = std::fs::read_to_string(file);
        let unreadable =
            |error| CommandError::Usage(format!("cannot read {}: {error}", file.display()));
        tls.ca_certificates = Some(read.map_err(unreadable)?);
    }
    Ok(tls)
}

/// Opens the data folder. Without a home directory there is none.
fn optional_data_dir(path: Option<&Path>) -> Result<Option<DataDir>, CommandError> {
    match DataDir::open_existing(path) {
        Err(DataError::NoHome) => Ok(None),
        opened => opened.map(Some).map_err(CommandError::usage),
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

/// A connection to the gateway that runs with a data folder, over the Unix socket in that folder.
pub(super) struct RunningGateway {
    channel: Channel,
    credential: Credential,
    /// The configuration file of the gateway.
    config_url: Option<String>,
}

impl RunningGateway {
    /// Returns `None` if no gateway runs with this data folder.
    pub(super) async fn connect(
        data: &DataDir,
        credential: Credential,
    ) -> Result<Option<Self>, CommandError> {
        let Some(stream) = connect_socket(data).await? else { return Ok(None) };
        let opened = connect_ws(stream, credential.token.clone(), WsSettings::default()).await;
        let (channel, headers) = opened.map_err(|reason| unusable_socket(data, reason))?;
        let config_url = headers.get(CONFIG_HEADER).and_then(|url| url.to_str().ok());
        let config_url = config_url.map(ToOwned::to_owned);
        Ok(Some(Self { channel, credential, config_url }))
    }

    /// Whether the gateway uses this configuration file, or none.
    pub(super) fn uses(&self, file: Option<&Path>) -> bool {
        file.and_then(Config::file_url) == self.config_url
    }

    pub(super) fn into_backend(self) -> Backend {
        Backend::over(self.channel, self.credential)
    }
}

/// Connects to the Unix socket of the gateway that runs with this data folder, if any.
pub(super) async fn connect_socket(data: &DataDir) -> Result<Option<UnixStream>, CommandError> {
    let stream = match UnixStream::connect(data.socket_path()).await {
        Ok(stream) => stream,
        // There is no socket, its process has ended, or its path is too long for a socket.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::InvalidInput
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(unusable_socket(data, error)),
    };
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        // A token is sent only to a process of this user.
        Ok(peer) if own == 0 || [own, 0].contains(&peer.uid()) => Ok(Some(stream)),
        Ok(_) => Err(unusable_socket(data, "the socket belongs to another user")),
        Err(error) => Err(unusable_socket(data, error)),
    }
}

fn unusable_socket(data: &DataDir, reason: impl std::fmt::Display) -> CommandError {
    let path = data.socket_path();
    CommandError::Unreachable(format!("cannot connect to {}: {reason}", path.display()))
}

pub(super) fn no_gateway(data: &DataDir) -> CommandError {
    CommandError::Unreachable(format!(
        "no gateway is running with the data folder {}; start one with `toolpost serve`, or set \
         --data or --url",
        data.path().display()
    ))
}

/// Prints on a terminal that the command uses the running gateway.
pub(super) fn announce_gateway() {
    if !output::json_requested() && std::io::stderr().is_terminal() {
        output::notice("Using the running gateway.");
    }
}

const TOKEN_HINT: &str =
    "pass a token with --token or TOOLPOST_TOKEN; `toolpost token new` creates one";
const OPERATOR_TOKEN_HINT: &str = "pass the operator's token with --token or TOOLPOST_TOKEN; it is \
                                   in operator.token in the gateway's data folder";
const UNSET_HINT: &str = "TOOLPOST_TOKEN was used; unset it to use the operator's token in the \
                          data folder";

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

    /// The given token, for a gateway at a URL.
    pub(super) fn explicit(flag: Option<&Secret>) -> Self {
        let token = flag.cloned().or_else(|| variable(TOKEN_VARIABLE).map(Secret::new));
        Self::new(token, TOKEN_HINT, None)
    }

    /// The given token, for the Unix socket, which needs none.
    fn optional(flag: Option<&Secret>) -> Self {
        let explicit = Self::explicit(flag);
        match &explicit.token {
            Some(_) => explicit,
            None => Self::new(None, TOKEN_HINT, Some(TOKEN_HINT)),
        }
    }

    /// The given token for a gateway at a URL that the operator administers.
    pub(super) fn for_operator_at_url(flag: Option<&Secret>) -> Self {
        let hint = OPERATOR_TOKEN_HINT;
        match Self::explicit(flag).token {
            Some(token) => Self::new(Some(token), TOKEN_HINT, None),
            None => Self::new(None, hint, Some(hint)),
        }
    }

    /// The given token, or else the operator's token from the data folder, for the Unix socket in
    /// that folder.
    pub(super) fn for_operator(
        flag: Option<&Secret>,
        data: &DataDir,
    ) -> Result<Self, CommandError> {
        let explicit = Self::explicit(flag);
        if flag.is_some() {
            return Ok(explicit);
        }
        if explicit.token.is_some() {
            return Ok(Self::new(explicit.token, UNSET_HINT, Some(UNSET_HINT)));
        }
        let token = data.read_operator_token().map_err(CommandError::usage)?;
        let file = data.operator_token_path();
        let hint = format!(
            "the token in {} is not that of the running gateway; restart the gateway",
            file.display()
        );
        Ok(Self::new(token.map(|token| Secret::new(token.reveal())), &hint, Some(&hint)))
    }
}
