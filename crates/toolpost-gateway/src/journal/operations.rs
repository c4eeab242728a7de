//! The journal as operations, for those who may look into it.

use futures::{Stream, StreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolpost::{
    AccessControl, CallContext, CallError, HandlerError, Operation, Registry, epoch_ms,
};

use super::archive::Archive;
use super::following::{Following, Wanted};
use super::messages::MessageFilter;
use super::query::{Filter, QueryError};
use super::replay::{self, Replayed};
use super::verify::{Anchor, Verdict};
use crate::admin::scope;
use crate::config::{Glob, parse_duration};

/// How many calls are given at once, and at most.
const LIMIT: usize = 50;
const MOST: usize = 1_000;

/// `gateway.journal`, `gateway.logs`, `gateway.verify` and `gateway.replay`.
pub fn operations(archive: &Archive, registry: &Registry) -> Vec<Operation> {
    let (of_journal, of_logs) = (archive.clone(), archive.clone());
    let (of_verify, of_replay) = (archive.clone(), archive.clone());
    let registry = registry.clone();
    let builders = [
        Operation::query("gateway.journal", move |input: Asked| journal(of_journal.clone(), input))
            .title("Read the journal")
            .description("Finds calls, or the messages of a room, in the journal, newest first.")
            .access(needs(scope::READ)),
        Operation::subscription("gateway.logs", move |context: CallContext, input: Followed| {
            logs(&of_logs, context, &input)
        })
        .title("Follow the journal")
        .description("Gives calls as they end.")
        .access(needs(scope::READ)),
        Operation::query("gateway.verify", move |input: Verified| verify(of_verify.clone(), input))
            .title("Verify the journal")
            .description("Says whether the journal is as it was written, and where it is not.")
            .access(needs(scope::READ)),
        Operation::mutation("gateway.replay", move |context: CallContext, input: Again| {
            replay(of_replay.clone(), registry.clone(), context, input)
        })
        .title("Replay a call")
        .description("Shows what a call would be once more, or makes it and compares the results.")
        .access(needs(scope::ADMIN)),
    ];
    builders.map(|builder| builder.build().expect("the ids are plain")).into()
}

fn needs(scope: &str) -> AccessControl {
    let mut control = AccessControl::default();
    control.required_scopes.push(scope.to_owned());
    control
}

/// A moment: milliseconds since 1970, or text as people write it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Moment {
    Millis(i64),
    /// How long ago, such as `15m`, or a time such as `2026-11-16T12:00:00Z`.
    Text(String),
}

impl Moment {
    fn millis(&self) -> Result<i64, CallError> {
        match self {
            Self::Millis(millis) => Ok(*millis),
            Self::Text(text) => moment(text).map_err(|said| CallError::validation(said, &[])),
        }
    }
}

/// How long ago, or a time: in milliseconds since 1970.
fn moment(text: &str) -> Result<i64, String> {
    if let Some(time) = date(text) {
        return Ok(time);
    }
    let ago = parse_duration(text).map_err(|_| {
        format!(
            "`{text}` is no time; write how long ago, such as 15m or 2h, or 2026-11-16T12:00:00Z"
        )
    })?;
    Ok(epoch_ms().saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)))
}

