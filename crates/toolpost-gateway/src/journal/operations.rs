//! The journal operations, for callers with the required scopes.

use futures::{Stream, StreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolpost::{
    AccessControl, CallContext, CallError, HandlerError, Issue, Operation, Registry, epoch_ms,
    timestamp,
};

use super::index::BlockMark;
use super::reader::JournalReader;
use super::replay::{self, ReplayReport};
use super::search::{QueryError, RecordFilter};
use super::tail::Tail;
use super::verify::{Anchor, ChainReport};
use crate::admin::scope;
use crate::glob::Glob;
use crate::kind_filter::KindFilter;
use crate::units::parse_duration;

/// Default number of results; [`MAX_LIMIT`] is the maximum.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 1_000;
/// Maximum size of the messages in one response, so that it fits into a protocol message.
const MAX_MESSAGE_BYTES: usize = 8 * 1024 * 1024;

/// Creates the operations `gateway.journal`, `gateway.logs`, `gateway.verify` and `gateway.replay`.
pub fn operations(reader: &JournalReader, registry: &Registry) -> Vec<Operation> {
    let [of_journal, of_logs, of_verify, of_replay] = [(); 4].map(|()| reader.clone());
    let registry = registry.clone();
    let builders = [
        Operation::query("gateway.journal", move |input: JournalInput| {
            journal(of_journal.clone(), input)
        })
        .title("Read the journal")
        .description("Searches the journal for calls or room messages, newest first.")
        .access(require_scope(scope::READ)),
        Operation::subscription("gateway.logs", move |context: CallContext, input: LogsInput| {
            logs(&of_logs, context, input)
        })
        .title("Tail the journal")
        .description("Streams calls as they finish.")
        .access(require_scope(scope::READ)),
        Operation::query("gateway.verify", move |input: VerifyInput| {
            verify(of_verify.clone(), input)
        })
        .title("Verify the journal")
        .description("Verifies the hash chain and the signatures of the journal.")
        .access(require_scope(scope::READ)),
        Operation::mutation("gateway.replay", move |context: CallContext, input: ReplayInput| {
            replay(of_replay.clone(), registry.clone(), context, input)
        })
        .title("Replay a call")
        .description("Previews the replay of a call, or runs it and compares the results.")
        .access(require_scope(scope::ADMIN)),
    ];
    builders.map(|builder| builder.build().expect("the ids are plain")).into()
}

fn require_scope(scope: &str) -> AccessControl {
    let mut control = AccessControl::default();
    control.required_scopes.push(scope.to_owned());
    control
}

/// A time: milliseconds since the Unix epoch, or text.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
enum TimeInput {
    Millis(i64),
    /// A duration before now, such as `15m`, or a time, such as `2026-11-16T12:00:00Z`.
    Text(String),
}

impl TimeInput {
    fn to_millis(&self) -> Result<i64, CallError> {
        match self {
            Self::Millis(millis) => Ok(*millis),
            Self::Text(text) => {
                parse_time(text).map_err(|message| CallError::validation(message, &[]))
            }
        }
    }
}

/// Parses a duration before now or a time, and returns milliseconds since the Unix epoch.
fn parse_time(text: &str) -> Result<i64, String> {
    if let Some(time) = parse_date(text) {
        return Ok(time);
    }
    let ago = parse_duration(text).map_err(|_| {
        format!("invalid time `{text}`: use a duration before now such as 15m, or a time such as 2026-11-16T12:00:00Z")
    })?;
    Ok(epoch_ms().saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)))
}

/// Parses a time with an offset, or a date with an optional time in UTC.
fn parse_date(text: &str) -> Option<i64> {
    let in_utc = |text: &str| {
        let date: jiff::civil::DateTime = text.parse().ok()?;
        jiff::tz::TimeZone::UTC.to_timestamp(date).ok()
    };
    let time = text.parse().ok().or_else(|| in_utc(text.strip_suffix('Z').unwrap_or(text)))?;
    Some(jiff::Timestamp::as_millisecond(time))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct JournalInput {
    /// Only the call with this id, `<gateway id>:<seq>`. The gateway id may be shortened or omitted
    /// if no other call matches. A request id is accepted too. Other filters do not apply.
    id: Option<String>,
    /// Only calls to this operation; `*` matches anything.
    op: Option<String>,
    /// Only calls that started, or messages that were recorded, at or after this time.
    since: Option<TimeInput>,
    /// Only calls that started, or messages that were recorded, before this time.
    until: Option<TimeInput>,
    /// Only calls or messages by this identity.
    identity: Option<String>,
    /// Only failed calls, or messages that a room rejected.
    errors: bool,
    /// Messages and rejections of this room instead of calls; `*` matches anything.
    room: Option<String>,
    /// Only messages of this kind, such as `mcp/response:tools/call:read_*`, or of one of these
    /// kinds; `*` matches anything within a part. Requires `room`.
    kind: Option<KindInput>,
    /// Only entries with a smaller `seq`. For the next page, the smallest `seq` of this page.
    before: Option<u64>,
    /// Maximum number of results; 50 by default, at most 1000.
    limit: Option<usize>,
    /// Id of the gateway to read the journal of, if it is another one in the same data folder.
    gateway_id: Option<String>,
}

/// A kind, or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum KindInput {
    One(String),
    Several(Vec<String>),
}

