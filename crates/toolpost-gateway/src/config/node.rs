//! A serde deserializer for one value of the document. It expands `${VAR}`, reports unknown keys by
//! name, and describes invalid values without quoting them.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use toml::Spanned;
use toml::de::DeValue;
use toolpost::suggest_name;

use super::document::{TomlDocument, dotted_key};

#[derive(Clone)]
pub(super) struct TomlNode<'a> {
    pub(super) document: &'a TomlDocument<'a>,
    pub(super) value: &'a Spanned<DeValue<'a>>,
    pub(super) key: String,
}

impl<'a> TomlNode<'a> {
    fn text(&self, raw: &str) -> Result<String, NodeError> {
        let expanded = self.document.expander.expand(raw).map_err(|error| NodeError {
            is_missing_reference: error.is_missing(),
            ..NodeError::custom(error)
        })?;
        Ok(expanded.into_owned())
    }

    /// Returns the fields of a table. Keys that are not in `known` are reported and omitted.
    fn fields(&self, known: Option<&[&str]>) -> Vec<NodeField<'a>> {
        let mut fields = Vec::new();
        for (name, value) in self.value.get_ref().as_table().into_iter().flatten() {
            let (at, name) = (name.span(), name.get_ref().as_ref());
            let key = dotted_key(&self.key, name);
            if self.document.is_skipped(&key) {
                continue;
            }
            match known.filter(|known| !known.contains(&name)) {
                Some(known) => self.document.unknown_key(key, at, name, known),
                None => {
                    let node = TomlNode { document: self.document, value, key };
                    fields.push(NodeField { name, offset: at.start, node });
                }
            }
        }
        fields
    }

    /// Visits a table. Serde would also read a list as the fields of a struct in order, which is
    /// never intended.
    fn visit_table<V: Visitor<'a>>(
        &self,
        visitor: V,
        known: Option<&[&str]>,
        is_struct: bool,
    ) -> Result<V::Value, NodeError> {
        match self.value.get_ref() {
            DeValue::Table(_) => {
                let rest = self.fields(known).into_iter();
                visitor.visit_map(NodeFields { rest, value: None, is_struct })
            }
            other => Err(NodeError::invalid_type(Unexpected::Other(other.type_str()), &visitor)),
        }
    }

    fn visit_number<V: Visitor<'a>>(&self, visitor: V) -> Result<V::Value, NodeError> {
        match self.value.get_ref() {
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                visitor.visit_i64(parsed.map_err(|_| NodeError::custom("number too large"))?)
            }
            DeValue::Float(number) => {
                let parsed = number.as_str().parse();
                visitor.visit_f64(parsed.map_err(|_| NodeError::custom("invalid number"))?)
            }
            other => Err(NodeError::invalid_type(Unexpected::Other(other.type_str()), &visitor)),
        }
    }
}

impl<'a> Deserializer<'a> for TomlNode<'a> {
    type Error = NodeError;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.value.get_ref() {
            DeValue::String(text) => visitor.visit_string(self.text(text)?),
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            DeValue::Array(_) => visitor.visit_seq(NodeItems { node: self, next: 0 }),
            // A visitor that also accepts other types has a fixed set of keys.
            DeValue::Table(_) => self.visit_table(visitor, None, true),
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Datetime(_) => {
                self.visit_number(visitor)
            }
        }
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, NodeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        self.visit_table(visitor, Some(fields), true)
    }

    /// Reads a table with arbitrary keys, of which there may be many.
    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, NodeError> {
        self.visit_table(visitor, None, false)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        match self.value.get_ref() {
            DeValue::String(text) => visitor.visit_enum(self.text(text)?.into_deserializer()),
            other => Err(NodeError::invalid_type(Unexpected::Other(other.type_str()), &"a string")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, NodeError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        <V: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct identifier
    }
}

struct NodeField<'a> {
    name: &'a str,
    offset: usize,
    node: TomlNode<'a>,
}

struct NodeFields<'a> {
    rest: std::vec::IntoIter<NodeField<'a>>,
    value: Option<TomlNode<'a>>,
    /// Whether the keys are a fixed, small set.
    is_struct: bool,
}

