//! Tests of the stage order: a call rejected at one stage skips the later ones.

use super::*;
use crate::access::AccessControl;
use crate::schema::Schema;

/// Implements every hook, logs each stage, and rejects the call at `reject_at`.
struct RecordingHooks {
    log: EventLog,
    reject_at: &'static str,
}

impl RecordingHooks {
    fn record_stage<T: Default>(&self, stage: &'static str) -> HookResult<T> {
        self.log.add(stage);
        if self.reject_at == stage {
            return HookResult::Ready(Err(CallError::overloaded(stage)));
        }
        HookResult::Pending(Box::pin(async { Ok(T::default()) }))
    }
}

impl AuditSink for RecordingHooks {
    fn enter(&self, _: &CallView<'_>) -> AuditEntry {
        self.record_stage("audit-enter").into()
    }

    fn exit(&self, _: &CallView<'_>, _: &AuditOutcome<'_>, _: Duration) -> HookResult<()> {
        self.record_stage("audit-exit")
    }
}

impl Limits for RecordingHooks {
    fn admit(&self, _: &CallView<'_>) -> HookResult<Permit> {
        self.record_stage("limits")
    }

    fn acquire_source(&self, _: &CallView<'_>) -> HookResult<Permit> {
        self.record_stage("source")
    }
}

impl ApprovalGate for RecordingHooks {
    fn obtain(&self, _: &CallView<'_>) -> HookResult<Option<Approval>> {
        self.record_stage("approval")
    }
}

fn recording_hooks(log: &EventLog, reject_at: &'static str) -> RecordingHooks {
    RecordingHooks { log: log.clone(), reject_at }
}

fn pipeline(log: &EventLog, reject_at: &'static str) -> Pipeline {
    let handler_log = log.clone();
    let mut control = AccessControl::default();
    control.required_scopes.push("open".to_owned());
    let operation = dynamic_operation("t.op", OperationKind::Mutation, move |_, _| {
        handler_log.add("dispatch");
        async { Ok(json!({})) }
    });
    let number = Schema::new(json!({"type": "object", "required": ["n"]})).unwrap();
    let operation = operation.access(control).schemas(number, Schema::unknown());
    let listed = Operation::from_spec(spec("t.listed", OperationKind::Query));
    Pipeline::builder(registry([operation, listed]))
        .audit(recording_hooks(log, reject_at))
        .limits(Arc::new(recording_hooks(log, reject_at)))
        .approval(recording_hooks(log, reject_at))
        .build()
}

#[tokio::test]
async fn stages_run_in_order_and_rejection_skips_to_audit_exit() {
    const ALL: [&str; 6] =
        ["audit-enter", "limits", "approval", "source", "dispatch", "audit-exit"];
    let (good, bad) = (json!({"n": 1}), json!({"m": 1}));
    let rows = [
        ("", "t.op", "open", &good, "ok", &ALL[..]),
        ("audit-enter", "t.op", "open", &good, "OVERLOADED", &["audit-enter", "audit-exit"]),
        ("limits", "t.op", "open", &good, "OVERLOADED", &["audit-enter", "limits", "audit-exit"]),
        // Limits run before the access check, and the access check before input validation, so that
        // a caller without access cannot probe the schema.
        ("limits", "t.op", "none", &bad, "OVERLOADED", &["audit-enter", "limits", "audit-exit"]),
        ("", "t.op", "none", &bad, "ACCESS_DENIED", &["audit-enter", "limits", "audit-exit"]),
        ("", "t.op", "open", &bad, "VALIDATION_ERROR", &["audit-enter", "limits", "audit-exit"]),
        (
            "approval",
            "t.op",
            "open",
            &good,
            "OVERLOADED",
            &["audit-enter", "limits", "approval", "audit-exit"],
        ),
        ("source", "t.op", "open", &good, "OVERLOADED", &[ALL[0], ALL[1], ALL[2], ALL[3], ALL[5]]),
        // A failed audit exit fails the call after all stages have run.
        ("audit-exit", "t.op", "open", &good, "OVERLOADED", &ALL),
        // Limits also apply to calls to unknown operations.
        ("limits", "t.none", "open", &good, "OVERLOADED", &[ALL[0], ALL[1], ALL[5]]),
        ("", "t.none", "open", &good, "OPERATION_NOT_FOUND", &[ALL[0], ALL[1], ALL[5]]),
        ("", "t.listed", "open", &good, "OPERATION_NOT_FOUND", &[ALL[0], ALL[1], ALL[5]]),
    ];
    for (reject_at, operation, scope, input, expected, stages) in rows {
        let log = EventLog::default();
        let pipeline = pipeline(&log, reject_at);
        let request = CallRequest::new(operation, input.clone());
        let result = pipeline.call(request, untrusted(&[scope])).await;
        let row = format!("{operation} rejected at {reject_at:?} with {scope} and {input}");
        assert_eq!(code(result), expected, "{row}");
        assert_eq!(log.take(), stages, "{row}");
        assert_eq!(pipeline.in_flight(), 0, "{row}");
    }
}

