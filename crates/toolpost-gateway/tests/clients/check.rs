//! What a client must have seen of a call.

use serde_json::{Map, Value, json};
use toolpost::tool_envelope::Reader;
use toolpost::view::{Dialect, ERROR_META, Era, WARNINGS_META};

use super::Session;
use super::world::{Call, Expect, Stands};

/// What a client handed on, after whatever it checks itself.
pub(super) struct Seen<'a> {
    pub(super) session: Session,
    /// `{"result"}`, or `{"thrown"}` where the client would not have it.
    pub(super) answer: &'a Value,
    pub(super) keeps: Keeps,
}

/// Which members a client hands on although it does not know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    All,
    /// Those of a result, not those of its blocks.
    Outer,
    None,
}

type Verdict = Result<(), String>;

impl Seen<'_> {
    pub(super) fn check(&self, call: &Call) -> Verdict {
        if let Expect::Refused(words) = &call.expect {
            let said = self.answer.to_string();
            return when(said.contains(words), || format!("`{words}` is not in {said}"));
        }
        let result = self.answer.get("result").and_then(Value::as_object);
        let result = result.ok_or_else(|| format!("no result: {}", self.answer))?;
        self.expected(&call.expect, result).map_err(|reason| {
            let shown: String =
                Value::Object(result.clone()).to_string().chars().take(500).collect();
            format!("{reason}: {shown}")
        })
    }

    fn expected(&self, expect: &Expect, result: &Map<String, Value>) -> Verdict {
        let null = result.iter().find(|(_, value)| value.is_null());
        when(null.is_none(), || format!("{null:?}"))?;
        when(result.get("content").is_some_and(Value::is_array), || "no content".to_owned())?;
        match expect {
            Expect::Gives { data, stands, is_warned } => {
                is_error(result, false)?;
                let warned = result.get("_meta").is_some_and(|meta| !meta[WARNINGS_META].is_null());
                when(warned == *is_warned, || format!("warned: {warned}"))?;
                self.gives(result, data, *stands)
            }
            Expect::Relays { result: sent, data, stands, is_error: failed, words } => {
                is_error(result, *failed)?;
                match self.session.dialect {
                    Dialect::Data => {
                        says(result, words)?;
                        self.relays(result, sent, *stands)
                    }
                    _ if *failed => self.relays_failure(result, words),
                    _ => self.gives(result, data, *stands),
                }
            }
            Expect::Fails { code, words } => self.fails(result, code, words),
            // Nothing is declared in this dialect, so there is nothing that data could not fit.
            Expect::DoesNotFit { data, words }
                if self.session.dialect == Dialect::ToolEnvelopeV1 =>
            {
                is_error(result, false)?;
                says(result, words)?;
                let warned = result.get("_meta").is_some_and(|meta| !meta[WARNINGS_META].is_null());
                when(warned, || "there is no warning".to_owned())?;
                same("the payload", Some(&payload(result)?), data)
            }
            Expect::DoesNotFit { words, .. } => {
                is_error(result, true)?;
                says(result, "OUTPUT_VALIDATION_FAILED")?;
                says(result, words)?;
                nothing_structured(result)
            }
            Expect::Says(words) => {
                is_error(result, false)?;
                says(result, words)
            }
            Expect::Refused(_) => Ok(()),
        }
    }

    /// A success with this data.
    fn gives(&self, result: &Map<String, Value>, data: &Value, stands: Stands) -> Verdict {
        let structured = result.get("structuredContent");
        match self.session.dialect {
            Dialect::Data => {
                match self.placed(data, stands) {
                    Some(placed) => same("structuredContent", structured, &placed)?,
                    None => nothing_structured(result)?,
                }
                same("the text", Some(&json_text(result)?), data)
            }
            Dialect::Envelope => {
                same("data", structured.and_then(|whole| whole.get("data")), data)?;
                let source = structured.and_then(|whole| whole["meta"]["source"].as_str());
                when(source.is_some(), || "no meta".to_owned())?;
                same("the text", Some(&json_text(result)?), structured.unwrap_or(&Value::Null))
            }
            Dialect::Ok => {
                let whole = json!({"ok": true, "data": data});
                same("structuredContent", structured, &whole)?;
                same("the text", Some(&json_text(result)?), &whole)
            }
            _ => {
                nothing_structured(result)?;
                same("the payload", Some(&payload(result)?), data)
            }
        }
    }

    /// Where data stands in the dialect `data`.
    fn placed(&self, data: &Value, stands: Stands) -> Option<Value> {
        let is_wrapped = match stands {
            Stands::Alone => false,
            Stands::WrappedBefore => self.session.era == Era::Legacy,
            Stands::Wrapped => true,
            Stands::Nowhere => return None,
        };
        Some(if is_wrapped { json!({"result": data}) } else { data.clone() })
    }

    /// What a server said, member by member.
    fn relays(&self, result: &Map<String, Value>, sent: &Value, stands: Stands) -> Verdict {
        let mut sent = sent.clone();
        if let Some(structured) = sent.get_mut("structuredContent") {
            *structured = self.placed(structured, stands).unwrap_or_default();
        } else {
            nothing_structured(result)?;
        }
        match (self.keeps, sent.get_mut("content")) {
            (Keeps::Outer, Some(content)) => forget_unknown(content),
            (Keeps::None, _) => forget_unknown(&mut sent),
            _ => {}
        }
        for (name, value) in sent.as_object().into_iter().flatten() {
            match (name.as_str(), value) {
                // The gateway may add to it.
                ("_meta", Value::Object(members)) => {
                    for (name, value) in members {
                        let found = result.get("_meta").and_then(|meta| meta.get(name));
                        same(name, found, value)?;
                    }
                }
                _ => same(name, result.get(name), value)?,
            }
        }
        Ok(())
    }

    /// What a server said about its own failure; it has no code of its own.
    fn relays_failure(&self, result: &Map<String, Value>, words: &str) -> Verdict {
        match self.session.dialect {
            Dialect::Envelope => says(result, words),
            _ => self.fails(result, "EXECUTION_ERROR", words),
        }
    }

    /// A failure with its code and its words.
    fn fails(&self, result: &Map<String, Value>, code: &str, words: &str) -> Verdict {
        is_error(result, true)?;
        let code = match (self.session.dialect, code) {
            (Dialect::Ok, "VALIDATION_ERROR") => "INVALID_PARAMS",
            (Dialect::Ok, "EXECUTION_ERROR") => "HANDLER_ERROR",
            _ => code,
        };
        says(result, code)?;
        says(result, words)?;
        let told = match self.session.dialect {
            Dialect::Ok => {
                let structured = result.get("structuredContent").unwrap_or(&Value::Null);
                when(structured["ok"] == false, || "it is not said to be wrong".to_owned())?;
                structured["error"]["code"].clone()
            }
            Dialect::ToolEnvelopeV1 => payload(result)?["code"].clone(),
            _ => {
                nothing_structured(result)?;
                result.get("_meta").map(|meta| meta[ERROR_META]["code"].clone()).unwrap_or_default()
            }
        };
        same("the code", Some(&told), &code.into())
    }
}

