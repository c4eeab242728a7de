//! Proposals of rooms among the calls that wait: they are listed with them, and decided about as if
//! whoever decides had said so in the room.

use std::sync::Arc;

use serde_json::Value;
use toolpost::{CallContext, CallError, DomainError, HandlerError, Identity, epoch_ms};

use super::Approvals;
use super::operation::{Decided, NOT_WAITING, OTHER_INPUT};
use super::proposal::Shown;
use crate::app::Gateway;
use crate::door::room_capabilities;
use crate::room::{Refusal, RoomHandle, Verdict, Waiting};

/// What somebody says about a proposal of a room.
pub(super) enum Said {
    Approved,
    Rejected { reason: Option<String> },
}

/// The room and the proposal of an id, if it is one of a room: `room/proposal`.
pub(super) fn place(id: &str) -> Option<(&str, &str)> {
    id.split_once('/')
}

impl Approvals {
    fn gateway(&self) -> Option<Gateway> {
        self.0.rooms.get()?.upgrade().map(Gateway)
    }

    /// What waits in rooms, the oldest first in each.
    pub(super) async fn of_rooms(&self) -> Vec<Shown> {
        let Some(gateway) = self.gateway() else { return Vec::new() };
        let mut shown = Vec::new();
        for room in gateway.0.workspace.open() {
            let waiting = room.look(|room| room.open_proposals()).await.unwrap_or_default();
            shown.extend(waiting.iter().filter_map(|one| self.shown(&room, one)));
        }
        shown
    }

    fn shown(&self, room: &RoomHandle, one: &Waiting) -> Option<Shown> {
        let input = input(one);
        let now = epoch_ms();
        let millis = |time: i64| u64::try_from(time).unwrap_or_default();
        Some(Shown {
            id: format!("{}/{}", room.name(), one.id),
            operation: named(one),
            caller: Some(one.from.to_string()),
            room: Some(room.name().to_string()),
            input_digest: self.0.digests.of(&input).ok()?,
            input,
            door: "workspace".to_owned(),
            request_id: one.id.to_string(),
            parent_request_id: None,
            waited_ms: millis(now - one.since),
            expires_in_ms: millis(one.expires - now),
        })
    }

    /// Decides in the name of the caller, who must be allowed in the room what was proposed.
    pub(super) async fn decide_in_room(
        &self,
        context: &CallContext,
        (room, id): (&str, &str),
        seen: Option<&str>,
        said: Said,
    ) -> Result<Decided, HandlerError> {
        let not_waiting = || DomainError::new(NOT_WAITING, "no proposal waits under this id");
        let gateway = self.gateway().ok_or_else(not_waiting)?;
        let rooms = gateway.0.workspace.open();
        let room = rooms.into_iter().find(|open| &**open.name() == room);
        let room = room.ok_or_else(not_waiting)?;
        let waiting = room.look(|room| room.open_proposals()).await.unwrap_or_default();
        let waiting = waiting.into_iter().find(|one| &*one.id == id).ok_or_else(not_waiting)?;
        let input_digest = self.0.digests.of(&input(&waiting))?;
        if seen.is_some_and(|seen| seen != input_digest) {
            let words = "the proposal has another input than was looked at";
            return Err(DomainError::new(OTHER_INPUT, words).into());
        }
        let identity = context.identity().cloned().map(Arc::new);
        let identity = identity.ok_or_else(|| CallError::access_denied("a token is needed"))?;
        let (verdict, status) = match said {
            Said::Approved => (Verdict::Approved, "approved"),
            Said::Rejected { reason } => (Verdict::Rejected { reason }, "rejected"),
        };
        decide(&gateway, &room, identity, id, verdict).await?;
        Ok(Decided {
            id: format!("{}/{id}", room.name()),
            status: status.to_owned(),
            operation: named(&waiting),
            caller: Some(waiting.from.to_string()),
            input_digest,
            request_id: id.to_owned(),
        })
    }
}

async fn decide(
    gateway: &Gateway,
    room: &RoomHandle,
    identity: Arc<Identity>,
    id: &str,
    verdict: Verdict,
) -> Result<(), HandlerError> {
    let own = room_capabilities(gateway, &identity, true);
    let decided = room.decide(identity, own, id, verdict).await;
    decided.map_err(|Refusal { error, message, .. }| match error {
        "capability_violation" | "own_proposal" | "not_a_member" | "kicked" => {
            CallError::access_denied(message).into()
        }
        "unavailable" => CallError::unavailable(message).into(),
        _ => DomainError::new(NOT_WAITING, message).into(),
    })
}

fn named(one: &Waiting) -> String {
    match &one.asked.name {
        Some(name) => format!("{}:{name}", one.asked.method),
        None => one.asked.method.to_string(),
    }
}

/// What is asked for: the arguments of a tool, else all that is said.
fn input(one: &Waiting) -> Value {
    let payload = one.payload.as_ref().map_or("{}", |payload| payload.get());
    let payload: Value = serde_json::from_str(payload).unwrap_or_default();
    let params = payload.get("params").cloned().unwrap_or_default();
    params.get("arguments").cloned().unwrap_or(params)
}
