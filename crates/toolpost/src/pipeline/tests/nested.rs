//! Tests of nested calls: ids, deadlines, cancellation, snapshots and recursion.

use futures::FutureExt;

use super::*;
use crate::env::build_env;

/// Builds a registry in which `t.one` calls `t.two` and `t.two` calls `t.three`; `last` defines
/// `t.three`.
fn chain(kind: OperationKind, last: OperationBuilder) -> Registry {
    let forward = |to: &'static str| {
        move |context: CallContext, input: Value| async move {
            Ok(build_env(&context, ["t"]).call_trusted(to, input).await?.data)
        }
    };
    registry([
        dynamic_operation("t.one", kind, forward("t.two")),
        dynamic_operation("t.two", kind, forward("t.three")),
        last,
    ])
}

#[tokio::test]
async fn nested_call_has_new_id_parent_id_and_identity() {
    let seen = EventLog::default();
    let log = seen.clone();
    let last = dynamic_operation("t.three", OperationKind::Query, move |context, _| {
        let (own, parent) = (context.request_id().clone(), context.parent_request_id().cloned());
        assert_ne!(Some(&own), parent.as_ref());
        log.add(context.identity().unwrap().id.clone());
        async move { Ok(json!(parent.unwrap().to_string())) }
    });
    let pipeline = Pipeline::new(chain(OperationKind::Query, last));
    let request = CallRequest::new("t.one", json!({})).request_id("outer");
    let outcome = pipeline.call(request, untrusted(&[])).await.unwrap();
    let parent = outcome.envelope.into_value().unwrap().data;
    assert_ne!(parent, json!("outer"), "the parent of the third call is the second");
    assert_eq!(seen.take(), ["ci"]);
}

