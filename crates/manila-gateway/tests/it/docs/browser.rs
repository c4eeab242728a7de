//! The page in Chromium: `page.mjs` uses it as people do, and fails by its exit code.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use manila::{Handler, Identity, Kind, Operation, OperationSpec, Output, Pipeline, Schema};
use manila_gateway::auth::{Authenticator, Token};
use manila_gateway::{Gateway, builtin};
use serde_json::json;
use tokio::process::Command;

use crate::Running;

const CHROMIUM: &str = "/usr/bin/chromium";
/// How long the whole script may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// What nobody may take for an element.
const HOSTILE: &str = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>";

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
    let Some(mut script) = script_or_say() else { return };
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
        "hostile": HOSTILE,
        "chromium": CHROMIUM,
        "packages": cache().join("browser/package.json"),
    });
    let ended = script.env("MANILA_DOCS", told.to_string()).output();
    let ended = tokio::time::timeout(PATIENCE, ended).await.expect("the script ends").unwrap();
    let (said, wrong) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    eprintln!("{said}");
    assert!(ended.status.success(), "{}\n{said}\n{wrong}", ended.status);
    for gateway in [open, large, closed] {
        assert!(gateway.stop().await.in_time);
    }
}

fn cache() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache")
}

/// The script, to be run, if there is a browser.
fn script_or_say() -> Option<Command> {
    let node = cache().join("npm/node_modules/.bin/node");
    let library = cache().join("browser/node_modules/playwright-core");
    let needed = [Path::new(CHROMIUM), &node, &library];
    let missing: Vec<_> = needed.into_iter().filter(|path| !path.exists()).collect();
    if !missing.is_empty() {
        eprintln!("!!! {missing:?} are missing: /docs WAS NOT OPENED IN A BROWSER !!!");
        eprintln!("!!! run scripts/fetch-test-data !!!");
        assert!(std::env::var_os("CI").is_none(), "{missing:?} are missing");
        return None;
    }
    let mut command = Command::new(node);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/docs/page.mjs"));
    command.stdin(Stdio::null()).kill_on_drop(true);
    Some(command)
}
