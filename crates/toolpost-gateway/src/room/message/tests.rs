//! Property tests: encodings preserve messages.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// Names with special characters of kinds, globs, JSON and stream frames.
fn name() -> impl Strategy<Value = String> {
    r#"[a-zA-Zé:/*%#"\\ 0-9._-]{1,12}"#
}

fn json() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("{ }".to_owned()),
        Just("[1.0, 1e2,\n{\"a\" : \"\\u00e9\"}]".to_owned()),
        name().prop_map(|name| serde_json::to_string(&name).unwrap()),
    ]
}

/// A kind with a matching payload.
fn content() -> impl Strategy<Value = (&'static str, Option<String>)> {
    let bases = vec!["mcp/request", "mcp/proposal", "mcp/notification"];
    let call = (proptest::sample::select(bases), name()).prop_map(|(base, name)| {
        let name = serde_json::to_string(&name).unwrap();
        (
            base,
            Some(format!(
                r#"{{"jsonrpc":"2.0","id":7,"method": "tools/call", "params":{{"name":{name} }} }}"#
            )),
        )
    });
    let other = proptest::sample::select(vec!["chat", "mcp/reject", "stream/open", "mcp/response"]);
    prop_oneof![call, (other, proptest::option::of(json()))]
}

/// A valid message with its full kind.
fn message() -> impl Strategy<Value = RoomMessage> {
    let names = || proptest::collection::vec(name(), 0..4);
    let extra = proptest::collection::vec(("x[a-z]{1,6}", json()), 0..3);
    let about = (proptest::option::of(json()), proptest::option::of((name(), name())));
    let protocol = proptest::sample::select(Protocol::ALL.to_vec());
    (protocol, name(), names(), names(), content(), about, extra).prop_map(
        |(protocol, id, to, correlation, (kind, payload), (context, context_parts), extra)| {
            let payload = payload.map(|text| raw(&text));
            let kind = upgrade_kind(MessageKind::parse(kind).unwrap(), payload.as_deref()).unwrap();
            RoomMessage {
                protocol,
                id: id.clone().into(),
                ts: "2026-01-01T00:00:00.000Z".into(),
                from: id.into(),
                to: to.into_iter().map(Into::into).collect(),
                kind,
                correlation: correlation.into_iter().map(Into::into).collect(),
                context: context.map(|text| raw(&text)),
                context_of: context_parts.map(|(name, from)| response_context(name, &from)),
                payload,
                extra: unique_extra(extra),
            }
        },
    )
}

fn response_context(name: String, from: &str) -> ResponseContext {
    ResponseContext {
        method: "tools/call".into(),
        name: Some(name.into()),
        request_id: "F".into(),
        from: from.into(),
        proposal_id: None,
        proposer: Some(from.into()),
        outcome: Some(ResponseOutcome::Error),
    }
}

fn unique_extra(mut extra: Vec<(String, String)>) -> Extra {
    extra.sort();
    extra.dedup_by(|one, other| one.0 == other.0);
    extra.into_iter().map(|(key, text)| (key.into(), raw(&text))).collect()
}

/// Number of correlations in the encoding for `mcpx`.
fn mcpx_correlations(message: &RoomMessage) -> usize {
    let is_notification = message.kind.base() == Some(BaseKind::McpNotification);
    usize::from(!is_notification || message.context_of.is_none())
}

/// Parses an encoded message as the gateway does on receipt.
fn parse_again(text: &str, original: &RoomMessage) -> RoomMessage {
    let draft = Draft::parse(text).unwrap();
    assert_eq!(draft.from.as_deref(), Some(&*original.from));
    let mut message =
        draft.complete(original.from.clone(), Protocol::Mew03, Box::default(), Box::default());
    message.kind = upgrade_kind(message.kind, message.payload.as_deref()).unwrap();
    message.context_of.clone_from(&original.context_of);
    message
}

proptest! {
    #[test]
    fn encode_parse_round_trip_in_every_family(original in message()) {
        for protocol in Protocol::ALL {
            let mut expected = original.clone();
            expected.protocol = protocol;
            if !protocol.is_mew() {
                expected.correlation.truncate(mcpx_correlations(&original));
            }
            // Encoding replaces an absent payload with `{}`.
            expected.payload.get_or_insert_with(|| RawValue::from_string("{}".to_owned()).unwrap());
            let again = parse_again(&original.encode(protocol), &original);
            prop_assert_eq!(again.to_stored(), expected.to_stored());
        }
    }

    #[test]
    fn family_translation_round_trip_is_lossless(original in message()) {
        let mut original = original;
        original.correlation.truncate(mcpx_correlations(&original));
        for (there, back) in [(Protocol::Mew04, Protocol::Mcpx01), (Protocol::Mcpx01, Protocol::Mew04)] {
            let translated = parse_again(&original.encode(there), &original);
            prop_assert_eq!(translated.encode(back), original.encode(back));
        }
    }

    #[test]
    fn stored_message_round_trip(original in message()) {
        let again = RoomMessage::from_stored(&original.to_stored()).unwrap();
        prop_assert_eq!(again.to_stored(), original.to_stored());
        prop_assert_eq!(again.kind.context(), original.kind.context());
        prop_assert_eq!(again.context_of, original.context_of);
    }

    #[test]
    fn kind_round_trip_is_stable(text in "(mcp/(request|response|proposal))?[:a%*25A]{0,9}") {
        if let Ok(kind) = MessageKind::parse(&text) {
            let again = MessageKind::parse(kind.full()).unwrap();
            prop_assert_eq!(&again, &kind);
            prop_assert_eq!((again.method(), again.context()), (kind.method(), kind.context()));
        }
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in any::<String>(), object in r#"\{("(kind|id|to|type|payload)":("join"|"chat"|\[\]|\{\}|null|1),?){0,4}\}"#) {
        for text in [&text, &object] {
            let _ = (Draft::parse(text), parse_join(text).is_some(), RoomMessage::from_stored(text));
            let _ = (MessageKind::parse(text), parse_stream_frame(text));
        }
    }
}

#[test]
fn large_payload_is_shared_in_encoded_segments() {
    let payload = format!(r#"{{"text":"{}"}}"#, "x".repeat(10_000));
    let text = format!(
        r#"{{"protocol":"mew/v0.4","id":"1","ts":"2026-01-01T00:00:00Z","from":"ada","kind":"chat","payload":{payload},"extra":1}}"#
    );
    let message = Arc::new(RoomMessage::from_stored(&text).unwrap());
    let shared = message.payload.as_ref().unwrap().get();
    for protocol in Protocol::ALL {
        let segments = RoomMessage::encode_segments(&message, protocol);
        assert!(segments.iter().any(|segment| segment.as_ptr() == shared.as_ptr()), "{protocol:?}");
        let joined: serde_json::Value = serde_json::from_slice(&segments.concat()).unwrap();
        let encoded: serde_json::Value = serde_json::from_str(&message.encode(protocol)).unwrap();
        assert_eq!(joined, encoded, "{protocol:?}");
    }
}
