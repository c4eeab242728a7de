//! Streams: owners, writers and recipients.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::handle_grant::parse_payload;
use super::{ConnectionId, Effect, Participant, Recipients, Room, RoomError, StreamFrame};
use crate::room::capability::CapabilityRequest;
use crate::room::message::{
    BaseKind, Draft, MessageParseError, RejectionCode, RoomMessage, quoted,
};

/// Maximum bytes of a stream description, which every welcome contains.
const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;
/// Number of stream frames allowed per message of the rate limit.
const FRAMES_PER_MESSAGE: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct Streams {
    open: BTreeMap<Box<str>, Stream>,
    opened_count: u64,
}

#[derive(Debug)]
struct Stream {
    owner: Arc<str>,
    /// Participants with write access, including the owner.
    writers: Vec<Arc<str>>,
    /// Recipients of the frames; every participant if absent.
    target: Option<Vec<Box<str>>>,
    /// Description from the stream request.
    metadata: Map<String, Value>,
    created_at: String,
    /// Ids of the messages that requested and opened the stream.
    message_ids: [Box<str>; 2],
}

#[derive(Debug, Deserialize)]
pub(super) struct StreamRequestPayload {
    #[serde(default)]
    target: Option<Vec<Box<str>>>,
    #[serde(flatten)]
    metadata: Map<String, Value>,
}

#[derive(Debug)]
pub(super) struct StreamAccessChange {
    kind: BaseKind,
    stream: Box<str>,
    participant_id: Box<str>,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct StreamPayload {
    #[serde(default)]
    stream_id: Option<Box<str>>,
    #[serde(default, alias = "new_owner")]
    participant_id: Option<Box<str>>,
    #[serde(default)]
    reason: Option<String>,
}

impl Streams {
    pub(super) fn describe(&self) -> Vec<Value> {
        self.open.iter().map(|(id, stream)| stream.describe(id)).collect()
    }

    /// Returns the stream that a message refers to: by stream id or, without one, by its
    /// correlations.
    fn find(&self, stream_id: Option<&str>, correlation: &[Box<str>]) -> Option<&str> {
        let is_match = |id: &str, stream: &Stream| match stream_id {
            Some(stream_id) => id == stream_id,
            None => correlation.iter().any(|of| **of == *id || stream.message_ids.contains(of)),
        };
        self.open.iter().find(|(id, stream)| is_match(id, stream)).map(|(id, _)| &**id)
    }
}

impl Stream {
    fn describe(&self, id: &str) -> Value {
        let mut description = Value::Object(self.metadata.clone());
        description["stream_id"] = id.into();
        description["owner"] = (&*self.owner).into();
        description["authorized_writers"] = self.writers_json();
        description["created"] = self.created_at.as_str().into();
        if let Some(target) = &self.target {
            description["target"] = json!(target);
        }
        description
    }

    fn writers_json(&self) -> Value {
        self.writers.iter().map(|writer| Value::from(&**writer)).collect()
    }
}

impl Room {
    pub(super) fn check_stream_request(
        &self,
        draft: &Draft,
    ) -> Result<StreamRequestPayload, RoomError> {
        let mut stream_request: StreamRequestPayload =
            parse_payload(draft, "`direction` and other description members")?;
        stream_request.target.take_if(|target| target.is_empty());
        let max = self.settings.max_streams;
        if self.streams.open.len() >= max {
            let detail = format!("stream limit reached: {max} are open; close one first");
            return Err(RejectionCode::LimitExceeded.error(detail));
        }
        if draft.payload.as_ref().is_some_and(|payload| payload.get().len() > MAX_DESCRIPTION_BYTES)
        {
            let detail = format!("a stream description has at most {MAX_DESCRIPTION_BYTES} bytes");
            return Err(RejectionCode::LimitExceeded.error(detail));
        }
        let target = stream_request.target.iter().flatten();
        let missing: Vec<_> = target.filter(|id| !self.participants.contains_key(&***id)).collect();
        if !missing.is_empty() {
            let detail = "some targets of the stream are not in the room";
            let error = RejectionCode::TargetNotFound.error(detail);
            return Err(error.with_detail("targets", json!(missing)));
        }
        Ok(stream_request)
    }

