//! JSON that is parsed on first access.

mod strict;

mod integral_floats;

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::CallError;
use crate::json::{error_message, exceeds_max_tree, parsed_bytes, value_bytes};
use strict::StrictParser;

/// A JSON document, raw or parsed. It is parsed at most once, on demand.
///
/// Parsing into a tree costs about ten times as much as scanning the text, so a payload that no
/// schema, handler or policy inspects stays text and is written unchanged.
///
/// ```
/// use toolpost::Payload;
///
/// let mut payload = Payload::from_json(r#"{"a":  1}"#.to_owned()).unwrap();
/// assert_eq!(serde_json::to_string(&payload).unwrap(), r#"{"a":  1}"#);
/// assert_eq!(payload.value().unwrap()["a"], 1);
/// ```
#[derive(Debug, Clone)]
pub struct Payload(PayloadRepr);

#[derive(Debug, Clone)]
enum PayloadRepr {
    Value(Value),
    Raw(Box<RawValue>),
}

/// Error returned for JSON that is malformed, nests too deeply, contains a number out of range or
/// does not match the requested type.
#[derive(Debug, thiserror::Error)]
#[error("the JSON cannot be read: {}", error_message(.0))]
pub struct PayloadError(#[from] serde_json::Error);

impl Payload {
    /// Returns `{}`, the payload of a call without input.
    pub fn empty_object() -> Self {
        Value::Object(serde_json::Map::new()).into()
    }

    /// Converts a Rust value to JSON.
    ///
    /// # Errors
    ///
    /// Returns `EXECUTION_ERROR` if the value cannot be represented as JSON, for example a map with
    /// non-string keys.
    pub fn from_serialize(value: &impl Serialize) -> Result<Self, CallError> {
        serde_json::to_value(value).map(Self::from).map_err(|error| {
            CallError::execution(format!("the input has no JSON form: {error}")).with_cause(error)
        })
    }

    /// Creates a payload from JSON text. The text is validated but not parsed into a tree.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a single valid JSON document.
    pub fn from_json(text: String) -> Result<Self, PayloadError> {
        Ok(RawValue::from_string(text)?.into())
    }

    /// Validates untrusted JSON like [`Payload::from_untrusted`] but keeps it as text, for
    /// operations that do not inspect it.
    ///
    /// # Errors
    ///
    /// See [`Payload::from_untrusted`].
    pub fn from_untrusted_text(text: &[u8]) -> Result<Self, PayloadError> {
        parse_strict(text, StrictParser::Check)?;
        Ok(serde_json::from_slice::<Box<RawValue>>(text)?.into())
    }

    /// Parses untrusted JSON and rejects duplicate keys, so that validation and execution read the
    /// same values.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a single JSON document in UTF-8, has a duplicate key,
    /// nests deeper than 128 levels or contains a number outside the range of `f64`.
    ///
    /// # Examples
    ///
    /// ```
    /// use toolpost::Payload;
    ///
    /// let error = Payload::from_untrusted(br#"{"role":"guest","role":"admin"}"#).unwrap_err();
    /// assert!(error.to_string().contains("duplicate key `role`"));
    /// ```
    pub fn from_untrusted(text: &[u8]) -> Result<Self, PayloadError> {
        Ok(parse_strict(text, StrictParser::Tree)?.into())
    }

    /// Returns the value. A text payload is parsed on the first call.
    ///
    /// # Errors
    ///
    /// Returns an error if the text nests deeper than 128 levels, contains a number outside the range
    /// of `f64` or needs more than 256 MiB of memory.
    pub fn value(&mut self) -> Result<&mut Value, PayloadError> {
        if let PayloadRepr::Raw(raw) = &self.0 {
            self.0 = PayloadRepr::Value(parse_tree(raw)?);
        }
        match &mut self.0 {
            PayloadRepr::Value(value) => Ok(value),
            PayloadRepr::Raw(_) => unreachable!("raw text was parsed above"),
        }
    }

    /// Converts the payload into a value, parsing it if it is text.
    ///
    /// # Errors
    ///
    /// Same as [`Payload::value`].
    pub fn into_value(self) -> Result<Value, PayloadError> {
        match self.0 {
            PayloadRepr::Value(value) => Ok(value),
            PayloadRepr::Raw(raw) => parse_tree(&raw),
        }
    }

    /// Deserializes the payload into a Rust type. A text payload is deserialized directly, without
    /// building a [`Value`].
    ///
    /// # Errors
    ///
    /// Returns an error if the JSON does not match the type.
    pub fn into_typed<T: DeserializeOwned>(self) -> Result<T, PayloadError> {
        match self.0 {
            PayloadRepr::Value(value) if !integral_floats::contains_integral_float(&value) => {
                Ok(T::deserialize(value)?)
            }
            // JSON Schema accepts `2.0` as an integer; serde does not.
            PayloadRepr::Value(mut value) => Ok(T::deserialize(&value).or_else(|_| {
                integral_floats::convert_to_integers(&mut value);
                T::deserialize(value)
            })?),
            PayloadRepr::Raw(raw) => Ok(serde_json::from_str(raw.get())?),
        }
    }

    /// Estimates the memory of the payload once it is parsed, in bytes.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            PayloadRepr::Value(value) => value_bytes(value),
            PayloadRepr::Raw(raw) => parsed_bytes(raw.get().as_bytes()),
        }
    }

    /// Returns the raw text; `None` if the payload is parsed.
    pub fn as_raw(&self) -> Option<&RawValue> {
        match &self.0 {
            PayloadRepr::Raw(raw) => Some(raw),
            PayloadRepr::Value(_) => None,
        }
    }

    /// Returns the parsed value; `None` if the payload is still raw text.
    pub fn as_value(&self) -> Option<&Value> {
        match &self.0 {
            PayloadRepr::Value(value) => Some(value),
            PayloadRepr::Raw(_) => None,
        }
    }
}

