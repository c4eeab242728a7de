//! Tests that a faulty handler fails only its own call.

use futures::StreamExt;

use super::*;

#[tokio::test]
async fn handler_panic_fails_only_its_call() {
    let panics = |when: &'static str| {
        Handler::once_fn(move |_, _| {
            assert!(when != "at once", "secret {when}");
            async move {
                tokio::task::yield_now().await;
                panic!("secret {when}")
            }
        })
    };
    let stream = Handler::stream_fn(|_, _| {
        futures::stream::iter([1, 2, 3]).map(|n| {
            assert!(n < 2, "secret in a stream");
            Ok(HandlerOutput::dynamic(json!(n)))
        })
    });
    let log = EventLog::default();
    let operations = registry([
        Operation::from_spec(spec("t.now", OperationKind::Query)).handler(panics("at once")),
        Operation::from_spec(spec("t.later", OperationKind::Mutation))
            .handler(panics("later"))
            .exclusive(),
        Operation::from_spec(spec("t.stream", OperationKind::Subscription)).handler(stream),
        dynamic_operation("t.fine", OperationKind::Query, async |_, _| Ok(json!("fine"))),
    ]);
    let pipeline = Pipeline::builder(operations).audit(log.clone()).build();
    for id in ["t.now", "t.later", "t.later"] {
        let error = pipeline.call_trusted(id, json!({})).await.unwrap_err();
        assert_eq!(error.code().as_str(), "EXECUTION_ERROR");
        assert!(!error.to_string().contains("secret"), "panic messages appear only in the log");
        assert_eq!(error.may_have_run(), id == "t.later");
    }
    let values: Vec<_> = pipeline.subscribe("t.stream", json!({})).map(code).collect().await;
    assert_eq!(values, ["ok", "EXECUTION_ERROR"]);
    assert_eq!(pipeline.call_trusted("t.fine", json!({})).await.unwrap().data, json!("fine"));
    assert_eq!(log.take().iter().filter(|line| line.starts_with("exit")).count(), 5);
    assert_eq!(pipeline.in_flight(), 0);
}

#[tokio::test]
async fn declared_handler_errors_keep_code_and_details() {
    use crate::error::DomainError;
    use crate::spec::ErrorDefinition;

    let shop = dynamic_operation("t.buy", OperationKind::Mutation, async |_, input| {
        match input.as_str() {
            Some("sold out") => Err(DomainError::new("SOLD_OUT", "none left").into()),
            Some("odd") => Err(DomainError::new("ODD", "undeclared").into()),
            Some("io") => Err(std::io::Error::other("disk full").into()),
            _ => Err(CallError::unavailable("the shop is closed").not_sent().into()),
        }
    });
    let pipeline =
        Pipeline::new(registry([shop.raises(ErrorDefinition::new("SOLD_OUT", "nothing left"))]));
    for (input, expected) in [
        ("sold out", json!({"code": "SOLD_OUT", "message": "none left", "retryable": false})),
        (
            "odd",
            json!({"code": "EXECUTION_ERROR", "message": "undeclared", "retryable": false,
                   "details": {"undeclaredCode": "ODD", "mayHaveRun": true}}),
        ),
        (
            "io",
            json!({"code": "EXECUTION_ERROR", "message": "disk full", "retryable": false,
                   "details": {"mayHaveRun": true}}),
        ),
        (
            "closed",
            json!({"code": "UNAVAILABLE", "message": "the shop is closed", "retryable": true}),
        ),
    ] {
        let error = pipeline.call_trusted("t.buy", json!(input)).await.unwrap_err();
        assert_eq!(serde_json::to_value(&error).unwrap(), expected, "{input}");
    }
}
