use serde::Serialize;
use serde_json::{Value, json};

use super::*;
use crate::tool_envelope::{ErrorPayload, PayloadShapeError};

/// A payload with every type and artifact kind, and with unknown members.
fn full() -> Value {
    json!({
        "displayName": "Plan: a bridge", "instructionId": "plan-bridge",
        "model": {"id": "m-1", "label": "Model One", "context": 8},
        "steps": [
            {"kind": "draw", "label": "Draw", "summary": "Drew it", "ms": 12.5},
            {"kind": "unheard-of", "label": "", "summary": ""},
        ],
        "recommendations": [
            {"title": "Test", "detail": "Load it", "modelClass": "free", "groundingScope": "request"},
            {"title": "Bare", "detail": "", "weight": null},
            {"title": "Null", "detail": "", "groundingScope": null},
        ],
        "artifacts": [
            {"kind": "output-template", "title": "T", "template": "a {{b}}", "fields": ["b"],
             "description": "d", "x": [1]},
            {"kind": "tool-chain", "title": "C", "description": null, "steps": [
                {"tool": "draw", "description": "first", "optional": true}, {"tool": "test"}]},
            {"kind": "worked-example", "title": "W", "input": {"n": 1}, "expectedOutput": null},
            {"kind": "eval-criteria", "title": "E", "criteria": ["holds"], "description": "d"},
            {"kind": "comparison-matrix", "title": "M", "headers": ["cost"],
             "rows": [{"label": "steel", "values": ["high"], "y": {}}], "description": "d"},
            {"kind": "hologram", "shape": {"z": 3}},
        ],
        "methodology": {"fermi": {"status": "open"}},
    })
}

fn written(payload: &impl Serialize) -> Value {
    serde_json::to_value(payload).unwrap()
}

#[test]
fn workflow_payload_round_trips_every_kind() {
    let json = full();
    let payload = WorkflowPayload::read(&json).unwrap();
    assert_eq!(written(&payload), json);
    assert_eq!(WorkflowPayload::read(&written(&payload)), Ok(payload.clone()));
    assert_eq!(serde_json::from_value::<WorkflowPayload>(json).unwrap(), payload);

    let artifacts = serde_json::to_value(&payload.artifacts).unwrap();
    let kinds: Vec<_> =
        artifacts.as_array().unwrap().iter().map(|artifact| &artifact["kind"]).collect();
    let expected = [
        "output-template",
        "tool-chain",
        "worked-example",
        "eval-criteria",
        "comparison-matrix",
        "hologram",
    ];
    assert_eq!(kinds, expected);
    assert!(payload.artifacts[..5].iter().all(|kind| !matches!(kind, Artifact::Other(_))));
    assert!(matches!(payload.artifacts[5], Artifact::Other(_)));
    assert_eq!(payload.extra.keys().collect::<Vec<_>>(), ["methodology"]);
    assert_eq!(payload.steps[0].extra["ms"], 12.5);
}

#[test]
fn workflow_payload_preserves_field_order() {
    let text = full().to_string();
    let payload: WorkflowPayload = serde_json::from_str(&text).unwrap();
    // Only `"description":null`, placed between known members, moves.
    let moved = text
        .replace(r#""description":null,"steps""#, r#""steps""#)
        .replace(r#"{"tool":"test"}]}"#, r#"{"tool":"test"}],"description":null}"#);
    assert_eq!(serde_json::to_string(&payload).unwrap(), moved);
}

#[test]
fn workflow_payload_error_names_pointer() {
    let cases = [
        ("/model/label", json!(5), "`/model/label` must be a string, found number"),
        ("/steps", json!({}), "`/steps` must be a list, found object"),
        ("/steps/1", json!("s"), "`/steps/1` must be an object, found string"),
        ("/steps/1/kind", json!(null), "`/steps/1/kind` must be a string, found null"),
        ("/artifacts/0", json!({"title": ""}), "`/artifacts/0/kind` is missing"),
        ("/artifacts/0", json!({"kind": 1}), "`/artifacts/0/kind` must be a string, found number"),
        ("/artifacts/3", json!({"kind": "eval-criteria"}), "`/artifacts/3/title` is missing"),
        (
            "/artifacts/4/rows/0/values/0",
            json!([]),
            "`/artifacts/4/rows/0/values/0` must be a string, found array",
        ),
        (
            "/recommendations/0/modelClass",
            json!(1),
            "`/recommendations/0/modelClass` must be a string, found number",
        ),
    ];
    for (pointer, value, expected) in cases {
        let mut json = full();
        *json.pointer_mut(pointer).unwrap() = value;
        assert_eq!(WorkflowPayload::read(&json).unwrap_err().to_string(), expected);
    }
    let error = WorkflowPayload::read(&json!(3)).unwrap_err();
    assert!(matches!(error, PayloadShapeError::WrongType { at, .. } if at.is_empty()));
}

#[test]
fn workflow_payload_set_field_overrides_null() {
    let json = json!({
        "category": "new-sort", "code": "C", "message": "m", "recoverable": false,
        "details": null, "trace": 7,
    });
    let mut payload = ErrorPayload::read(&json).unwrap();
    assert_eq!(written(&payload), json);
    payload.details = Some("d".to_owned());
    let text = serde_json::to_string(&payload).unwrap();
    assert_eq!(
        text,
        r#"{"category":"new-sort","code":"C","message":"m","details":"d","recoverable":false,"trace":7}"#
    );
}
