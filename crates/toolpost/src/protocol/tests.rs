//! Every rule of the protocol as a row.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{CALL_EVENT_SCHEMA, Consumer, Event, Patience, Pending, Received};
use crate::schema::Schema;

fn envelope(data: &Value) -> Value {
    json!({"data": data, "meta": {"source": "local", "operationId": "a.b", "timestamp": 1}})
}

fn event(frame: &Value) -> Event {
    Event::from_json(&frame.to_string()).unwrap_or_else(|error| panic!("{frame}: {error}"))
}

fn responded(id: &str, data: i64) -> Value {
    json!({"type": "call.responded", "id": id, "payload": {"requestId": id, "output": envelope(&json!(data))}})
}

fn named(kind: &str, id: &str, more: &Value) -> Value {
    let mut payload = json!({"requestId": id});
    for (name, value) in more.as_object().unwrap() {
        payload[name] = value.clone();
    }
    json!({"type": kind, "id": id, "payload": payload})
}

#[test]
fn events_survive_the_wire_and_fit_their_schema() {
    let schema = Schema::new(CALL_EVENT_SCHEMA.clone()).unwrap();
    let rows = [
        named("call.requested", "1", &json!({"operationId": "demo.add", "input": {"a": 1}})),
        named(
            "call.requested",
            "1",
            &json!({
                "operationId": "demo.clock", "input": null, "parentRequestId": "0",
                "deadline": 1_700_000_000_000_i64, "timeoutMs": 5, "idleTimeout": 1, "window": 64,
                "identity": {"id": "ci", "scopes": ["a"]}, "metadata": {"traceparent": "00-…"},
            }),
        ),
        responded("1", 5),
        named(
            "call.responded",
            "1",
            &json!({
                "output": envelope(&json!(null)),
                "repairs": [{"path": "/a", "action": "converted", "from": "1", "to": 1}],
                "warnings": [{"path": "", "message": "odd"}],
            }),
        ),
        named("call.progress", "1", &json!({"progress": 1.0})),
        named("call.progress", "1", &json!({"progress": 1.0, "total": 2.0, "message": "half"})),
        named("call.completed", "1", &json!({})),
        named("call.aborted", "1", &json!({})),
        named("call.aborted", "1", &json!({"reason": "enough"})),
        named(
            "call.error",
            "1",
            &json!({"code": "SOLD_OUT", "message": "m", "details": {"left": 0}, "retryable": true}),
        ),
        named(
            "call.error",
            "",
            &json!({"code": "VALIDATION_ERROR", "message": "about no request", "retryable": false}),
        ),
        json!({"type": "__auth", "id": "", "payload": {"token": "t"}}),
        json!({"type": "__subscribe", "id": "", "payload": {"topic": "call.responded:1"}}),
        json!({"type": "__unsubscribe", "id": "", "payload": {"topic": "call.responded:1"}}),
        json!({"type": "__more", "id": "", "payload": {"requestId": "1", "count": 3}}),
    ];
    for row in rows {
        assert_eq!(schema.check(&row).unwrap(), [], "{row}");
        let again: Value = serde_json::from_str(&event(&row).to_json()).unwrap();
        assert_eq!(again, row);
    }
}

