//! ToolEnvelope V1 against results of a real server and random values.

use std::fs;
use std::path::{Path, PathBuf};

use super::fuzz_corpus::tool_envelope as checks;
use super::json_strategy::any_scalar;
use data_encoding::BASE64;
use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolpost::tool_envelope::{
    EnvelopeReader, ErrorPayload, PREFIX, ToolEnvelope, ToolEnvelopeMeta, WorkflowPayload, decode,
    encode,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const REAL_RESULTS: &str = include_str!("../data/tool-envelope-real.jsonl");
const SPECIFICATION_EXAMPLES: &str = include_str!("../data/tool-envelope-examples.json");

#[test]
fn real_results_round_trip_byte_for_byte() {
    let lines: Vec<_> = REAL_RESULTS.lines().collect();
    let (envelopes, plain) = lines.split_at(7);
    for line in envelopes {
        let decoded = decode(&EnvelopeReader::default(), line).unwrap();
        let keys: Vec<_> = decoded.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["payload", "meta", "summary"]);
        assert_eq!(encode(decoded).unwrap().to_string(), *line);
    }
    let [plain] = plain else { panic!("8 lines expected, found {}", lines.len()) };
    let result: Value = serde_json::from_str(plain).unwrap();
    let fallback = decode(&EnvelopeReader::default(), plain).unwrap_err();
    assert_eq!(fallback.text.as_deref(), result["content"][0]["text"].as_str());
    assert!(fallback.to_string().starts_with("not an envelope block"));
}

#[test]
fn real_payloads_parse_as_typed_payloads() {
    let kinds = ["plain", "plain", "workflow", "workflow", "workflow", "error", "error"];
    for (line, kind) in REAL_RESULTS.lines().zip(kinds) {
        let result: Value = serde_json::from_str(line).unwrap();
        let read = EnvelopeReader::default().read_result(&result).unwrap();
        let json = &read.envelope.payload;
        let workflow = WorkflowPayload::read(json);
        let error = ErrorPayload::read(json);
        assert_eq!((workflow.is_ok(), error.is_ok()), (kind == "workflow", kind == "error"));
        if let Ok(workflow) = workflow {
            let known = |kind| !matches!(kind, &toolpost::tool_envelope::Artifact::Other(_));
            assert!(workflow.artifacts.iter().all(known));
            assert_eq!(serde_json::to_string(&workflow).unwrap(), json.to_string());
        }
        if let Ok(error) = error {
            assert_eq!(error.to_string(), read.summary);
            assert_eq!(serde_json::to_string(&error).unwrap(), json.to_string());
        }
    }
}

#[test]
fn specification_examples_decode() {
    let examples: Vec<Value> = serde_json::from_str(SPECIFICATION_EXAMPLES).unwrap();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let block = format!("{PREFIX}{}", example["base64"].as_str().unwrap());
        let envelope = EnvelopeReader::default().read_block(&block).unwrap();
        assert_eq!(serde_json::to_string(&envelope).unwrap(), example["json_text"]);
        assert_eq!(envelope.payload, example["decoded"]["payload"]);
        assert_eq!(envelope.to_block().unwrap(), block);
        let payload = &envelope.payload;
        match example["kind"].as_str() {
            Some("success") => assert!(WorkflowPayload::read(payload).is_ok()),
            _ => assert!(ErrorPayload::read(payload).is_ok()),
        }
    }
}

#[test]
fn tool_envelope_page_examples_are_valid() {
    let page = fs::read_to_string(root().join("docs/tool-envelope.md")).unwrap();
    let examples: Vec<_> = page
        .split("```json\n")
        .skip(1)
        .map(|rest| rest.split_once("```").expect("a fence is closed").0.trim())
        .collect();
    let [result, readable] = examples[..] else { panic!("found {} examples", examples.len()) };
    let decoded = decode(&EnvelopeReader::default(), result).unwrap();
    let readable: Value = serde_json::from_str(readable).unwrap();
    assert_eq!(decoded.to_string(), readable.to_string());
    let result: Value = serde_json::from_str(result).unwrap();
    assert_eq!(encode(readable).unwrap().to_string(), result.to_string());
    let payload = ErrorPayload::read(&decoded["payload"]).unwrap();
    assert_eq!(payload.to_string(), decoded["summary"].as_str().unwrap());
}

