//! Checks of the results that clients observe.

use serde_json::{Map, Value, json};
use toolpost::tool_envelope::EnvelopeReader;
use toolpost::view::{Dialect, ERROR_META, ProtocolGeneration, WARNINGS_META, WRAPPED_META};

use super::ClientRun;
use super::fixture::{DataPlacement, Expectation, ExpectedCall};

/// The result that a client reports, after its own checks.
pub(super) struct ObservedResult<'a> {
    pub(super) run: ClientRun,
    /// `{"result": …}`, or `{"thrown": …}` if the client rejected the response.
    pub(super) response: &'a Value,
    pub(super) preserves: PreservedMembers,
}

/// Which unknown members a client preserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreservedMembers {
    All,
    /// Those of a result, but not of its content blocks.
    Outer,
    None,
}

type CheckResult = Result<(), String>;

impl ObservedResult<'_> {
    pub(super) fn check(&self, call: &ExpectedCall) -> CheckResult {
        if let Expectation::Rejected(message) = &call.expect {
            let text = self.response.to_string();
            return ensure(text.contains(message), || format!("`{message}` is not in {text}"));
        }
        let result = self.response.get("result").and_then(Value::as_object);
        let result = result.ok_or_else(|| format!("no result: {}", self.response))?;
        self.check_expectation(&call.expect, result).map_err(|reason| {
            let excerpt: String =
                Value::Object(result.clone()).to_string().chars().take(500).collect();
            format!("{reason}: {excerpt}")
        })
    }

    fn check_expectation(&self, expect: &Expectation, result: &Map<String, Value>) -> CheckResult {
        let null = result.iter().find(|(_, value)| value.is_null());
        ensure(null.is_none(), || format!("{null:?}"))?;
        ensure(result.get("content").is_some_and(Value::is_array), || "no content".to_owned())?;
        match expect {
            Expectation::Data { data, stands, is_warned } => {
                check_is_error(result, false)?;
                check_warned(result, *is_warned)?;
                self.check_data(result, data, *stands)
            }
            Expectation::Relayed {
                result: sent,
                data,
                stands,
                is_error: failed,
                words: message,
            } => {
                check_is_error(result, *failed)?;
                match self.run.dialect {
                    Dialect::Data => {
                        check_text_contains(result, message)?;
                        self.check_relayed(result, sent, *stands)
                    }
                    _ if *failed => self.check_relayed_failure(result, message),
                    _ => self.check_data(result, data, *stands),
                }
            }
            Expectation::Failure { code, words: message } => {
                self.check_failure(result, code, message)
            }
            Expectation::Mismatch { data, words: message } => {
                check_is_error(result, false)?;
                // This dialect contains only the data.
                if self.run.dialect != Dialect::Ok {
                    check_text_contains(result, message)?;
                }
                check_warned(result, true)?;
                self.check_mismatch(result, data)
            }
            // This dialect has the data in the payload of the error.
            Expectation::EnforcedMismatch { .. } if self.run.dialect == Dialect::ToolEnvelopeV1 => {
                self.check_failure(result, "OUTPUT_VALIDATION_FAILED", "does not match")
            }
            Expectation::EnforcedMismatch { data } => {
                self.check_failure(result, "OUTPUT_VALIDATION_FAILED", "does not match")?;
                let details = match self.run.dialect {
                    Dialect::Ok => &result["structuredContent"]["error"]["details"],
                    _ => &result["_meta"][ERROR_META]["details"],
                };
                // The values of a subscription are checked one by one.
                let items = data.as_array().into_iter().flatten();
                let is_sent = items.chain([data]).any(|sent| json_equal(&details["data"], sent));
                ensure(is_sent, || format!("the data is lost: {details}"))
            }
            Expectation::TextContains(message) => {
                check_is_error(result, false)?;
                check_text_contains(result, message)
            }
            Expectation::Rejected(_) => Ok(()),
        }
    }

    /// Checks a successful result with this data.
    fn check_data(
        &self,
        result: &Map<String, Value>,
        data: &Value,
        placement: DataPlacement,
    ) -> CheckResult {
        let structured = result.get("structuredContent");
        match self.run.dialect {
            Dialect::Data => {
                match self.expected_content(data, placement) {
                    Some(placed) => {
                        check_equal("structuredContent", structured, &placed)?;
                        let wrapped = is_wrapped(result);
                        ensure(wrapped == (placed != *data), || format!("wrapped: {wrapped}"))?;
                    }
                    None => check_no_structured_content(result)?,
                }
                check_equal("the text", Some(&json_text(result)?), data)
            }
            Dialect::Envelope => {
                check_equal("data", structured.and_then(|envelope| envelope.get("data")), data)?;
                let source = structured.and_then(|envelope| envelope["meta"]["source"].as_str());
                ensure(source.is_some(), || "no meta".to_owned())?;
                check_equal(
                    "the text",
                    Some(&json_text(result)?),
                    structured.unwrap_or(&Value::Null),
                )
            }
            Dialect::Ok => {
                let envelope = json!({"ok": true, "data": data});
                check_equal("structuredContent", structured, &envelope)?;
                check_equal("the text", Some(&json_text(result)?), &envelope)
            }
            _ => {
                check_no_structured_content(result)?;
                check_equal("the payload", Some(&payload(result)?), data)
            }
        }
    }

    /// Checks a successful result with data that does not match the output schema. In the dialect
    /// `data`, it is wrapped unless it matches the relaxed schema.
    fn check_mismatch(&self, result: &Map<String, Value>, data: &Value) -> CheckResult {
        let structured = result.get("structuredContent");
        match self.run.dialect {
            Dialect::Data if is_wrapped(result) => {
                check_equal("structuredContent", structured, &json!({"result": data}))
            }
            Dialect::Data => check_equal("structuredContent", structured, data),
            Dialect::Envelope => {
                check_equal("data", structured.and_then(|envelope| envelope.get("data")), data)
            }
            Dialect::Ok => {
                check_equal("structuredContent", structured, &json!({"ok": true, "data": data}))
            }
            _ => {
                check_no_structured_content(result)?;
                check_equal("the payload", Some(&payload(result)?), data)
            }
        }
    }

    /// Returns the expected structured content in the dialect `data`.
    fn expected_content(&self, data: &Value, placement: DataPlacement) -> Option<Value> {
        let is_wrapped = match placement {
            DataPlacement::Alone => false,
            DataPlacement::WrappedBefore => self.run.generation == ProtocolGeneration::Legacy,
            DataPlacement::Wrapped => true,
            DataPlacement::Nowhere => return None,
        };
        Some(if is_wrapped { json!({"result": data}) } else { data.clone() })
    }

    /// Checks the result of an MCP server, member by member.
    fn check_relayed(
        &self,
        result: &Map<String, Value>,
        sent: &Value,
        placement: DataPlacement,
    ) -> CheckResult {
        let mut sent = sent.clone();
        if let Some(structured) = sent.get_mut("structuredContent") {
            *structured = self.expected_content(structured, placement).unwrap_or_default();
        } else {
            check_no_structured_content(result)?;
        }
        match (self.preserves, sent.get_mut("content")) {
            (PreservedMembers::Outer, Some(content)) => remove_unknown_members(content),
            (PreservedMembers::None, _) => remove_unknown_members(&mut sent),
            _ => {}
        }
        for (name, value) in sent.as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                // The gateway may add members.
                ("_meta", Value::Object(members)) => {
                    for (name, value) in members {
                        let found = result.get("_meta").and_then(|meta| meta.get(name));
                        check_equal(name, found, value)?;
                    }
                }
                _ => check_equal(name, result.get(name), value)?,
            }
        }
        Ok(())
    }

    /// Checks a failure reported by an MCP server, which has no error code.
    fn check_relayed_failure(&self, result: &Map<String, Value>, message: &str) -> CheckResult {
        match self.run.dialect {
            Dialect::Envelope => check_text_contains(result, message),
            _ => self.check_failure(result, "EXECUTION_ERROR", message),
        }
    }

    /// Checks the code and message of a failure.
    fn check_failure(&self, result: &Map<String, Value>, code: &str, message: &str) -> CheckResult {
        check_is_error(result, true)?;
        let code = match (self.run.dialect, code) {
            (Dialect::Ok, "VALIDATION_ERROR") => "INVALID_PARAMS",
            (Dialect::Ok, "EXECUTION_ERROR") => "HANDLER_ERROR",
            _ => code,
        };
        check_text_contains(result, code)?;
        check_text_contains(result, message)?;
        let reported_code = match self.run.dialect {
            Dialect::Ok => {
                let structured = result.get("structuredContent").unwrap_or(&Value::Null);
                ensure(structured["ok"] == false, || "it is not said to be wrong".to_owned())?;
                structured["error"]["code"].clone()
            }
            Dialect::ToolEnvelopeV1 => payload(result)?["code"].clone(),
            _ => {
                check_no_structured_content(result)?;
                result.get("_meta").map(|meta| meta[ERROR_META]["code"].clone()).unwrap_or_default()
            }
        };
        check_equal("the code", Some(&reported_code), &code.into())
    }
}

