//! The page in Chromium: `page.mjs` uses it as people do, and fails by its exit code.

use serde_json::json;
use toolpost::{Handler, Identity, Kind, Operation, OperationSpec, Output, Pipeline, Schema};
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::{Gateway, builtin};

use crate::Running;
use crate::browser::{HOSTILE, use_page};

/// An operation of which every word is hostile.
fn hostile() -> Operation {
    let mut spec = OperationSpec::new(&format!("hostile.{HOSTILE}").parse().unwrap(), Kind::Query);
    spec.title = Some(format!("Title {HOSTILE}"));
    spec.description = format!("Description {HOSTILE} [link](javascript:window.hacked=1)");
    spec.tags = vec![HOSTILE.to_owned()];
    let property = json!({"type": "string", "description": HOSTILE, "default": HOSTILE});
    let schema = json!({"type": "object", "properties": {HOSTILE: property}, "title": HOSTILE});
    spec.input_schema = Schema::new(schema).unwrap();
    let handler = Handler::once_fn(async |_, input| Ok(Output::Dynamic(input)));
    Operation::from_spec(spec).handler(handler).build().unwrap()
}

/// A tree whose schema refers to itself.
fn tree() -> Operation {
    let node = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        },
        "required": ["name"],
    });
    let mut spec = OperationSpec::new(&"files.tree".parse().unwrap(), Kind::Query);
    let root = json!({"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}},
        "required": ["root"], "$defs": {"Node": node}});
    spec.input_schema = Schema::new(root).unwrap();
    let handler = Handler::once_fn(async |_, input| Ok(Output::Dynamic(input)));
    Operation::from_spec(spec).handler(handler).build().unwrap()
}

/// A thousand operations in ten namespaces.
fn thousand() -> impl Iterator<Item = Operation> {
    (0..1_000).map(|number| {
        let id = format!("bulk{}.things/operation{number}", number % 10);
        let mut spec = OperationSpec::new(&id.parse().unwrap(), Kind::Query);
        spec.title = Some(format!("Operation number {number}"));
        spec.description =
            format!("Does the thing number {number}. Ångström is only in 7{number}.");
        let handler = Handler::once_fn(async |_, input| Ok(Output::Dynamic(input)));
        Operation::from_spec(spec).handler(handler).build().unwrap()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn people_search_and_try_operations_in_chromium() {
    let settings = Default::default;
    let open = Running::with([hostile(), tree()], settings()).await;
    let large = Running::with(thousand(), settings()).await;
    let token = Token::generate().unwrap();
    let closed = Gateway::with(Pipeline::new(builtin::registry()), settings())
        .with_authenticator(Authenticator::with([(token.hash(), Identity::new("ada"))]));
    let closed = Running::serve(closed, "127.0.0.1:0").await;
    let told = json!({
        "open": open.url(""),
        "large": large.url(""),
        "closed": closed.url(""),
        "token": token.reveal(),
    });
    use_page("docs/page.mjs", told).await;
    for gateway in [open, large, closed] {
        assert!(gateway.stop().await.in_time);
    }
}