impl KindInput {
    fn into_filter(self) -> Result<Option<KindFilter>, CallError> {
        let parsed = match self {
            Self::One(kind) => KindFilter::parse(&[kind]),
            Self::Several(kinds) => KindFilter::parse(&kinds),
        };
        parsed.map_err(|message| CallError::validation(message, &[]))
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct JournalOutput {
    /// Calls, newest first.
    calls: Vec<Value>,
    /// Messages and rejections of the requested room, newest first. A page may be shorter than
    /// `limit` if messages are long; an empty page is the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Value>>,
    /// Id of the gateway whose journal was read; absent if all journals were read because this
    /// gateway writes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway_id: Option<String>,
    /// Ids of the gateways with a journal in the data folder, this gateway first.
    gateway_ids: Vec<String>,
}

async fn journal(
    reader: JournalReader,
    input: JournalInput,
) -> Result<JournalOutput, HandlerError> {
    let own = reader.live().map(|(journal, _)| journal.gateway_id().to_owned());
    let chains = reader.chains().map_err(|error| read_error(error.into()))?;
    let gateway_ids: Vec<String> = chains.into_iter().map(|chain| chain.gateway_id).collect();
    if let Some(unknown) = input.gateway_id.as_ref().filter(|id| !gateway_ids.contains(id)) {
        let message = format!("the data folder has no journal `{unknown}`");
        return Err(CallError::validation(message, &[]).into());
    }
    if let Some(id) = input.id {
        let calls = vec![call_with_id(reader, id).await?];
        return Ok(JournalOutput { calls, messages: None, gateway_id: own, gateway_ids });
    }
    let is_room = input.room.is_some();
    let filter = input.into_filter(own)?;
    let gateway_id = filter.gateway.clone();
    let found = run_blocking(move || reader.records(&filter)).await?.map_err(read_error)?;
    let (calls, messages) = if is_room { (Vec::new(), Some(found)) } else { (found, None) };
    Ok(JournalOutput { calls, messages, gateway_id, gateway_ids })
}

/// Returns the only call that an id refers to.
async fn call_with_id(reader: JournalReader, id: String) -> Result<Value, HandlerError> {
    let wanted = id.clone();
    let mut calls =
        run_blocking(move || reader.calls_with_id(&wanted)).await?.map_err(read_error)?;
    match &calls[..] {
        [_] => Ok(calls.remove(0)),
        [] => Err(CallError::validation(format!("the journal has no call `{id}`"), &[]).into()),
        _ => {
            let describe = |call: &Value| {
                let text = |name: &str| call[name].as_str().unwrap_or_default();
                let time = timestamp(call["time"].as_i64().unwrap_or_default());
                Issue::new("", format!("{} at {time}: {}", text("callId"), text("operation")))
            };
            let message = format!("several calls have the id `{id}`; use one of these");
            let candidates: Vec<Issue> = calls.iter().map(describe).collect();
            Err(CallError::validation(message, &candidates).into())
        }
    }
}

impl JournalInput {
    fn into_filter(self, own: Option<String>) -> Result<RecordFilter, CallError> {
        if self.kind.is_some() && self.room.is_none() {
            let message = "`kind` needs `room`: only room messages have a kind";
            return Err(CallError::validation(message, &[]));
        }
        let (marks, name): (&[BlockMark], _) = match (self.op, self.room) {
            (Some(_), Some(_)) => {
                let message = "`op` and `room` cannot be combined: room messages have no operation";
                return Err(CallError::validation(message, &[]));
            }
            (None, Some(room)) if self.errors => (&[BlockMark::Rejection], Some(room)),
            (None, Some(room)) => (&[BlockMark::Message, BlockMark::Rejection], Some(room)),
            (op, None) => (call_marks(self.errors), op),
        };
        let [since, until] = [self.since, self.until]
            .map(|time| time.as_ref().map(TimeInput::to_millis).transpose());
        Ok(RecordFilter {
            gateway: self.gateway_id.or(own),
            marks,
            name: name.map(Glob::new),
            identity: self.identity,
            kinds: self.kind.map(KindInput::into_filter).transpose()?.flatten(),
            since: since?.unwrap_or(i64::MIN),
            until: until?.unwrap_or(i64::MAX),
            before: self.before.unwrap_or(u64::MAX),
            limit: self.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT),
            max_bytes: MAX_MESSAGE_BYTES,
        })
    }
}

fn call_marks(only_failed: bool) -> &'static [BlockMark] {
    if only_failed { &[BlockMark::Failed] } else { &[BlockMark::Call] }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct VerifyInput {
    /// A head stored elsewhere, to compare with.
    head: Option<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct VerifyOutput {
    /// Whether there is a journal and every journal is unchanged.
    ok: bool,
    /// One report for each journal in the data folder.
    journals: Vec<ChainReport>,
}

async fn verify(reader: JournalReader, input: VerifyInput) -> Result<VerifyOutput, HandlerError> {
    let anchor = input.head.map(Anchor::parse).transpose();
    let anchor = anchor.map_err(|message| CallError::validation(message, &[]))?;
    let verified = run_blocking(move || reader.verify(anchor.as_ref())).await?;
    let journals = verified.map_err(|error| read_error(error.into()))?;
    // Verification fails without a journal.
    let ok = !journals.is_empty() && journals.iter().all(|verdict| verdict.ok);
    Ok(VerifyOutput { ok, journals })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ReplayInput {
    /// Id of the call, as for `gateway.journal`.
    id: String,
    /// Whether to make the call. Otherwise the call is only previewed.
    #[serde(default)]
    run: bool,
}

async fn replay(
    reader: JournalReader,
    registry: Registry,
    context: CallContext,
    input: ReplayInput,
) -> Result<ReplayReport, HandlerError> {
    let recorded = call_with_id(reader, input.id).await?;
    Ok(match input.run {
        true => replay::run(&context, &registry, recorded).await?,
        false => replay::preview(&registry, context.identity(), recorded)?,
    })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct LogsInput {
    /// Only calls to this operation; `*` matches anything.
    op: Option<String>,
    /// Only calls by this identity.
    identity: Option<String>,
    /// Only failed calls.
    errors: bool,
}

fn logs(
    reader: &JournalReader,
    context: CallContext,
    input: LogsInput,
) -> impl Stream<Item = Result<Value, HandlerError>> + use<> {
    let filter = RecordFilter {
        marks: call_marks(input.errors),
        name: input.op.map(Glob::new),
        identity: input.identity,
        ..RecordFilter::default()
    };
    let tail = reader.live().map(|(journal, chain)| Tail::new(journal, chain, filter));
    let Some(tail) = tail else {
        let error = CallError::unavailable("the journal is off; set mode = \"batch\" in [journal]");
        return futures::stream::once(std::future::ready(Err(error.into()))).left_stream();
    };
    futures::stream::unfold((tail, context), |(tail, context)| async move {
        let (calls, tail) = tokio::select! {
            biased;
            () = context.canceled() => return None,
            next = tail.next() => next?,
        };
        Some((futures::stream::iter(calls), (tail, context)))
    })
    .flatten()
    .right_stream()
}

pub(super) fn read_error(error: QueryError) -> HandlerError {
    CallError::execution("cannot read the journal").with_cause(error).into()
}

pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CallError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| {
        CallError::unknown("reading the journal was interrupted").with_cause(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_accepts_date_or_duration() {
        for (text, expected) in [
            ("1970-01-01", Some(0)),
            ("1970-01-01T00:00:01.5Z", Some(1_500)),
            ("2000-02-29T12:30", Some(951_827_400_000)),
            ("2026-11-16T18:00:00Z", Some(1_794_852_000_000)),
            ("2026-13-01", None),
            ("2026-11-16Tinf", None),
            ("2026-11-16T12:-1", None),
            ("2026-11-16T25:00", None),
            ("2026-11-16T1e300", None),
            ("2026-11-16T99999999999999999999999", None),
            ("yesterday", None),
        ] {
            assert_eq!(parse_date(text), expected, "{text}");
        }
        let ago = epoch_ms() - parse_time("15m").unwrap();
        assert!((900_000..910_000).contains(&ago), "{ago}");
        assert!(parse_time("soon").unwrap_err().contains("a duration before now"));
    }
}
