//! Table-driven tests of the protocol rules.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    CALL_EVENT_SCHEMA, CallEvent, Consumer, EventEffect, PendingRequests, RequestTimeouts,
};
use crate::schema::Schema;

fn envelope(data: &Value) -> Value {
    json!({"data": data, "meta": {"source": "local", "operationId": "a.b", "timestamp": 1}})
}

fn event(frame: &Value) -> CallEvent {
    CallEvent::from_json(&frame.to_string()).unwrap_or_else(|error| panic!("{frame}: {error}"))
}

fn responded(id: &str, data: i64) -> Value {
    json!({"type": "call.responded", "id": id, "payload": {"requestId": id, "output": envelope(&json!(data))}})
}

fn request_frame(kind: &str, id: &str, more: &Value) -> Value {
    let mut payload = json!({"requestId": id});
    for (name, value) in more.as_object().unwrap() {
        payload[name] = value.clone();
    }
    json!({"type": kind, "id": id, "payload": payload})
}

#[test]
fn call_events_round_trip_and_match_schema() {
    let schema = Schema::new(CALL_EVENT_SCHEMA.clone()).unwrap();
    let rows = [
        request_frame(
            "call.requested",
            "1",
            &json!({"operationId": "demo.add", "input": {"a": 1}}),
        ),
        request_frame(
            "call.requested",
            "1",
            &json!({
                "operationId": "demo.clock", "input": null, "parentRequestId": "0",
                "deadline": 1_700_000_000_000_i64, "timeoutMs": 5, "idleTimeout": 1, "window": 64,
                "identity": {"id": "ci", "scopes": ["a"]}, "metadata": {"traceparent": "00-…"},
            }),
        ),
        responded("1", 5),
        request_frame(
            "call.responded",
            "1",
            &json!({
                "output": envelope(&json!(null)),
                "repairs": [{"path": "/a", "action": "converted", "from": "1", "to": 1}],
                "warnings": [{"path": "", "message": "odd"}],
            }),
        ),
        request_frame("call.progress", "1", &json!({"progress": 1.0})),
        request_frame(
            "call.progress",
            "1",
            &json!({"progress": 1.0, "total": 2.0, "message": "half"}),
        ),
        request_frame("call.completed", "1", &json!({})),
        request_frame("call.aborted", "1", &json!({})),
        request_frame("call.aborted", "1", &json!({"reason": "enough"})),
        request_frame(
            "call.error",
            "1",
            &json!({"code": "SOLD_OUT", "message": "m", "details": {"left": 0}, "retryable": true}),
        ),
        request_frame(
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
        assert_eq!(schema.validate(&row).unwrap(), [], "{row}");
        let again: Value = serde_json::from_str(&event(&row).to_json()).unwrap();
        assert_eq!(again, row);
    }
}

/// Each row: a frame, the request id of the error, and part of the error message.
#[test]
fn invalid_frame_error_names_cause() {
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
            "expected a number",
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
        (
            r#"{"type":"__more","id":"","payload":{"requestId":"1","count":-1}}"#,
            "",
            "expected a non-negative integer",
        ),
    ];
    for (text, id, expected_message) in rows {
        let error = CallEvent::from_json(text).expect_err(text);
        assert!(error.message.contains(expected_message), "{text}: {}", error.message);
        assert_eq!(&*error.id, id, "{text}");
        // The error is reported to the sender as an event.
        let error_frame = error.to_event().to_json();
        assert!(error_frame.contains("VALIDATION_ERROR"), "{error_frame}");
        // The error event must be valid, or the two peers would report errors to each other
        // forever.
        assert!(
            matches!(CallEvent::from_json(&error_frame), Ok(CallEvent::Failed { .. })),
            "{error_frame}"
        );
    }
}

/// Formats an effect for the table below.
fn describe(received: EventEffect<'_, &'static str>) -> String {
    match received {
        EventEffect::Value(waiter, outcome) => {
            format!("{waiter} value {}", serde_json::to_string(&outcome.envelope.data).unwrap())
        }
        EventEffect::Ended(waiter, Ok(Some(outcome))) => {
            format!("{waiter} response {}", serde_json::to_string(&outcome.envelope.data).unwrap())
        }
        EventEffect::Ended(waiter, Ok(None)) => format!("{waiter} end"),
        EventEffect::Ended(waiter, Err(error)) => format!("{waiter} {}", error.code()),
        EventEffect::Progress(waiter, progress) => {
            format!("{waiter} progress {}", progress.progress)
        }
        EventEffect::Unsolicited => "unwanted".to_owned(),
        EventEffect::Ignored => "ignored".to_owned(),
    }
}

