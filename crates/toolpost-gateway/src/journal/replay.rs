//! A call once more: what would be called, or what comes of it beside what came of it then.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use toolpost::{
    CallContext, CallError, Catalog, Envelope, Identity, Operation, Payload, Registry, build_env,
};

use super::{mask, record};

/// What a replay found out.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Replayed {
    /// The call as it is in the journal.
    recorded: Value,
    /// Whether it was called once more.
    ran: bool,
    /// Why it would fail before it began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    problems: Vec<String>,
    /// What came of it now: the members `outcome` and `output`, or `code` and `message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    now: Option<Value>,
    /// Whether the same came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    same: Option<bool>,
    /// Where the two differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    differences: Vec<Difference>,
}

/// One place in which two results are not the same.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Difference {
    /// JSON Pointer.
    path: String,
    /// What is in the journal; absent where there was nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    then: Option<Value>,
    /// What there is now; absent where there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    now: Option<Value>,
}

pub(super) fn look(
    registry: &Registry,
    identity: Option<&Identity>,
    recorded: Value,
) -> Result<Replayed, CallError> {
    let (operation, input) = asked(&recorded)?;
    let problems = problems(&registry.catalog(), identity, &operation, &input);
    Ok(Replayed { recorded, problems, ..Replayed::default() })
}

/// Calls it as the one who asks for the replay, who needs the right to.
pub(super) async fn run(
    context: &CallContext,
    registry: &Registry,
    recorded: Value,
) -> Result<Replayed, CallError> {
    let (id, input) = asked(&recorded)?;
    let operation = registry.catalog().get(&id).cloned();
    let called = json!({"id": id, "input": input});
    let answer = build_env(context, ["hub"]).with_progress().execute("hub.call", called).await;
    let now = match answer {
        Ok(envelope) => json!({"outcome": "ok", "output": shown(operation.as_deref(), envelope)}),
        Err(error) => {
            json!({"outcome": "error", "code": error.code().as_str(), "message": error.message()})
        }
    };
    let is_compared = ["outputCut", "outputText"].iter().all(|name| recorded.get(name).is_none());
    let differences = match is_compared {
        false => vec![Difference { path: "/output".to_owned(), then: None, now: None }],
        true => compare(&result_of(&recorded), &result_of(&now)),
    };
    let same = Some(differences.is_empty());
    Ok(Replayed { recorded, ran: true, now: Some(now), same, differences, ..Replayed::default() })
}

/// What was asked for, if it is all there.
fn asked(recorded: &Value) -> Result<(String, Value), CallError> {
    let refuse =
        |why: &str| CallError::validation(format!("it cannot be called once more: {why}"), &[]);
    let members = recorded.as_object().ok_or_else(|| refuse("the record is damaged"))?;
    if members.contains_key("masked") {
        return Err(refuse("a part of its input is secret and was not written down"));
    }
    if members.contains_key("inputCut") {
        return Err(refuse("its input was too large to be written down"));
    }
    if members.contains_key("inputText") {
        return Err(refuse("its input is nothing that can be read; it is shown as text"));
    }
    let operation = members.get("operation").and_then(Value::as_str).unwrap_or_default();
    let input = members.get("input").ok_or_else(|| refuse("its input was not written down"))?;
    let hidden = [record::TOKEN, b"****"].concat();
    if memchr::memmem::find(input.to_string().as_bytes(), &hidden).is_some() {
        return Err(refuse("its input holds a token, which was not written down"));
    }
    Ok((operation.to_owned(), input.clone()))
}

