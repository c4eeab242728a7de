//! Calls out of handlers: ids, deadlines, cancellation, snapshots and loops.

use futures::FutureExt;

use super::*;
use crate::env::build_env;

/// `t.one` calls `t.two` calls `t.three`, and `t.three` does what it is told.
fn chain(kind: Kind, last: OperationBuilder) -> Registry {
    let forward = |to: &'static str| {
        move |context: CallContext, input: Value| async move {
            Ok(build_env(&context, ["t"]).execute(to, input).await?.data)
        }
    };
    registry([
        dynamic("t.one", kind, forward("t.two")),
        dynamic("t.two", kind, forward("t.three")),
        last,
    ])
}

#[tokio::test]
async fn ids_are_fresh_and_linked_and_the_identity_comes_along() {
    let seen = Log::default();
    let log = seen.clone();
    let last = dynamic("t.three", Kind::Query, move |context, _| {
        let (own, parent) = (context.request_id().clone(), context.parent_request_id().cloned());
        assert_ne!(Some(&own), parent.as_ref());
        log.add(context.identity().unwrap().id.clone());
        async move { Ok(json!(parent.unwrap().to_string())) }
    });
    let pipeline = Pipeline::new(chain(Kind::Query, last));
    let request = CallRequest::new("t.one", json!({})).request_id("outer");
    let outcome = pipeline.call(request, outside(&[])).await.unwrap();
    let parent = outcome.envelope.into_value().unwrap().data;
    assert_ne!(parent, json!("outer"), "the parent of the third call is the second");
    assert_eq!(seen.take(), ["ci"]);
}

