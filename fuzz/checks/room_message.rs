//! What holds for any bytes at all; shared by the fuzz target and the replay of its corpus.

use toolpost_gateway::room::message::{
    Draft, Kind, Message, Protocol, join, stream_bytes, stream_frame, upgraded,
};

/// The longest explanation of what is wrong with a message.
const LONGEST_WORDS: usize = 600;

/// Takes `bytes` for everything that a participant can send, and for what a room has stored.
pub(crate) fn check(bytes: &[u8]) {
    if let Some(Ok((id, data))) = stream_bytes(bytes) {
        assert_eq!(bytes.len(), id.len() + data.len() + 2);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(frame) = stream_frame(text) {
        assert_eq!(frame.is_ok(), stream_bytes(bytes).is_some_and(|frame| frame.is_ok()));
    }
    if let Some(Err(error)) = join(text) {
        assert!(error.message.len() < LONGEST_WORDS, "{error}");
    }
    check_kind(text);
    check_stored(text);
    check_message(text);
}

/// A kind is read again as the same.
fn check_kind(text: &str) {
    let Ok(kind) = Kind::parse(text) else { return };
    let again = Kind::parse(kind.full()).expect("what was written can be read");
    assert_eq!((again.full(), again.context()), (kind.full(), kind.context()));
    assert!(kind.full().len() <= Kind::LONGEST);
}

fn check_stored(text: &str) {
    let Ok(message) = Message::from_stored(text) else { return };
    let stored = message.stored();
    let again = Message::from_stored(&stored).expect("what was stored can be read");
    assert_eq!(again.stored(), stored);
}

/// A message says the same in every family, and a refusal is explained in few words.
fn check_message(text: &str) {
    let draft = match Draft::read(text) {
        Ok(draft) => draft,
        Err(error) => return assert!(error.message.len() < LONGEST_WORDS, "{error}"),
    };
    let mut message = complete(draft);
    match upgraded(message.kind.clone(), message.payload.as_deref()) {
        Ok(kind) => message.kind = kind,
        Err(error) => return assert!(error.message.len() < LONGEST_WORDS, "{error}"),
    }
    check_stored(&message.stored());
    for protocol in Protocol::ALL {
        check_form(&message, protocol);
    }
}

fn check_form(message: &Message, protocol: Protocol) {
    let mut again =
        complete(Draft::read(&message.write(protocol)).expect("what was written is read"));
    assert_eq!(again.protocol, protocol);
    check_payload(&again, message);
    if message.payload.is_some() {
        let kind = upgraded(again.kind.clone(), again.payload.as_deref());
        again.kind = kind.expect("a full kind agrees with its payload");
    }
    // Without a payload a short kind has lost what the full one was about.
    assert_eq!(again.kind.short(), message.kind.short());
    if message.kind.short() != "mcp/response" && message.payload.is_some() {
        assert_eq!(again.kind, message.kind);
    }
}

/// A payload is handed on as it came: an absent one as an empty object, and a request perhaps with what
/// the one family needs in front of it.
fn check_payload(again: &Message, message: &Message) {
    let payload = |message: &Message| {
        message.payload.as_ref().map_or_else(|| "{}".to_owned(), |raw| raw.get().to_owned())
    };
    let (shown, said) = (payload(again), payload(message));
    let is_framed = !again.protocol.is_mew() && message.kind.short() == "mcp/request";
    match said.trim_start().strip_prefix('{').filter(|_| is_framed) {
        Some(rest) => assert!(shown.ends_with(rest), "{shown} beside {said}"),
        None => assert_eq!(shown, said),
    }
}

fn complete(draft: Draft) -> Message {
    draft.complete("me".into(), Protocol::Mew04, "new".into(), "now".into())
}
