//! Span export with OTLP over HTTP, JSON-encoded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolpost::{Endpoint, RequestId};
use url::Url;

use super::exposition::Exposition;
use super::settings::TelemetrySettings;

/// Maximum number of queued spans. Further spans are dropped and counted.
const QUEUE_CAPACITY: usize = 8_192;
/// Maximum number of spans per request.
const BATCH_SIZE: usize = 512;
/// Maximum time a span waits for its batch to fill.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// Timeout of a request to the collector.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay before a failed batch is sent again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A finished span.
#[derive(Debug)]
pub(super) struct SpanRecord {
    pub(super) trace_id: u128,
    pub(super) span_id: u64,
    pub(super) parent: Option<u64>,
    pub(super) kind: SpanKind,
    pub(super) operation: Box<str>,
    pub(super) source: Box<str>,
    pub(super) endpoint: Endpoint,
    pub(super) request_id: RequestId,
    pub(super) identity: Option<Box<str>>,
    /// `ok`, or why the call failed.
    pub(super) outcome: Box<str>,
    /// Time since the Unix epoch.
    pub(super) start: Duration,
    pub(super) end: Duration,
}

/// The kind of a span, with the numbers of OTLP.
#[derive(Debug, Clone, Copy)]
pub(super) enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// Queues spans and sends them from a separate async task.
pub(super) struct Exporter {
    queue: mpsc::Sender<SpanRecord>,
    counts: Arc<ExportCounts>,
    stopping: CancellationToken,
    /// Tracks the export task.
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct ExportCounts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Exporter {
    pub(super) fn start(settings: &TelemetrySettings) -> Result<Self, String> {
        let (queue, waiting) = mpsc::channel(QUEUE_CAPACITY);
        let (counts, stopping, tasks) =
            (Arc::default(), CancellationToken::new(), TaskTracker::new());
        let post = OtlpClient::new(settings)?;
        let sending = send_all(post, waiting, Arc::clone(&counts), stopping.clone());
        tasks.spawn(sending);
        tasks.close();
        Ok(Self { queue, counts, stopping, tasks })
    }

    pub(super) fn enqueue(&self, record: SpanRecord) {
        if self.queue.try_send(record).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn write(&self, exposition: &mut Exposition) {
        let help = "Spans sent and dropped, by outcome.";
        let mut spans = exposition.counter("toolpost_spans_total", help);
        for (outcome, count) in [("sent", &self.counts.sent), ("dropped", &self.counts.dropped)] {
            spans.sample(&[("outcome", outcome)], count.load(Ordering::Relaxed));
        }
    }

    pub(super) async fn close(&self, timeout: Duration) {
        self.stopping.cancel();
        if tokio::time::timeout(timeout, self.tasks.wait()).await.is_err() {
            tracing::warn!("span export did not finish before the shutdown timeout");
        }
    }
}

async fn send_all(
    client: OtlpClient,
    mut queue: mpsc::Receiver<SpanRecord>,
    counts: Arc<ExportCounts>,
    stopping: CancellationToken,
) {
    let mut batch = Vec::with_capacity(BATCH_SIZE);
    let mut was_taken = true;
    loop {
        let is_last = tokio::select! {
            biased;
            () = stopping.cancelled() => true,
            got = queue.recv_many(&mut batch, BATCH_SIZE) => got == 0,
        };
        let max = if is_last { QUEUE_CAPACITY } else { BATCH_SIZE };
        if is_last {
            queue.close();
        }
        let more = async {
            while batch.len() < max && queue.recv_many(&mut batch, BATCH_SIZE).await > 0 {}
        };
        tokio::select! {
            () = more => {}
            () = tokio::time::sleep(BATCH_DELAY), if !is_last => {}
            () = stopping.cancelled(), if !is_last => {}
        }
        if !batch.is_empty() {
            let number = batch.len() as u64;
            let taken = client.send(&batch).await;
            let count = if taken.is_ok() { &counts.sent } else { &counts.dropped };
            count.fetch_add(number, Ordering::Relaxed);
            // Logged for the first failed batch only.
            if let Err(error) = &taken
                && was_taken
            {
                tracing::warn!(error, "span export failed; spans dropped");
            }
            was_taken = taken.is_ok();
            batch.clear();
        }
        if is_last {
            return;
        }
    }
}

/// HTTP client of the OTLP collector.
struct OtlpClient {
    client: reqwest::Client,
    address: Url,
    headers: HeaderMap,
    service: String,
}

impl OtlpClient {
    fn new(settings: &TelemetrySettings) -> Result<Self, String> {
        let address = settings.otlp.clone().ok_or("no OTLP endpoint is configured")?;
        let tls = settings.client_tls();
        if !settings.headers.is_empty() {
            tls.check_credentials(&address).map_err(|error| error.to_string())?;
        }
        let builder = tls.configure(toolpost::http::client_builder());
        let builder = builder.map_err(|error| error.without_url().to_string())?;
        // A redirect would send the headers to another host.
        let redirects = match settings.headers.is_empty() {
            true => reqwest::redirect::Policy::default(),
            false => reqwest::redirect::Policy::none(),
        };
        let client = builder.redirect(redirects).timeout(REQUEST_TIMEOUT).build();
        let client = client.map_err(|error| error.without_url().to_string())?;
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse()) else {
                return Err("a header for the OTLP collector is invalid".to_owned());
            };
            headers.insert(name, value);
        }
        Ok(Self { client, address, headers, service: settings.service.clone() })
    }

