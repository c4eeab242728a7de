//! Spans on their way out: OTLP over HTTP, in its JSON form.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolpost::RequestId;
use url::Url;

use super::page::Page;
use super::settings::TelemetrySettings;

/// How many spans may wait; those that come while it is full are lost, and counted.
const WAITING: usize = 8_192;
/// How many are sent at once.
const BATCH: usize = 512;
/// How long the first of them waits for more.
const COLLECTING: Duration = Duration::from_secs(1);
/// How long the collector may take.
const SENDING: Duration = Duration::from_secs(10);
/// How long it is left alone before the same is sent once more.
const PAUSE: Duration = Duration::from_secs(1);

/// A span that has ended.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) trace_id: u128,
    pub(super) span_id: u64,
    pub(super) parent: Option<u64>,
    pub(super) kind: SpanKind,
    pub(super) operation: Box<str>,
    pub(super) source: Box<str>,
    pub(super) door: &'static str,
    pub(super) request_id: RequestId,
    pub(super) who: Option<Box<str>>,
    pub(super) outcome: Box<str>,
    pub(super) is_failure: bool,
    /// Since 1970.
    pub(super) start: Duration,
    pub(super) end: Duration,
}

/// What a span stands for, by the numbers of OTLP.
#[derive(Debug, Clone, Copy)]
pub(super) enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// Takes spans and sends them from a task of its own.
pub(super) struct Exporter {
    queue: mpsc::Sender<Record>,
    counts: Arc<Counts>,
    stopping: CancellationToken,
    /// Owns the task.
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    lost: AtomicU64,
}

impl Exporter {
    pub(super) fn start(settings: &TelemetrySettings) -> Result<Self, String> {
        let (queue, waiting) = mpsc::channel(WAITING);
        let (counts, stopping, tasks) =
            (Arc::default(), CancellationToken::new(), TaskTracker::new());
        let post = Post::new(settings)?;
        let sending = send_all(post, waiting, Arc::clone(&counts), stopping.clone());
        tasks.spawn(sending);
        tasks.close();
        Ok(Self { queue, counts, stopping, tasks })
    }

    pub(super) fn take(&self, record: Record) {
        if self.queue.try_send(record).is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn write(&self, page: &mut Page) {
        page.counter("toolpost_spans_total", "Spans that were sent, and those that were lost.");
        for (what, number) in [("sent", &self.counts.sent), ("lost", &self.counts.lost)] {
            let number = number.load(Ordering::Relaxed);
            page.value("toolpost_spans_total", &[("outcome", what)], number);
        }
    }

    pub(super) async fn close(&self, patience: Duration) {
        self.stopping.cancel();
        if tokio::time::timeout(patience, self.tasks.wait()).await.is_err() {
            tracing::warn!("the collector of spans did not take the last ones in time");
        }
    }
}

async fn send_all(
    post: Post,
    mut waiting: mpsc::Receiver<Record>,
    counts: Arc<Counts>,
    stopping: CancellationToken,
) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut was_taken = true;
    loop {
        let is_last = tokio::select! {
            biased;
            () = stopping.cancelled() => true,
            got = waiting.recv_many(&mut batch, BATCH) => got == 0,
        };
        if is_last {
            waiting.close();
            while batch.len() < WAITING && waiting.recv_many(&mut batch, BATCH).await > 0 {}
        } else if batch.len() < BATCH {
            let more = async {
                while batch.len() < BATCH && waiting.recv_many(&mut batch, BATCH).await > 0 {}
            };
            tokio::select! {
                () = more => {}
                () = tokio::time::sleep(COLLECTING) => {}
                () = stopping.cancelled() => {}
            }
        }
        if !batch.is_empty() {
            let number = batch.len() as u64;
            let taken = post.send(&batch).await;
            let count = if taken.is_ok() { &counts.sent } else { &counts.lost };
            count.fetch_add(number, Ordering::Relaxed);
            // Said once, and not with every batch.
            if let Err(error) = &taken
                && was_taken
            {
                tracing::warn!(error, "spans are lost: the collector does not take them");
            }
            was_taken = taken.is_ok();
            batch.clear();
        }
        if is_last {
            return;
        }
    }
}

/// The way to the collector.
struct Post {
    client: reqwest::Client,
    address: Url,
    headers: HeaderMap,
    service: String,
}

impl Post {
    fn new(settings: &TelemetrySettings) -> Result<Self, String> {
        let address = settings.otlp.clone().ok_or("there is no address for spans")?;
        // Whoever embeds this may have chosen already; either is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(SENDING).build();
        let client = client.map_err(|error| error.without_url().to_string())?;
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let name = name.parse::<HeaderName>();
            let value = value.parse::<HeaderValue>();
            let (Ok(name), Ok(value)) = (name, value) else {
                return Err("a header for the collector of spans is none".to_owned());
            };
            headers.insert(name, value);
        }
        Ok(Self { client, address, headers, service: settings.service.clone() })
    }

    /// Sends once, and once more where that may help. The words hold no address, which may hold a key.
    async fn send(&self, records: &[Record]) -> Result<(), String> {
        let body = document(&self.service, records).to_string();
        match self.try_send(&body).await {
            Err((_, true)) => {
                tokio::time::sleep(PAUSE).await;
                self.try_send(&body).await.map_err(|(words, _)| words)
            }
            ended => ended.map_err(|(words, _)| words),
        }
    }

    async fn try_send(&self, body: &str) -> Result<(), (String, bool)> {
        let request = self.client.post(self.address.clone()).headers(self.headers.clone());
        let request = request.header("content-type", "application/json").body(body.to_owned());
        let answer = request.send().await;
        match answer.map_err(reqwest::Error::without_url) {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => {
                let status = answer.status().as_u16();
                let may_help = matches!(status, 429 | 502 | 503 | 504);
                Err((format!("it answered with {status}"), may_help))
            }
            Err(error) => Err((error.to_string(), true)),
        }
    }
}

/// The spans as OTLP writes them: ids in hexadecimal digits, large numbers as texts.
fn document(service: &str, records: &[Record]) -> Value {
    let spans: Vec<Value> = records.iter().map(span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            text("service.name", service),
            text("service.version", env!("CARGO_PKG_VERSION")),
        ]},
        "scopeSpans": [{
            "scope": {"name": "toolpost", "version": env!("CARGO_PKG_VERSION")},
            "spans": spans,
        }],
    }]})
}

fn span(record: &Record) -> Value {
    let mut attributes = vec![
        text("toolpost.operation", &record.operation),
        text("toolpost.source", &record.source),
        text("toolpost.door", record.door),
        text("toolpost.outcome", &record.outcome),
        text("toolpost.request_id", &record.request_id.to_string()),
    ];
    attributes.extend(record.who.as_deref().map(|who| text("enduser.id", who)));
    let mut span = json!({
        "traceId": format!("{:032x}", record.trace_id),
        "spanId": format!("{:016x}", record.span_id),
        "name": record.operation,
        "kind": record.kind as u8,
        "startTimeUnixNano": record.start.as_nanos().to_string(),
        "endTimeUnixNano": record.end.as_nanos().to_string(),
        "attributes": attributes,
        // The words of an error may quote what was called with, so only its code.
        "status": if record.is_failure {
            json!({"code": 2, "message": record.outcome})
        } else {
            json!({})
        },
    });
    if let Some(parent) = record.parent {
        span["parentSpanId"] = format!("{parent:016x}").into();
    }
    span
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}
