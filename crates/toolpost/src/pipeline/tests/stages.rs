//! The order of the stages, and that a refusal at one keeps the call from all later ones.

use super::*;
use crate::access::AccessControl;
use crate::schema::Schema;

/// Fills every seam with something that logs, and refuses at the stage that is named.
struct Seams {
    log: Log,
    refuse: &'static str,
}

impl Seams {
    fn at<T: Default>(&self, stage: &'static str) -> Step<T> {
        self.log.add(stage);
        if self.refuse == stage {
            return Step::Now(Err(CallError::overloaded(stage)));
        }
        Step::Later(Box::pin(async { Ok(T::default()) }))
    }
}

impl AuditSink for Seams {
    fn enter(&self, _: &CallView<'_>) -> Entered {
        self.at("audit-enter").into()
    }

    fn exit(&self, _: &CallView<'_>, _: &Ending<'_>, _: Duration) -> Step<()> {
        self.at("audit-exit")
    }
}

impl Limits for Seams {
    fn admit(&self, _: &CallView<'_>) -> Step<Permit> {
        self.at("limits")
    }

    fn place(&self, _: &CallView<'_>) -> Step<Permit> {
        self.at("place")
    }
}

impl ApprovalGate for Seams {
    fn obtain(&self, _: &CallView<'_>) -> Step<Option<Approval>> {
        self.at("approval")
    }
}

fn seams(log: &Log, refuse: &'static str) -> Seams {
    Seams { log: log.clone(), refuse }
}

fn pipeline(log: &Log, refuse: &'static str) -> Pipeline {
    let handler_log = log.clone();
    let mut control = AccessControl::default();
    control.required_scopes.push("open".to_owned());
    let operation = dynamic("t.op", Kind::Mutation, move |_, _| {
        handler_log.add("dispatch");
        async { Ok(json!({})) }
    });
    let number = Schema::new(json!({"type": "object", "required": ["n"]})).unwrap();
    let operation = operation.access(control).schemas(number, Schema::unknown());
    let listed = Operation::from_spec(spec("t.listed", Kind::Query));
    Pipeline::builder(registry([operation, listed]))
        .audit(seams(log, refuse))
        .limits(Arc::new(seams(log, refuse)))
        .approval(seams(log, refuse))
        .build()
}

#[tokio::test]
async fn stages_run_in_order_and_a_refusal_skips_to_the_exit() {
    const ALL: [&str; 6] = ["audit-enter", "limits", "approval", "place", "dispatch", "audit-exit"];
    let (good, bad) = (json!({"n": 1}), json!({"m": 1}));
    let rows = [
        ("", "t.op", "open", &good, "ok", &ALL[..]),
        ("audit-enter", "t.op", "open", &good, "OVERLOADED", &["audit-enter", "audit-exit"]),
        ("limits", "t.op", "open", &good, "OVERLOADED", &["audit-enter", "limits", "audit-exit"]),
        // Limits come before access, access before input: nobody learns a schema by guessing.
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
        ("place", "t.op", "open", &good, "OVERLOADED", &[ALL[0], ALL[1], ALL[2], ALL[3], ALL[5]]),
        // An exit that cannot be recorded is logged; the answer is the answer.
        ("audit-exit", "t.op", "open", &good, "OVERLOADED", &ALL),
        // Who asks for what is not there calls as often as he may, too.
        ("limits", "t.none", "open", &good, "OVERLOADED", &[ALL[0], ALL[1], ALL[5]]),
        ("", "t.none", "open", &good, "OPERATION_NOT_FOUND", &[ALL[0], ALL[1], ALL[5]]),
        ("", "t.listed", "open", &good, "OPERATION_NOT_FOUND", &[ALL[0], ALL[1], ALL[5]]),
    ];
    for (refuse, operation, scope, input, expected, stages) in rows {
        let log = Log::default();
        let pipeline = pipeline(&log, refuse);
        let request = CallRequest::new(operation, input.clone());
        let result = pipeline.call(request, outside(&[scope])).await;
        let row = format!("{operation} refused at {refuse:?} with {scope} and {input}");
        assert_eq!(code(result), expected, "{row}");
        assert_eq!(log.take(), stages, "{row}");
        assert_eq!(pipeline.in_flight(), 0, "{row}");
    }
}