#[tokio::test]
async fn operation_without_handler_returns_not_found() {
    let error =
        pipeline(&EventLog::default(), "").call_trusted("t.listed", json!({})).await.unwrap_err();
    assert_eq!(error.message(), "No handler registered for operation: t.listed");
}

#[tokio::test]
async fn call_trusted_skips_only_access_check() {
    let log = EventLog::default();
    let pipeline = pipeline(&log, "");
    assert_eq!(code(pipeline.call_trusted("t.op", json!({"n": 1})).await), "ok");
    assert_eq!(
        log.take(),
        ["audit-enter", "limits", "approval", "source", "dispatch", "audit-exit"]
    );
    assert_eq!(code(pipeline.call_trusted("t.op", json!({})).await), "VALIDATION_ERROR");
    let anonymous = Authority::untrusted(None);
    let call = pipeline.call(CallRequest::new("t.op", json!({"n": 1})), anonymous);
    assert_eq!(code(call.await), "ACCESS_DENIED");
}

#[tokio::test]
async fn validation_error_lists_every_invalid_path() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"items": {"type": "string"}}},
        "required": ["c"],
    });
    let operation = dynamic_operation("t.op", OperationKind::Query, async |_, _| Ok(json!(1)))
        .schemas(Schema::new(schema).unwrap(), Schema::unknown());
    let pipeline = Pipeline::new(registry([operation]));
    let error = pipeline.call_trusted("t.op", json!({"a": "x", "b": ["y", 5]})).await.unwrap_err();
    let mut paths: Vec<_> = error
        .details()
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .map(|issue| issue["path"].clone())
        .collect();
    paths.sort_by_key(ToString::to_string);
    assert_eq!(paths, ["/a", "/b/1", "/c"]);
}

#[tokio::test]
async fn unpolled_call_has_no_effect() {
    let log = EventLog::default();
    let pipeline = pipeline(&log, "");
    drop(pipeline.call(CallRequest::new("t.op", json!({"n": 1})), trusted()));
    assert_eq!(log.take(), [""; 0]);
}

#[tokio::test]
async fn concurrency_limit_rejects_without_starting() {
    let log = EventLog::default();
    let settings = PipelineSettings { max_concurrent_calls: 1, ..PipelineSettings::default() };
    let operations = registry([waiting_operation("t.wait", OperationKind::Query, &log)]);
    let pipeline = Pipeline::builder(operations).settings(settings).build();
    let first = pipeline.call(CallRequest::new("t.wait", json!({})), trusted());
    let abort = first.abort_handle();
    let second = async {
        let error = pipeline.call_trusted("t.wait", json!({})).await.unwrap_err();
        assert_eq!(error.code().as_str(), "OVERLOADED");
        assert!(error.is_retryable());
        abort.abort("seen enough");
    };
    let (first, ()) = tokio::join!(first, second);
    assert_eq!(code(first), "ABORTED");
    assert_eq!(log.take(), ["t.wait starts", "t.wait stops"]);
}

/// Access is checked again after approval.
#[tokio::test]
async fn access_rechecked_after_approval() {
    struct RestrictingApprovalGate(Registry);
    impl ApprovalGate for RestrictingApprovalGate {
        fn obtain(&self, _: &CallView<'_>) -> HookResult<Option<Approval>> {
            let registry = self.0.clone();
            HookResult::Pending(Box::pin(async move {
                let mut spec = spec("t.op", OperationKind::Query);
                spec.access_control.required_scopes = vec!["more".to_owned()];
                let tightened = Operation::from_spec(spec).build().unwrap();
                registry.apply([crate::registry::Change::Replace(tightened)]).unwrap();
                Ok(None)
            }))
        }
    }
    for (scopes, expected) in [(vec![], Err("ACCESS_DENIED")), (vec!["more"], Ok(()))] {
        let handler = |_, _| std::future::ready(Ok(json!(1)));
        let registry = registry([dynamic_operation("t.op", OperationKind::Query, handler)]);
        let gate = RestrictingApprovalGate(registry.clone());
        let pipeline = Pipeline::builder(registry).approval(gate).build();
        let caller = Authority::untrusted(Some(Identity::new("ada").with_scopes(scopes).into()));
        let called = pipeline.call(CallRequest::new("t.op", json!({})), caller).await;
        let called = called.map(drop).map_err(|error| error.code().as_str().to_owned());
        assert_eq!(
            called.as_ref().map_err(String::as_str),
            expected.as_ref().map_err(|code| *code)
        );
    }
}

#[tokio::test]
async fn resolved_operation_keeps_its_snapshot() {
    let answer = |text: &'static str| {
        dynamic_operation("t.op", OperationKind::Query, move |_, _| async move { Ok(json!(text)) })
    };
    let registry = registry([answer("first")]);
    let operation = registry.catalog().resolve("t.op").unwrap();
    registry.replace(answer("second").build().unwrap());
    let pipeline = Pipeline::new(registry);
    for (request, expected) in [
        (CallRequest::resolved(&operation, json!({})), "first"),
        (CallRequest::new("t.op", json!({})), "second"),
    ] {
        let outcome = pipeline.call(request, trusted()).await.unwrap();
        assert_eq!(outcome.envelope.into_value().unwrap().data, expected);
    }
}
