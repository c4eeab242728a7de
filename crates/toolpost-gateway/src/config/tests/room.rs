//! `[room.NAME]`, and capabilities in rooms and identities.

use std::time::Duration;

use super::parse;
use crate::room::capability::Capability;
use crate::room::{RoomSettings, RoomsSettings, ShortKinds};

const ADA: &str = "[identity.ada]\n\
                   token_hash = \"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"\n";

#[test]
fn room_settings_override_defaults() {
    let config = parse(
        r#"
        [limits]
        rooms = 7
        [room.bare]
        [room."a.b-c_1"]
        history = 0
        history_bytes = "2KiB"
        welcome_bytes = "1KiB"
        participants = 3
        message_bytes = 100
        messages_per_minute = 1
        streams = 0
        proposal_expires = "90s"
        short_kinds = "warn"
        capabilities = [{ kind = "chat", payload = { text = "/^${SECRET}/", n = 1 } }]
        members = ["ada"]
        "#,
    );
    let rooms = config.unwrap().rooms;
    assert_eq!(rooms.max_rooms, 7);
    assert_eq!(rooms.rooms["bare"], RoomSettings::default());
    let expected = RoomSettings {
        max_history_messages: 0,
        max_history_bytes: 2_048,
        max_welcome_bytes: 1_024,
        max_participants: 3,
        max_message_bytes: 100,
        messages_per_minute: 1,
        max_streams: 0,
        proposal_expires: Duration::from_secs(90),
        short_kinds: ShortKinds::Warn,
        capabilities: vec![r#"{"kind":"chat","payload":{"text":"/^hush-hush/","n":1}}"#.to_owned()],
        members: Some(vec!["ada".to_owned()]),
    };
    assert_eq!(rooms.rooms["a.b-c_1"], expected);
    assert_eq!(parse("").unwrap().rooms, RoomsSettings::default());
}

#[test]
fn default_room_capabilities_are_valid() {
    for text in RoomSettings::default().capabilities {
        Capability::parse(&text).unwrap();
    }
}

#[test]
fn identity_accepts_both_capability_notations() {
    let message =
        "capabilities = ['mcp/request:tools/call:x', { kind = ['a', 'b'] }, '{\"kind\":\"c\"}']";
    let config = parse(&format!("{ADA}{message}")).unwrap();
    let expected = ["mcp/request:tools/call:x", r#"{"kind":["a","b"]}"#, r#"{"kind":"c"}"#];
    assert_eq!(config.identities[0].identity.capabilities, expected);
}

#[test]
fn invalid_room_settings_are_reported_without_values() {
    let ada = |fragment: &str| format!("{ADA}capabilities = {fragment}");
    for (text, fragment) in [
        (
            "[room.a]\nhistry = 1".to_owned(),
            "2:1: room.a.histry: unknown key; did you mean `history`?",
        ),
        ("[rooms.a]".to_owned(), "rooms: unknown key; did you mean `room`?"),
        ("room = 1".to_owned(), "room: expected tables such as [room.NAME]"),
        ("[room.\"a b\"]".to_owned(), "room.\"a b\": invalid room name; use 1 to 64 letters"),
        (format!("[room.{}]", "x".repeat(65)), "invalid room name"),
        ("[room.\"..\"]".to_owned(), "invalid room name"),
        ("[room.a]\nparticipants = 0".to_owned(), "room.a.participants: "),
        ("[room.a]\nmessages_per_minute = 0".to_owned(), "room.a.messages_per_minute: "),
        (
            "[room.a]\nmessage_bytes = 0".to_owned(),
            "room.a.message_bytes: expected a size of at least 1 bytes",
        ),
        ("[room.a]\nhistory_bytes = \"1MB\"".to_owned(), "room.a.history_bytes: expected a size"),
        ("[room.a]\nproposal_expires = 0".to_owned(), "room.a.proposal_expires: "),
        (
            "[room.a]\nshort_kinds = \"hush\"".to_owned(),
            "room.a.short_kinds: expected one of `accept`",
        ),
        ("[room.a]\nmembers = [\"\"]".to_owned(), "room.a.members: empty identity name"),
        (
            "[room.a]\ncapabilities = [1]".to_owned(),
            "2:17: room.a.capabilities[0]: expected a capability",
        ),
        (
            "[room.a]\ncapabilities = [\"chat\", \"\"]".to_owned(),
            "2:25: room.a.capabilities[1]: the capability is empty",
        ),
        ("[limits]\nrooms = 0".to_owned(), "limits.rooms: "),
        (
            "[limits]\nrooms = 1\n[room.a]\n[room.b]".to_owned(),
            "room: more rooms than limits.rooms allows",
        ),
        (ada("['mcp/request:']"), "3:17: identity.ada.capabilities[0]: the capability is empty"),
        (ada("['{hush']"), "identity.ada.capabilities[0]: the pattern is not JSON"),
        (ada("[{ payload = 1 }]"), "capabilities[0]: a pattern needs `kind`"),
        (ada("[{ kind = '/hush(/' }]"), "capabilities[0]: a regular expression is invalid"),
        (ada("[{ kind = '!!hush' }]"), "capabilities[0]: invalid negation: double negation"),
        (
            ada("[{ kind = 'x', payload = { '$.hush[?]' = 1 } }]"),
            "capabilities[0]: a path has an unsupported part",
        ),
        (ada("[{ kind = 'x', '$.hush' = 1 }]"), "capabilities[0]: a path next to `kind`"),
        (ada("[{ kind = 'x', hush = 1 }]"), "capabilities[0]: unknown member"),
        (ada("[{ kind = 'x', payload = 2020-01-01 }]"), "identity.ada.capabilities"),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains(fragment), "{text}\n{error}");
        assert!(!error.contains("hush"), "{error}");
    }
}

#[test]
fn unknown_room_member_produces_lint() {
    let lints = |text: &str| parse(text).unwrap().lint(&[]);
    let room = "[room.a]\nmembers = ['ada', 'bob', 'operator', 'local']\n";
    let auth = "[auth]\nissuer = 'https://as.example'\naudience = ['x']\n";
    let message = "room `a`: member `bob` is not an identity; create it with `toolpost token new`";
    assert_eq!(lints(&format!("{ADA}{room}")), [message]);
    assert_eq!(lints(&format!("{ADA}{room}{auth}")), [""; 0], "a JWT may have this name");
}
