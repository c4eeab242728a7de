//! Arguments that are also sent as HTTP headers (`x-mcp-header`, 2026-07-28).

use std::borrow::Cow;
use std::collections::HashSet;

use data_encoding::BASE64;
use serde_json::{Map, Value};

const ANNOTATION: &str = "x-mcp-header";

/// An argument and its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderParam {
    /// Path of property names to the argument.
    pub(crate) path: Vec<String>,
    /// Header name, `Mcp-Param-…`.
    pub(crate) header: String,
}

/// Returns the arguments that a schema annotates with `x-mcp-header`.
///
/// # Errors
///
/// Returns a description of the first invalid annotation. The tool must then not be used over HTTP.
pub(crate) fn header_params(schema: &Value) -> Result<Vec<HeaderParam>, String> {
    let mut found = HeaderParamCollector::default();
    found.walk(schema, &mut Vec::new(), true)?;
    Ok(found.params)
}

/// Removes the annotations from a schema.
pub(crate) fn strip_annotations(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            // A property may be named `x-mcp-header` too; its value is an object.
            if members.get(ANNOTATION).is_some_and(|annotation| !annotation.is_object()) {
                members.shift_remove(ANNOTATION);
            }
            members.values_mut().for_each(strip_annotations);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_annotations),
        _ => {}
    }
}

#[derive(Default)]
struct HeaderParamCollector {
    params: Vec<HeaderParam>,
    names: HashSet<String>,
}

impl HeaderParamCollector {
    /// Walks the whole schema: an annotation that is not reachable through `properties` is an error
    /// too.
    fn walk(&mut self, at: &Value, path: &mut Vec<String>, reachable: bool) -> Result<(), String> {
        match at {
            Value::Object(members) => self.walk_object(members, path, reachable),
            Value::Array(items) => {
                items.iter().try_for_each(|item| self.walk(item, &mut Vec::new(), false))
            }
            _ => Ok(()),
        }
    }