#[test]
fn pending_requests_handle_each_event() {
    let error = json!({"code": "TIMEOUT", "message": "m"});
    let progress = json!({"progress": 0.5});
    let rows: [(&str, Vec<Value>, &[&str]); 12] = [
        ("a call takes one response", vec![responded("c", 1)], &["call response 1"]),
        (
            "a second response is unsolicited",
            vec![responded("c", 1), responded("c", 2)],
            &["call response 1", "unwanted"],
        ),
        (
            "a subscription takes values until its end",
            vec![
                responded("s", 1),
                responded("s", 2),
                request_frame("call.completed", "s", &json!({})),
            ],
            &["sub value 1", "sub value 2", "sub end"],
        ),
        (
            "completed before any response aborts a call",
            vec![request_frame("call.completed", "c", &json!({}))],
            &["call ABORTED"],
        ),
        (
            "a subscription may be empty",
            vec![request_frame("call.completed", "s", &json!({}))],
            &["sub end"],
        ),
        (
            "an error ends a call",
            vec![request_frame("call.error", "c", &error), responded("c", 1)],
            &["call TIMEOUT", "unwanted"],
        ),
        (
            "an error ends a subscription",
            vec![responded("s", 1), request_frame("call.error", "s", &error)],
            &["sub value 1", "sub TIMEOUT"],
        ),
        (
            "the peer may abort",
            vec![
                request_frame("call.aborted", "c", &json!({"reason": "no"})),
                request_frame("call.aborted", "s", &json!({})),
            ],
            &["call ABORTED", "sub ABORTED"],
        ),
        (
            "progress ends nothing",
            vec![
                request_frame("call.progress", "c", &progress),
                request_frame("call.progress", "s", &progress),
                responded("c", 1),
            ],
            &["call progress 0.5", "sub progress 0.5", "call response 1"],
        ),
        (
            "unknown ids are ignored",
            vec![
                request_frame("call.completed", "x", &json!({})),
                request_frame("call.error", "x", &error),
                request_frame("call.aborted", "x", &json!({})),
                request_frame("call.progress", "x", &progress),
            ],
            &["ignored", "ignored", "ignored", "ignored"],
        ),
        ("a value for an unknown id is unsolicited", vec![responded("x", 1)], &["unwanted"]),
        (
            "requests are not responses",
            vec![request_frame("call.requested", "c", &json!({"operationId": "a.b"}))],
            &["ignored"],
        ),
    ];
    for (name, events, expected) in rows {
        let (mut pending, now) = (PendingRequests::default(), Instant::now());
        let timeouts = RequestTimeouts::default();
        pending.insert(now, "c".into(), Consumer::Call, timeouts, "call").unwrap();
        pending.insert(now, "s".into(), Consumer::Subscription, timeouts, "sub").unwrap();
        let described: Vec<String> =
            events.iter().map(|frame| describe(pending.handle_event(now, event(frame)))).collect();
        assert_eq!(described, expected, "{name}");
    }
}

/// Each row: the deadline and idle timeout, the arrival times of events, and the expected expiry,
/// all in milliseconds.
#[test]
#[expect(clippy::type_complexity, reason = "a row is a tuple")]
fn pending_requests_expire_on_deadline_and_idle_timeout() {
    let rows: [(&str, Option<u64>, Option<u64>, &[u64], Option<u64>); 7] = [
        ("no limit", None, None, &[], None),
        ("a deadline", Some(100), None, &[50], Some(100)),
        ("silence", None, Some(40), &[], Some(40)),
        ("each event restarts the idle time", None, Some(40), &[30, 60, 90], Some(130)),
        ("progress does not extend the deadline", Some(100), Some(40), &[30, 60, 90], Some(100)),
        ("idle before the deadline", Some(100), Some(40), &[30], Some(70)),
        ("an idle time that overflows", None, Some(u64::MAX), &[], None),
    ];
    for (name, deadline, idle, received, expected) in rows {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let timeouts =
            RequestTimeouts { deadline: deadline.map(at), idle: idle.map(Duration::from_millis) };
        let mut pending = PendingRequests::default();
        pending.insert(start, "s".into(), Consumer::Subscription, timeouts, ()).unwrap();
        let mut expired_at = None;
        for ms in 0..200 {
            let expired = pending.expire(at(ms), |()| false);
            if let [expired_request] = &expired[..] {
                assert_eq!(
                    (&*expired_request.id, expired_request.error.code().as_str()),
                    ("s", "TIMEOUT"),
                    "{name}"
                );
                expired_at = Some(ms);
            }
            if received.contains(&ms) {
                let _ = pending.handle_event(at(ms), event(&responded("s", 1)));
            }
            let next_deadline = pending.next_deadline();
            assert!(
                pending.is_empty()
                    || next_deadline.is_none_or(|next_deadline| next_deadline > at(ms)),
                "{name} {ms}"
            );
        }
        assert_eq!(expired_at, expected, "{name}");
        assert_eq!(pending.is_empty(), expected.is_some(), "{name}");
    }
}

#[test]
fn lagging_consumer_does_not_hit_idle_timeout() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let timeouts =
        RequestTimeouts { deadline: Some(at(100)), idle: Some(Duration::from_millis(10)) };
    let mut pending = PendingRequests::default();
    pending.insert(start, "s".into(), Consumer::Subscription, timeouts, ()).unwrap();
    assert!((0..100).all(|ms| pending.expire(at(ms), |()| true).is_empty()));
    let expired = pending.expire(at(100), |()| true);
    assert_eq!(expired.len(), 1, "the deadline also applies to slow peers");
}

#[test]
fn pending_requests_reject_duplicate_id_and_drain() {
    let (mut pending, now) = (PendingRequests::default(), Instant::now());
    let open = |pending: &mut PendingRequests<u32>, id: &str, waiter| {
        pending.insert(now, id.into(), Consumer::Call, RequestTimeouts::default(), waiter)
    };
    open(&mut pending, "a", 1).unwrap();
    assert_eq!(open(&mut pending, "a", 2), Err(2));
    open(&mut pending, "b", 3).unwrap();
    assert_eq!(pending.remove("a"), Some(1));
    assert_eq!(pending.remove("a"), None);
    assert_eq!(pending.drain(), [3]);
    assert!(pending.is_empty());
}

#[test]
fn completed_requests_release_deadlines() {
    let (mut pending, now) = (PendingRequests::default(), Instant::now());
    let timeouts = RequestTimeouts { deadline: Some(now + Duration::from_secs(300)), idle: None };
    for number in 0..10_000 {
        let id: Arc<str> = number.to_string().into();
        pending.insert(now, Arc::clone(&id), Consumer::Call, timeouts, ()).unwrap();
        let _ = pending.handle_event(now, event(&responded(&id, 1)));
    }
    assert!(pending.is_empty());
    assert!(pending.deadline_count() <= 64, "{}", pending.deadline_count());
}