/// A date, perhaps with a time behind it, in UTC.
fn date(text: &str) -> Option<i64> {
    let (day, time) = text.split_once(['T', ' ']).unwrap_or((text, ""));
    let mut numbers = day.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let time = time.strip_suffix('Z').unwrap_or(time);
    let mut seconds = 0.0;
    for (part, unit) in
        time.split(':').zip([3_600.0, 60.0, 1.0]).filter(|(part, _)| !part.is_empty())
    {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        seconds += part.parse::<f64>().ok().filter(|_| is_number)? * unit;
    }
    if seconds > 86_400.0 {
        return None;
    }
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March here, so that the leap day is the last of one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    #[expect(clippy::cast_possible_truncation, reason = "a day has few milliseconds")]
    Some(days * 86_400_000 + (seconds * 1_000.0) as i64)
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct Asked {
    /// Only of this operation; `*` stands for anything.
    op: Option<String>,
    /// Only calls that began then or later.
    since: Option<Moment>,
    /// Only by this identity.
    who: Option<String>,
    /// Only those that failed, or that a room refused.
    errors: bool,
    /// The messages of this room and what it refused, and no calls; `*` stands for anything.
    room: Option<String>,
    /// Only those whose `seq` is smaller: for the next page, the smallest of this one.
    before: Option<u64>,
    /// How many; 50 if absent, and 1000 at most.
    limit: Option<usize>,
    /// The journal of another gateway in the same data folder.
    gateway_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Answered {
    /// Newest first.
    calls: Vec<Value>,
    /// Where a room was asked for: its messages and what it refused, newest first. There may be less
    /// than were asked for where they are long; none is the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Value>>,
    /// The journal that they are in; absent where it is every one, because none is written here.
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway_id: Option<String>,
    /// The journals of the data folder, that of this gateway first.
    gateway_ids: Vec<String>,
}

async fn journal(archive: Archive, input: Asked) -> Result<Answered, HandlerError> {
    let own = archive.live().map(|(journal, _)| journal.gateway_id().to_owned());
    let gateway_ids = archive.gateway_ids().map_err(|error| unreadable(error.into()))?;
    if let Some(unknown) = input.gateway_id.as_ref().filter(|asked| !gateway_ids.contains(asked)) {
        let message = format!("there is no journal `{unknown}` in the data folder");
        return Err(CallError::validation(message, &[]).into());
    }
    let gateway_id = input.gateway_id.clone().or(own);
    let mut answered = Answered { calls: Vec::new(), messages: None, gateway_id, gateway_ids };
    let gateway = answered.gateway_id.clone();
    if input.room.is_some() {
        let filter = messages_wanted(input, gateway)?;
        let found = aside(move || archive.messages(&filter)).await?;
        answered.messages = Some(found.map_err(unreadable)?);
    } else {
        let filter = calls_wanted(input, gateway)?;
        answered.calls = aside(move || archive.calls(&filter)).await?.map_err(unreadable)?;
    }
    Ok(answered)
}

fn calls_wanted(input: Asked, gateway: Option<String>) -> Result<Filter, CallError> {
    Ok(Filter {
        gateway,
        since: input.since()?,
        before: input.before.unwrap_or(u64::MAX),
        errors: input.errors,
        limit: input.limit(),
        operation: input.op.map(Glob::new),
        who: input.who,
    })
}

fn messages_wanted(input: Asked, gateway: Option<String>) -> Result<MessageFilter, CallError> {
    if input.op.is_some() {
        let message = "`op` and `room` do not go together: messages are of no operation";
        return Err(CallError::validation(message, &[]));
    }
    Ok(MessageFilter {
        gateway,
        since: input.since()?,
        before: input.before.unwrap_or(u64::MAX),
        errors: input.errors,
        limit: input.limit(),
        room: Glob::new(input.room.unwrap_or_default()),
        who: input.who,
    })
}

impl Asked {
    fn since(&self) -> Result<i64, CallError> {
        Ok(self.since.as_ref().map(Moment::millis).transpose()?.unwrap_or(i64::MIN))
    }

    fn limit(&self) -> usize {
        self.limit.unwrap_or(LIMIT).min(MOST)
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Verified {
    /// A head that was kept elsewhere, to compare with.
    head: Option<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Verdicts {
    /// Whether there is a journal, and all is as it was written.
    ok: bool,
    /// One for each gateway that writes into the data folder.
    journals: Vec<Verdict>,
}

async fn verify(archive: Archive, input: Verified) -> Result<Verdicts, HandlerError> {
    let anchor = input.head.map(Anchor::parse).transpose();
    let anchor = anchor.map_err(|said| CallError::validation(said, &[]))?;
    let verified = aside(move || archive.verify(anchor.as_ref())).await?;
    let journals = verified.map_err(|error| unreadable(error.into()))?;
    // A check of something that is gone must not pass.
    let ok = !journals.is_empty() && journals.iter().all(|verdict| verdict.ok);
    Ok(Verdicts { ok, journals })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Again {
    /// The request id of the call, or its `seq`.
    id: String,
    /// Whether to make the call; else it is only shown what would be called.
    #[serde(default)]
    run: bool,
}

async fn replay(
    archive: Archive,
    registry: Registry,
    context: CallContext,
    input: Again,
) -> Result<Replayed, HandlerError> {
    let id = input.id.clone();
    let found = aside(move || archive.call(&id)).await?.map_err(unreadable)?;
    let unknown =
        || CallError::validation(format!("no call `{}` is in the journal", input.id), &[]);
    let recorded = found.ok_or_else(unknown)?;
    Ok(match input.run {
        true => replay::run(&context, &registry, recorded).await?,
        false => replay::look(&registry, context.identity(), recorded)?,
    })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Followed {
    /// Only of this operation; `*` stands for anything.
    op: Option<String>,
    /// Only by this identity.
    who: Option<String>,
    /// Only those that fail.
    errors: bool,
}

fn logs(
    archive: &Archive,
    context: CallContext,
    input: &Followed,
) -> impl Stream<Item = Result<Value, HandlerError>> + use<> {
    let wanted = || Wanted {
        operation: input.op.clone().map(Glob::new),
        who: input.who.clone(),
        errors: input.errors,
    };
    let following = archive.live().map(|(journal, chain)| Following::new(journal, chain, wanted()));
    let Some(following) = following else {
        let error = CallError::unavailable("the journal is off; set mode = \"batch\" in [journal]");
        return futures::stream::once(std::future::ready(Err(error.into()))).left_stream();
    };
    futures::stream::unfold((following, context), |(following, context)| async move {
        let (calls, following) = tokio::select! {
            biased;
            () = context.cancelled() => return None,
            next = following.next() => next?,
        };
        Some((futures::stream::iter(calls), (following, context)))
    })
    .flatten()
    .right_stream()
}

pub(super) fn unreadable(error: QueryError) -> HandlerError {
    CallError::execution("the journal cannot be read").with_cause(error).into()
}

/// Reads files where nobody has to wait for it.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CallError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| {
        CallError::unknown("the journal was not read to its end").with_cause(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_or_how_long_ago() {
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
            assert_eq!(date(text), expected, "{text}");
        }
        let ago = epoch_ms() - moment("15m").unwrap();
        assert!((900_000..910_000).contains(&ago), "{ago}");
        assert!(moment("soon").unwrap_err().contains("how long ago"));
    }
}