/// Generates arbitrary JSON, a few levels deep.
fn any_json() -> impl Strategy<Value = Value> {
    any_scalar(any::<String>()).prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Value::from),
            hash_map(any::<String>(), inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Generates members whose names no typed payload defines.
fn unknown_members() -> impl Strategy<Value = Map<String, Value>> {
    hash_map("x-[a-z]{0,8}", any_json(), 0..4).prop_map(|members| members.into_iter().collect())
}

fn with(known: &Value, unknown: Map<String, Value>) -> Value {
    let mut members = known.as_object().expect("known members are an object").clone();
    members.extend(unknown);
    Value::Object(members)
}

fn artifact() -> impl Strategy<Value = Value> {
    let known = prop_oneof![
        (any::<String>(), vec(any::<String>(), 0..3)).prop_map(|(text, fields)| json!({
            "kind": "output-template", "title": text, "template": text, "fields": fields,
        })),
        (any::<String>(), unknown_members()).prop_map(|(text, unknown)| json!({
            "kind": "tool-chain", "title": text, "description": text,
            "steps": [with(&json!({"tool": text}), unknown)],
        })),
        (any_json(), any_json()).prop_map(|(input, output)| json!({
            "kind": "worked-example", "title": "", "input": input, "expectedOutput": output,
        })),
        vec(any::<String>(), 0..3).prop_map(|criteria| json!({
            "kind": "eval-criteria", "title": "", "criteria": criteria, "description": null,
        })),
        (vec(any::<String>(), 0..3), unknown_members()).prop_map(|(texts, unknown)| json!({
            "kind": "comparison-matrix", "title": "", "headers": texts,
            "rows": [with(&json!({"label": "", "values": texts}), unknown)],
        })),
        "[a-z]{1,6}".prop_map(|kind| json!({"kind": kind})),
    ];
    (known, unknown_members()).prop_map(|(known, unknown)| with(&known, unknown))
}

fn workflow() -> impl Strategy<Value = Value> {
    let item = (any::<String>(), unknown_members());
    (vec(item, 1..4), vec(artifact(), 0..4), unknown_members()).prop_map(
        |(items, artifacts, unknown)| {
            let step = |(text, unknown): &(String, Map<String, Value>)| {
                with(&json!({"kind": text, "label": text, "summary": text}), unknown.clone())
            };
            let recommendation = |(text, unknown): &(String, Map<String, Value>)| {
                with(&json!({"title": text, "detail": text, "modelClass": text}), unknown.clone())
            };
            let known = json!({
                "displayName": items[0].0, "instructionId": items[0].0,
                "model": with(&json!({"id": "", "label": ""}), items[0].1.clone()),
                "steps": items.iter().map(step).collect::<Vec<_>>(),
                "recommendations": items.iter().map(recommendation).collect::<Vec<_>>(),
                "artifacts": artifacts,
            });
            with(&known, unknown)
        },
    )
}

fn failure() -> impl Strategy<Value = Value> {
    let optional = || proptest::option::of(any::<Option<String>>());
    let texts = (any::<String>(), any::<String>(), any::<bool>());
    (texts, optional(), optional(), optional(), unknown_members()).prop_map(
        |((category, text, recoverable), details, action, tool, unknown)| {
            let mut known = json!({
                "category": category, "code": text, "message": text, "recoverable": recoverable,
            });
            let names = ["details", "suggestedAction", "nextTool"];
            for (name, value) in names.into_iter().zip([details, action, tool]) {
                if let Some(value) = value {
                    known[name] = json!(value);
                }
            }
            with(&known, unknown)
        },
    )
}

proptest! {
    #[test]
    fn any_payload_round_trips(
        payload in any_json(),
        tool in any::<String>(),
        summary in any::<String>(),
        epoch_ms in any::<i64>(),
    ) {
        let envelope = ToolEnvelope::new(payload, ToolEnvelopeMeta::new(tool, epoch_ms));
        let result = envelope.to_result(summary.clone()).unwrap();
        let read = EnvelopeReader::default().read_result(&result).unwrap();
        prop_assert_eq!(&read.envelope, &envelope);
        prop_assert_eq!(read.summary, summary);
        prop_assert_eq!(read.envelope.payload.to_string(), envelope.payload.to_string());
        let text = result.to_string();
        let again = encode(decode(&EnvelopeReader::default(), &text).unwrap()).unwrap();
        prop_assert_eq!(again.to_string(), text);
    }

    #[test]
    fn workflow_payload_round_trips(json in workflow()) {
        let payload = WorkflowPayload::read(&json).unwrap();
        let written = serde_json::to_value(&payload).unwrap();
        prop_assert_eq!(&written, &json);
        prop_assert_eq!(WorkflowPayload::read(&written).unwrap(), payload);
    }

    #[test]
    fn error_payload_round_trips(json in failure()) {
        let payload = ErrorPayload::read(&json).unwrap();
        let written = serde_json::to_value(&payload).unwrap();
        prop_assert_eq!(&written, &json);
        prop_assert_eq!(ErrorPayload::read(&written).unwrap(), payload);
    }

    #[test]
    fn reader_never_panics_on_bytes(bytes in vec(any::<u8>(), 0..200)) {
        checks::check(&bytes);
    }

    #[test]
    fn reader_never_panics_on_text(text in "\\PC{0,40}", envelope in any_json()) {
        checks::check(text.as_bytes());
        checks::check(format!("{PREFIX}{text}").as_bytes());
        let meta = json!({"tool": text, "ts": text, "version": 1, "more": envelope});
        let document = json!({"payload": envelope, "meta": meta, "beside": envelope}).to_string();
        checks::check(document.as_bytes());
    }

    #[test]
    fn corrupted_block_decodes_or_errors(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let json = r#"{"payload":{"a":[1,"é"]},"meta":{"tool":"t","ts":"","version":1}}"#;
        let mut block = format!("{PREFIX}{}", BASE64.encode(json.as_bytes())).into_bytes();
        let at = at.index(block.len());
        block[at] = byte;
        checks::check(&block);
        checks::check(&block[..at]);
    }
}