fn ensure(holds: bool, reason: impl FnOnce() -> String) -> CheckResult {
    if holds { Ok(()) } else { Err(reason()) }
}

fn check_is_error(result: &Map<String, Value>, expected: bool) -> CheckResult {
    let found = result.get("isError").and_then(Value::as_bool).unwrap_or_default();
    ensure(found == expected, || format!("isError is {found}"))
}

fn check_no_structured_content(result: &Map<String, Value>) -> CheckResult {
    let structured = result.get("structuredContent");
    ensure(structured.is_none(), || "there is structured content".to_owned())
}

fn texts(result: &Map<String, Value>) -> Vec<&str> {
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect()
}

fn check_text_contains(result: &Map<String, Value>, message: &str) -> CheckResult {
    let is_present = texts(result).iter().any(|text| text.contains(message));
    ensure(message.is_empty() || is_present, || format!("`{message}` is lost"))
}

/// Checks whether there are warnings, in `_meta` and as the last line of the text.
fn check_warned(result: &Map<String, Value>, expected: bool) -> CheckResult {
    let warned = result.get("_meta").is_some_and(|meta| !meta[WARNINGS_META].is_null());
    ensure(warned == expected, || format!("warned: {warned}"))?;
    let is_last_line = |text: &&str| text.lines().last().is_some_and(is_warning);
    let has_line = texts(result).iter().any(is_last_line);
    ensure(has_line == expected, || format!("a line of text about a warning: {has_line}"))
}

