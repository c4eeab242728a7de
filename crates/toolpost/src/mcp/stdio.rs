//! A server that is a process of ours: a message is a line.

use std::time::Duration;

use futures::FutureExt;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ask::Ask;
use super::failure::Failure;
use super::lines::{Line, Lines, TooLong};
use super::pending::Answer;
use super::process::{self, Ended, Process};
use super::rpc;
use super::settings::{McpSettings, StdioSettings};
use super::speech::Speech;
use super::switch::{Reply, Switch};

/// Messages that wait to be written.
const QUEUE: usize = 256;
/// How long the last answers of a server that has ended may take to be read, and how long a server
/// that has closed its output may take to end.
const AFTERMATH: Duration = Duration::from_millis(500);

/// The connection to a server that is a process.
#[derive(Debug)]
pub(super) struct Stdio {
    switch: Switch,
    outgoing: mpsc::Sender<String>,
    /// Why it is over, once it is.
    over: watch::Receiver<Option<String>>,
    stop: CancellationToken,
}

impl Stdio {
    /// Starts the process; its tasks are owned by `tasks`.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub(super) fn start(
        settings: &McpSettings,
        stdio: &StdioSettings,
        switch: Switch,
        tasks: &TaskTracker,
    ) -> Result<Self, Failure> {
        let child = process::spawn(switch.inbox.source(), stdio, tasks)
            .map_err(|error| Failure::unreachable(error.to_string()))?;
        let (outgoing, queue) = mpsc::channel(QUEUE);
        let (said, over) = watch::channel(None);
        let stop = CancellationToken::new();
        let deaf = CancellationToken::new();
        tasks.spawn(write(child.stdin, queue, child.process.stopping(), deaf.clone()));
        let reading = Reading {
            lines: Lines::new(child.stdout, settings.message_bytes),
            switch: switch.clone(),
            outgoing: outgoing.downgrade(),
            most_bytes: settings.message_bytes,
        };
        let keeping = keep(child.process, tasks.spawn(reading.run()), stop.clone(), deaf);
        let pending = switch.pending.clone();
        tasks.spawn(async move {
            let (words, rest) = keeping.await;
            pending.close(&Failure::lost(words.clone()));
            // The next one begins when this one is really gone.
            rest.end().await;
            said.send_replace(Some(words));
        });
        Ok(Self { switch, outgoing, over, stop })
    }

    /// Sends a request and waits for its answer. Dropping it tells the server.
    pub(super) async fn ask(&self, speech: &Speech, ask: &Ask<'_>) -> Answer {
        let mut ticket = self.switch.pending.open(ask)?;
        let text = ask.text(ticket.id, speech)?;
        let too_long = ticket.heard.clone();
        let too_long = too_long.too_long(ask.patience);
        let mut cancel =
            Cancel { stdio: self, speech, id: ticket.id, is_due: ask.is_cancellable() };
        let exchange = async {
            if self.outgoing.send(text).await.is_err() {
                return Err(Failure::unreachable("the server is not there any more"));
            }
            (&mut ticket.answer).await.unwrap_or_else(|_| Err(Failure::lost("nobody answers")))
        };
        tokio::select! {
            biased;
            answer = exchange => {
                cancel.is_due = false;
                answer
            }
            failure = too_long => Err(failure),
        }
    }

    /// Sends a notification.
    pub(super) async fn notify(&self, speech: &Speech, method: &str) {
        if let Ok(text) = rpc::write(None, method, &[], speech.meta()) {
            let _ = self.outgoing.send(text).await;
        }
    }

    /// Resolves when the server is gone, with words about it.
    pub(super) async fn over(&self) -> String {
        let mut over = self.over.clone();
        let said = over.wait_for(Option::is_some).await.ok().and_then(|words| words.clone());
        said.unwrap_or_else(|| "the server was stopped".to_owned())
    }

    /// Asks the server to leave; its tasks see to it.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Tells the server that nobody waits any more, unless somebody has got the answer.
struct Cancel<'a> {
    stdio: &'a Stdio,
    speech: &'a Speech,
    id: u64,
    is_due: bool,
}

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        if !self.is_due {
            return;
        }
        if let Ok(text) = self.speech.cancellation(self.id) {
            // A queue that is full belongs to a server that does not read anyway.
            let _ = self.stdio.outgoing.try_send(text);
        }
    }
}

