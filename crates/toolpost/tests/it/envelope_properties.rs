//! Property tests: any JSON in an envelope survives a round trip.

use super::json_strategy::any_scalar;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolpost::{ContentBlock, Envelope, HttpMeta, McpMeta, Payload, SseMeta};

fn any_json() -> impl Strategy<Value = Value> {
    any_scalar(any::<String>()).prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            any_members(inner).prop_map(Value::Object),
        ]
    })
}

fn any_members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    // Mixes arbitrary names with names that have a meaning in envelopes.
    let name = prop_oneof![
        any::<String>(),
        prop::sample::select(vec![
            "data",
            "meta",
            "source",
            "text",
            "type",
            "annotations",
            "priority",
            "audience",
            "uri",
            "resource",
            "_meta",
            "name",
            "mimeType",
            "blob",
            "description",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec((name, value), 0..6).prop_map(|members| members.into_iter().collect())
}

fn any_envelope() -> impl Strategy<Value = Envelope> {
    let headers = prop::collection::btree_map("[a-z-]{1,12}", any::<String>(), 0..4);
    let local = (any_json(), any::<String>()).prop_map(|(data, id)| Envelope::local(data, id));
    let http = (any_json(), any::<u16>(), headers, any::<Option<u64>>()).prop_map(
        |(data, status, headers, retry)| {
            let mut sse = SseMeta::new("message", "7");
            sse.retry = retry.map(|ms| ms >> 12);
            let mut meta = HttpMeta::new(status, headers);
            meta.sse = Some(sse);
            Envelope::http(data, meta)
        },
    );
    let mcp = (any_json(), any::<bool>(), any_json(), prop::collection::vec(any_block(), 0..4))
        .prop_map(|(data, is_error, structured, blocks)| {
            let blocks = blocks.into_iter().map(ContentBlock::from_value).collect();
            let mut meta = McpMeta::new(blocks);
            meta.structured_content = Some(structured);
            meta.is_error = is_error;
            Envelope::mcp(data, meta)
        });
    prop_oneof![local, http, mcp]
}

/// A block of a known type with arbitrary additional members, with known and unknown names.
fn any_block() -> impl Strategy<Value = Value> {
    let required = prop::sample::select(vec![
        json!({"type": "text", "text": "t"}),
        json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
        json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}),
        json!({"type": "resource_link", "uri": "a:b", "name": "n"}),
    ]);
    let resource = any_members(any_json()).prop_map(|mut members| {
        members.insert("uri".to_owned(), json!("a:b"));
        json!({"type": "resource", "resource": members})
    });
    (prop_oneof![required, resource], any_members(any_json())).prop_map(|(block, extra)| {
        let Value::Object(required) = block else { unreachable!("blocks are objects") };
        let mut members = extra;
        members.extend(required);
        Value::Object(members)
    })
}

proptest! {
    #[test]
    fn envelope_round_trips_through_json(envelope in any_envelope()) {
        let wire = serde_json::to_string(&envelope).unwrap();
        let back: Envelope = serde_json::from_str(&wire).unwrap();
        prop_assert_eq!(&back, &envelope);

        let value: Value = serde_json::from_str(&wire).unwrap();
        prop_assert!(Envelope::is_envelope(&value));
        prop_assert_eq!(&Envelope::detect(value).unwrap(), &envelope);

        let raw = Payload::from_json(wire).unwrap();
        let detected = Envelope::detect_payload(raw).unwrap().into_value().unwrap();
        prop_assert_eq!(&detected, &envelope);
    }

    #[test]
    fn content_block_with_unknown_members_round_trips(block in any_block()) {
        prop_assert_eq!(ContentBlock::from_value(block.clone()).into_value(), block);
    }

    #[test]
    fn detect_returns_non_envelope_unchanged(value in any_json()) {
        match Envelope::detect(value.clone()) {
            Ok(envelope) => {
                let written = serde_json::to_value(envelope).unwrap();
                prop_assert_eq!(&written["data"], &value["data"]);
                prop_assert_eq!(&written["meta"], &value["meta"]);
            }
            Err(data) => prop_assert_eq!(data, value),
        }
    }

    #[test]
    fn detection_never_panics_on_any_text(text in any::<String>()) {
        if let Ok(payload) = Payload::from_json(text) {
            let _ = Envelope::detect_payload(payload);
        }
    }
}