/// Parses text into a tree, unless the tree would be too large.
fn parse_tree(raw: &RawValue) -> Result<Value, PayloadError> {
    if exceeds_max_tree(raw.get()) {
        return Err(PayloadError(serde::de::Error::custom("it needs too much memory when parsed")));
    }
    Ok(serde_json::from_str(raw.get())?)
}

fn parse_strict(text: &[u8], parser: StrictParser) -> Result<Value, PayloadError> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = parser.deserialize(&mut reader)?;
    reader.end()?;
    Ok(read)
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        Self(PayloadRepr::Value(value))
    }
}

impl From<Box<RawValue>> for Payload {
    fn from(raw: Box<RawValue>) -> Self {
        Self(PayloadRepr::Raw(raw))
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            PayloadRepr::Value(value) => value.serialize(serializer),
            PayloadRepr::Raw(raw) => raw.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn into_typed_accepts_integral_floats() {
        use serde_json::json;

        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Typed {
            count: u64,
            any: Value,
        }
        for (count, expected) in [
            (json!(2), Some(2)),
            (json!(2.0), Some(2)),
            (json!(1e18), Some(1_000_000_000_000_000_000)),
            (json!(-0.0), Some(0)),
            (json!(2.5), None),
            (json!(-2.0), None),
            (json!(1e20), None),
        ] {
            let payload = Payload::from(json!({"count": count, "any": "x"}));
            let typed = payload.into_typed::<Typed>().ok();
            assert_eq!(typed.map(|typed| typed.count), expected, "{count}");
        }
        // Floats are not converted if the value deserializes without conversion.
        let payload = Payload::from(json!({"count": 2, "any": [1.0]}));
        assert_eq!(payload.into_typed::<Typed>().unwrap().any.to_string(), "[1.0]");
    }

    #[test]
    fn payload_preserves_raw_text_until_parsed() {
        let text = "{ \"b\":1.0,\t\"a\":[1e2] }";
        let mut payload = Payload::from_json(text.to_owned()).unwrap();
        assert_eq!(serde_json::to_string(&payload).unwrap(), text);
        payload.value().unwrap();
        assert_eq!(serde_json::to_string(&payload).unwrap(), r#"{"b":1.0,"a":[100.0]}"#);
    }

    #[test]
    fn payload_rejects_invalid_json_early_and_overflow_on_read() {
        for text in ["", "{", "1 2", "{\"a\":}", "nul"] {
            assert!(Payload::from_json(text.to_owned()).is_err(), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        for text in [deep, "1e999".to_owned()] {
            let mut payload = Payload::from_json(text).unwrap();
            assert!(payload.value().is_err());
        }
    }

    #[test]
    fn from_untrusted_is_strict_for_text_and_tree() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let many = |last: usize| {
            let keys: Vec<_> = (0..100).chain([last]).map(|n| format!("\"k{n}\":1")).collect();
            format!("{{{}}}", keys.join(","))
        };
        for (text, expected_error) in [
            (r#"{"a":{"b":[1,-2,3.5,null,true,"x\n"]}}"#.to_owned(), ""),
            (" [] ".to_owned(), ""),
            (many(100), ""),
            (r#"{"a":1,"a":1}"#.to_owned(), "duplicate key `a`"),
            (r#"{"a":1,"\u0061":1}"#.to_owned(), "duplicate key `a`"),
            (r#"[{"x":{"b":1,"c":2,"b":3}}]"#.to_owned(), "duplicate key `b`"),
            (many(99), "duplicate key `k99`"),
            (deep(127), ""),
            (deep(128), "recursion limit"),
            (deep(100_000), "recursion limit"),
            ("1e999".to_owned(), "out of range"),
            ("{} {}".to_owned(), "trailing"),
            ("{\"a\":}".to_owned(), "expected value"),
            (String::new(), "EOF"),
        ] {
            let tree = Payload::from_untrusted(text.as_bytes()).map(|mut p| p.value().cloned());
            let raw = Payload::from_untrusted_text(text.as_bytes());
            let start = &text[..text.len().min(60)];
            if expected_error.is_empty() {
                assert_eq!(raw.unwrap().as_raw().unwrap().get(), text.trim(), "{start}");
                let plain: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(tree.unwrap().unwrap(), plain, "{start}");
                continue;
            }
            for error in [tree.unwrap_err(), raw.unwrap_err()] {
                assert!(error.to_string().contains(expected_error), "{start}: {error}");
            }
        }
        assert!(Payload::from_untrusted(b"\"\xff\"").is_err());
        assert!(Payload::from_untrusted_text(b"\"\xff\"").is_err());
    }
}