    pub(super) fn open_stream(
        &mut self,
        stream_request: StreamRequestPayload,
        request: &RoomMessage,
    ) {
        self.streams.opened_count += 1;
        let id: Box<str> = format!("stream-{}", self.streams.opened_count).into();
        let owner = Arc::clone(&request.from);
        let mut payload = json!({
            "stream_id": id,
            "encoding": "text",
            "owner": &*owner,
            "authorized_writers": [&*owner],
        });
        if let Some(target) = &stream_request.target {
            payload["target"] = json!(target);
        }
        let message =
            self.deliver_stream_message(BaseKind::StreamOpen, &[&owner], &request.id, &payload);
        let stream = Stream {
            writers: vec![Arc::clone(&owner)],
            owner,
            target: stream_request.target,
            metadata: stream_request.metadata,
            created_at: toolpost::timestamp(self.now),
            message_ids: [request.id.clone(), message.id.clone()],
        };
        self.streams.open.insert(id, stream);
    }

    fn deliver_stream_message(
        &mut self,
        kind: BaseKind,
        to: &[&str],
        correlation: &str,
        payload: &Value,
    ) -> Arc<RoomMessage> {
        let message = self.gateway_message(kind, to, &[correlation], payload);
        self.deliver(RoomMessage { from: "gateway".into(), ..message }, None, None)
    }

    pub(super) fn check_stream_close(
        &self,
        sender: &str,
        draft: &Draft,
    ) -> Result<Box<str>, RoomError> {
        let payload: StreamPayload = parse_payload(draft, "`stream_id`")?;
        let id = self.streams.find(payload.stream_id.as_deref(), &draft.correlation);
        let id = id.ok_or_else(|| stream_not_found(payload.stream_id.as_deref()))?;
        self.check_stream_owner(sender, id)?;
        Ok(id.into())
    }

    fn check_stream_owner(&self, sender: &str, id: &str) -> Result<(), RoomError> {
        let stream = self.streams.open.get(id).ok_or_else(|| stream_not_found(Some(id)))?;
        if &*stream.owner == sender {
            return Ok(());
        }
        let detail = format!("`{id}` belongs to `{}`", stream.owner);
        Err(RejectionCode::Unauthorized.error(detail).with_detail("stream_id", id))
    }

    /// Closes a stream and returns the id of the message that opened it.
    pub(super) fn close_stream(&mut self, id: &str) -> Option<Box<str>> {
        let [_, open] = self.streams.open.remove(id)?.message_ids;
        Some(open)
    }

    pub(super) fn open_message_id(&self, id: &str) -> Option<Box<str>> {
        self.streams.open.get(id).map(|stream| stream.message_ids[1].clone())
    }

    pub(super) fn check_stream_access_change(
        &self,
        sender: &str,
        kind: BaseKind,
        draft: &Draft,
    ) -> Result<StreamAccessChange, RoomError> {
        let expected = "`stream_id`, and `participant_id` or `new_owner`";
        let payload: StreamPayload = parse_payload(draft, expected)?;
        let (Some(stream), Some(target)) = (payload.stream_id, payload.participant_id) else {
            return Err(RoomError::invalid(format!("the payload must have {expected}")));
        };
        self.check_stream_owner(sender, &stream)?;
        if !self.participants.contains_key(&*target) {
            return Err(RoomError::participant_not_found(&target));
        }
        if kind != BaseKind::StreamGrantWrite && &*target == sender {
            let detail = "the owner can always write; transfer the stream to another participant";
            return Err(RejectionCode::InvalidOperation.error(detail));
        }
        Ok(StreamAccessChange { kind, stream, participant_id: target, reason: payload.reason })
    }

    pub(super) fn apply_stream_access_change(
        &mut self,
        change: &StreamAccessChange,
        (by, id): (&str, &str),
    ) {
        let Some(stream) = self.streams.open.get_mut(&change.stream) else { return };
        let target: Arc<str> = Arc::from(&*change.participant_id);
        let event = match change.kind {
            BaseKind::StreamRevokeWrite => BaseKind::StreamWriteRevoked,
            BaseKind::StreamGrantWrite => BaseKind::StreamWriteGranted,
            _ => BaseKind::StreamOwnershipTransferred,
        };
        if event == BaseKind::StreamWriteRevoked {
            stream.writers.retain(|writer| *writer != target);
        } else if !stream.writers.contains(&target) {
            stream.writers.push(Arc::clone(&target));
        }
        if event == BaseKind::StreamOwnershipTransferred {
            stream.owner = Arc::clone(&target);
            stream.writers.retain(|writer| &**writer != by);
        }
        let mut payload =
            json!({"stream_id": change.stream, "authorized_writers": stream.writers_json()});
        if event == BaseKind::StreamOwnershipTransferred {
            payload["previous_owner"] = by.into();
            payload["new_owner"] = (&*target).into();
        } else {
            payload["participant_id"] = (&*target).into();
        }
        if let Some(reason) = &change.reason {
            payload["reason"] = reason.as_str().into();
        }
        self.deliver_stream_message(event, &[], id, &payload);
    }