/// Why a call by this one would fail before it began.
fn problems(
    catalog: &Catalog,
    identity: Option<&Identity>,
    operation: &str,
    input: &Value,
) -> Vec<String> {
    let Some(found) = catalog.get(operation) else {
        return vec![format!("there is no operation {operation} any more")];
    };
    if let Err(error) = found.spec().access_control.check(identity, Some(input)) {
        return vec![error.message().to_owned()];
    }
    match found.spec().input_schema.check(input) {
        Ok(issues) => issues.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}

/// As it would stand in the journal.
fn shown(operation: Option<&Operation>, envelope: Envelope<Value>) -> Value {
    let mut payload = Envelope::local(Payload::from(envelope.data), "");
    payload.meta = envelope.meta;
    mask::output(operation, &payload)
        .or_else(|| serde_json::to_value(&payload).ok())
        .unwrap_or_default()
}

/// What a call came to, without what is different each time.
fn result_of(call: &Value) -> Value {
    let mut result = Map::new();
    for name in ["output", "code", "message"] {
        if let Some(value) = call.get(name) {
            result.insert(name.to_owned(), value.clone());
        }
    }
    let mut result = Value::Object(result);
    if let Some(Value::Object(meta)) = result.pointer_mut("/output/meta") {
        meta.remove("timestamp");
        if let Some(Value::Object(headers)) = meta.get_mut("headers") {
            headers.remove("date");
        }
    }
    result
}

/// Where two values differ, as deep as both have the same shape.
fn compare(then: &Value, now: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare_at(String::new(), Some(then), Some(now), &mut found);
    found
}

fn compare_at(
    path: String,
    then: Option<&Value>,
    now: Option<&Value>,
    found: &mut Vec<Difference>,
) {
    match (then, now) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let only_now = b.keys().filter(|name| !a.contains_key(*name));
            for name in a.keys().chain(only_now) {
                let below = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                compare_at(below, a.get(name), b.get(name), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                compare_at(format!("{path}/{index}"), a.get(index), b.get(index), found);
            }
        }
        (then, now) if then == now => {}
        (then, now) => found.push(Difference { path, then: then.cloned(), now: now.cloned() }),
    }
}

#[cfg(test)]
mod tests {
    use toolpost::Change;

    use super::super::{Archive, Settings, operations};
    use super::*;

    #[test]
    fn two_results_are_compared_place_by_place() {
        for (then, now, expected) in [
            (json!({"output": {"data": 1}}), json!({"output": {"data": 1}}), &[][..]),
            (json!({"output": {"data": 1}}), json!({"output": {"data": 2}}), &["/output/data"]),
            (
                json!({"output": {"data": {"a": [1, 2], "b/c": 1}}}),
                json!({"output": {"data": {"a": [1], "d": 1}}}),
                &["/output/data/a/1", "/output/data/b~1c", "/output/data/d"],
            ),
            (
                json!({"output": {"data": 1, "meta": {"timestamp": 1}}}),
                json!({"output": {"data": 1, "meta": {"timestamp": 2}}}),
                &[],
            ),
            (
                json!({"output": {"data": 1}}),
                json!({"code": "X", "message": "m"}),
                &["/output", "/code", "/message"],
            ),
        ] {
            let found = compare(&result_of(&then), &result_of(&now));
            let paths: Vec<&str> = found.iter().map(|difference| &*difference.path).collect();
            assert_eq!(paths, expected, "{then} {now}");
        }
    }

    #[test]
    fn what_was_not_written_down_is_not_called_again() {
        let token = format!("tpt_{}", "*".repeat(43));
        for (recorded, said) in [
            (json!({"operation": "a.b", "input": {}}), ""),
            (json!({"operation": "a.b", "input": {}, "masked": true}), "secret"),
            (json!({"operation": "a.b", "inputCut": {}}), "too large"),
            (json!({"operation": "a.b", "inputText": "[1e999]"}), "can be read"),
            (json!({"operation": "a.b"}), "not written down"),
            (json!({"operation": "a.b", "input": {"t": token}}), "a token"),
        ] {
            let words = asked(&recorded).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(words.contains(said) && words.is_empty() == said.is_empty(), "{words}");
        }
    }

    /// Each row: who asks, what was called, and why that would fail.
    #[test]
    fn what_would_be_refused_is_not_promised() {
        let registry = crate::builtin::registry();
        let archive = Archive::new("none".as_ref(), &Settings::default());
        let closed = operations(&archive, &registry).into_iter().map(Change::Replace);
        registry.apply(closed).unwrap();
        let (somebody, operator) = (Identity::new("ci"), crate::admin::operator());
        for (identity, operation, input, said) in [
            (&somebody, "demo.add", json!({"a": 1, "b": 2}), ""),
            (&somebody, "demo.add", json!({"a": 1}), "missing"),
            (&somebody, "demo.none", json!({}), "there is no operation demo.none any more"),
            (&somebody, "gateway.verify", json!({}), "`ci` lacks the scope `toolpost:read`"),
            (&operator, "gateway.verify", json!({}), ""),
        ] {
            let found = problems(&registry.catalog(), Some(identity), operation, &input).join("; ");
            assert!(found.contains(said) && found.is_empty() == said.is_empty(), "{found}");
        }
    }
}
