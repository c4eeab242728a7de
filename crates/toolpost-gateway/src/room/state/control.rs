//! `participant/*`: some participants may pause others, wake them, or end them.

use std::sync::Arc;

use serde::Deserialize;

use super::grant::read;
use super::{Refusal, Room};
use crate::room::message::{Draft, Message};

/// What a participant may still say who is paused, or told to shut down.
const WHILE_PAUSED: [&str; 12] = [
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

/// Kinds that make their addressees do something. Without one every client obeys, the sender's too.
const ORDERS: [&str; 7] = [
    "participant/pause",
    "participant/resume",
    "participant/forget",
    "participant/compact",
    "participant/clear",
    "participant/restart",
    "participant/shutdown",
];

/// Somebody who is asked to be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pause {
    until: Option<i64>,
}

impl Pause {
    pub(super) fn is_over(self, now: i64) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

#[derive(Debug, Deserialize)]
struct Pausing {
    #[serde(default)]
    timeout_seconds: Option<f64>,
}

impl Room {
    /// Whether somebody may say anything of this kind at the moment.
    pub(super) fn check_silence(&self, who: &str, kind: &str) -> Result<(), Refusal> {
        let Some(participant) = self.present.get(who) else { return Ok(()) };
        if WHILE_PAUSED.contains(&kind) {
            return Ok(());
        }
        if participant.is_shut_down {
            let words = "you were told to shut down; join again to go on";
            return Err(Refusal::new("participant_shut_down", words));
        }
        if participant.spent.paused.is_some() {
            let words = format!("you are paused, and may not send `{kind}` before you are resumed");
            return Err(Refusal::new("participant_paused", words));
        }
        Ok(())
    }

    pub(super) fn check_order(&self, who: &str, draft: &Draft) -> Result<(), Refusal> {
        let kind = draft.kind.short();
        if ORDERS.contains(&kind) && draft.to.is_empty() {
            let words =
                format!("`{kind}` needs `to`: without it everybody would obey, you included");
            return Err(Refusal::invalid(words));
        }
        let is_self = kind == "participant/resume" && draft.to.iter().any(|to| &**to == who);
        if is_self && self.present.get(who).is_some_and(|one| one.spent.paused.is_some()) {
            let words = "somebody else resumes you";
            return Err(Refusal::new("participant_paused", words));
        }
        if kind == "participant/pause" {
            read::<Pausing>(draft, "`timeout_seconds` as a number, if at all")?;
        }
        Ok(())
    }

    /// When a pause is over that begins now, if it says.
    fn pause(&self, payload: Option<&str>) -> Pause {
        let pausing = payload.and_then(|text| serde_json::from_str::<Pausing>(text).ok());
        let seconds = pausing.and_then(|pausing| pausing.timeout_seconds);
        #[expect(clippy::cast_possible_truncation, reason = "it is bounded")]
        let until = seconds.map(|seconds| self.now + (seconds.clamp(0.0, 1e9) * 1e3) as i64);
        Pause { until }
    }

    /// Takes up a pause that was ordered before this process began.
    pub(super) fn remember_orders(&mut self, message: &Message) {
        let pause = self.pause(message.payload.as_ref().map(|payload| payload.get()));
        for id in &message.to {
            let id: Arc<str> = Arc::from(&**id);
            match message.kind.short() {
                "participant/pause" => self.left.entry(id).or_default().paused = Some(pause),
                "participant/resume" | "participant/restart" => {
                    self.left.entry(id).or_default().paused = None;
                }
                _ => {}
            }
        }
    }

    pub(super) fn obey(&mut self, kind: &str, to: &[Box<str>], payload: Option<&str>) {
        let pause = self.pause(payload);
        for id in to {
            let Some(participant) = self.present.get_mut(&**id) else { continue };
            match kind {
                "participant/pause" => participant.spent.paused = Some(pause),
                "participant/resume" | "participant/restart" => participant.spent.paused = None,
                "participant/shutdown" => participant.is_shut_down = true,
                _ => {}
            }
        }
    }
}
