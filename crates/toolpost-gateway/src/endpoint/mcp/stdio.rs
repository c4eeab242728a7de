//! One client on a pair of streams, such as standard input and output. Each message is one line.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use toolpost::json_rpc::{self, RpcError, RpcId, RpcMessage};
use toolpost::mcp::{InputLine, LineReader};
use toolpost::view::ProtocolGeneration;
use toolpost::{Endpoint, Identity};

use super::{McpEndpoint, generation, response};
use crate::mcp_service::{
    ChangeNotifier, ClientContext, ClientState, McpRequest, McpView, Notifier, RequestParams,
    SubscriptionFilter, negotiate_version, parse_canceled,
};

/// Maximum number of messages in the write queue.
const WRITE_QUEUE: usize = 256;
/// Size in bytes at which queued messages are no longer combined into one write.
const WRITE_CHUNK_BYTES: usize = 64 * 1024;
/// Minimum time to write the remaining responses after the requests have ended.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a request waits for capacity. No cancellation is read meanwhile.
const CAPACITY_WAIT: Duration = Duration::from_secs(1);

/// Serves until the client disconnects or the gateway stops. Requests in flight have the drain
/// timeout to finish. Returns the drain deadline.
pub(crate) async fn serve(
    endpoint: &McpEndpoint,
    reader: impl AsyncRead + Unpin + Send,
    writer: impl AsyncWrite + Unpin + Send + 'static,
    identity: Arc<Identity>,
    view: McpView,
) -> Instant {
    let (sender, messages) = mpsc::channel(WRITE_QUEUE);
    let disconnected = CancellationToken::new();
    let writing = AbortOnDropHandle::new(tokio::spawn(write_messages(
        writer,
        messages,
        disconnected.clone(),
    )));
    let state = Arc::<ClientState>::default();
    let context = ClientContext {
        endpoint: Endpoint::Mcp,
        service: Arc::clone(&endpoint.service),
        identity,
        view,
        generation: ProtocolGeneration::Legacy,
        state: Some(Arc::clone(&state)),
    };
    let mut client = StdioClient {
        endpoint,
        context,
        state,
        sender,
        tasks: JoinSet::new(),
        listeners: HashMap::new(),
        stopping: endpoint.stopping.child_token(),
    };
    tokio::select! {
        // Selected here, so that a line that waits for capacity does not delay shutdown.
        () = endpoint.stopping.cancelled() => {}
        () = client.read(reader) => {}
        () = disconnected.cancelled() => {}
    }
    let deadline = Instant::now() + endpoint.settings.drain_timeout;
    tokio::select! {
        () = client.finish(deadline) => {}
        () = disconnected.cancelled() => {}
    }
    drop(client);
    // A client that does not read must not block shutdown.
    let last = deadline.max(Instant::now() + FLUSH_TIMEOUT);
    if tokio::time::timeout_at(last, writing).await.is_err() {
        tracing::warn!("client does not read its output; closing");
    }
    deadline
}

/// Writes messages, combining those that are already queued.
async fn write_messages(
    mut writer: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<Vec<u8>>,
    disconnected: CancellationToken,
) {
    let _gone = disconnected.drop_guard();
    let mut chunk = Vec::new();
    while let Some(message) = messages.recv().await {
        push_line(&mut chunk, message);
        while chunk.len() < WRITE_CHUNK_BYTES
            && let Ok(message) = messages.try_recv()
        {
            push_line(&mut chunk, message);
        }
        let written = async {
            writer.write_all(&chunk).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            return tracing::debug!(%error, "write to client failed");
        }
        chunk.clear();
        chunk.shrink_to(WRITE_CHUNK_BYTES);
    }
}

fn push_line(chunk: &mut Vec<u8>, mut message: Vec<u8>) {
    json_rpc::to_single_line(&mut message);
    chunk.append(&mut message);
    chunk.push(b'\n');
}

struct StdioClient<'a> {
    endpoint: &'a McpEndpoint,
    context: ClientContext,
    state: Arc<ClientState>,
    sender: mpsc::Sender<Vec<u8>>,
    /// Requests in flight and notification streams.
    tasks: JoinSet<()>,
    /// Listeners by the id of their request, which a client before 2026-07-28 does not send.
    listeners: HashMap<Option<RpcId>, CancellationToken>,
    stopping: CancellationToken,
}

