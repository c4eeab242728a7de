//! OpenAPI styles: serialize a value as a single string or as name-value pairs.

use std::borrow::Cow;

use serde_json::Value;

use super::super::plan::Style;
use super::escape::PercentEscape;
use super::value::{ParameterValue, is_undefined, scalar_text};

/// Serializes one parameter or property.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValueSerializer {
    pub(super) style: Style,
    pub(super) explode: bool,
    pub(super) escape: PercentEscape,
}

impl ValueSerializer {
    /// Appends the value as a single string, as used in a path or header.
    pub(super) fn append_inline(self, out: &mut String, name: &str, value: &Value) {
        match (self.style, self.explode) {
            (Style::Matrix, explode) => self.append_matrix(out, name, value, explode),
            (Style::Label, explode) => {
                let (separator, key_separator) = if explode { (".", "=") } else { (",", ",") };
                out.push('.');
                self.append_joined(out, value, separator, key_separator);
            }
            (_, true) => self.append_joined(out, value, self.delimiter(), "="),
            (_, false) => self.append_joined(out, value, self.delimiter(), self.delimiter()),
        }
    }

    /// Emits encoded name-value pairs, as used in a query, cookie or form.
    pub(super) fn for_each_pair(self, name: &str, value: &Value, mut emit: impl FnMut(&str, &str)) {
        if self.style == Style::DeepObject {
            return self.deep_object_pairs(&self.escaped_name(name), value, &mut emit);
        }
        match ParameterValue::from_json(value) {
            _ if is_undefined(value) => emit(&self.escaped_name(name), ""),
            ParameterValue::Array(items) if self.explode => {
                let name = self.escaped_name(name);
                items.iter().for_each(|item| emit(&name, &self.escaped(item)));
            }
            ParameterValue::Object(_) if self.explode => {
                let members = value.as_object().into_iter().flatten();
                members.for_each(|(name, value)| self.member_pairs(name, value, &mut emit));
            }
            _ => {
                let mut joined = String::new();
                self.append_joined(&mut joined, value, self.delimiter(), self.delimiter());
                emit(&self.escaped_name(name), &joined);
            }
        }
    }

    /// Emits the pairs of an object member under its own name, once per scalar of an array.
    fn member_pairs(self, name: &str, value: &Value, emit: &mut impl FnMut(&str, &str)) {
        let is_plain = |item: &Value| !item.is_object() && !item.is_array();
        let name = self.escaped_name(name);
        match value {
            Value::Null => {}
            Value::Array(items) if items.iter().all(is_plain) => {
                let items = items.iter().filter(|item| !item.is_null());
                items.for_each(|item| emit(&name, &self.escaped(&scalar_text(item))));
            }
            other => emit(&name, &self.escaped(&scalar_text(other))),
        }
    }

    /// Appends `;name=value` pairs. An empty value has no `=`.
    fn append_matrix(self, out: &mut String, name: &str, value: &Value, explode: bool) {
        let exploded = match ParameterValue::from_json(value) {
            _ if is_undefined(value) => vec![(name, Cow::Borrowed(""))],
            ParameterValue::Array(items) if explode => {
                items.into_iter().map(|item| (name, item)).collect()
            }
            ParameterValue::Object(members) if explode => members,
            ParameterValue::Scalar(one) => vec![(name, one)],
            _ => {
                out.push(';');
                out.push_str(&self.escaped_name(name));
                out.push('=');
                return self.append_joined(out, value, ",", ",");
            }
        };
        for (name, value) in exploded {
            out.push(';');
            out.push_str(&self.escaped_name(name));
            if !value.is_empty() {
                out.push('=');
                self.escape.push(out, &value);
            }
        }
    }

    fn append_joined(self, out: &mut String, value: &Value, separator: &str, key_separator: &str) {
        match ParameterValue::from_json(value) {
            ParameterValue::Scalar(one) => self.escape.push(out, &one),
            ParameterValue::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { separator } else { "" });
                    self.escape.push(out, item);
                }
            }
            ParameterValue::Object(members) => {
                for (index, (name, value)) in members.iter().enumerate() {
                    out.push_str(if index > 0 { separator } else { "" });
                    self.escape.push(out, name);
                    out.push_str(key_separator);
                    self.escape.push(out, value);
                }
            }
        }
    }

    /// Emits one pair per leaf, with each path segment in brackets. The specification leaves arrays
    /// undefined. Scalars use `[]`, which most services parse as an array; nested values use an
    /// index, which keeps their members together.
    fn deep_object_pairs(self, name: &str, value: &Value, emit: &mut impl FnMut(&str, &str)) {
        match value {
            Value::Null => {}
            Value::Object(members) => {
                for (member, value) in members {
                    self.deep_object_pairs(&self.bracketed_name(name, member), value, emit);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let is_nested = item.is_object() || item.is_array();
                    let segment = if is_nested { index.to_string() } else { String::new() };
                    self.deep_object_pairs(&self.bracketed_name(name, &segment), item, emit);
                }
            }
            one => emit(name, &self.escaped(&scalar_text(one))),
        }
    }

    fn bracketed_name(self, name: &str, segment: &str) -> String {
        let (open, close) =
            if self.escape == PercentEscape::None { ("[", "]") } else { ("%5B", "%5D") };
        format!("{name}{open}{}{close}", self.escaped_name(segment))
    }

    fn delimiter(self) -> &'static str {
        let raw = self.escape == PercentEscape::None;
        match self.style {
            Style::SpaceDelimited if raw => " ",
            Style::SpaceDelimited => "%20",
            Style::PipeDelimited if raw => "|",
            Style::PipeDelimited => "%7C",
            Style::TabDelimited if raw => "\t",
            Style::TabDelimited => "%09",
            _ => ",",
        }
    }

    /// Escapes a name. `allowReserved` applies only to values.
    fn escaped_name(self, name: &str) -> String {
        let escape = match self.escape {
            PercentEscape::AllowReservedInQuery | PercentEscape::AllowReservedInPath => {
                PercentEscape::All
            }
            other => other,
        };
        escape.escaped(name)
    }

    fn escaped(self, text: &str) -> String {
        self.escape.escaped(text)
    }
}