fn when(holds: bool, reason: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(reason()) }
}

fn is_error(result: &Map<String, Value>, expected: bool) -> Verdict {
    let found = result.get("isError").and_then(Value::as_bool).unwrap_or_default();
    when(found == expected, || format!("isError is {found}"))
}

fn nothing_structured(result: &Map<String, Value>) -> Verdict {
    let structured = result.get("structuredContent");
    when(structured.is_none(), || "there is structured content".to_owned())
}

fn texts(result: &Map<String, Value>) -> Vec<&str> {
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect()
}

fn says(result: &Map<String, Value>, words: &str) -> Verdict {
    let is_said = texts(result).iter().any(|text| text.contains(words));
    when(words.is_empty() || is_said, || format!("`{words}` is lost"))
}

/// The only text, which is JSON.
fn json_text(result: &Map<String, Value>) -> Result<Value, String> {
    match *texts(result) {
        [text] => serde_json::from_str(text).map_err(|error| error.to_string()),
        ref texts => Err(format!("{} texts", texts.len())),
    }
}

/// What the second block carries.
fn payload(result: &Map<String, Value>) -> Result<Value, String> {
    match *texts(result) {
        [_, block] => {
            let read = Reader::default().read_block(block);
            read.map(|envelope| envelope.payload).map_err(|error| error.to_string())
        }
        ref texts => Err(format!("{} texts", texts.len())),
    }
}

fn same(what: &str, found: Option<&Value>, expected: &Value) -> Verdict {
    when(found.is_some_and(|found| are_same(found, expected)), || {
        let shown = |value: String| value.chars().take(200).collect::<String>();
        let found = shown(found.map_or("nothing".to_owned(), Value::to_string));
        format!("{what} is {found} and not {}", shown(expected.to_string()))
    })
}

/// Whether two values are the same to somebody who knows one kind of number.
fn are_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| are_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_there = |(name, value): (&String, &Value)| {
                other.get(name).is_some_and(|other| are_same(value, other))
            };
            one.len() == other.len() && one.iter().all(is_there)
        }
        _ => one == other,
    }
}

/// Takes away what the table marks as members that nobody knows.
fn forget_unknown(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.shift_remove("x-new");
            members.values_mut().for_each(forget_unknown);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_unknown),
        _ => {}
    }
}
