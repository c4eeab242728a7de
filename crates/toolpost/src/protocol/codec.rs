//! Encodes events as JSON text, and decodes them with error diagnosis.

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::event::{CallEvent, Control, RequestEvent, Secret, names};
use crate::access::Identity;
use crate::envelope::{Envelope, LocalMeta, Meta};
use crate::error::CallError;
use crate::handler::Progress;
use crate::json::error_message;
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::schema::{Issue, Normalized, Repair};

/// Maximum length of an event type that gets a suggestion, and of a type in an error.
const MAX_TYPE_NAME_LEN: usize = 40;

/// Maximum size of a frame that is parsed into a tree to diagnose an error.
const MAX_DIAGNOSED_BYTES: usize = 64 * 1024;

/// Maximum length of a request id, in bytes.
const MAX_ID_BYTES: usize = 256;

/// Example of an envelope, for peers that send a bare value.
const ENVELOPE_EXAMPLE: &str = r#"{"data": 5, "meta": {"source": "local", "operationId": "math.add", "timestamp": 1700000000000}}"#;

/// Error for a frame that is not a valid event. It is reported to the sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct FrameError {
    /// Id of the request that the frame belongs to, as far as it could be read.
    pub id: Arc<str>,
    /// Whether the frame is a response or an error. The request it belongs to can then only fail.
    pub is_response: bool,
    /// Description of the error and its location.
    pub message: String,
}

impl FrameError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { id: "".into(), is_response: false, message: message.into() }
    }

    /// Returns the error event to send to the peer.
    pub(crate) fn to_event(&self) -> CallEvent {
        let error = CallError::validation(self.message.clone(), &[]);
        CallEvent::Failed { id: Arc::clone(&self.id), error }
    }
}

impl CallEvent {
    /// Serializes the event as one text frame.
    pub fn to_json(&self) -> String {
        // Serialization cannot fail: every part is already JSON or consists of strings and numbers.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses one frame. Unknown members are ignored; payloads are parsed on demand.
    ///
    /// # Errors
    ///
    /// Returns a [`FrameError`] that describes the problem, with the request id if it can be read.
    pub fn from_json(text: &str) -> Result<Self, FrameError> {
        let frame: RawFrame<'_> = serde_json::from_str(text).map_err(|_| diagnose(text))?;
        frame.decode().map_err(|message| FrameError {
            id: if validate_id(&frame.id).is_ok() { frame.id.as_ref().into() } else { "".into() },
            is_response: matches!(&*frame.kind, names::RESPONDED | names::ERROR),
            message: format!("{}: {message}", truncate_name(&frame.kind)),
        })
    }
}

#[derive(Deserialize)]
struct RawFrame<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

impl<'a> RawFrame<'a> {
    fn decode(&self) -> Result<CallEvent, String> {
        match &*self.kind {
            names::REQUESTED => self.decode_requested(),
            names::RESPONDED => self.decode_responded(),
            names::PROGRESS => {
                let (id, progress) = self.decode_for_request::<Progress>()?;
                Ok(CallEvent::Progress { id, progress })
            }
            names::COMPLETED => {
                Ok(CallEvent::Completed { id: self.decode_for_request::<EmptyPayload>()?.0 })
            }
            names::ABORTED => {
                let (id, aborted) = self.decode_for_request::<AbortedIn>()?;
                Ok(CallEvent::Aborted { id, reason: aborted.reason })
            }
            // The peer could not determine the request of a frame. Rejecting this error would
            // cause another one, in an endless loop.
            names::ERROR if self.id.is_empty() => {
                Ok(CallEvent::Failed { id: self.shared_id(), error: self.parse_payload()? })
            }
            names::ERROR => {
                let (id, error) = self.decode_for_request::<CallError>()?;
                Ok(CallEvent::Failed { id, error })
            }
            _ => self.decode_control().map(CallEvent::Control),
        }
    }