#[tokio::test(start_paused = true)]
async fn an_abort_reaches_three_calls_deep() {
    for kind in [Kind::Query, Kind::Mutation] {
        let log = Log::default();
        let operations = chain(kind, waiting("t.three", kind, &log));
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
async fn the_remaining_deadline_goes_down_three_calls_deep() {
    let last = dynamic("t.three", Kind::Query, async |context, _| {
        assert_eq!(context.remaining().unwrap().as_secs(), 3);
        context.cancelled().await;
        Ok(json!(1))
    });
    let pipeline = Pipeline::new(chain(Kind::Query, last));
    let request = CallRequest::new("t.one", json!({})).timeout(Duration::from_secs(3));
    assert_eq!(code(pipeline.call(request, trusted()).await), "TIMEOUT");
}

#[tokio::test(start_paused = true)]
async fn a_shorter_deadline_of_a_nested_call_is_only_its_own() {
    let log = Log::default();
    let patient = dynamic("t.patient", Kind::Query, async |context, _| {
        let env = build_env(&context, ["t"]).with_timeout(Duration::from_secs(1));
        let error = env.execute("t.wait", json!({})).await.unwrap_err();
        assert!(!context.is_cancelled());
        Ok(json!(error.code().as_str()))
    });
    let pipeline = Pipeline::new(registry([patient, waiting("t.wait", Kind::Query, &log)]));
    let request = CallRequest::new("t.patient", json!({})).timeout(Duration::from_secs(9));
    let outcome = pipeline.call(request, trusted()).await.unwrap();
    assert_eq!(outcome.envelope.into_value().unwrap().data, json!("TIMEOUT"));
}

#[tokio::test]
async fn nested_calls_stay_inside_their_namespaces_and_are_trusted() {
    let mut control = crate::access::AccessControl::default();
    control.required_scopes.push("nobody-has-this".to_owned());
    let inner = dynamic("t.inner", Kind::Query, async |_, _| Ok(json!(1))).access(control);
    let other = dynamic("other.inner", Kind::Query, async |_, _| Ok(json!(1)));
    let outer = dynamic("t.outer", Kind::Query, async |context, input| {
        let to = input.as_str().unwrap();
        Ok(build_env(&context, ["t"]).execute(to, json!({})).await?.data)
    });
    let pipeline = Pipeline::new(registry([inner, other, outer]));
    for (to, expected) in
        [("t.inner", "ok"), ("other.inner", "ACCESS_DENIED"), ("t.none", "OPERATION_NOT_FOUND")]
    {
        let call = pipeline.call(CallRequest::new("t.outer", json!(to)), outside(&[]));
        assert_eq!(code(call.await), expected, "{to}");
    }
}

#[tokio::test]
async fn an_operation_that_calls_itself_for_ever_is_stopped() {
    let again = dynamic("t.again", Kind::Query, async |context, _| {
        Ok(build_env(&context, ["t"]).execute("t.again", json!({})).await?.data)
    });
    let pipeline = Pipeline::new(registry([again]));
    let error = pipeline.execute("t.again", json!({})).await.unwrap_err();
    assert_eq!(error.code().as_str(), "OVERLOADED");
    assert_eq!(pipeline.in_flight(), 0);
}

#[tokio::test]
async fn an_exclusive_operation_that_waits_for_itself_is_refused() {
    let forward = |to: &'static str| {
        move |context: CallContext, input: Value| async move {
            Ok(build_env(&context, ["t"]).execute(to, input).await?.data)
        }
    };
    let first = dynamic("t.first", Kind::Query, forward("t.second")).exclusive();
    let second = dynamic("t.second", Kind::Query, forward("t.first"));
    let pipeline = Pipeline::new(registry([first, second]));
    let error = pipeline.execute("t.first", json!({})).await.unwrap_err();
    assert!(error.message().contains("called from inside itself"), "{error}");
}

#[tokio::test]
async fn a_call_sees_one_snapshot_of_the_catalog() {
    let operations = Registry::new();
    let inner = operations.clone();
    let outer = dynamic("t.outer", Kind::Query, move |context, _| {
        let registry = inner.clone();
        async move {
            assert!(registry.unregister(&"t.inner".parse().unwrap()));
            Ok(build_env(&context, ["t"]).execute("t.inner", json!({})).await?.data)
        }
    });
    let answer = dynamic("t.inner", Kind::Query, async |_, _| Ok(json!("still here")));
    operations.register(outer.build().unwrap()).unwrap();
    operations.register(answer.build().unwrap()).unwrap();
    let pipeline = Pipeline::new(operations);
    assert_eq!(pipeline.execute("t.outer", json!({})).await.unwrap().data, json!("still here"));
    assert_eq!(code(pipeline.execute("t.inner", json!({})).await), "OPERATION_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_nested_mutation_survives_the_handler_that_gave_up_on_it() {
    let log = Log::default();
    let handler_log = log.clone();
    let write = dynamic("t.write", Kind::Mutation, move |_, _| {
        let log = handler_log.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            log.add("written");
            Ok(json!(1))
        }
    });
    let impatient = dynamic("t.impatient", Kind::Query, async |context, _| {
        let env = build_env(&context, ["t"]);
        let mut nested = Box::pin(env.execute("t.write", json!({})));
        assert!((&mut nested).now_or_never().is_none());
        Ok(json!("gave up"))
    });
    let pipeline = Pipeline::new(registry([write, impatient]));
    assert_eq!(code(pipeline.execute("t.impatient", json!({})).await), "ok");
    assert_eq!(log.take(), [""; 0]);
    assert!(pipeline.drain(Duration::from_secs(5)).await);
    assert_eq!(log.take(), ["written"]);
}

/// A charge, then a nested call that fails: whatever that failure says about itself, the charge was
/// made.
#[tokio::test]
async fn a_failure_inside_a_mutation_leaves_the_mutation_in_doubt() {
    let failing = |error: fn() -> CallError| {
        dynamic("t.mail", Kind::Query, move |_, _| async move { Err(error().into()) })
    };
    let errors: [fn() -> CallError; 4] = [
        || CallError::unavailable("down").before_sending(),
        || CallError::overloaded("full"),
        || CallError::access_denied("no"),
        || CallError::validation("bad", &[]),
    ];
    for error in errors {
        let checkout = dynamic("t.checkout", Kind::Mutation, async |context, _| {
            Ok(build_env(&context, ["t"]).execute("t.mail", json!({})).await?.data)
        });
        let pipeline = Pipeline::new(registry([checkout, failing(error)]));
        let error = pipeline.execute("t.checkout", json!({})).await.unwrap_err();
        assert!(error.may_have_run() && !error.is_retryable(), "{error:?}");
    }
}

#[tokio::test]
async fn a_query_over_a_mutation_in_doubt_is_not_retryable() {
    let write =
        dynamic("t.write", Kind::Mutation, async |_, _| Err(CallError::unavailable("cut").into()));
    let outer = dynamic("t.outer", Kind::Query, async |context, _| {
        Ok(build_env(&context, ["t"]).execute("t.write", json!({})).await?.data)
    });
    let pipeline = Pipeline::new(registry([write, outer]));
    let error = pipeline.execute("t.outer", json!({})).await.unwrap_err();
    assert!(error.may_have_run() && !error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn an_empty_list_of_namespaces_opens_none() {
    let inner = dynamic("t.inner", Kind::Query, async |_, _| Ok(json!(1)));
    let outer = dynamic("t.outer", Kind::Query, async |context, input| {
        let env = match input.as_str() {
            Some("none") => build_env(&context, [""; 0]),
            _ => crate::env::Env::everywhere(&context),
        };
        Ok(env.execute("t.inner", json!({})).await?.data)
    });
    let pipeline = Pipeline::new(registry([inner, outer]));
    assert_eq!(code(pipeline.execute("t.outer", json!("none")).await), "ACCESS_DENIED");
    assert_eq!(code(pipeline.execute("t.outer", json!("all")).await), "ok");
}
