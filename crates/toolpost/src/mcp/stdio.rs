//! The stdio transport: the server is a child process, and each message is a line.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::dispatcher::{Dispatcher, ReplyFn};
use super::error::RequestError;
use super::line_reader::{InputLine, LineReader, OversizedLine};
use super::pending::RequestResult;
use super::process::{self, ProcessExit, ProcessHandle, StderrTail};
use super::protocol_version::ProtocolProfile;
use super::request::{CancelOnDrop, ClientRequest};
use super::rpc;
use super::settings::{McpSettings, StdioSettings};

/// Maximum number of messages waiting to be written.
const QUEUE_CAPACITY: usize = 256;
/// How long to keep reading after the server exits, and to wait for its exit after it closes a
/// pipe.
const EXIT_GRACE: Duration = Duration::from_millis(500);

/// A connection to a server that runs as a child process.
#[derive(Debug)]
pub(super) struct StdioTransport {
    dispatcher: Dispatcher,
    outgoing: mpsc::Sender<String>,
    /// Why the connection was closed, once it is.
    closed: watch::Receiver<Option<String>>,
    stop: CancellationToken,
    stderr_tail: Arc<StderrTail>,
}

impl StdioTransport {
    /// Starts the process; `tasks` tracks its async tasks.
    ///
    /// # Errors
    ///
    /// Returns an error if the process cannot be started.
    pub(super) fn start(
        settings: &McpSettings,
        stdio: &StdioSettings,
        dispatcher: Dispatcher,
        tasks: &TaskTracker,
    ) -> Result<Self, RequestError> {
        let child = process::spawn(dispatcher.message_handler.source(), stdio, tasks)
            .map_err(RequestError::unreachable)?;
        let stderr_tail = child.handle.stderr_tail();
        let (outgoing, queue) = mpsc::channel(QUEUE_CAPACITY);
        let (close_sender, over) = watch::channel(None);
        let stop = CancellationToken::new();
        let stdin_closed = CancellationToken::new();
        tasks.spawn(write_queue(child.stdin, queue, child.handle.stopping(), stdin_closed.clone()));
        let reading = read_output(
            child.stdout,
            dispatcher.clone(),
            outgoing.downgrade(),
            settings.message_bytes,
        );
        let exiting = wait_exit(child.handle, tasks.spawn(reading), stop.clone(), stdin_closed);
        let (pending, tail) = (dispatcher.pending.clone(), Arc::clone(&stderr_tail));
        tasks.spawn(async move {
            let (reason, rest) = exiting.await;
            pending.fail_all(&RequestError::disconnected(reason.clone()));
            // Report the close, which starts the next process, only after this process is gone.
            rest.terminate().await;
            close_sender.send_replace(Some(tail.append_to(reason, 0)));
        });
        Ok(Self { dispatcher, outgoing, closed: over, stop, stderr_tail })
    }

    /// Adds the standard error of the server to the reason why it cannot be used.
    pub(super) fn explain(&self, failure: RequestError) -> RequestError {
        match failure {
            // It contains the standard error.
            RequestError::Disconnected { .. } => failure,
            failure => {
                let message = self.stderr_tail.append_to(failure.to_string(), 0);
                RequestError::InvalidResponse(message)
            }
        }
    }

    /// Sends a request and waits for its response. Dropping the future cancels the request.
    pub(super) async fn request(
        &self,
        protocol: &ProtocolProfile,
        request: &ClientRequest<'_>,
    ) -> RequestResult {
        // The error of a call contains what the server wrote during the call, not before.
        let position = if request.is_upstream_call() { self.stderr_tail.position() } else { 0 };
        let mut pending_request = self.dispatcher.pending.register(request)?;
        let text = request.encode(pending_request.id, protocol)?;
        let timed_out = pending_request.activity.clone();
        let timed_out = timed_out.timed_out(request.timeouts);
        let mut cancel = CancelOnDrop {
            protocol,
            id: pending_request.id,
            is_armed: request.is_cancellable(),
            // If the queue is full, the server is not reading, and the notification is dropped.
            send: |text| drop(self.outgoing.try_send(text)),
        };
        let exchange = async {
            if self.outgoing.send(text).await.is_err() {
                return Err(RequestError::unreachable("the server has exited"));
            }
            (&mut pending_request.response)
                .await
                .unwrap_or_else(|_| Err(RequestError::disconnected("no response")))
        };
        tokio::select! {
            biased;
            response = exchange => {
                cancel.is_armed = false;
                match response {
                    Err(RequestError::Disconnected { message, sent: true }) => {
                        let message = self.stderr_tail.append_to(message, position);
                        Err(RequestError::disconnected(message))
                    }
                    response => response,
                }
            }
            failure = timed_out => Err(failure),
        }
    }

    /// Sends a notification.
    pub(super) async fn notify(&self, protocol: &ProtocolProfile, method: &str) {
        if let Ok(text) = rpc::encode_request(None, method, &[], protocol.default_meta()) {
            let _ = self.outgoing.send(text).await;
        }
    }

