//! What holds for any message: no form loses what it can say.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// Names with everything that has a meaning somewhere.
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

/// A kind and a payload that goes with it.
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

/// A message that somebody could have sent, with its full kind.
fn message() -> impl Strategy<Value = Message> {
    let names = || proptest::collection::vec(name(), 0..4);
    let extra = proptest::collection::vec(("x[a-z]{1,6}", json()), 0..3);
    let about = (proptest::option::of(json()), proptest::option::of((name(), name())));
    let protocol = proptest::sample::select(Protocol::ALL.to_vec());
    (protocol, name(), names(), names(), content(), about, extra).prop_map(
        |(protocol, id, to, correlation, (kind, payload), (context, asked), extra)| {
            let payload = payload.map(|text| raw(&text));
            let kind = upgraded(Kind::parse(kind).unwrap(), payload.as_deref()).unwrap();
            Message {
                protocol,
                id: id.clone().into(),
                ts: "2026-01-01T00:00:00.000Z".into(),
                from: id.into(),
                to: to.into_iter().map(Into::into).collect(),
                kind,
                correlation: correlation.into_iter().map(Into::into).collect(),
                context: context.map(|text| raw(&text)),
                context_of: asked.map(|(name, from)| about_request(name, &from)),
                payload,
                extra: once_each(extra),
            }
        },
    )
}

fn about_request(name: String, from: &str) -> ContextOf {
    ContextOf {
        method: "tools/call".into(),
        name: Some(name.into()),
        request_id: "F".into(),
        from: from.into(),
        proposal_id: None,
        proposer: Some(from.into()),
        outcome: Some(Outcome::Error),
    }
}

fn once_each(mut extra: Vec<(String, String)>) -> Extra {
    extra.sort();
    extra.dedup_by(|one, other| one.0 == other.0);
    extra.into_iter().map(|(key, text)| (key.into(), raw(&text))).collect()
}

/// What a gateway has of a message that it was sent in one of the forms.
fn read_again(text: &str, original: &Message) -> Message {
    let draft = Draft::read(text).unwrap();
    assert_eq!(draft.from.as_deref(), Some(&*original.from));
    let mut message =
        draft.complete(original.from.clone(), Protocol::Mew03, Box::default(), Box::default());
    message.kind = upgraded(message.kind, message.payload.as_deref()).unwrap();
    message.context_of.clone_from(&original.context_of);
    message
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_it_was_in_every_family(original in message()) {
        for protocol in Protocol::ALL {
            let mut expected = original.clone();
            expected.protocol = protocol;
            if !protocol.is_mew() {
                expected.correlation.truncate(1);
            }
            // What every client takes for granted is written where it is absent.
            expected.payload.get_or_insert_with(|| RawValue::from_string("{}".to_owned()).unwrap());
            let again = read_again(&original.write(protocol), &original);
            prop_assert_eq!(again.stored(), expected.stored());
        }
    }

    #[test]
    fn a_translation_there_and_back_loses_nothing_that_both_can_say(original in message()) {
        let mut original = original;
        original.correlation.truncate(1);
        for (there, back) in [(Protocol::Mew04, Protocol::Mcpx01), (Protocol::Mcpx01, Protocol::Mew04)] {
            let translated = read_again(&original.write(there), &original);
            prop_assert_eq!(translated.write(back), original.write(back));
        }
    }

    #[test]
    fn what_is_stored_comes_back_whole(original in message()) {
        let again = Message::from_stored(&original.stored()).unwrap();
        prop_assert_eq!(again.stored(), original.stored());
        prop_assert_eq!(again.kind.context(), original.kind.context());
        prop_assert_eq!(again.context_of, original.context_of);
    }

    #[test]
    fn a_kind_says_the_same_when_it_is_read_again(text in "(mcp/(request|response|proposal))?[:a%*25A]{0,9}") {
        if let Ok(kind) = Kind::parse(&text) {
            let again = Kind::parse(kind.full()).unwrap();
            prop_assert_eq!(&again, &kind);
            prop_assert_eq!((again.method(), again.context()), (kind.method(), kind.context()));
        }
    }

    #[test]
    fn no_text_is_too_odd(text in any::<String>(), object in r#"\{("(kind|id|to|type|payload)":("join"|"chat"|\[\]|\{\}|null|1),?){0,4}\}"#) {
        for text in [&text, &object] {
            let _ = (Draft::read(text), join(text).is_some(), Message::from_stored(text));
            let _ = (Kind::parse(text), stream_frame(text), stream_bytes(text.as_bytes()));
        }
    }
}
