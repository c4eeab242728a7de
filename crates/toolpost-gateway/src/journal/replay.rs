//! Replay: previews a recorded call, or makes it again and compares the results.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use toolpost::{
    CallContext, CallError, Catalog, Envelope, Identity, Operation, Payload, Registry, build_env,
};

use super::record::CallOutcome;
use super::{mask, record};

/// Result of a replay.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReplayReport {
    /// The recorded call.
    recorded: Value,
    /// Whether the call was made again.
    ran: bool,
    /// Reasons why the call would fail before it starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    /// Result of the new call: the members `outcome` and `output`, or `outcome`, `code` and
    /// `message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<Value>,
    /// Whether the results are equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    same: Option<bool>,
    /// Differences between the recorded and the new result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<ResultDifference>,
}

/// One difference between two results.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct ResultDifference {
    /// JSON Pointer to the difference.
    path: String,
    /// The recorded value; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    then: Option<Value>,
    /// The new value; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<Value>,
}

pub(super) fn preview(
    registry: &Registry,
    identity: Option<&Identity>,
    recorded: Value,
) -> Result<ReplayReport, CallError> {
    let (operation, input) = recorded_request(&recorded)?;
    let problems = preflight_problems(&registry.catalog(), identity, &operation, &input);
    Ok(ReplayReport { recorded, problems, ..ReplayReport::default() })
}

/// Makes the call with the identity of the replay's caller, which needs access to the operation.
pub(super) async fn run(
    context: &CallContext,
    registry: &Registry,
    recorded: Value,
) -> Result<ReplayReport, CallError> {
    let (id, input) = recorded_request(&recorded)?;
    let operation = registry.catalog().get(&id).cloned();
    let called = json!({"id": id, "input": input});
    let response =
        build_env(context, ["hub"]).with_progress().call_trusted("hub.call", called).await;
    let now = match response {
        Ok(envelope) => json!({
            "outcome": CallOutcome::Ok.as_str(),
            "output": masked_result(operation.as_deref(), envelope),
        }),
        Err(error) => json!({
            "outcome": CallOutcome::Error.as_str(),
            "code": error.code().as_str(),
            "message": error.message(),
        }),
    };
    let mut differences = Vec::new();
    if ["outputCut", "outputText"].iter().any(|name| recorded.get(name).is_some()) {
        differences.push(ResultDifference { path: "/output".to_owned(), then: None, now: None });
    } else {
        let results = [&recorded, &now].map(comparable_result);
        compare(String::new(), Some(&results[0]), Some(&results[1]), &mut differences);
    }
    let (now, same) = (Some(now), Some(differences.is_empty()));
    Ok(ReplayReport { recorded, ran: true, now, same, differences, ..ReplayReport::default() })
}

/// Returns the operation and the input of a recorded call, if the input is complete.
fn recorded_request(recorded: &Value) -> Result<(String, Value), CallError> {
    let error = |why: &str| CallError::validation(format!("cannot replay the call: {why}"), &[]);
    for (member, why) in [
        ("masked", "its input contains a secret, which is not recorded"),
        ("inputCut", "its input was too large to record"),
        ("inputText", "its input cannot be parsed"),
    ] {
        if recorded.get(member).is_some() {
            return Err(error(why));
        }
    }
    let operation = recorded["operation"].as_str().unwrap_or_default();
    let input = recorded.get("input").ok_or_else(|| error("its input is not recorded"))?;
    let hidden = [record::TOKEN_PREFIX, b"****"].concat();
    if memchr::memmem::find(input.to_string().as_bytes(), &hidden).is_some() {
        return Err(error("its input contains a token, which is not recorded"));
    }
    Ok((operation.to_owned(), input.clone()))
}

