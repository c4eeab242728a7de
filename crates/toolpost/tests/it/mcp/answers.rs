//! Every odd way to answer a call.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolpost::mcp::{Elicitation, McpSettings, Root};
use toolpost::{Authority, CallRequest, Question, Respond, Respondent, Unanswered};

use super::rig::{ERAS, Rig, Way, combinations, says};

/// Calls `odd` while another call is in flight: that one must not notice, nor the next one.
async fn beside_others(rig: &Rig) -> Result<toolpost::Envelope<Value>, toolpost::CallError> {
    let other = rig.call("sleep", json!({"seconds": 0.3}));
    let (called, slept) = tokio::join!(rig.call("odd", json!({})), other);
    assert_eq!(slept.unwrap().data[0]["text"], "slept");
    rig.is_well().await;
    called
}

#[tokio::test]
async fn an_odd_answer_is_understood_and_disturbs_nobody() {
    let rows = [
        ("plain", "plain"),
        ("twice", "first"),
        ("other-id", "right"),
        ("notifications-first", "done"),
        ("banner", "done"),
        ("batch", "batched"),
        ("string-ids", "plain"),
        ("stderr-flood", "flooded"),
        ("says-error", "no such city"),
    ];
    for era in ERAS {
        join_all(rows.map(async |(behavior, expected)| {
            let rig = Rig::ready(Way::Stdio, &[era, &[behavior]].concat()).await;
            let envelope = beside_others(&rig).await.unwrap();
            let written = serde_json::to_value(&envelope).unwrap();
            assert_eq!(written["meta"]["content"][0]["text"], expected, "{era:?} {behavior}");
            assert_eq!(envelope.is_error(), behavior == "says-error", "{era:?} {behavior}");
            assert_eq!(rig.count("tools/call"), 3, "{era:?} {behavior}");
            rig.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn an_answer_that_is_none_fails_its_call_and_disturbs_nobody() {
    let rows: [(&str, &str, &str, Value); 5] = [
        (
            "fails",
            "EXECUTION_ERROR",
            "the printer is out of paper",
            json!({"jsonrpcCode": -32050, "data": [1], "mayHaveRun": true}),
        ),
        (
            "bad-params",
            "VALIDATION_ERROR",
            "`size` must be even",
            json!([{"path": "", "message": "`size` must be even", "jsonrpcCode": -32602}]),
        ),
        (
            "no-result",
            "EXECUTION_ERROR",
            "neither a result nor an error",
            json!({"jsonrpcCode": 0, "mayHaveRun": true}),
        ),
        (
            "list-result",
            "EXECUTION_ERROR",
            "`x`: the result cannot be read",
            json!({"mayHaveRun": true}),
        ),
        (
            "bad-utf8",
            "EXECUTION_ERROR",
            "`x`: the answer of the server is not UTF-8",
            json!({"mayHaveRun": true}),
        ),
    ];
    for era in ERAS {
        join_all(rows.iter().map(async |(behavior, code, words, details)| {
            let rig = Rig::ready(Way::Stdio, &[era, &[*behavior]].concat()).await;
            let failed = beside_others(&rig).await;
            let said = failed.as_ref().err().and_then(|error| error.details()).cloned();
            assert_eq!(said.as_ref(), Some(details), "{behavior}");
            says(failed, code, &[words]);
            rig.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn nothing_of_a_result_is_lost() {
    join_all(combinations().into_iter().map(async |(way, era)| {
        let rig = Rig::ready(way, &[era, &["every-block"]].concat()).await;
        let envelope = rig.call("odd", json!({})).await.unwrap();
        let lines = rig.lines();
        let sent = lines.iter().find_map(|line| line.strip_prefix("result ")).unwrap();
        let sent: Value = serde_json::from_str(sent).unwrap();
        let mut kept = serde_json::to_value(&envelope.meta).unwrap();
        assert_eq!(kept.as_object_mut().unwrap().remove("source"), Some(json!("mcp")));
        assert_eq!(kept, sent, "{way:?} {era:?}");
        assert_eq!(envelope.data, sent["structuredContent"]);
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_block_of_an_unknown_kind_stays_as_text() {
    let rig = Rig::ready(Way::Stdio, &["unknown-block"]).await;
    let envelope = rig.call("odd", json!({})).await.unwrap();
    let texts: Vec<_> = envelope.data.as_array().unwrap().iter().map(|b| &b["text"]).collect();
    let hologram = json!({"type": "hologram", "data": "AA==", "depth": 3});
    assert_eq!((texts[0], texts[2]), (&json!("before"), &json!("after")));
    let kept: Value = serde_json::from_str(texts[1].as_str().unwrap()).unwrap();
    assert_eq!(kept, hologram);
    rig.close().await;
}

#[tokio::test]
async fn what_a_server_asks_in_the_middle_of_a_call_is_answered() {
    let nothing = json!({"ping": "result", "roots/list": "error", "sampling/createMessage": "error",
        "made/up": "error", "elicitation/create": "error"});
    let both = json!({"ping": "result", "roots/list": "result", "sampling/createMessage": "error",
        "made/up": "error", "elicitation/create": "result"});
    let rows = [
        (Way::Stdio, false, nothing.clone()),
        (Way::Stdio, true, both.clone()),
        (Way::Http, false, nothing),
        (Way::Http, true, both),
    ];
    join_all(rows.map(async |(way, has_roots, expected)| {
        let settle = |settings: &mut McpSettings| {
            if has_roots {
                settings.roots = vec![Root::new("file:///folder")].into();
                settings.elicitation = Elicitation::Decline;
            }
        };
        let rig = match way {
            Way::Stdio => Rig::stdio(&["notifications-first"], settle),
            Way::Http => Rig::http(&["notifications-first"], settle),
        };
        rig.found().await;
        assert_eq!(rig.call("odd", json!({})).await.unwrap().data, expected);
        rig.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_server_that_needs_input_gets_what_the_settings_say() {
    let fields = json!({"color": "blue"}).as_object().unwrap().clone();
    let accept = |color: &str| json!({"action": "accept", "content": {"color": color}});
    let rows = [
        (Elicitation::Decline, json!({"action": "decline"})),
        (Elicitation::Cancel, json!({"action": "cancel"})),
        (Elicitation::Defaults, accept("red")),
        (Elicitation::Answer(fields), accept("blue")),
    ];
    for (way, era) in combinations() {
        join_all(rows.iter().map(async |(policy, expected)| {
            let arguments = [era, &["needs-input-politely", "3"]].concat();
            let settle = |settings: &mut McpSettings| settings.elicitation = policy.clone();
            let rig = match way {
                Way::Stdio => Rig::stdio(&arguments, settle),
                Way::Http => Rig::http(&arguments, settle),
            };
            rig.found().await;
            let said: Value = serde_json::from_str(&rig.text("odd", json!({})).await).unwrap();
            let said = if era.is_empty() { &said["result"] } else { &said };
            assert_eq!(said, expected, "{way:?} {era:?} {policy:?}");
            rig.close().await;
        }))
        .await;
    }
}

#[tokio::test]
async fn a_server_that_needs_input_of_nobody_is_told_so() {
    let rows: [(&[&str], bool, &[&str]); 3] = [
        // It asks although it was told that nobody answers.
        (&["--modern", "needs-input"], false, &["`x`", "which color?", "`elicitation`"]),
        (&["--modern", "needs-input-politely"], false, &["elicitation is needed"]),
        (&["--modern", "needs-input", "50"], true, &["`x`", "asked for input 10 times"]),
    ];
    join_all(rows.map(async |(arguments, answers, words)| {
        let rig = Rig::stdio(arguments, |settings| {
            if answers {
                settings.elicitation = Elicitation::Defaults;
            }
        });
        rig.found().await;
        says(rig.call("odd", json!({})).await, "EXECUTION_ERROR", words);
        rig.is_well().await;
        rig.close().await;
    }))
    .await;
    let rig = Rig::ready(Way::Stdio, &["needs-input"]).await;
    let said: Value = serde_json::from_str(&rig.text("odd", json!({})).await).unwrap();
    let message = said["error"]["message"].as_str().unwrap();
    assert!(message.contains("which color?") && message.contains("`elicitation`"), "{message}");
    rig.close().await;
}

/// Somebody who answers everything with the same.
struct Blue(Box<RawValue>);

impl Respond for Blue {
    fn abilities(&self) -> &RawValue {
        &self.0
    }

    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Box<RawValue>, Unanswered>> {
        assert_eq!(&*question.kind, "elicitation/create");
        let blue = r#"{"action":"accept","content":{"color":"blue"}}"#;
        std::future::ready(Ok(RawValue::from_string(blue.to_owned()).unwrap())).boxed()
    }
}

/// Calls `odd` on behalf of somebody who can be asked.
async fn call_for_somebody(rig: &Rig) -> String {
    let abilities = RawValue::from_string(r#"{"elicitation":{}}"#.to_owned()).unwrap();
    let somebody = Respondent::Present(Arc::new(Blue(abilities)));
    let request = CallRequest::new("x.odd", json!({})).respondent(Some(somebody));
    let called = rig.pipeline.call(request, Authority::outside(None)).await;
    serde_json::to_string(&called.unwrap().envelope.data).unwrap()
}

#[tokio::test]
async fn nobody_is_asked_what_may_be_about_the_call_of_another() {
    join_all(combinations().into_iter().map(async |(way, era)| {
        let rig = Rig::ready(way, &[era, &["needs-input"]].concat()).await;
        assert!(call_for_somebody(&rig).await.contains("blue"), "{way:?} {era:?}");
        // Over a pipe a server of before does not say which call it asks about.
        let is_plain = way == Way::Http || !era.is_empty();
        let other = async {
            rig.scratch.saw("tools/call", 2).await;
            call_for_somebody(&rig).await
        };
        let (_, said) = tokio::join!(rig.call("sleep", json!({"seconds": 1})), other);
        assert_eq!(said.contains("blue"), is_plain, "{way:?} {era:?} {said}");
        assert!(is_plain || said.contains("cannot be asked for `elicitation`"), "{said}");
        rig.close().await;
    }))
    .await;
}
