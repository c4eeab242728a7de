//! Validation of `[room.NAME]` and of capabilities.

use std::collections::BTreeMap;

use super::super::document::TomlDocument;
use super::super::file::{CapabilityText, RoomText};
use crate::room::capability::Capability;
use crate::room::{RoomSettings, RoomsSettings};

pub(super) fn rooms(
    document: &TomlDocument<'_>,
    rooms: BTreeMap<String, RoomText>,
    room_limit: usize,
) -> RoomsSettings {
    if rooms.len() > room_limit {
        let message = "there are more tables than rooms may be open; raise limits.rooms";
        document.report(&["room"], message);
    }
    let rooms = rooms.into_iter().map(|(name, text)| {
        let settings = room(document, &name, text);
        (name, settings)
    });
    RoomsSettings { rooms: rooms.collect(), max_rooms: room_limit }
}

fn room(document: &TomlDocument<'_>, name: &str, text: RoomText) -> RoomSettings {
    let report = |key: &str, message: &str| document.report(&["room", name, key], message);
    if !is_room_name(name) {
        document.report(&["room", name], ROOM_NAME_FORMAT);
    }
    if text.message_bytes.0 == 0 {
        report("message_bytes", "no message is so small; write more");
    }
    if text.proposal_expires.0.is_zero() {
        report("proposal_expires", "must be greater than zero");
    }
    if text.members.iter().flatten().any(String::is_empty) {
        report("members", "an empty name is no identity; remove it");
    }
    capabilities(document, &["room", name, "capabilities"], &text.capabilities);
    text.settings()
}

const ROOM_NAME_FORMAT: &str = "the name of a room is 1 to 64 letters, digits, `-`, `_` or `.`";

/// Whether a room name is valid. The characters are restricted because it appears in URLs and logs.
fn is_room_name(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Reports invalid capabilities without quoting them, since they may contain secrets.
pub(super) fn capabilities(
    document: &TomlDocument<'_>,
    key_path: &[&str],
    texts: &[CapabilityText],
) {
    for (number, text) in texts.iter().enumerate() {
        let wrong = match Capability::parse(&text.0) {
            Ok(capability) if capability.unknown_member().is_some() => UNKNOWN_MEMBER.to_owned(),
            Ok(_) => continue,
            Err(error) => error.without_values(),
        };
        document.report_item(key_path, number, wrong);
    }
}

const UNKNOWN_MEMBER: &str = "beside `kind` and `payload` there is only `id`, `name`, `title`, \
                       `description`, `reason` and `comment`; with anything else it allows nothing";
