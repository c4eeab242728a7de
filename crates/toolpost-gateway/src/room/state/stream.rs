//! Streams: whose they are, who may write, and who gets what is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::grant::read;
use super::refusal::short;
use super::{ConnectionId, Effect, Frame, Recipient, Recipients, Refusal, Room};
use crate::room::capability::Subject;
use crate::room::message::{Draft, Message, Protocol, ReadError};

/// How many bytes may describe a stream, which everybody who comes is told.
const MOST_ABOUT: usize = 16 * 1024;
/// How many parts of streams one participant may send for each message that he may send.
const FRAMES_PER_MESSAGE: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct Streams {
    open: BTreeMap<Box<str>, Stream>,
    opened: u64,
}

#[derive(Debug)]
struct Stream {
    owner: Arc<str>,
    /// The owner among them, unless he gave it away.
    writers: Vec<Arc<str>>,
    /// Who gets what is written; everybody if nobody is named.
    target: Option<Vec<Box<str>>>,
    /// What was asked for.
    about: Map<String, Value>,
    created: String,
    /// The messages that asked for it and opened it.
    messages: [Box<str>; 2],
}

/// What is asked for when a stream is.
#[derive(Debug, Deserialize)]
pub(super) struct Requesting {
    #[serde(default)]
    target: Option<Vec<Box<str>>>,
    #[serde(flatten)]
    about: Map<String, Value>,
}

/// A change of who may write.
#[derive(Debug)]
pub(super) struct Handing {
    stream: Box<str>,
    whom: Box<str>,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    stream_id: Option<Box<str>>,
    #[serde(default, alias = "new_owner")]
    participant_id: Option<Box<str>>,
    #[serde(default)]
    reason: Option<String>,
}

impl Streams {
    /// Those that are open, as newcomers are told of them.
    pub(super) fn shown(&self) -> Vec<Value> {
        self.open.iter().map(|(id, stream)| stream.shown(id)).collect()
    }

    /// The stream that a message is about: by its own id, or one of the messages that made it.
    fn find(&self, named: Option<&str>, correlation: &[Box<str>]) -> Option<&str> {
        let by_id = named.and_then(|id| self.open.get_key_value(id)).map(|(id, _)| &**id);
        let by_message = || {
            let is_meant = |id: &str, stream: &Stream| {
                correlation.iter().any(|it| &**it == id || stream.messages.contains(it))
            };
            self.open.iter().find(|(id, stream)| is_meant(id, stream)).map(|(id, _)| &**id)
        };
        if named.is_some() { by_id } else { by_message() }
    }
}

impl Stream {
    fn shown(&self, id: &str) -> Value {
        let mut shown = self.about.clone();
        shown.insert("stream_id".to_owned(), id.into());
        shown.insert("owner".to_owned(), (&*self.owner).into());
        shown.insert("authorized_writers".to_owned(), self.writers());
        shown.insert("created".to_owned(), self.created.as_str().into());
        if let Some(target) = &self.target {
            shown.insert("target".to_owned(), json!(target));
        }
        shown.into()
    }

    fn writers(&self) -> Value {
        self.writers.iter().map(|writer| Value::from(&**writer)).collect()
    }
}

impl Room {
    pub(super) fn check_stream_request(&self, draft: &Draft) -> Result<Requesting, Refusal> {
        let mut requesting: Requesting = read(draft, "`direction` and what else describes it")?;
        requesting.target.take_if(|target| target.is_empty());
        let most = self.settings.streams;
        if self.streams.open.len() >= most {
            let words = format!("{most} streams are open, which is the limit; close one first");
            return Err(Refusal::new("limit_exceeded", words));
        }
        if draft.payload.as_ref().is_some_and(|payload| payload.get().len() > MOST_ABOUT) {
            let words = format!("what describes a stream has at most {MOST_ABOUT} bytes");
            return Err(Refusal::new("limit_exceeded", words));
        }
        let target = requesting.target.iter().flatten();
        let missing: Vec<_> = target.filter(|id| !self.present.contains_key(&***id)).collect();
        if !missing.is_empty() {
            let words = "not everybody who should get the stream is here";
            return Err(Refusal::new("target_not_found", words).with("targets", json!(missing)));
        }
        Ok(requesting)
    }