    fn decode_requested(&self) -> Result<CallEvent, String> {
        let wire: RequestedIn<'_> = self.parse_payload()?;
        self.check_id(wire.request_id.as_deref())?;
        Ok(CallEvent::Requested(Box::new(RequestEvent {
            id: self.shared_id(),
            operation: wire.operation_id.as_ref().into(),
            input: wire.input,
            parent_id: wire.parent_request_id.map(Into::into),
            deadline: wire.deadline.map(to_millis),
            timeout_ms: wire.timeout_ms.map(to_unsigned_millis),
            idle_timeout_ms: wire.idle_timeout.map(to_unsigned_millis),
            window: wire.window,
            idempotency_key: wire.idempotency_key.map(Into::into),
            identity: wire.identity.map(Arc::new),
            metadata: wire.metadata.map(Arc::new),
        })))
    }

    fn decode_responded(&self) -> Result<CallEvent, String> {
        let wire: RespondedIn<'_> = self.parse_payload()?;
        self.check_id(wire.request_id.as_deref())?;
        let output = wire.output.ok_or_else(|| not_an_envelope("it is missing or null"))?;
        let mut outcome = Outcome::new(decode_envelope(output)?);
        let mut findings = Normalized::default();
        (findings.repairs, findings.issues) = (wire.repairs, wire.warnings);
        outcome.add_findings(findings);
        if wire.replayed {
            outcome = outcome.into_replayed();
        }
        Ok(CallEvent::Responded { id: self.shared_id(), outcome })
    }

    fn decode_control(&self) -> Result<Control, String> {
        match &*self.kind {
            names::AUTH => Ok(Control::Auth(self.parse_payload::<AuthIn>()?.token)),
            names::SUBSCRIBE => Ok(Control::Subscribe(self.decode_topic()?)),
            names::UNSUBSCRIBE => Ok(Control::Unsubscribe(self.decode_topic()?)),
            names::MORE => {
                let more: MoreIn = self.parse_payload()?;
                Ok(Control::More { id: more.request_id.into(), count: more.count })
            }
            other => Err(unknown_type(other)),
        }
    }

    fn decode_topic(&self) -> Result<String, String> {
        let topic = self.parse_payload::<TopicIn>()?.topic;
        match topic.split_once(':') {
            Some((kind, id)) if names::ALL.contains(&kind) => {
                validate_id(id)?;
                Ok(topic)
            }
            _ => Err("a topic is `type:id`, such as `call.responded:42`".to_owned()),
        }
    }

    /// Decodes the payload of an event about a request, whose `id` and `requestId` agree.
    fn decode_for_request<T: for<'de> Deserialize<'de>>(&self) -> Result<(Arc<str>, T), String> {
        let request_ref: RequestRefIn = self.parse_payload()?;
        self.check_id(request_ref.request_id.as_deref())?;
        Ok((self.shared_id(), self.parse_payload()?))
    }

    fn parse_payload<T: Deserialize<'a>>(&self) -> Result<T, String> {
        serde_json::from_str(self.payload.get()).map_err(|error| error_reason(&error))
    }

    fn check_id(&self, in_payload: Option<&str>) -> Result<(), String> {
        match in_payload {
            _ if self.id.is_empty() => Err("`id` is empty".to_owned()),
            _ if validate_id(&self.id).is_err() => validate_id(&self.id),
            Some(id) if id == self.id => Ok(()),
            Some(id) if validate_id(id).is_err() => validate_id(id),
            Some(id) => Err(format!("`id` is `{}` but `requestId` is `{id}`", self.id)),
            None => Err("`requestId` is missing from the payload".to_owned()),
        }
    }

    fn shared_id(&self) -> Arc<str> {
        self.id.as_ref().into()
    }
}

/// Decodes an envelope. For local envelopes, the common case, the metadata is not parsed into a
/// tree.
fn decode_envelope(output: &RawValue) -> Result<Envelope<Payload>, String> {
    if let Ok(plain) = serde_json::from_str::<LocalEnvelopeIn<'_>>(output.get())
        && plain.meta.source == "local"
    {
        let meta = LocalMeta::new(plain.meta.operation_id.as_ref(), plain.meta.timestamp);
        return Ok(Envelope { data: plain.data.to_owned().into(), meta: Meta::Local(meta) });
    }
    serde_json::from_str(output.get()).map_err(|error| not_an_envelope(&error_reason(&error)))
}