    /// Sends a batch and retries once. Errors omit the URL, which may contain a key.
    async fn send(&self, records: &[SpanRecord]) -> Result<(), String> {
        let body = otlp_payload(&self.service, records).to_string();
        let mut sent = self.try_send(&body).await;
        if let Err((_, true)) = sent {
            tokio::time::sleep(RETRY_DELAY).await;
            sent = self.try_send(&body).await;
        }
        sent.map_err(|(message, _)| message)
    }

    async fn try_send(&self, body: &str) -> Result<(), (String, bool)> {
        let request = self.client.post(self.address.clone()).headers(self.headers.clone());
        let request = request.header("content-type", "application/json").body(body.to_owned());
        let response = request.send().await;
        match response.map_err(reqwest::Error::without_url) {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => {
                let status = response.status().as_u16();
                let may_help = matches!(status, 429 | 502 | 503 | 504);
                Err((format!("the collector returned status {status}"), may_help))
            }
            Err(error) => Err((error.to_string(), true)),
        }
    }
}

/// Returns the OTLP/JSON request body. Ids are hexadecimal and large numbers are strings.
fn otlp_payload(service: &str, records: &[SpanRecord]) -> Value {
    let spans: Vec<Value> = records.iter().map(otlp_span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            string_attribute("service.name", service),
            string_attribute("service.version", env!("CARGO_PKG_VERSION")),
        ]},
        "scopeSpans": [{
            "scope": {"name": "toolpost", "version": env!("CARGO_PKG_VERSION")},
            "spans": spans,
        }],
    }]})
}

fn otlp_span(record: &SpanRecord) -> Value {
    let mut attributes = vec![
        string_attribute("toolpost.operation", &record.operation),
        string_attribute("toolpost.source", &record.source),
        string_attribute("toolpost.endpoint", record.endpoint.as_str()),
        string_attribute("toolpost.outcome", &record.outcome),
        string_attribute("toolpost.request_id", &record.request_id.to_string()),
    ];
    attributes.extend(
        record.identity.as_deref().map(|identity_id| string_attribute("enduser.id", identity_id)),
    );
    let mut span = json!({
        "traceId": format!("{:032x}", record.trace_id),
        "spanId": format!("{:016x}", record.span_id),
        "name": record.operation,
        "kind": record.kind as u8,
        "startTimeUnixNano": record.start.as_nanos().to_string(),
        "endTimeUnixNano": record.end.as_nanos().to_string(),
        "attributes": attributes,
        // An error message may quote the input of the call, so only the code is sent.
        "status": match &*record.outcome {
            "ok" => json!({}),
            failure => json!({"code": 2, "message": failure}),
        },
    });
    if let Some(parent) = record.parent {
        span["parentSpanId"] = format!("{parent:016x}").into();
    }
    span
}

fn string_attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}
