//! Every call that is made, and what must come of it.

use serde_json::{Value, json};
use toolpost::view::tool_name;

use super::odd::{Asking, DECLARED, Instead, Odd, Stands, UNDECLARED, odds};
use super::upstream;

/// A call of a tool.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) expect: Expect,
}

/// What must come of a call; the dialect and the era say how it stands on the wire.
#[derive(Debug, Clone)]
pub(crate) enum Expect {
    /// Data of an operation of the gateway's own, with or without a warning.
    Gives { data: Value, stands: Stands, is_warned: bool },
    /// What an MCP server answered.
    Relays { result: Value, data: Value, stands: Stands, is_error: bool, words: String },
    /// An error with its code and its words.
    Fails { code: &'static str, words: String },
    /// Data that is not what is declared, and what was said beside it.
    DoesNotFit { data: Value, words: String },
    /// A success that says this.
    Says(&'static str),
    /// No such tool.
    Refused(&'static str),
}

impl Call {
    pub(crate) fn new(id: &str, arguments: Value, expect: Expect) -> Self {
        let tool = tool_name(&id.parse().expect("an id"));
        Self { tool, arguments, expect }
    }
}

/// The operations through which others are found and called.
const HUB: [&str; 4] = ["hub.call", "hub.list", "hub.schema", "hub.search"];

/// The names of all tools.
pub(crate) fn tools() -> Vec<String> {
    let own = odds().into_iter().map(|odd| odd.id());
    let ids = own.chain(upstream::ids()).chain(HUB.map(str::to_owned));
    ids.map(|id| tool_name(&id.parse().expect("an id"))).collect()
}

/// Every call, each tool's one after the other.
pub(crate) fn calls() -> Vec<Call> {
    let own = odds().into_iter().flat_map(|odd| calls_of(&odd));
    own.chain(upstream::calls()).chain(others()).collect()
}

/// One call that succeeds, one that fails, and one that gives what does not fit.
fn calls_of(odd: &Odd) -> Vec<Call> {
    let call = |how: &str, expect| Call::new(&odd.id(), odd.arguments(how), expect);
    let does_not_fit =
        |data: &Value| Expect::DoesNotFit { data: data.clone(), words: String::new() };
    let first = match odd.instead {
        None => gives(odd, &odd.good, false),
        Some(Instead::Warned) => gives(odd, &odd.good, true),
        Some(Instead::DoesNotFit) => does_not_fit(&odd.good),
        Some(Instead::Unusable) => fails("EXECUTION_ERROR", "cannot be used"),
    };
    let mut calls = vec![call("ok", first)];
    if odd.asking == Asking::Never {
        return calls;
    }
    // Every other operation fails as it declares.
    calls.push(match odd.name.len() % 2 {
        0 => call("declared", fails(DECLARED.0, DECLARED.1)),
        _ => call("undeclared", fails("EXECUTION_ERROR", UNDECLARED)),
    });
    calls.extend(odd.bad.iter().map(|bad| call("invalid", does_not_fit(bad))));
    calls.extend(odd.strays.iter().map(|strays| call("strays", gives(odd, strays, true))));
    calls
}

fn gives(odd: &Odd, data: &Value, is_warned: bool) -> Expect {
    Expect::Gives { data: data.clone(), stands: odd.stands, is_warned }
}

fn fails(code: &'static str, words: &str) -> Expect {
    Expect::Fails { code, words: words.to_owned() }
}

/// Inputs that do not fit, tools that are not there, and calls through the hub.
fn others() -> Vec<Call> {
    let wrong = |place: &str| fails("VALIDATION_ERROR", place);
    let zero = Expect::Gives { data: json!(0), stands: Stands::WrappedBefore, is_warned: false };
    let through = |id: &str, how: &str| json!({"id": id, "input": {"how": how}});
    vec![
        Call::new("odd.in-text", json!({}), wrong("/input")),
        Call::new("odd.in-text", json!({"input": ""}), wrong("/input")),
        Call::new("odd.list", json!({"how": []}), wrong("/how")),
        Call::new("odd.in-written", json!({"more": {"any": [1]}}), Expect::Says("3")),
        Call::new("odd.nowhere", json!({}), Expect::Refused("odd__nowhere")),
        Call::new("hub.list", json!({"namespace": "odd"}), Expect::Says("odd.in-text")),
        Call::new("hub.search", json!({"query": "forest"}), Expect::Says("odd.forest")),
        Call::new("hub.schema", json!({"id": "odd.tree"}), Expect::Says("$defs")),
        Call::new(
            "hub.schema",
            json!({"id": "odd.none"}),
            fails("OPERATION_NOT_FOUND", "odd.none"),
        ),
        Call::new("hub.register", json!({}), Expect::Refused("hub__register")),
        Call::new("hub.call", through("odd.zero", "ok"), zero),
        Call::new("hub.call", through("odd.zero", "declared"), fails(DECLARED.0, DECLARED.1)),
        upstream::through_the_hub(through("up.sized", "fail")),
    ]
}
