//! The docs page in Chromium. `page.mjs` operates the page and reports failures by its exit code.

use serde_json::json;
use toolpost::{Handler, HandlerOutput, Identity, Operation, OperationKind, OperationSpec, Schema};
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::{Gateway, builtin};

use crate::TestGateway;
use crate::browser::{HOSTILE_HTML, run_page_script};

/// An operation whose texts are all hostile.
fn hostile_operation() -> Operation {
    let mut spec = OperationSpec::new(
        &format!("hostile.{HOSTILE_HTML}").parse().unwrap(),
        OperationKind::Query,
    );
    spec.title = Some(format!("Title {HOSTILE_HTML}"));
    spec.description = format!("Description {HOSTILE_HTML} [link](javascript:window.hacked=1)");
    spec.tags = vec![HOSTILE_HTML.to_owned()];
    let property = json!({"type": "string", "description": HOSTILE_HTML, "default": HOSTILE_HTML});
    let schema =
        json!({"type": "object", "properties": {HOSTILE_HTML: property}, "title": HOSTILE_HTML});
    spec.input_schema = Schema::new(schema).unwrap();
    let handler = Handler::once_fn(async |_, input| Ok(HandlerOutput::Dynamic(input)));
    Operation::from_spec(spec).handler(handler).build().unwrap()
}

/// An operation with a recursive schema.
fn recursive_operation() -> Operation {
    let node = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        },
        "required": ["name"],
    });
    let mut spec = OperationSpec::new(&"files.tree".parse().unwrap(), OperationKind::Query);
    let root = json!({"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}},
        "required": ["root"], "$defs": {"Node": node}});
    spec.input_schema = Schema::new(root).unwrap();
    let handler = Handler::once_fn(async |_, input| Ok(HandlerOutput::Dynamic(input)));
    Operation::from_spec(spec).handler(handler).build().unwrap()
}

/// Returns a thousand operations in ten namespaces.
fn thousand_operations() -> impl Iterator<Item = Operation> {
    (0..1_000).map(|number| {
        let id = format!("bulk{}.things/operation{number}", number % 10);
        let mut spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Query);
        spec.title = Some(format!("Operation number {number}"));
        spec.description =
            format!("Does the thing number {number}. Ångström is only in 7{number}.");
        let handler = Handler::once_fn(async |_, input| Ok(HandlerOutput::Dynamic(input)));
        Operation::from_spec(spec).handler(handler).build().unwrap()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn docs_page_works_in_chromium() {
    let settings = Default::default;
    let open =
        TestGateway::start_with([hostile_operation(), recursive_operation()], settings()).await;
    let large = TestGateway::start_with(thousand_operations(), settings()).await;
    let token = Token::generate().unwrap();
    let closed = Gateway::builder(builtin::registry())
        .settings(settings())
        .authenticator(Authenticator::with_tokens([(token.hash(), Identity::new("ada"))]));
    let closed = TestGateway::serve(closed, "127.0.0.1:0").await;
    let script_input = json!({
        "open": open.url(""),
        "large": large.url(""),
        "closed": closed.url(""),
        "token": token.reveal(),
    });
    run_page_script("docs/page.mjs", script_input).await;
    for gateway in [open, large, closed] {
        assert!(gateway.stop().await.in_time);
    }
}