fn is_warning(line: &str) -> bool {
    line.starts_with("Warning: ")
}

fn is_wrapped(result: &Map<String, Value>) -> bool {
    result.get("_meta").is_some_and(|meta| meta[WRAPPED_META] == true)
}

/// Parses the only text block as JSON, except for one about warnings.
fn json_text(result: &Map<String, Value>) -> Result<Value, String> {
    let mut texts = texts(result);
    texts.retain(|text| !is_warning(text));
    match *texts {
        [text] => serde_json::from_str(text).map_err(|error| error.to_string()),
        ref texts => Err(format!("{} texts", texts.len())),
    }
}

/// Returns the payload of the second text block.
fn payload(result: &Map<String, Value>) -> Result<Value, String> {
    match *texts(result) {
        [_, block] => {
            let read = EnvelopeReader::default().read_block(block);
            read.map(|envelope| envelope.payload).map_err(|error| error.to_string())
        }
        ref texts => Err(format!("{} texts", texts.len())),
    }
}

fn check_equal(what: &str, found: Option<&Value>, expected: &Value) -> CheckResult {
    ensure(found.is_some_and(|found| json_equal(found, expected)), || {
        let truncate = |value: String| value.chars().take(200).collect::<String>();
        let found = truncate(found.map_or("nothing".to_owned(), Value::to_string));
        format!("{what} is {found} and not {}", truncate(expected.to_string()))
    })
}

/// Whether two values are equal for a client with a single number type.
fn json_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| json_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_there = |(name, value): (&String, &Value)| {
                other.get(name).is_some_and(|other| json_equal(value, other))
            };
            one.len() == other.len() && one.iter().all(is_there)
        }
        _ => one == other,
    }
}

/// Removes the members that the table marks as unknown.
fn remove_unknown_members(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.shift_remove("x-new");
            members.values_mut().for_each(remove_unknown_members);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_unknown_members),
        _ => {}
    }
}
