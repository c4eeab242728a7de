//! The deprecation of short kinds in `mcpx`: kinds without the METHOD and CONTEXT of their message.

use std::sync::Arc;

use serde_json::json;

use super::parse_message::ParsedMessage;
use super::{Room, RoomError};
use crate::room::ShortKinds;
use crate::room::message::{BaseKind, MessageKind, RejectionCode, quoted};

impl Room {
    /// Whether the short kinds of a participant get a notice or a rejection. The kinds of `mew` are
    /// always short.
    pub(super) fn deprecates_short_kinds(&self, sender: &str) -> bool {
        let participant = self.participants.get(sender);
        self.settings.short_kinds != ShortKinds::Accept
            && participant.is_some_and(|participant| !participant.protocol.is_mew())
    }

    pub(super) fn check_short_kind(&self, parsed: &ParsedMessage) -> Result<(), RoomError> {
        match &parsed.short_kind {
            Some(sent) if self.settings.short_kinds == ShortKinds::Reject => {
                let (sent, full) = (quoted(sent.full()), quoted(parsed.draft.kind.full()));
                let detail = format!("this room rejects the short kind {sent}; send {full}");
                Err(RejectionCode::ShortKind.error(detail))
            }
            _ => Ok(()),
        }
    }

    /// Sends the first notice about a short kind. It has no correlation, which `mcpx` clients would
    /// take for the response to a request.
    pub(super) fn send_short_kind_notice(&mut self, sender: &Arc<str>, parsed: &ParsedMessage) {
        let Some(sent) = &parsed.short_kind else { return };
        let Some(participant) = self.participants.get_mut(sender) else { return };
        if std::mem::replace(&mut participant.usage.has_short_kind_notice, true) {
            return;
        }
        let (sent, full) = (sent.full(), parsed.draft.kind.full());
        let message =
            format!("the short kind {} is deprecated; send {}", quoted(sent), quoted(full));
        let payload = json!({
            "notice": "short_kind",
            "message": message,
            "message_id": parsed.draft.id,
            "sent_kind": sent,
            "full_kind": full,
        });
        let notice = self.gateway_message(BaseKind::SystemNotice, &[sender], &[], &payload);
        self.send_to_addressees(notice);
    }
}

/// Whether a request, a response or a proposal was sent with less than its full kind.
pub(super) fn is_short_kind(sent: &MessageKind, full: &MessageKind) -> bool {
    let base = full.base();
    let is_extended = base.is_some_and(BaseKind::is_extended);
    is_extended && base != Some(BaseKind::McpNotification) && sent.is_shorter_than(full)
}