    /// Closes the streams of a participant that may no longer open streams.
    pub(super) fn close_streams_unless_allowed(&mut self, sender: &str) {
        let is_allowed = self.participants.get(sender).is_some_and(|participant| {
            let request = CapabilityRequest::new(BaseKind::StreamRequest.as_str(), None);
            participant.capabilities.check(&request).is_ok()
        });
        let has_some = self.streams.open.values().any(|stream| &*stream.owner == sender);
        if has_some && !is_allowed {
            self.close_streams_of(sender);
        }
    }

    /// Closes the streams of a participant and removes its write access to others.
    pub(super) fn close_streams_of(&mut self, sender: &str) {
        let owned = self.streams.open.iter().filter(|(_, stream)| &*stream.owner == sender);
        let ended: Vec<Box<str>> = owned.map(|(id, _)| id.clone()).collect();
        for id in ended {
            let Some(open) = self.close_stream(&id) else { continue };
            let payload = json!({"stream_id": id, "reason": "owner_disconnected"});
            self.deliver_stream_message(BaseKind::StreamClose, &[], &open, &payload);
        }
        for stream in self.streams.open.values_mut() {
            stream.writers.retain(|writer| &**writer != sender);
        }
    }

    /// Forwards a stream frame to its recipients, if the sender has write access.
    pub(super) fn handle_frame(
        &mut self,
        connection: ConnectionId,
        frame: Result<StreamFrame, MessageParseError>,
    ) {
        let Some(sender) = self.connections.get(&connection).cloned() else { return };
        let forwarded = match frame {
            Ok(frame) => self.forward_frame(&sender, frame),
            Err(error) => Err(error.into()),
        };
        if let Err(rejection) = forwarded {
            self.reject(&sender, None, BaseKind::StreamData.as_str(), rejection);
        }
    }

    fn forward_frame(&mut self, sender: &Arc<str>, frame: StreamFrame) -> Result<(), RoomError> {
        self.check_not_paused(sender, &BaseKind::StreamData.into())?;
        let unauthorized_write = |detail: String| {
            RejectionCode::UnauthorizedStreamWrite
                .error(detail)
                .with_detail("stream_id", &*frame.stream)
        };
        let Some(stream) = self.streams.open.get(&frame.stream) else {
            return Err(unauthorized_write(format!("no stream {} is open", quoted(&frame.stream))));
        };
        if !stream.writers.contains(sender) {
            let detail = format!(
                "you cannot write: `{}` owns stream {}",
                stream.owner,
                quoted(&frame.stream)
            );
            return Err(unauthorized_write(detail));
        }
        let to = self.frame_recipients(stream);
        let per_minute = self.settings.messages_per_minute.saturating_mul(FRAMES_PER_MESSAGE);
        let now = self.now;
        if let Some(participant) = self.participants.get_mut(sender) {
            participant.usage.frames.acquire(now, per_minute)?;
        }
        self.effects.push(Effect::Frame { frame, to });
        Ok(())
    }

    /// Targeted participants that receive stream frames and whose protocol supports them.
    fn frame_recipients(&self, stream: &Stream) -> Recipients {
        let is_targeted = |id: &str| {
            stream.target.as_ref().is_none_or(|target| target.iter().any(|to| **to == *id))
        };
        let receives_frames = |participant: &Participant| {
            let kinds = participant.kinds.as_ref();
            kinds.is_none_or(|kinds| kinds.matches(BaseKind::StreamData.as_str()))
        };
        let present = self.participants.iter().filter(|(id, _)| is_targeted(id));
        let present = present.filter(|(_, participant)| receives_frames(participant));
        let present = present.map(|(_, participant)| participant.recipient());
        present.filter(|recipient| recipient.protocol.has_streams()).collect()
    }
}

fn stream_not_found(id: Option<&str>) -> RoomError {
    let detail = match id {
        Some(id) => format!("no stream {} is open", quoted(id)),
        None => "`stream_id` must name an open stream".to_owned(),
    };
    RejectionCode::StreamNotFound.error(detail)
}