/// Each row: a frame, the id that the error is about, and words of the error.
#[test]
fn a_frame_that_is_no_event_says_why() {
    let rows = [
        ("", "", "not JSON"),
        ("nonsense", "", "not JSON"),
        (r#"{"type":"call.responded","id":"7","payload":{"data":NaN}}"#, "7", "not JSON"),
        (
            r#"{"type":"call.requested","id":"a\nb","payload":{"requestId":"a\nb"}}"#,
            "",
            "missing field",
        ),
        (
            r#"{"type":"call.completed","id":"a\nb","payload":{"requestId":"a\nb"}}"#,
            "",
            "no control characters",
        ),
        ("[]", "", "a frame is a JSON object"),
        ("{}", "", "`type` must be a string"),
        (r#"{"type":1,"id":"7","payload":{}}"#, "7", "`type` must be a string"),
        (r#"{"type":"call.requested","payload":{}}"#, "", "`id` must be a string"),
        (r#"{"type":"call.requested","id":7,"payload":{}}"#, "", "`id` must be a string"),
        (r#"{"type":"call.requested","id":"7"}"#, "7", "`payload` is missing"),
        (r#"{"type":"call.requested","id":"7","payload":[]}"#, "7", "call.requested: invalid"),
        (
            r#"{"type":"call.requested","id":"7","payload":{"operationId":"a.b"}}"#,
            "7",
            "`requestId` is missing",
        ),
        (
            r#"{"type":"call.requested","id":"7","payload":{"requestId":"7"}}"#,
            "7",
            "missing field `operationId`",
        ),
        (
            r#"{"type":"call.requested","id":"7","payload":{"requestId":"8","operationId":"a.b"}}"#,
            "7",
            "`id` is `7` but `requestId` is `8`",
        ),
        (
            r#"{"type":"call.requested","id":"","payload":{"requestId":"","operationId":"a.b"}}"#,
            "",
            "`id` is empty",
        ),
        (
            r#"{"type":"call.requested","id":"7","payload":{"requestId":"7","operationId":5}}"#,
            "7",
            "expected a string",
        ),
        (
            r#"{"type":"call.requested","id":"7","payload":{"requestId":"7","operationId":"a.b","deadline":"soon"}}"#,
            "7",
            "expected f64",
        ),
        (
            r#"{"type":"call.responded","id":"7","payload":{"requestId":"7","output":5}}"#,
            "7",
            "`output` is not a response envelope",
        ),
        (
            r#"{"type":"call.responded","id":"7","payload":{"requestId":"7","output":{"data":1,"meta":{"source":"moon"}}}}"#,
            "7",
            "`source` must be local, http or mcp",
        ),
        (
            r#"{"type":"call.error","id":"7","payload":{"requestId":"7","code":5,"message":"m"}}"#,
            "7",
            "call.error: invalid type",
        ),
        (
            r#"{"type":"call.requsted","id":"7","payload":{}}"#,
            "7",
            "did you mean `call.requested`?",
        ),
        (r#"{"type":"weather.changed","id":"7","payload":{}}"#, "7", "unknown type of event"),
        (r#"{"type":"__reboot","id":"","payload":{}}"#, "", "unknown type of event"),
        (r#"{"type":"__auth","id":"","payload":{}}"#, "", "missing field `token`"),
        (r#"{"type":"__subscribe","id":"","payload":{"topic":"all"}}"#, "", "a topic is `type:id`"),
        (r#"{"type":"__more","id":"","payload":{"requestId":"1","count":-1}}"#, "", "expected u32"),
    ];
    for (text, id, words) in rows {
        let error = Event::from_json(text).expect_err(text);
        assert!(error.message.contains(words), "{text}: {}", error.message);
        assert_eq!(&*error.id, id, "{text}");
        // Whoever sent it is told in an event that is one.
        let told = error.to_event().to_json();
        assert!(told.contains("VALIDATION_ERROR"), "{told}");
        // Or two ends would tell each other for ever.
        assert!(matches!(Event::from_json(&told), Ok(Event::Failed { .. })), "{told}");
    }
}

/// What a row of the table below ends with, in words short enough for a table.
fn say(received: Received<'_, &'static str>) -> String {
    match received {
        Received::Value(who, outcome) => {
            format!("{who} value {}", serde_json::to_string(&outcome.envelope.data).unwrap())
        }
        Received::Ended(who, Ok(Some(outcome))) => {
            format!("{who} answer {}", serde_json::to_string(&outcome.envelope.data).unwrap())
        }
        Received::Ended(who, Ok(None)) => format!("{who} end"),
        Received::Ended(who, Err(error)) => format!("{who} {}", error.code()),
        Received::Progress(who, progress) => format!("{who} progress {}", progress.progress),
        Received::Unwanted => "unwanted".to_owned(),
        Received::Ignored => "ignored".to_owned(),
    }
}

#[test]
fn each_event_does_one_thing_to_what_is_pending() {
    let error = json!({"code": "TIMEOUT", "message": "m"});
    let progress = json!({"progress": 0.5});
    let rows: [(&str, Vec<Value>, &[&str]); 12] = [
        ("a call takes one answer", vec![responded("c", 1)], &["call answer 1"]),
        (
            "what comes after the answer is unwanted",
            vec![responded("c", 1), responded("c", 2)],
            &["call answer 1", "unwanted"],
        ),
        (
            "a subscription takes values until its end",
            vec![responded("s", 1), responded("s", 2), named("call.completed", "s", &json!({}))],
            &["sub value 1", "sub value 2", "sub end"],
        ),
        (
            "completed before any response aborts a call",
            vec![named("call.completed", "c", &json!({}))],
            &["call ABORTED"],
        ),
        (
            "a subscription may be empty",
            vec![named("call.completed", "s", &json!({}))],
            &["sub end"],
        ),
        (
            "an error ends a call",
            vec![named("call.error", "c", &error), responded("c", 1)],
            &["call TIMEOUT", "unwanted"],
        ),
        (
            "an error ends a subscription",
            vec![responded("s", 1), named("call.error", "s", &error)],
            &["sub value 1", "sub TIMEOUT"],
        ),
        (
            "the far end may abort",
            vec![
                named("call.aborted", "c", &json!({"reason": "no"})),
                named("call.aborted", "s", &json!({})),
            ],
            &["call ABORTED", "sub ABORTED"],
        ),
        (
            "progress ends nothing",
            vec![
                named("call.progress", "c", &progress),
                named("call.progress", "s", &progress),
                responded("c", 1),
            ],
            &["call progress 0.5", "sub progress 0.5", "call answer 1"],
        ),
        (
            "unknown ids are ignored",
            vec![
                named("call.completed", "x", &json!({})),
                named("call.error", "x", &error),
                named("call.aborted", "x", &json!({})),
                named("call.progress", "x", &progress),
            ],
            &["ignored", "ignored", "ignored", "ignored"],
        ),
        ("a value for nobody is unwanted", vec![responded("x", 1)], &["unwanted"]),
        (
            "requests are not answers",
            vec![named("call.requested", "c", &json!({"operationId": "a.b"}))],
            &["ignored"],
        ),
    ];
    for (name, events, expected) in rows {
        let (mut pending, now) = (Pending::default(), Instant::now());
        let patience = Patience::default();
        pending.open(now, "c".into(), Consumer::Call, patience, "call").unwrap();
        pending.open(now, "s".into(), Consumer::Subscription, patience, "sub").unwrap();
        let said: Vec<String> =
            events.iter().map(|frame| say(pending.receive(now, event(frame)))).collect();
        assert_eq!(said, expected, "{name}");
    }
}

/// Each row: the patience, what is heard when (ms), when it is given up (ms).
#[test]
#[expect(clippy::type_complexity, reason = "a row is a tuple")]
fn time_is_an_argument() {
    let rows: [(&str, Option<u64>, Option<u64>, &[u64], Option<u64>); 7] = [
        ("no limit", None, None, &[], None),
        ("a deadline", Some(100), None, &[50], Some(100)),
        ("silence", None, Some(40), &[], Some(40)),
        ("each event restarts the idle time", None, Some(40), &[30, 60, 90], Some(130)),
        ("the deadline holds however much is heard", Some(100), Some(40), &[30, 60, 90], Some(100)),
        ("silence before the deadline", Some(100), Some(40), &[30], Some(70)),
        ("an idle time beyond the clock", None, Some(u64::MAX), &[], None),
    ];
    for (name, deadline, idle, heard, expected) in rows {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let patience =
            Patience { deadline: deadline.map(at), idle: idle.map(Duration::from_millis) };
        let mut pending = Pending::default();
        pending.open(start, "s".into(), Consumer::Subscription, patience, ()).unwrap();
        let mut given_up = None;
        for ms in 0..200 {
            let expired = pending.expire(at(ms), |()| false);
            if let [gone] = &expired[..] {
                assert_eq!((&*gone.id, gone.error.code().as_str()), ("s", "TIMEOUT"), "{name}");
                given_up = Some(ms);
            }
            if heard.contains(&ms) {
                let _ = pending.receive(at(ms), event(&responded("s", 1)));
            }
            let alarm = pending.next_alarm();
            assert!(pending.is_empty() || alarm.is_none_or(|alarm| alarm > at(ms)), "{name} {ms}");
        }
        assert_eq!(given_up, expected, "{name}");
        assert_eq!(pending.is_empty(), expected.is_some(), "{name}");
    }
}

#[test]
fn a_consumer_that_lags_is_not_kept_waiting_by_silence() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let patience = Patience { deadline: Some(at(100)), idle: Some(Duration::from_millis(10)) };
    let mut pending = Pending::default();
    pending.open(start, "s".into(), Consumer::Subscription, patience, ()).unwrap();
    assert!((0..100).all(|ms| pending.expire(at(ms), |()| true).is_empty()));
    let expired = pending.expire(at(100), |()| true);
    assert_eq!(expired.len(), 1, "the deadline holds for whoever lags too");
}

#[test]
fn an_id_in_use_is_refused_and_a_lost_link_takes_everything() {
    let (mut pending, now) = (Pending::default(), Instant::now());
    let open = |pending: &mut Pending<u32>, id: &str, who| {
        pending.open(now, id.into(), Consumer::Call, Patience::default(), who)
    };
    open(&mut pending, "a", 1).unwrap();
    assert_eq!(open(&mut pending, "a", 2), Err(2));
    open(&mut pending, "b", 3).unwrap();
    assert_eq!(pending.leave("a"), Some(1));
    assert_eq!(pending.leave("a"), None);
    assert_eq!(pending.lose(), [3]);
    assert!(pending.is_empty());
}

#[test]
fn answered_requests_leave_no_alarms_behind() {
    let (mut pending, now) = (Pending::default(), Instant::now());
    let far = Patience { deadline: Some(now + Duration::from_secs(300)), idle: None };
    for number in 0..10_000 {
        let id: Arc<str> = number.to_string().into();
        pending.open(now, Arc::clone(&id), Consumer::Call, far, ()).unwrap();
        let _ = pending.receive(now, event(&responded(&id, 1)));
    }
    assert!(pending.is_empty());
    assert!(pending.alarms_held() <= 64, "{}", pending.alarms_held());
}