/// Returns the error for an output that is not an envelope, with an example of one.
fn not_an_envelope(reason: &str) -> String {
    format!(
        "`output` is not a response envelope: {reason}; an envelope is an object with `data` and \
         `meta`, such as {ENVELOPE_EXAMPLE}"
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LocalEnvelopeIn<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(borrow)]
    meta: LocalMetaIn<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LocalMetaIn<'a> {
    #[serde(borrow)]
    source: Cow<'a, str>,
    #[serde(borrow)]
    operation_id: Cow<'a, str>,
    timestamp: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestedIn<'a> {
    #[serde(borrow)]
    request_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    operation_id: Cow<'a, str>,
    #[serde(default = "Payload::empty_object")]
    input: Payload,
    parent_request_id: Option<String>,
    deadline: Option<f64>,
    timeout_ms: Option<f64>,
    idle_timeout: Option<f64>,
    window: Option<u32>,
    idempotency_key: Option<String>,
    identity: Option<Identity>,
    metadata: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RespondedIn<'a> {
    #[serde(borrow)]
    request_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(default)]
    repairs: Vec<Repair>,
    #[serde(default)]
    warnings: Vec<Issue>,
    #[serde(default)]
    replayed: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestRefIn {
    request_id: Option<String>,
}

#[derive(Deserialize)]
struct EmptyPayload {}

#[derive(Deserialize)]
struct AbortedIn {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct AuthIn {
    token: Secret,
}

#[derive(Deserialize)]
struct TopicIn {
    topic: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MoreIn {
    request_id: String,
    count: u32,
}

/// Converts to whole milliseconds. Peers may send fractions.
#[expect(clippy::cast_possible_truncation, reason = "a cast saturates, which is the far future")]
fn to_millis(milliseconds: f64) -> i64 {
    milliseconds as i64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast saturates at 0 and at the maximum"
)]
fn to_unsigned_millis(milliseconds: f64) -> u64 {
    milliseconds as u64
}

/// Returns the error message without its position, which is relative to the payload.
fn error_reason(error: &serde_json::Error) -> String {
    let text = error_message(error);
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// Truncates an event type for use in an error message.
fn truncate_name(name: &str) -> &str {
    match name.char_indices().nth(MAX_TYPE_NAME_LEN) {
        Some((end, _)) => &name[..end],
        None => name,
    }
}

fn unknown_type(name: &str) -> String {
    // The comparison is slow for long names.
    if name.len() > MAX_TYPE_NAME_LEN {
        return "unknown type of event".to_owned();
    }
    let known = names::ALL.iter().map(|known| (strsim::damerau_levenshtein(name, known), known));
    match known.min() {
        Some((0..=3, known)) => format!("unknown type of event; did you mean `{known}`?"),
        _ => "unknown type of event".to_owned(),
    }
}

/// Builds the error for a frame that is not valid JSON, for example because it contains `NaN`.
/// Extracts the type and request id from the text if possible.
fn malformed_frame(text: &str, message: String) -> FrameError {
    let mut frame_error = FrameError::new(message);
    let text_of = |name: &str| -> Option<&str> {
        let rest = text.split_once(&format!("\"{name}\""))?.1.trim_start().strip_prefix(':')?;
        let (found, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        (!found.contains('\\') && validate_id(found).is_ok()).then_some(found)
    };
    if let (Some(kind), Some(id)) = (text_of("type"), text_of("id")) {
        frame_error.is_response = matches!(kind, names::RESPONDED | names::ERROR);
        frame_error.id = id.into();
    }
    frame_error
}

/// Checks the length and characters of an id, which appears in log lines.
fn validate_id(id: &str) -> Result<(), String> {
    if id.len() > MAX_ID_BYTES || id.chars().any(char::is_control) {
        return Err(format!("an id has at most {MAX_ID_BYTES} bytes, and no control characters"));
    }
    Ok(())
}

/// Diagnoses a frame that does not have the structure of an event. Slow, but rarely needed.
fn diagnose(text: &str) -> FrameError {
    if text.len() > MAX_DIAGNOSED_BYTES
        && let Err(error) = serde_json::from_str::<RawFrame<'_>>(text)
    {
        return malformed_frame(
            text,
            format!("the frame is not an event: {}", error_message(&error)),
        );
    }
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return malformed_frame(text, format!("the frame is not JSON: {error}")),
    };
    let Some(members) = value.as_object() else {
        return FrameError::new("a frame is a JSON object with `type`, `id` and `payload`");
    };
    let is_text = |name: &str| members.get(name).is_some_and(Value::is_string);
    let problem = match () {
        () if !is_text("type") => "`type` must be a string",
        () if !is_text("id") => "`id` must be a string",
        () if !members.contains_key("payload") => "`payload` is missing",
        () => "`type`, `id` and `payload` must not be repeated",
    };
    let id = members.get("id").and_then(Value::as_str).unwrap_or_default();
    FrameError { id: id.into(), is_response: false, message: format!("not an event: {problem}") }
}

impl Serialize for CallEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut frame = serializer.serialize_map(Some(3))?;
        frame.serialize_entry("type", self.type_name())?;
        frame.serialize_entry("id", self.id())?;
        frame.serialize_entry("payload", &PayloadOut(self))?;
        frame.end()
    }
}