impl<'a> MapAccess<'a> for NodeFields<'a> {
    type Error = NodeError;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, NodeError> {
        let Some(NodeField { name, offset: at, node }) = self.rest.next() else { return Ok(None) };
        let key: StrDeserializer<'_, NodeError> = name.into_deserializer();
        let read = seed.deserialize(key).map_err(|mut misfit| {
            misfit.location = Some((at, node.key.clone()));
            misfit.in_field(&node)
        });
        self.value = Some(node);
        read.map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<T::Value, NodeError> {
        let node = self.value.take().ok_or_else(|| NodeError::custom("a key was not read"))?;
        let read = seed.deserialize(node.clone()).map_err(|misfit| misfit.with_location(&node));
        if self.is_struct { read.map_err(|misfit| misfit.in_field(&node)) } else { read }
    }
}

struct NodeItems<'a> {
    node: TomlNode<'a>,
    next: usize,
}

impl<'a> SeqAccess<'a> for NodeItems<'a> {
    type Error = NodeError;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, NodeError> {
        let Some(value) = self.node.value.get_ref().get(self.next) else { return Ok(None) };
        let key = format!("{}[{}]", self.node.key, self.next);
        let node = TomlNode { document: self.node.document, value, key };
        self.next += 1;
        seed.deserialize(node.clone()).map(Some).map_err(|misfit| misfit.with_location(&node))
    }
}

/// An invalid value and its location, once it is known.
#[derive(Debug)]
pub(super) struct NodeError {
    message: String,
    location: Option<(usize, String)>,
    /// The innermost known key that contains the error. It is skipped so that its siblings are
    /// still read.
    pub(super) field: Option<String>,
    /// The missing key, if the error is a missing key.
    pub(super) missing: Option<&'static str>,
    /// Whether the value is well-formed, but refers to a missing variable or file.
    pub(super) is_missing_reference: bool,
}

impl NodeError {
    fn in_field(mut self, node: &TomlNode<'_>) -> Self {
        self.field.get_or_insert_with(|| node.key.clone());
        self
    }

    /// Sets the location unless an inner node has set it.
    fn with_location(mut self, node: &TomlNode<'_>) -> Self {
        self.location.get_or_insert_with(|| (node.value.span().start, node.key.clone()));
        self
    }

    pub(super) fn into_diagnostic(self, node: &TomlNode<'_>) -> (usize, String, String) {
        let Self { message, location: offset_and_key, .. } = self.with_location(node);
        let (offset, key) = offset_and_key.unwrap_or_default();
        (offset, key, message)
    }
}

impl std::error::Error for NodeError {}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl serde::de::Error for NodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            message: message.to_string(),
            location: None,
            field: None,
            missing: None,
            is_missing_reference: false,
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = toml_type(expected);
        Self::custom(format!("expected {expected}, found {}", unexpected_kind(&found)))
    }

    /// The value has the expected type, so the message does not name it.
    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format!("expected {}", toml_type(expected)))
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        let hint = did_you_mean(found, expected);
        Self::custom(format!("expected one of `{}`{hint}", expected.join("`, `")))
    }

    fn unknown_field(found: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format!("unknown key; {}", suggestion(found, expected)))
    }

    fn missing_field(field: &'static str) -> Self {
        let misfit = Self::custom(format!("missing key `{field}`"));
        Self { missing: Some(field), ..misfit }
    }
}

/// Returns the expected value in the terms of TOML.
fn toml_type(expected: &dyn Expected) -> String {
    match expected.to_string().as_str() {
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "u32" | "usize" => "a non-negative integer".to_owned(),
        "a nonzero u64" => "a positive integer".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns a question with the closest known name, or the list of known names.
pub(super) fn suggestion(input: &str, known: &[&str]) -> String {
    match suggest_name(input, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known keys: `{}`", known.join("`, `")),
    }
}

/// Returns a question with the closest known name, to append to a message; empty if there is none.
pub(super) fn did_you_mean(input: &str, known: &[&str]) -> String {
    let name = suggest_name(input, known.iter().copied());
    name.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Describes the type of a value without quoting it.
fn unexpected_kind(found: &Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "true or false",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
        Unexpected::Str(_) | Unexpected::Char(_) | Unexpected::Other("string") => "a string",
        Unexpected::Seq | Unexpected::Other("array") => "a list",
        Unexpected::Map | Unexpected::Other("table") => "a table",
        Unexpected::Other("integer" | "float") => "a number",
        Unexpected::Other("boolean") => "true or false",
        Unexpected::Other("datetime") => "a date",
        _ => "another type",
    }
}