    fn walk_object(
        &mut self,
        members: &Map<String, Value>,
        path: &mut Vec<String>,
        reachable: bool,
    ) -> Result<(), String> {
        if let Some(annotation) = members.get(ANNOTATION) {
            self.add(annotation, members.get("type"), path, reachable)?;
        }
        for (key, below) in members {
            match below.as_object() {
                Some(properties) if key == "properties" => {
                    for (name, property) in properties {
                        path.push(name.clone());
                        self.walk(property, path, reachable)?;
                        path.pop();
                    }
                }
                _ if matches!(key.as_str(), "default" | "const" | "enum" | "examples") => {}
                _ => self.walk(below, &mut Vec::new(), false)?,
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        annotation: &Value,
        kind: Option<&Value>,
        path: &[String],
        reachable: bool,
    ) -> Result<(), String> {
        let label = format!("{ANNOTATION} {annotation}");
        let Some(name) = annotation.as_str().filter(|name| is_token(name)) else {
            return Err(format!("{label} is not the name of a header"));
        };
        if !reachable || path.is_empty() {
            return Err(format!("{label} is not reachable through `properties`"));
        }
        if !matches!(kind.and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
            return Err(format!(
                "{label} is on a property that is not a string, integer or boolean"
            ));
        }
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(format!("{label} is a duplicate"));
        }
        self.params.push(HeaderParam { path: path.to_vec(), header: format!("Mcp-Param-{name}") });
        Ok(())
    }
}

/// Whether the name is a token as defined in RFC 9110.
fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

impl HeaderParam {
    /// Checks that the header matches the argument, and is present only if the argument has a
    /// value.
    ///
    /// # Errors
    ///
    /// Returns a description of the mismatch.
    pub(crate) fn verify(&self, arguments: &Value, sent: Option<&str>) -> Result<(), String> {
        let name = &self.header;
        let value = self.path.iter().try_fold(arguments, |at, name| at.get(name));
        let value = value.filter(|value| !value.is_null());
        match (value, sent) {
            (None, None) => Ok(()),
            (Some(_), None) => Err(format!("the header {name} is missing")),
            (None, Some(_)) => Err(format!("the header {name} is for an argument that is missing")),
            (Some(value), Some(sent)) => match decode(sent) {
                None => Err(format!("the header {name} cannot be decoded")),
                Some(decoded) if text_matches_value(value, &decoded) => Ok(()),
                Some(_) => Err(format!("the header {name} does not match the argument")),
            },
        }
    }
}

/// Whether a header text represents a value; numbers are compared numerically.
fn text_matches_value(value: &Value, sent: &str) -> bool {
    match value {
        Value::String(text) => text == sent,
        Value::Bool(yes) => sent == if *yes { "true" } else { "false" },
        Value::Number(number) => {
            number.to_string() == sent
                || sent.parse().ok().is_some_and(|sent: f64| number.as_f64() == Some(sent))
        }
        _ => false,
    }
}

/// Decodes a header value: base64 between `=?base64?` and `?=`, otherwise plain text. Returns
/// `None` if the base64 or its UTF-8 is invalid.
pub fn decode(sent: &str) -> Option<Cow<'_, str>> {
    let encoded = sent.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        Some(encoded) => {
            let bytes = BASE64.decode(encoded.as_bytes()).ok()?;
            String::from_utf8(bytes).ok().map(Cow::Owned)
        }
        None => Some(Cow::Borrowed(sent)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn header_annotations_are_collected_and_validated() {
        let property = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
        let good = json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "Region"},
            "b": {"type": "object", "properties": {"c": {"type": "integer", "x-mcp-header": "N"}}},
            "x-mcp-header": {"type": "string"},
        }});
        let found = header_params(&good).unwrap();
        let pairs: Vec<_> =
            found.iter().map(|param| (param.path.join("/"), param.header.as_str())).collect();
        let expected = [("a".to_owned(), "Mcp-Param-Region"), ("b/c".to_owned(), "Mcp-Param-N")];
        assert_eq!(pairs, expected);
        assert_eq!(header_params(&Value::Null), Ok(vec![]));
        for bad in [
            property(json!({"type": "string", "x-mcp-header": ""})),
            property(json!({"type": "string", "x-mcp-header": "My Region"})),
            property(json!({"type": "string", "x-mcp-header": "Région"})),
            property(json!({"type": "string", "x-mcp-header": "a:b"})),
            property(json!({"type": "string", "x-mcp-header": "a\tb"})),
            property(json!({"type": "string", "x-mcp-header": 3})),
            property(json!({"type": "number", "x-mcp-header": "A"})),
            property(json!({"type": "object", "x-mcp-header": "A"})),
            property(json!({"x-mcp-header": "A"})),
            property(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}})),
            json!({"type": "string", "x-mcp-header": "A"}),
            json!({"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]}),
            json!({"$defs": {"d": {"type": "string", "x-mcp-header": "A"}}}),
            json!({"properties": {
                "a": {"type": "string", "x-mcp-header": "My"},
                "b": {"type": "string", "x-mcp-header": "my"},
            }}),
        ] {
            assert!(header_params(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn header_must_match_argument_value() {
        let param = HeaderParam { path: vec!["a".to_owned()], header: "Mcp-Param-A".to_owned() };
        for (arguments, sent, agrees) in [
            (json!({"a": "x"}), Some("x"), true),
            (json!({"a": "x"}), Some("y"), false),
            (json!({"a": "x"}), None, false),
            (json!({}), None, true),
            (json!({"a": null}), None, true),
            (json!({"a": null}), Some("null"), false),
            (json!({}), Some("x"), false),
            (json!({"a": 42}), Some("42.0"), true),
            (json!({"a": 42}), Some("43"), false),
            (json!({"a": true}), Some("true"), true),
            (json!({"a": true}), Some("True"), false),
            (json!({"a": "世"}), Some("=?base64?5LiW?="), true),
            (json!({"a": "世"}), Some("=?base64?5LiW"), false),
            (json!({"a": "世"}), Some("=?base64?!!?="), false),
            (json!({"a": "世"}), Some("=?BASE64?5LiW?="), false),
        ] {
            assert_eq!(param.verify(&arguments, sent).is_ok(), agrees, "{arguments} {sent:?}");
        }
    }
}