/// Returns the reasons why a call by this identity would fail before it starts.
fn preflight_problems(
    catalog: &Catalog,
    identity: Option<&Identity>,
    operation: &str,
    input: &Value,
) -> Vec<String> {
    let Some(found) = catalog.get(operation) else {
        let remedy = "replay the call at a gateway that has it";
        return vec![format!("operation {operation} is not available here; {remedy}")];
    };
    if let Err(error) = found.spec().access_control.check(identity, Some(input)) {
        return vec![error.message().to_owned()];
    }
    match found.spec().input_schema.fill_defaults(&mut input.clone()) {
        Ok(filled) => filled.issues.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}

fn masked_result(operation: Option<&Operation>, envelope: Envelope<Value>) -> Value {
    let mut payload = Envelope::local(Payload::from(envelope.data), "");
    payload.meta = envelope.meta;
    mask::output_by_schema(operation, &payload)
        .or_else(|| serde_json::to_value(&payload).ok())
        .unwrap_or_default()
}

/// Returns the result of a call without the members that change on every call.
fn comparable_result(call: &Value) -> Value {
    // The message of a failed tool is part of its output.
    let names: &[&str] = match call.get("code") {
        Some(_) => &["output", "code", "message"],
        None => &["output"],
    };
    let names = names.iter().copied();
    let members = names.filter_map(|name| Some((name.to_owned(), call.get(name)?.clone())));
    let mut result = Value::Object(members.collect());
    for (holder, name) in [("/output/meta", "timestamp"), ("/output/meta/headers", "date")] {
        if let Some(Value::Object(holder)) = result.pointer_mut(holder) {
            holder.remove(name);
        }
    }
    result
}

/// Adds the differences between two values, descending as long as both have the same shape.
fn compare(
    path: String,
    then: Option<&Value>,
    now: Option<&Value>,
    found: &mut Vec<ResultDifference>,
) {
    match (then, now) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let only_now = b.keys().filter(|name| !a.contains_key(*name));
            for name in a.keys().chain(only_now) {
                let below = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                compare(below, a.get(name), b.get(name), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                compare(format!("{path}/{index}"), a.get(index), b.get(index), found);
            }
        }
        (then, now) if then == now => {}
        (then, now) => {
            found.push(ResultDifference { path, then: then.cloned(), now: now.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use toolpost::Change;

    use super::super::{JournalReader, JournalSettings, operations};
    use super::*;

    #[test]
    fn compare_reports_differing_json_paths() {
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
            let results = [&then, &now].map(comparable_result);
            let mut found = Vec::new();
            compare(String::new(), Some(&results[0]), Some(&results[1]), &mut found);
            let paths: Vec<&str> = found.iter().map(|difference| &*difference.path).collect();
            assert_eq!(paths, expected, "{then} {now}");
        }
    }

    #[test]
    fn replay_rejects_masked_or_truncated_input() {
        let token = format!("tpt_{}", "*".repeat(43));
        for (recorded, expected) in [
            (json!({"operation": "a.b", "input": {}}), ""),
            (json!({"operation": "a.b", "input": {}, "masked": true}), "secret"),
            (json!({"operation": "a.b", "inputCut": {}}), "too large"),
            (json!({"operation": "a.b", "inputText": "[1e999]"}), "cannot be parsed"),
            (json!({"operation": "a.b"}), "not recorded"),
            (json!({"operation": "a.b", "input": {"t": token}}), "a token"),
        ] {
            let error_message = recorded_request(&recorded)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert!(
                error_message.contains(expected) && error_message.is_empty() == expected.is_empty(),
                "{error_message}"
            );
        }
    }

    /// Each row: the identity, the operation, the input and the expected problem.
    #[test]
    fn replay_preview_reports_preflight_problems() {
        let registry = crate::builtin::registry();
        let reader = JournalReader::new("none".as_ref(), &JournalSettings::default());
        let closed = operations(&reader, &registry).into_iter().map(Change::Replace);
        registry.apply(closed).unwrap();
        let (ci_identity, operator) = (Identity::new("ci"), crate::admin::operator());
        for (identity, operation, input, expected) in [
            (&ci_identity, "demo.add", json!({"a": 1, "b": 2}), ""),
            (&ci_identity, "demo.add", json!({"a": 1}), "missing"),
            (&ci_identity, "demo.none", json!({}), "operation demo.none is not available here"),
            (&ci_identity, "gateway.verify", json!({}), "`ci` lacks the scope `toolpost:read`"),
            (&operator, "gateway.verify", json!({}), ""),
        ] {
            let found = preflight_problems(&registry.catalog(), Some(identity), operation, &input)
                .join("; ");
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{found}");
        }
    }
}
