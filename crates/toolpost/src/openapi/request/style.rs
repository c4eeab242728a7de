//! The styles of OpenAPI: how a value becomes one text, or names with values.

use std::borrow::Cow;

use serde_json::Value;

use super::super::plan::Style;
use super::escape::Escape;
use super::value::{Shape, is_undefined, text};

/// How one parameter or one property is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    pub(super) style: Style,
    pub(super) explode: bool,
    pub(super) escape: Escape,
}

impl Manner {
    /// Appends the value as one text, as it stands in a path or a header.
    pub(super) fn inline(self, out: &mut String, name: &str, value: &Value) {
        match (self.style, self.explode) {
            (Style::Matrix, explode) => self.matrix(out, name, value, explode),
            (Style::Label, true) => {
                out.push('.');
                self.join(out, value, ".", "=");
            }
            (Style::Label, false) => {
                out.push('.');
                self.join(out, value, ",", ",");
            }
            (_, true) => self.join(out, value, self.delimiter(), "="),
            (_, false) => self.join(out, value, self.delimiter(), self.delimiter()),
        }
    }

    /// Gives names with values, both written out, as they stand in a query, a cookie or a form.
    pub(super) fn pairs(self, name: &str, value: &Value, mut give: impl FnMut(&str, &str)) {
        if self.style == Style::DeepObject {
            return self.deep(&self.named(name), value, &mut give);
        }
        match Shape::of(value) {
            _ if is_undefined(value) => give(&self.named(name), ""),
            Shape::List(items) if self.explode => {
                let name = self.named(name);
                items.iter().for_each(|item| give(&name, &self.escaped(item)));
            }
            Shape::Pairs(_) if self.explode => {
                let members = value.as_object().into_iter().flatten();
                members.for_each(|(name, value)| self.member(name, value, &mut give));
            }
            _ => {
                let mut joined = String::new();
                self.join(&mut joined, value, self.delimiter(), self.delimiter());
                give(&self.named(name), &joined);
            }
        }
    }

    /// A member that has a name of its own. A list of plain items repeats it, as one that is a
    /// parameter does.
    fn member(self, name: &str, value: &Value, give: &mut impl FnMut(&str, &str)) {
        let is_plain = |item: &Value| !item.is_object() && !item.is_array();
        let name = self.named(name);
        match value {
            Value::Null => {}
            Value::Array(items) if items.iter().all(is_plain) => {
                let items = items.iter().filter(|item| !item.is_null());
                items.for_each(|item| give(&name, &self.escaped(&text(item))));
            }
            other => give(&name, &self.escaped(&text(other))),
        }
    }

    /// `;` and a name before everything, and no `=` where nothing follows it.
    fn matrix(self, out: &mut String, name: &str, value: &Value, explode: bool) {
        let exploded = match Shape::of(value) {
            _ if is_undefined(value) => vec![(name, Cow::Borrowed(""))],
            Shape::List(items) if explode => items.into_iter().map(|item| (name, item)).collect(),
            Shape::Pairs(members) if explode => members,
            Shape::One(one) => vec![(name, one)],
            _ => {
                out.push(';');
                out.push_str(&self.named(name));
                out.push('=');
                return self.join(out, value, ",", ",");
            }
        };
        for (name, value) in exploded {
            out.push(';');
            out.push_str(&self.named(name));
            if !value.is_empty() {
                out.push('=');
                self.escape.push(out, &value);
            }
        }
    }

    fn join(self, out: &mut String, value: &Value, between: &str, within: &str) {
        match Shape::of(value) {
            Shape::One(one) => self.escape.push(out, &one),
            Shape::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { between } else { "" });
                    self.escape.push(out, item);
                }
            }
            Shape::Pairs(members) => {
                for (index, (name, value)) in members.iter().enumerate() {
                    out.push_str(if index > 0 { between } else { "" });
                    self.escape.push(out, name);
                    out.push_str(within);
                    self.escape.push(out, value);
                }
            }
        }
    }

    /// Brackets around each step. The specification leaves lists open: `[]` is what most services
    /// read as a list, and an index tells which members belong together.
    fn deep(self, name: &str, value: &Value, give: &mut impl FnMut(&str, &str)) {
        match value {
            Value::Null => {}
            Value::Object(members) => {
                for (member, value) in members {
                    self.deep(&self.bracketed(name, member), value, give);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let is_nested = item.is_object() || item.is_array();
                    let step = if is_nested { index.to_string() } else { String::new() };
                    self.deep(&self.bracketed(name, &step), item, give);
                }
            }
            one => give(name, &self.escaped(&text(one))),
        }
    }

    fn bracketed(self, name: &str, step: &str) -> String {
        let (open, close) =
            if self.escape == Escape::Nothing { ("[", "]") } else { ("%5B", "%5D") };
        format!("{name}{open}{}{close}", self.named(step))
    }

    fn delimiter(self) -> &'static str {
        let raw = self.escape == Escape::Nothing;
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

    /// A name. The document allows reserved characters for values only.
    fn named(self, name: &str) -> String {
        let escape = match self.escape {
            Escape::ReservedInQuery | Escape::ReservedInPath => Escape::All,
            other => other,
        };
        Self { escape, ..self }.escaped(name)
    }

    fn escaped(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.escape.push(&mut out, text);
        out
    }
}