    /// Resolves with the reason when the server disconnects.
    pub(super) async fn closed(&self) -> String {
        let mut close_reason = self.closed.clone();
        let message =
            close_reason.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        message.unwrap_or_else(|| "the server was stopped".to_owned())
    }

    /// Starts stopping the server. The async tasks complete the shutdown.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for StdioTransport {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Writes queued messages; closes the server's standard input when stopping.
async fn write_queue(
    mut stdin: ChildStdin,
    mut queue: mpsc::Receiver<String>,
    stopping: CancellationToken,
    stdin_closed: CancellationToken,
) {
    let writing = async {
        while let Some(mut text) = queue.recv().await {
            // All queued messages are written at once.
            text.push('\n');
            while let Ok(more) = queue.try_recv() {
                text.push_str(&more);
                text.push('\n');
            }
            if stdin.write_all(text.as_bytes()).await.is_err() {
                stdin_closed.cancel();
                break;
            }
        }
    };
    stopping.run_until_cancelled(writing).await;
}

/// Waits until the process exits, closes a pipe or must stop, and returns the reason.
async fn wait_exit(
    process: ProcessHandle,
    reader_task: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
    stdin_closed: CancellationToken,
) -> (String, ProcessHandle) {
    let mut reader_task = reader_task.fuse();
    let exit_or = async |otherwise: &str| {
        let exit = tokio::time::timeout(EXIT_GRACE, process.exited()).await;
        exit.map_or_else(|_| otherwise.to_owned(), exit_message)
    };
    let reason = tokio::select! {
        biased;
        () = stop.cancelled() => "the server was stopped".to_owned(),
        exit = process.exited() => {
            // Responses sent before the exit are still read.
            let _ = tokio::time::timeout(EXIT_GRACE, &mut reader_task).await;
            exit_message(exit)
        }
        _ = &mut reader_task => exit_or("the server closed its output").await,
        () = stdin_closed.cancelled() => exit_or("the server closed its input").await,
    };
    (reason, process)
}

fn exit_message(exit: ProcessExit) -> String {
    format!("the server ended: {exit}")
}

async fn read_output(
    stdout: ChildStdout,
    dispatcher: Dispatcher,
    outgoing: mpsc::WeakSender<String>,
    max_bytes: usize,
) {
    let mut lines = LineReader::new(stdout, max_bytes);
    let source = dispatcher.message_handler.source();
    loop {
        match lines.next_line().await {
            Ok(Some(InputLine::Complete(line))) => handle_line(&dispatcher, &outgoing, line),
            Ok(Some(InputLine::Oversized(long))) => reject_oversized(&dispatcher, &long, max_bytes),
            Ok(None) => return,
            Err(error) => return tracing::warn!(source, %error, "cannot read from the server"),
        }
        // Yield, so that many lines do not starve other tasks.
        tokio::task::coop::consume_budget().await;
    }
}

fn handle_line(dispatcher: &Dispatcher, outgoing: &mpsc::WeakSender<String>, line: &[u8]) {
    if line.trim_ascii().is_empty() {
        return;
    }
    let source = dispatcher.message_handler.source();
    let Ok(text) = std::str::from_utf8(line) else {
        return reject_invalid_utf8(dispatcher, line);
    };
    let reply = || -> ReplyFn {
        let (outgoing, source) = (outgoing.clone(), source.to_owned());
        Box::new(move |text| {
            let sender = outgoing.upgrade();
            if sender.is_none_or(|outgoing| outgoing.try_send(text).is_err()) {
                tracing::warn!(source, "server stdin is full; response dropped");
            }
        })
    };
    if let Err(error) = dispatcher.dispatch(text, None, &reply) {
        let excerpt: String = text.chars().take(200).collect();
        tracing::warn!(source, excerpt, %error, "invalid message on server stdout");
    }
}

/// Fails the pending request of a response that is not valid UTF-8.
fn reject_invalid_utf8(dispatcher: &Dispatcher, line: &[u8]) {
    let source = dispatcher.message_handler.source();
    tracing::warn!(source, "message is not valid UTF-8");
    let lossy = String::from_utf8_lossy(line);
    let _ = rpc::parse(&lossy, &mut |message| {
        if let rpc::RpcMessage::Response { id: Some(id), .. } = message
            && let Some(id) = rpc::parse_request_id(id)
        {
            let failure =
                RequestError::InvalidResponse("the response is not valid UTF-8".to_owned());
            dispatcher.pending.complete(id, Err(failure));
        }
    });
}

fn reject_oversized(dispatcher: &Dispatcher, line: &OversizedLine, max_bytes: usize) {
    let (source, bytes) = (dispatcher.message_handler.source(), line.bytes);
    tracing::warn!(source, bytes, "message exceeds the size limit");
    if let Some(id) = rpc::id_from_truncated(&line.head, &line.tail) {
        let failure = RequestError::too_large(bytes, max_bytes);
        dispatcher.pending.complete(id, Err(failure));
    }
}
