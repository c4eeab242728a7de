//! Invariants that hold for any input; shared by the fuzz target and the corpus replay.

use toolpost_gateway::room::message::{
    Draft, MessageKind, Protocol, RoomMessage, parse_join, parse_stream_frame, upgrade_kind,
};

/// Maximum length of an error message.
const MAX_ERROR_LEN: usize = 600;

/// Parses `bytes` as each kind of frame and message a participant can send, and as a stored
/// message.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(Ok((id, data))) = parse_stream_frame(text) {
        assert_eq!(text.len(), id.len() + data.len() + 2);
    }
    if let Some(Err(error)) = parse_join(text) {
        assert!(error.message.len() < MAX_ERROR_LEN, "{error}");
    }
    check_kind(text);
    check_stored(text);
    check_message(text);
}

/// A message kind round-trips.
fn check_kind(text: &str) {
    let Ok(kind) = MessageKind::parse(text) else { return };
    let again = MessageKind::parse(kind.full()).expect("what was written can be read");
    assert_eq!((again.full(), again.context()), (kind.full(), kind.context()));
    assert!(kind.full().len() <= MessageKind::MAX_BYTES);
}

fn check_stored(text: &str) {
    let Ok(message) = RoomMessage::from_stored(text) else { return };
    let stored = message.to_stored();
    let again = RoomMessage::from_stored(&stored).expect("what was stored can be read");
    assert_eq!(again.to_stored(), stored);
}

/// A message round-trips in every protocol, and error messages are short.
fn check_message(text: &str) {
    let draft = match Draft::parse(text) {
        Ok(draft) => draft,
        Err(error) => return assert!(error.message.len() < MAX_ERROR_LEN, "{error}"),
    };
    let mut message = complete(draft);
    match upgrade_kind(message.kind.clone(), message.payload.as_deref()) {
        Ok(kind) => message.kind = kind,
        Err(error) => return assert!(error.message.len() < MAX_ERROR_LEN, "{error}"),
    }
    check_stored(&message.to_stored());
    for protocol in Protocol::ALL {
        check_protocol(&message, protocol);
    }
}

fn check_protocol(message: &RoomMessage, protocol: Protocol) {
    let mut again =
        complete(Draft::parse(&message.encode(protocol)).expect("what was written is read"));
    assert_eq!(again.protocol, protocol);
    check_payload(&again, message);
    if message.payload.is_some() {
        let kind = upgrade_kind(again.kind.clone(), again.payload.as_deref());
        again.kind = kind.expect("a full kind agrees with its payload");
    }
    // Without a payload, the full kind cannot be restored from the short one.
    assert_eq!(again.kind.short(), message.kind.short());
    if message.kind.short() != "mcp/response" && message.payload.is_some() {
        assert_eq!(again.kind, message.kind);
    }
}

/// A payload is relayed unchanged. An absent one becomes an empty object, and an `mcp/request`
/// payload can get additional leading members in protocols other than MEW.
fn check_payload(again: &RoomMessage, message: &RoomMessage) {
    let payload = |message: &RoomMessage| {
        message.payload.as_ref().map_or_else(|| "{}".to_owned(), |raw| raw.get().to_owned())
    };
    let (relayed, original) = (payload(again), payload(message));
    let is_framed = !again.protocol.is_mew() && message.kind.short() == "mcp/request";
    match original.trim_start().strip_prefix('{').filter(|_| is_framed) {
        Some(rest) => assert!(relayed.ends_with(rest), "{relayed} beside {original}"),
        None => assert_eq!(relayed, original),
    }
}

fn complete(draft: Draft) -> RoomMessage {
    draft.complete("me".into(), Protocol::Mew04, "new".into(), "2026-01-01T00:00:00Z".into())
}