struct PayloadOut<'a>(&'a CallEvent);

impl Serialize for PayloadOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut payload = serializer.serialize_map(None)?;
        match self.0 {
            CallEvent::Control(control) => write_control(&mut payload, control)?,
            event => {
                payload.serialize_entry("requestId", event.id())?;
                write_payload(&mut payload, event)?;
            }
        }
        payload.end()
    }
}

fn write_payload<M: SerializeMap>(payload: &mut M, event: &CallEvent) -> Result<(), M::Error> {
    match event {
        CallEvent::Requested(request) => write_requested(payload, request),
        CallEvent::Responded { outcome, .. } => write_outcome(payload, outcome),
        CallEvent::Progress { progress, .. } => {
            payload.serialize_entry("progress", &progress.progress)?;
            serialize_optional(payload, "total", progress.total.as_ref())?;
            serialize_optional(payload, "message", progress.message.as_ref())
        }
        CallEvent::Aborted { reason, .. } => serialize_optional(payload, "reason", reason.as_ref()),
        CallEvent::Failed { error, .. } => {
            payload.serialize_entry("code", error.code().as_str())?;
            payload.serialize_entry("message", error.message())?;
            serialize_optional(payload, "details", error.details())?;
            payload.serialize_entry("retryable", &error.is_retryable())?;
            serialize_optional(payload, "replayed", error.is_replayed().then_some(&true))
        }
        CallEvent::Completed { .. } | CallEvent::Control(_) => Ok(()),
    }
}

fn write_requested<M: SerializeMap>(
    payload: &mut M,
    request: &RequestEvent,
) -> Result<(), M::Error> {
    payload.serialize_entry("operationId", &*request.operation)?;
    payload.serialize_entry("input", &request.input)?;
    serialize_optional(payload, "parentRequestId", request.parent_id.as_deref())?;
    serialize_optional(payload, "deadline", request.deadline.as_ref())?;
    serialize_optional(payload, "timeoutMs", request.timeout_ms.as_ref())?;
    serialize_optional(payload, "idleTimeout", request.idle_timeout_ms.as_ref())?;
    serialize_optional(payload, "window", request.window.as_ref())?;
    serialize_optional(payload, "idempotencyKey", request.idempotency_key.as_deref())?;
    serialize_optional(payload, "identity", request.identity.as_deref())?;
    serialize_optional(payload, "metadata", request.metadata.as_deref())
}

fn write_outcome<M: SerializeMap>(payload: &mut M, outcome: &Outcome) -> Result<(), M::Error> {
    payload.serialize_entry("output", &outcome.envelope)?;
    if !outcome.repairs().is_empty() {
        payload.serialize_entry("repairs", outcome.repairs())?;
    }
    if !outcome.warnings().is_empty() {
        payload.serialize_entry("warnings", outcome.warnings())?;
    }
    serialize_optional(payload, "replayed", outcome.is_replayed().then_some(&true))
}

fn write_control<M: SerializeMap>(payload: &mut M, control: &Control) -> Result<(), M::Error> {
    match control {
        Control::Auth(token) => payload.serialize_entry("token", token.reveal()),
        Control::Subscribe(topic) | Control::Unsubscribe(topic) => {
            payload.serialize_entry("topic", topic)
        }
        Control::More { id, count } => {
            payload.serialize_entry("requestId", &**id)?;
            payload.serialize_entry("count", count)
        }
    }
}

fn serialize_optional<M: SerializeMap, T: Serialize + ?Sized>(
    payload: &mut M,
    name: &'static str,
    value: Option<&T>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| payload.serialize_entry(name, value))
}