#[tokio::test(start_paused = true)]
async fn abort_propagates_through_three_nested_calls() {
    for kind in [OperationKind::Query, OperationKind::Mutation] {
        let log = EventLog::default();
        let operations = chain(kind, waiting_operation("t.three", kind, &log));
        let pipeline = Pipeline::builder(operations).audit(log.clone()).build();
        let call = pipeline.call(CallRequest::new("t.one", json!({})), trusted());
        let abort = call.abort_handle();
        let stop = async { abort.abort("enough") };
        assert_eq!(code(tokio::join!(call, stop).0), "ABORTED");
        assert!(pipeline.drain(Duration::from_secs(1)).await);
        let lines = log.take();
        for end in
            ["t.three stops", "exit t.three ABORTED", "exit t.two ABORTED", "exit t.one ABORTED"]
        {
            assert!(lines.iter().any(|line| line == end), "{end} in {lines:?}");
        }
        assert_eq!(pipeline.in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn deadline_propagates_through_three_nested_calls() {
    let last = dynamic_operation("t.three", OperationKind::Query, async |context, _| {
        assert_eq!(context.remaining().unwrap().as_secs(), 3);
        context.canceled().await;
        Ok(json!(1))
    });
    let pipeline = Pipeline::new(chain(OperationKind::Query, last));
    let request = CallRequest::new("t.one", json!({})).timeout(Duration::from_secs(3));
    assert_eq!(code(pipeline.call(request, trusted()).await), "TIMEOUT");
}

#[tokio::test(start_paused = true)]
async fn nested_timeout_does_not_affect_parent_deadline() {
    let log = EventLog::default();
    let patient = dynamic_operation("t.patient", OperationKind::Query, async |context, _| {
        let env = build_env(&context, ["t"]).with_timeout(Duration::from_secs(1));
        let error = env.call_trusted("t.wait", json!({})).await.unwrap_err();
        assert!(!context.is_canceled());
        Ok(json!(error.code().as_str()))
    });
    let pipeline =
        Pipeline::new(registry([patient, waiting_operation("t.wait", OperationKind::Query, &log)]));
    let request = CallRequest::new("t.patient", json!({})).timeout(Duration::from_secs(9));
    let outcome = pipeline.call(request, trusted()).await.unwrap();
    assert_eq!(outcome.envelope.into_value().unwrap().data, json!("TIMEOUT"));
}

#[tokio::test]
async fn nested_call_is_trusted_and_limited_to_namespaces() {
    let mut control = crate::access::AccessControl::default();
    control.required_scopes.push("nobody-has-this".to_owned());
    let inner = dynamic_operation("t.inner", OperationKind::Query, async |_, _| Ok(json!(1)))
        .access(control);
    let other = dynamic_operation("other.inner", OperationKind::Query, async |_, _| Ok(json!(1)));
    let outer = dynamic_operation("t.outer", OperationKind::Query, async |context, input| {
        let to = input.as_str().unwrap();
        Ok(build_env(&context, ["t"]).call_trusted(to, json!({})).await?.data)
    });
    let pipeline = Pipeline::new(registry([inner, other, outer]));
    for (to, expected) in
        [("t.inner", "ok"), ("other.inner", "ACCESS_DENIED"), ("t.none", "OPERATION_NOT_FOUND")]
    {
        let call = pipeline.call(CallRequest::new("t.outer", json!(to)), untrusted(&[]));
        assert_eq!(code(call.await), expected, "{to}");
    }
}

#[tokio::test]
async fn recursive_operation_stopped_by_nesting_limit() {
    let again = dynamic_operation("t.again", OperationKind::Query, async |context, _| {
        Ok(build_env(&context, ["t"]).call_trusted("t.again", json!({})).await?.data)
    });
    let pipeline = Pipeline::new(registry([again]));
    let error = pipeline.call_trusted("t.again", json!({})).await.unwrap_err();
    assert_eq!(error.code().as_str(), "OVERLOADED");
    assert_eq!(pipeline.in_flight(), 0);
}

#[tokio::test]
async fn exclusive_operation_calling_itself_rejected() {
    let forward = |to: &'static str| {
        move |context: CallContext, input: Value| async move {
            Ok(build_env(&context, ["t"]).call_trusted(to, input).await?.data)
        }
    };
    let first = dynamic_operation("t.first", OperationKind::Query, forward("t.second")).exclusive();
    let second = dynamic_operation("t.second", OperationKind::Query, forward("t.first"));
    let pipeline = Pipeline::new(registry([first, second]));
    let error = pipeline.call_trusted("t.first", json!({})).await.unwrap_err();
    assert!(error.message().contains("called from within itself"), "{error}");
}

#[tokio::test]
async fn nested_calls_share_catalog_snapshot() {
    let operations = Registry::new();
    let inner = operations.clone();
    let outer = dynamic_operation("t.outer", OperationKind::Query, move |context, _| {
        let registry = inner.clone();
        async move {
            assert!(registry.unregister(&"t.inner".parse().unwrap()));
            Ok(build_env(&context, ["t"]).call_trusted("t.inner", json!({})).await?.data)
        }
    });
    let response =
        dynamic_operation("t.inner", OperationKind::Query, async |_, _| Ok(json!("still here")));
    operations.register(outer.build().unwrap()).unwrap();
    operations.register(response.build().unwrap()).unwrap();
    let pipeline = Pipeline::new(operations);
    assert_eq!(
        pipeline.call_trusted("t.outer", json!({})).await.unwrap().data,
        json!("still here")
    );
    assert_eq!(code(pipeline.call_trusted("t.inner", json!({})).await), "OPERATION_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn dropped_nested_mutation_runs_to_completion() {
    let log = EventLog::default();
    let handler_log = log.clone();
    let write = dynamic_operation("t.write", OperationKind::Mutation, move |_, _| {
        let log = handler_log.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            log.add("written");
            Ok(json!(1))
        }
    });
    let impatient = dynamic_operation("t.impatient", OperationKind::Query, async |context, _| {
        let env = build_env(&context, ["t"]);
        let mut nested = Box::pin(env.call_trusted("t.write", json!({})));
        assert!((&mut nested).now_or_never().is_none());
        Ok(json!("gave up"))
    });
    let pipeline = Pipeline::new(registry([write, impatient]));
    assert_eq!(code(pipeline.call_trusted("t.impatient", json!({})).await), "ok");
    assert_eq!(log.take(), [""; 0]);
    assert!(pipeline.drain(Duration::from_secs(5)).await);
    assert_eq!(log.take(), ["written"]);
}

/// A mutation whose nested call fails may have run, whatever the nested error reports about itself.
#[tokio::test]
async fn nested_failure_marks_mutation_may_have_run() {
    let failing =
        |error: fn() -> CallError| {
            dynamic_operation("t.mail", OperationKind::Query, move |_, _| async move {
                Err(error().into())
            })
        };
    let errors: [fn() -> CallError; 4] = [
        || CallError::unavailable("down").not_sent(),
        || CallError::overloaded("full"),
        || CallError::access_denied("no"),
        || CallError::validation("bad", &[]),
    ];
    for error in errors {
        let checkout =
            dynamic_operation("t.checkout", OperationKind::Mutation, async |context, _| {
                Ok(build_env(&context, ["t"]).call_trusted("t.mail", json!({})).await?.data)
            });
        let pipeline = Pipeline::new(registry([checkout, failing(error)]));
        let error = pipeline.call_trusted("t.checkout", json!({})).await.unwrap_err();
        assert!(error.may_have_run() && !error.is_retryable(), "{error:?}");
    }
}

#[tokio::test]
async fn query_over_failed_mutation_is_not_retryable() {
    let write = dynamic_operation("t.write", OperationKind::Mutation, async |_, _| {
        Err(CallError::unavailable("cut").into())
    });
    let outer = dynamic_operation("t.outer", OperationKind::Query, async |context, _| {
        Ok(build_env(&context, ["t"]).call_trusted("t.write", json!({})).await?.data)
    });
    let pipeline = Pipeline::new(registry([write, outer]));
    let error = pipeline.call_trusted("t.outer", json!({})).await.unwrap_err();
    assert!(error.may_have_run() && !error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn empty_namespace_list_denies_all() {
    let inner = dynamic_operation("t.inner", OperationKind::Query, async |_, _| Ok(json!(1)));
    let outer = dynamic_operation("t.outer", OperationKind::Query, async |context, input| {
        let env = match input.as_str() {
            Some("none") => build_env(&context, [""; 0]),
            _ => crate::env::OperationEnv::all_namespaces(&context),
        };
        Ok(env.call_trusted("t.inner", json!({})).await?.data)
    });
    let pipeline = Pipeline::new(registry([inner, outer]));
    assert_eq!(code(pipeline.call_trusted("t.outer", json!("none")).await), "ACCESS_DENIED");
    assert_eq!(code(pipeline.call_trusted("t.outer", json!("all")).await), "ok");
}