    /// Opens the stream that somebody asked for, and tells everybody.
    pub(super) fn open_stream(&mut self, requesting: Requesting, request: &Message) {
        self.streams.opened += 1;
        let id: Box<str> = format!("stream-{}", self.streams.opened).into();
        let owner = Arc::clone(&request.from);
        let mut payload = json!({
            "stream_id": id,
            "encoding": "text",
            "owner": &*owner,
            "authorized_writers": [&*owner],
        });
        if let Some(target) = &requesting.target {
            payload["target"] = json!(target);
        }
        let (to, about) = (vec![Box::from(&*owner)], vec![request.id.clone()]);
        let mut message = self.own("stream/open", to, about, &payload);
        message.from = "gateway".into();
        let stream = Stream {
            writers: vec![Arc::clone(&owner)],
            owner,
            target: requesting.target,
            about: requesting.about,
            created: toolpost::timestamp(self.now),
            messages: [request.id.clone(), message.id.clone()],
        };
        self.streams.open.insert(id, stream);
        self.deliver(message, None, None);
    }

    /// The stream that somebody wants to close, if it is his.
    pub(super) fn check_close(&self, who: &str, draft: &Draft) -> Result<Box<str>, Refusal> {
        let named: Named = read(draft, "`stream_id`")?;
        let id = self.streams.find(named.stream_id.as_deref(), &draft.correlation);
        let id = id.ok_or_else(|| not_found(named.stream_id.as_deref()))?;
        self.check_owner(who, id)?;
        Ok(id.into())
    }

    pub(super) fn is_own_stream(&self, who: &str, draft: &Draft) -> bool {
        self.check_close(who, draft).is_ok()
    }

    fn check_owner(&self, who: &str, id: &str) -> Result<(), Refusal> {
        let stream = self.streams.open.get(id).ok_or_else(|| not_found(Some(id)))?;
        if &*stream.owner == who {
            return Ok(());
        }
        let words = format!("`{id}` belongs to `{}`", stream.owner);
        Err(Refusal::new("unauthorized", words).with("stream_id", id))
    }

    /// The message that opened a stream, which is then closed.
    pub(super) fn close_stream(&mut self, id: &str) -> Option<Box<str>> {
        let [_, open] = self.streams.open.remove(id)?.messages;
        Some(open)
    }

    pub(super) fn opening_of(&self, id: &str) -> Option<Box<str>> {
        self.streams.open.get(id).map(|stream| stream.messages[1].clone())
    }

    pub(super) fn check_handing(&self, who: &str, draft: &Draft) -> Result<Handing, Refusal> {
        let wanted = "`stream_id`, and `participant_id` or `new_owner`";
        let named: Named = read(draft, wanted)?;
        let (Some(stream), Some(whom)) = (named.stream_id, named.participant_id) else {
            return Err(Refusal::invalid(format!("the payload has {wanted}")));
        };
        self.check_owner(who, &stream)?;
        if !self.present.contains_key(&*whom) {
            return Err(Refusal::no_participant(&whom));
        }
        if draft.kind.short() != "stream/grant-write" && &*whom == who {
            let words = "the owner of a stream may always write; hand it over to somebody else";
            return Err(Refusal::new("invalid_operation", words));
        }
        Ok(Handing { stream, whom, reason: named.reason })
    }

    /// Changes who may write, and tells everybody what holds now.
    pub(super) fn hand(&mut self, handing: &Handing, kind: &str, (by, id): (&str, &str)) {
        let Handing { stream: stream_id, whom, reason } = handing;
        let Some(stream) = self.streams.open.get_mut(stream_id) else { return };
        let whom: Arc<str> = Arc::from(&**whom);
        if kind == "stream/revoke-write" {
            stream.writers.retain(|writer| *writer != whom);
        } else if !stream.writers.contains(&whom) {
            stream.writers.push(Arc::clone(&whom));
        }
        if kind == "stream/transfer-ownership" {
            stream.owner = Arc::clone(&whom);
            stream.writers.retain(|writer| &**writer != by);
        }
        let mut payload = json!({"stream_id": stream_id, "authorized_writers": stream.writers()});
        let told = match kind {
            "stream/grant-write" => "stream/write-granted",
            "stream/revoke-write" => "stream/write-revoked",
            _ => "stream/ownership-transferred",
        };
        match told {
            "stream/ownership-transferred" => {
                payload["previous_owner"] = by.into();
                payload["new_owner"] = (&*whom).into();
            }
            _ => payload["participant_id"] = (&*whom).into(),
        }
        if let Some(reason) = reason {
            payload["reason"] = reason.as_str().into();
        }
        let mut message = self.own(told, Vec::new(), vec![id.into()], &payload);
        message.from = "gateway".into();
        self.deliver(message, None, None);
    }