#[tokio::test]
async fn a_spec_without_a_handler_says_so() {
    let error = pipeline(&Log::default(), "").execute("t.listed", json!({})).await.unwrap_err();
    assert_eq!(error.message(), "No handler registered for operation: t.listed");
}

#[tokio::test]
async fn the_trusted_path_skips_access_and_nothing_else() {
    let log = Log::default();
    let pipeline = pipeline(&log, "");
    assert_eq!(code(pipeline.execute("t.op", json!({"n": 1})).await), "ok");
    assert_eq!(
        log.take(),
        ["audit-enter", "limits", "approval", "place", "dispatch", "audit-exit"]
    );
    assert_eq!(code(pipeline.execute("t.op", json!({})).await), "VALIDATION_ERROR");
    let nobody = Authority::outside(None);
    let call = pipeline.call(CallRequest::new("t.op", json!({"n": 1})), nobody);
    assert_eq!(code(call.await), "ACCESS_DENIED");
}

#[tokio::test]
async fn every_bad_path_of_an_input_is_named() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"items": {"type": "string"}}},
        "required": ["c"],
    });
    let operation = dynamic("t.op", Kind::Query, async |_, _| Ok(json!(1)))
        .schemas(Schema::new(schema).unwrap(), Schema::unknown());
    let pipeline = Pipeline::new(registry([operation]));
    let error = pipeline.execute("t.op", json!({"a": "x", "b": ["y", 5]})).await.unwrap_err();
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
async fn a_call_that_is_never_polled_never_happened() {
    let log = Log::default();
    let pipeline = pipeline(&log, "");
    drop(pipeline.call(CallRequest::new("t.op", json!({"n": 1})), trusted()));
    assert_eq!(log.take(), [""; 0]);
}

#[tokio::test]
async fn too_many_calls_are_refused_and_nothing_is_started() {
    let log = Log::default();
    let settings = Settings { concurrent_calls: 1, ..Settings::default() };
    let operations = registry([waiting("t.wait", Kind::Query, &log)]);
    let pipeline = Pipeline::builder(operations).settings(settings).build();
    let first = pipeline.call(CallRequest::new("t.wait", json!({})), trusted());
    let abort = first.abort_handle();
    let second = async {
        let error = pipeline.execute("t.wait", json!({})).await.unwrap_err();
        assert_eq!(error.code().as_str(), "OVERLOADED");
        assert!(error.is_retryable());
        abort.abort("seen enough");
    };
    let (first, ()) = tokio::join!(first, second);
    assert_eq!(code(first), "ABORTED");
    assert_eq!(log.take(), ["t.wait starts", "t.wait stops"]);
}

/// What somebody may do is looked at again when the word that he waited for has come.
#[tokio::test]
async fn an_approved_call_is_held_against_what_holds_by_then() {
    struct Tightened(Registry);
    impl ApprovalGate for Tightened {
        fn obtain(&self, _: &CallView<'_>) -> Step<Option<Approval>> {
            let registry = self.0.clone();
            Step::Later(Box::pin(async move {
                let mut spec = spec("t.op", Kind::Query);
                spec.access_control.required_scopes = vec!["more".to_owned()];
                let tightened = Operation::from_spec(spec).build().unwrap();
                registry.apply([crate::registry::Change::Replace(tightened)]).unwrap();
                Ok(None)
            }))
        }
    }
    for (scopes, expected) in [(vec![], Err("ACCESS_DENIED")), (vec!["more"], Ok(()))] {
        let handler = |_, _| std::future::ready(Ok(json!(1)));
        let registry = registry([dynamic("t.op", Kind::Query, handler)]);
        let gate = Tightened(registry.clone());
        let pipeline = Pipeline::builder(registry).approval(gate).build();
        let caller = Authority::outside(Some(Identity::new("ada").with_scopes(scopes).into()));
        let called = pipeline.call(CallRequest::new("t.op", json!({})), caller).await;
        let called = called.map(drop).map_err(|error| error.code().as_str().to_owned());
        assert_eq!(
            called.as_ref().map_err(String::as_str),
            expected.as_ref().map_err(|code| *code)
        );
    }
}
