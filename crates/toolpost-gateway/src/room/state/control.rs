//! Participant control with `participant/*` messages: pause, resume, restart and shutdown.

use std::sync::Arc;

use serde::Deserialize;

use super::handle_grant::parse_payload;
use super::{Room, RoomError};
use crate::room::message::{BaseKind, Draft, MessageKind, RejectionCode, RoomMessage};

#[derive(Debug, Deserialize)]
struct PausePayload {
    #[serde(default)]
    timeout_seconds: Option<f64>,
}

impl Room {
    pub(super) fn check_not_paused(
        &self,
        sender: &str,
        kind: &MessageKind,
    ) -> Result<(), RoomError> {
        let Some(participant) = self.participants.get(sender) else { return Ok(()) };
        if kind.base().is_some_and(BaseKind::is_allowed_while_paused) {
            return Ok(());
        }
        if participant.is_shut_down {
            let detail = "you were shut down; rejoin to continue";
            return Err(RejectionCode::ParticipantShutDown.error(detail));
        }
        if participant.usage.paused_until.is_some() {
            let kind = kind.short();
            let detail = format!("you are paused and cannot send `{kind}` until resumed");
            return Err(RejectionCode::ParticipantPaused.error(detail));
        }
        Ok(())
    }

    pub(super) fn check_control(
        &self,
        sender: &str,
        kind: BaseKind,
        draft: &Draft,
    ) -> Result<(), RoomError> {
        if kind.requires_addressee() && draft.to.is_empty() {
            let kind = kind.as_str();
            let detail =
                format!("`{kind}` requires `to`: without it, it would apply to every participant");
            return Err(RoomError::invalid(detail));
        }
        if kind == BaseKind::ParticipantResume
            && draft.to.iter().any(|to| &**to == sender)
            && let Some(participant) = self.participants.get(sender)
            && participant.usage.paused_until.is_some()
        {
            let detail = "a paused participant cannot resume itself";
            return Err(RejectionCode::ParticipantPaused.error(detail));
        }
        if kind == BaseKind::ParticipantPause {
            parse_payload::<PausePayload>(draft, "`timeout_seconds` as a number, if present")?;
        }
        Ok(())
    }

    /// Returns the end of the pause that a message sets (`i64::MAX` without a timeout), `Some(None)`
    /// if the message ends the pause, or `None` for any other message.
    fn changed_pause(&self, message: &RoomMessage) -> Option<Option<i64>> {
        match message.kind.base()? {
            BaseKind::ParticipantPause => {
                let payload = message.payload.as_ref();
                let pause = payload
                    .and_then(|payload| serde_json::from_str::<PausePayload>(payload.get()).ok());
                let seconds = pause.and_then(|pause| pause.timeout_seconds);
                #[expect(clippy::cast_possible_truncation, reason = "it is bounded")]
                let until = |seconds: f64| self.now + (seconds.clamp(0.0, 1e9) * 1e3) as i64;
                Some(Some(seconds.map_or(i64::MAX, until)))
            }
            BaseKind::ParticipantResume | BaseKind::ParticipantRestart => Some(None),
            _ => None,
        }
    }

    /// Restores the pause state from a message that was sent before the room was opened.
    pub(super) fn replay_control(&mut self, message: &RoomMessage) {
        let Some(paused_until) = self.changed_pause(message) else { return };
        for id in &message.to {
            self.departed.entry(Arc::from(&**id)).or_default().paused_until = paused_until;
        }
    }

    pub(super) fn apply_control(&mut self, message: &RoomMessage) {
        let changed_pause = self.changed_pause(message);
        for id in &message.to {
            let Some(participant) = self.participants.get_mut(&**id) else { continue };
            participant.is_shut_down |= message.kind.base() == Some(BaseKind::ParticipantShutdown);
            if let Some(paused_until) = changed_pause {
                participant.usage.paused_until = paused_until;
            }
        }
    }
}