    /// Whoever may not open streams any more has none open.
    pub(super) fn end_streams_unless_allowed(&mut self, who: &str) {
        let subject = Subject::new("stream/request", None);
        let may = self.present.get(who).is_some_and(|one| one.may.decide(&subject).is_allowed());
        let has_some = self.streams.open.values().any(|stream| &*stream.owner == who);
        if has_some && !may {
            self.end_streams_of(who);
        }
    }

    /// Somebody is gone: his streams end, and he writes in no other.
    pub(super) fn end_streams_of(&mut self, who: &str) {
        let own = self.streams.open.iter().filter(|(_, stream)| &*stream.owner == who);
        let ended: Vec<Box<str>> = own.map(|(id, _)| id.clone()).collect();
        for id in ended {
            let Some(open) = self.close_stream(&id) else { continue };
            let payload = json!({"stream_id": id, "reason": "owner_disconnected"});
            let mut message = self.own("stream/close", Vec::new(), vec![open], &payload);
            message.from = "gateway".into();
            self.deliver(message, None, None);
        }
        for stream in self.streams.open.values_mut() {
            stream.writers.retain(|writer| &**writer != who);
        }
    }

    /// A part of a stream goes to those it is meant for, if its writer may write.
    pub(super) fn frame(&mut self, connection: ConnectionId, frame: Result<Frame, ReadError>) {
        let Some(who) = self.connections.get(&connection).cloned() else { return };
        let passed = match frame {
            Ok(frame) => self.pass(&who, frame),
            Err(error) => Err(error.into()),
        };
        if let Err(refusal) = passed {
            self.refuse(&who, None, "stream/data", refusal);
        }
    }

    fn pass(&mut self, who: &Arc<str>, frame: Frame) -> Result<(), Refusal> {
        self.check_silence(who, "stream/data")?;
        let unauthorized = |words: String| {
            Refusal::new("unauthorized_stream_write", words).with("stream_id", &*frame.stream)
        };
        let Some(stream) = self.streams.open.get(&frame.stream) else {
            return Err(unauthorized(format!("no stream `{}` is open", short(&frame.stream))));
        };
        if !stream.writers.contains(who) {
            let words = format!("`{}` may write in `{}`", stream.owner, short(&frame.stream));
            return Err(unauthorized(words));
        }
        let to = self.readers(stream);
        let per_minute = self.settings.messages_per_minute.saturating_mul(FRAMES_PER_MESSAGE);
        let now = self.now;
        if let Some(participant) = self.present.get_mut(who) {
            let frames = &mut participant.spent.frames;
            frames.take(now, per_minute).map_err(|wait| too_fast(wait, per_minute))?;
        }
        self.effects.push(Effect::Frame { frame, to });
        Ok(())
    }

    /// Those who can read it: others would take it for nonsense.
    fn readers(&self, stream: &Stream) -> Recipients {
        let is_meant = |id: &str| {
            stream.target.as_ref().is_none_or(|target| target.iter().any(|it| &**it == id))
        };
        let present = self.present.iter().filter(|(id, _)| is_meant(id));
        let recipients = present.map(|(_, one)| one.recipient());
        recipients.filter(|one: &Recipient| one.protocol == Protocol::Mew04).collect()
    }
}

pub(super) fn too_fast(wait: i64, per_minute: u32) -> Refusal {
    let words = format!("at most {per_minute} in a minute; wait {wait} ms");
    Refusal::new("rate_limited", words).with("retry_after_ms", wait)
}

fn not_found(id: Option<&str>) -> Refusal {
    let words = match id {
        Some(id) => format!("no stream `{}` is open", short(id)),
        None => "`stream_id` must name a stream that is open".to_owned(),
    };
    Refusal::new("stream_not_found", words)
}
