//! Participant control with `participant/*` messages: pause, resume, restart and shutdown.

use std::sync::Arc;

use serde::Deserialize;

use super::handle_grant::parse_payload;
use super::{Room, RoomError};
use crate::room::message::{Draft, RoomMessage};

/// Kinds that a paused or shut down participant can still send.
const ALLOWED_WHILE_PAUSED: [&str; 12] = [
    "mcp/response",
    "participant/status",
    "participant/resume",
    "participant/request-status",
    "participant/clear",
    "participant/forget",
    "participant/compact-done",
    "participant/shutdown",
    "chat/acknowledge",
    "chat/cancel",
    "reasoning/cancel",
    "stream/close",
];

/// Kinds that require an addressee. Without one, every client would obey, including the sender's.
const CONTROL_KINDS: [&str; 7] = [
    "participant/pause",
    "participant/resume",
    "participant/forget",
    "participant/compact",
    "participant/clear",
    "participant/restart",
    "participant/shutdown",
];

/// The pause of a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pause {
    until: Option<i64>,
}

impl Pause {
    pub(super) fn is_expired(self, now: i64) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

#[derive(Debug, Deserialize)]
struct PausePayload {
    #[serde(default)]
    timeout_seconds: Option<f64>,
}

impl Room {
    /// Checks that the sender is not paused or shut down, unless the kind is allowed then.
    pub(super) fn check_not_paused(&self, sender: &str, kind: &str) -> Result<(), RoomError> {
        let Some(participant) = self.participants.get(sender) else { return Ok(()) };
        if ALLOWED_WHILE_PAUSED.contains(&kind) {
            return Ok(());
        }
        if participant.is_shut_down {
            let detail = "you were shut down; rejoin to continue";
            return Err(RoomError::new("participant_shut_down", detail));
        }
        if participant.usage.pause.is_some() {
            let detail = format!("you are paused and cannot send `{kind}` until resumed");
            return Err(RoomError::new("participant_paused", detail));
        }
        Ok(())
    }

    pub(super) fn check_control(&self, sender: &str, draft: &Draft) -> Result<(), RoomError> {
        let kind = draft.kind.short();
        if CONTROL_KINDS.contains(&kind) && draft.to.is_empty() {
            let detail =
                format!("`{kind}` requires `to`: without it, it would apply to every participant");
            return Err(RoomError::invalid(detail));
        }
        let is_self = kind == "participant/resume" && draft.to.iter().any(|to| &**to == sender);
        if is_self
            && self
                .participants
                .get(sender)
                .is_some_and(|participant| participant.usage.pause.is_some())
        {
            let detail = "a paused participant cannot resume itself";
            return Err(RoomError::new("participant_paused", detail));
        }
        if kind == "participant/pause" {
            parse_payload::<PausePayload>(draft, "`timeout_seconds` as a number, if present")?;
        }
        Ok(())
    }

    /// Parses a pause that starts now, with its optional end.
    fn parse_pause(&self, payload: Option<&str>) -> Pause {
        let pause_payload =
            payload.and_then(|text| serde_json::from_str::<PausePayload>(text).ok());
        let seconds = pause_payload.and_then(|pause_payload| pause_payload.timeout_seconds);
        #[expect(clippy::cast_possible_truncation, reason = "it is bounded")]
        let until = seconds.map(|seconds| self.now + (seconds.clamp(0.0, 1e9) * 1e3) as i64);
        Pause { until }
    }

    /// Restores the pause state from a message that was sent before the room was opened.
    pub(super) fn replay_control(&mut self, message: &RoomMessage) {
        let pause = self.parse_pause(message.payload.as_ref().map(|payload| payload.get()));
        for id in &message.to {
            let id: Arc<str> = Arc::from(&**id);
            match message.kind.short() {
                "participant/pause" => self.departed.entry(id).or_default().pause = Some(pause),
                "participant/resume" | "participant/restart" => {
                    self.departed.entry(id).or_default().pause = None;
                }
                _ => {}
            }
        }
    }

    pub(super) fn apply_control(&mut self, kind: &str, to: &[Box<str>], payload: Option<&str>) {
        let pause = self.parse_pause(payload);
        for id in to {
            let Some(participant) = self.participants.get_mut(&**id) else { continue };
            match kind {
                "participant/pause" => participant.usage.pause = Some(pause),
                "participant/resume" | "participant/restart" => participant.usage.pause = None,
                "participant/shutdown" => participant.is_shut_down = true,
                _ => {}
            }
        }
    }
}