/// Writes what is queued; closes the server's input when it is to leave.
async fn write(
    mut stdin: ChildStdin,
    mut queue: mpsc::Receiver<String>,
    stopping: CancellationToken,
    deaf: CancellationToken,
) {
    let writing = async {
        while let Some(mut text) = queue.recv().await {
            // Whatever else is there goes out with it.
            text.push('\n');
            while let Ok(more) = queue.try_recv() {
                text.push_str(&more);
                text.push('\n');
            }
            if stdin.write_all(text.as_bytes()).await.is_err() {
                deaf.cancel();
                break;
            }
        }
    };
    stopping.run_until_cancelled(writing).await;
}

/// Waits until the process has ended, or has said all it will, or shall stop; and gives the words
/// for it.
async fn keep(
    process: Process,
    reading: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
    deaf: CancellationToken,
) -> (String, Process) {
    let mut reading = reading.fuse();
    let words = tokio::select! {
        biased;
        () = stop.cancelled() => "the server was stopped".to_owned(),
        ended = process.ended() => {
            // What it answered before it ended still counts.
            let _ = tokio::time::timeout(AFTERMATH, &mut reading).await;
            last_words(ended, &process)
        }
        _ = &mut reading => match tokio::time::timeout(AFTERMATH, process.ended()).await {
            Ok(ended) => last_words(ended, &process),
            Err(_) => "the server closed its output".to_owned(),
        },
        () = deaf.cancelled() => match tokio::time::timeout(AFTERMATH, process.ended()).await {
            Ok(ended) => last_words(ended, &process),
            Err(_) => "the server closed its input".to_owned(),
        },
    };
    (words, process)
}

fn last_words(ended: Ended, process: &Process) -> String {
    let said = process.last_words();
    match said.trim() {
        "" => format!("the server ended: {ended}"),
        said => format!("the server ended: {ended}; it said: {said}"),
    }
}

struct Reading {
    lines: Lines<ChildStdout>,
    switch: Switch,
    outgoing: mpsc::WeakSender<String>,
    most_bytes: usize,
}

impl Reading {
    async fn run(mut self) {
        let Self { lines, switch, outgoing, most_bytes } = &mut self;
        let source = switch.inbox.source();
        loop {
            match lines.next().await {
                Ok(Some(Line::Whole(line))) => take(switch, outgoing, line),
                Ok(Some(Line::TooLong(long))) => refuse(switch, &long, *most_bytes),
                Ok(None) => return,
                Err(error) => return tracing::warn!(source, %error, "cannot read from the server"),
            }
            // A flood of lines must not keep everybody else from their turn.
            tokio::task::coop::consume_budget().await;
        }
    }
}

fn take(switch: &Switch, outgoing: &mpsc::WeakSender<String>, line: &[u8]) {
    if line.trim_ascii().is_empty() {
        return;
    }
    let source = switch.inbox.source();
    let Ok(text) = std::str::from_utf8(line) else {
        return refuse_garbled(switch, line);
    };
    let reply = || -> Reply {
        let (outgoing, source) = (outgoing.clone(), source.to_owned());
        Box::new(move |text| {
            let room = outgoing.upgrade();
            if room.is_none_or(|outgoing| outgoing.try_send(text).is_err()) {
                tracing::warn!(source, "the server does not read; its question stays unanswered");
            }
        })
    };
    if let Err(error) = switch.take(text, None, &reply) {
        let said: String = text.chars().take(200).collect();
        tracing::warn!(source, said, error, "a line of output that is no message");
    }
}

/// The answer cannot be used, but whoever waits for it is told.
fn refuse_garbled(switch: &Switch, line: &[u8]) {
    let source = switch.inbox.source();
    tracing::warn!(source, "a message that is not UTF-8");
    let garbled = String::from_utf8_lossy(line);
    let _ = rpc::read(&garbled, &mut |message| {
        if let rpc::Message::Response { id: Some(id), .. } = message {
            let failure = Failure::Unusable("the answer of the server is not UTF-8".to_owned());
            switch.pending.answer(id, Err(failure));
        }
    });
}

fn refuse(switch: &Switch, long: &TooLong, most_bytes: usize) {
    let (source, bytes) = (switch.inbox.source(), long.bytes);
    tracing::warn!(source, bytes, "a message that is too long");
    if let Some(id) = rpc::id_at_the_edges(&long.head, &long.tail) {
        let failure = Failure::too_large(bytes, most_bytes);
        switch.pending.answer(id, Err(failure));
    }
}