impl StdioClient<'_> {
    async fn read(&mut self, reader: impl AsyncRead + Unpin) {
        let max = self.endpoint.settings.max_body_bytes;
        let mut lines = LineReader::new(reader, max);
        loop {
            let line = tokio::select! {
                biased;
                Some(_) = self.tasks.join_next() => continue,
                line = lines.next_line() => line,
            };
            match line {
                Ok(Some(InputLine::Complete(line))) if line.trim_ascii().is_empty() => {}
                Ok(Some(InputLine::Complete(line))) => self.handle_line(line).await,
                Ok(Some(InputLine::Oversized(long))) => {
                    let message = format!("the message exceeds the limit of {max} bytes");
                    let rpc_error = RpcError::invalid_request(message);
                    self.send(rpc_error.encode(json_rpc::find_id(&long.head).as_ref())).await;
                }
                Ok(None) => return,
                Err(error) => return tracing::debug!(%error, "read from client failed"),
            }
        }
    }

    /// Ends listeners and server requests, then waits for requests until the deadline.
    async fn finish(&mut self, deadline: Instant) {
        self.stopping.cancel();
        self.state.close_server_requests();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout_at(deadline, ended).await.is_err() {
            tracing::warn!(pending = self.tasks.len(), "client disconnected; requests dropped");
        }
    }

    async fn handle_line(&mut self, line: &[u8]) {
        match json_rpc::parse_strict(line) {
            Ok(RpcMessage::Request { id, method, params }) => {
                let id = RpcId::from_raw(id).expect("the id was checked");
                if let Err(rpc_error) = self.handle_request(&id, &method, params).await {
                    Box::pin(self.context.audit_rejected_call(&method, params, &rpc_error)).await;
                    self.send(rpc_error.encode(Some(&id))).await;
                }
            }
            Ok(RpcMessage::Notification { method, params }) => {
                self.handle_notification(&method, params);
            }
            Ok(RpcMessage::Response { id, result }) => self.state.handle_response(id, result),
            Err((id, rpc_error)) => self.send(rpc_error.encode(id.as_ref())).await,
        }
    }

    async fn handle_request(
        &mut self,
        id: &RpcId,
        method: &str,
        raw: Option<&RawValue>,
    ) -> Result<(), RpcError> {
        let params = RequestParams::parse(raw)?;
        let version = params.version().map(generation::supported_version).transpose()?;
        let protocol_generation =
            version.map_or(ProtocolGeneration::Legacy, ProtocolGeneration::from_version);
        if protocol_generation == ProtocolGeneration::Modern {
            generation::check_meta(&params)?;
        }
        let client_context =
            ClientContext { generation: protocol_generation, ..self.context.clone() };
        client_context.check_source().await?;
        let settings = self.context.service.settings();
        let max = settings.max_in_flight;
        match (method, protocol_generation) {
            ("initialize", ProtocolGeneration::Legacy) => {
                self.state.initialize(raw);
                self.send_result(id, client_context.initialize_result(negotiate_version(raw)))
                    .await;
            }
            ("ping", ProtocolGeneration::Legacy) => self.send_result(id, "{}").await,
            _ if !self.wait_for_capacity(max).await => {
                let message =
                    format!("request limit reached: {max} in flight; wait for one to finish");
                return Err(RpcError::new(RpcError::OVERLOADED, message));
            }
            ("subscriptions/listen", ProtocolGeneration::Modern) => {
                let filter = SubscriptionFilter::parse(raw, &settings)?;
                self.spawn_listener(client_context, filter, Some(id.clone()));
            }
            _ => {
                let id = id.clone();
                self.spawn_request(McpRequest::new(client_context, id, method, params, raw));
            }
        }
        Ok(())
    }

    /// Whether another request may run. At the limit, waits briefly for one to finish.
    async fn wait_for_capacity(&mut self, max: usize) -> bool {
        while self.tasks.try_join_next().is_some() {}
        if self.tasks.len() >= max {
            let _ = tokio::time::timeout(CAPACITY_WAIT, self.tasks.join_next()).await;
        }
        self.tasks.len() < max
    }

    fn spawn_request(&mut self, mcp_request: McpRequest) {
        let sender = self.sender.clone();
        let notifier = Notifier::new(&mcp_request.client, &mcp_request.id, Some(sender.clone()));
        self.tasks.spawn(async move {
            let response = response::handle(mcp_request, notifier).await;
            if response.is_expected {
                // Sending fails if the client has disconnected.
                let _ = sender.send(response.message.into_bytes()).await;
            }
        });
    }

    fn handle_notification(&mut self, method: &str, raw: Option<&RawValue>) {
        match method {
            "notifications/cancelled" => {
                let Some((id, reason)) = parse_canceled(raw) else { return };
                self.state.cancel(&id, &reason);
                if let Some(listener) = self.listeners.remove(&Some(id)) {
                    listener.cancel();
                }
            }
            "notifications/initialized" => {
                self.spawn_listener(self.context.clone(), SubscriptionFilter::ALL, None);
            }
            _ => {}
        }
    }

    /// Starts a notification stream. A legacy client has at most one.
    fn spawn_listener(
        &mut self,
        client_context: ClientContext,
        filter: SubscriptionFilter,
        id: Option<RpcId>,
    ) {
        self.listeners.retain(|_, listener| !listener.is_cancelled());
        let stopping = self.stopping.child_token();
        if let Some(before) = self.listeners.insert(id.clone(), stopping.clone()) {
            before.cancel();
        }
        let changes = ChangeNotifier::new(client_context, filter, id);
        self.tasks.spawn(notify_changes(changes, self.sender.clone(), stopping));
    }

    async fn send_result(&self, id: &RpcId, result: impl std::fmt::Display) {
        self.send(json_rpc::encode_response(id.as_json(), Ok(result)).into_bytes()).await;
    }

    async fn send(&self, message: Vec<u8>) {
        // Sending fails if the client has disconnected.
        let _ = self.sender.send(message).await;
    }
}

async fn notify_changes(
    mut changes: ChangeNotifier,
    sender: mpsc::Sender<Vec<u8>>,
    ended: CancellationToken,
) {
    if ended.run_until_cancelled(changes.subscribe_resources()).await.is_none() {
        return;
    }
    let mut messages = std::pin::pin!(changes.into_messages(ended));
    while let Some(message) = messages.next().await {
        if sender.send(message).await.is_err() {
            return;
        }
    }
}
