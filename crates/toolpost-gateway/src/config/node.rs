//! One value of the document, for serde: it replaces `${VAR}`, reports every unknown key of a table
//! by name, and words what does not fit without telling a value.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use toml::Spanned;
use toml::de::DeValue;

use super::document::{Document, join};
use super::nearest::{nearest, suggestion};

#[derive(Clone)]
pub(super) struct Node<'a> {
    document: &'a Document<'a>,
    value: &'a Spanned<DeValue<'a>>,
    key: String,
}

impl<'a> Node<'a> {
    pub(super) fn new(
        document: &'a Document<'a>,
        value: &'a Spanned<DeValue<'a>>,
        key: String,
    ) -> Self {
        Self { document, value, key }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The key of a value in this table.
    fn child(&self, name: &str) -> String {
        join(&self.key, name)
    }

    fn text(&self, raw: &str) -> Result<String, Misfit> {
        let expanded = self
            .document
            .values
            .expand(raw)
            .map_err(|error| Misfit { is_absence: error.is_absence(), ..Misfit::custom(error) })?;
        Ok(expanded.into_owned())
    }

    /// Reports the keys that are not among `known`, and leaves them out.
    fn fields(&self, known: Option<&[&str]>) -> Vec<Field<'a>> {
        let mut fields = Vec::new();
        for (name, value) in self.value.get_ref().as_table().into_iter().flatten() {
            let (at, name) = (name.span(), name.get_ref().as_ref());
            let key = self.child(name);
            if self.document.skips(&key) {
                continue;
            }
            match known.filter(|known| !known.contains(&name)) {
                Some(known) => self.document.unknown_key(key, at, name, known),
                None => {
                    let node = Node { document: self.document, value, key };
                    fields.push(Field { name, at: at.start, node });
                }
            }
        }
        fields
    }

    fn visit_number<V: Visitor<'a>>(&self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value.get_ref() {
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                visitor.visit_i64(parsed.map_err(|_| Misfit::custom("this number is too large"))?)
            }
            DeValue::Float(number) => {
                let parsed = number.as_str().parse();
                visitor.visit_f64(parsed.map_err(|_| Misfit::custom("this is not a number"))?)
            }
            other => Err(Misfit::invalid_type(Unexpected::Other(other.type_str()), &visitor)),
        }
    }
}

impl<'a> Deserializer<'a> for Node<'a> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value.get_ref() {
            DeValue::String(text) => visitor.visit_string(self.text(text)?),
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            DeValue::Array(_) => visitor.visit_seq(Items { node: self, next: 0 }),
            // Whoever takes other things as well knows the names in the table.
            DeValue::Table(_) => {
                let rest = self.fields(None).into_iter();
                visitor.visit_map(Fields { rest, value: None, is_struct: true })
            }
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Datetime(_) => {
                self.visit_number(visitor)
            }
        }
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self.value.get_ref() {
            DeValue::Table(_) => {
                let rest = self.fields(Some(fields)).into_iter();
                visitor.visit_map(Fields { rest, value: None, is_struct: true })
            }
            // A list would be read as the fields in their order, which nobody means.
            other => Err(Misfit::invalid_type(Unexpected::Other(other.type_str()), &visitor)),
        }
    }

    /// A table of free names, which may be many.
    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value.get_ref() {
            DeValue::Table(_) => {
                let rest = self.fields(None).into_iter();
                visitor.visit_map(Fields { rest, value: None, is_struct: false })
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self.value.get_ref() {
            DeValue::String(text) => visitor.visit_enum(self.text(text)?.into_deserializer()),
            other => Err(Misfit::invalid_type(Unexpected::Other(other.type_str()), &"a string")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        <V: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct identifier
    }
}

struct Field<'a> {
    name: &'a str,
    /// Where the name stands.
    at: usize,
    node: Node<'a>,
}

struct Fields<'a> {
    rest: std::vec::IntoIter<Field<'a>>,
    /// The value that belongs to the key that was just read.
    value: Option<Node<'a>>,
    /// Whether the names are known beforehand, and therefore few.
    is_struct: bool,
}

impl<'a> MapAccess<'a> for Fields<'a> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Misfit> {
        let Some(Field { name, at, node }) = self.rest.next() else { return Ok(None) };
        let key: StrDeserializer<'_, Misfit> = name.into_deserializer();
        let read = seed.deserialize(key).map_err(|mut misfit| {
            misfit.place = Some((at, node.key.clone()));
            misfit.inside(&node)
        });
        self.value = Some(node);
        read.map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<T::Value, Misfit> {
        let node = self.value.take().ok_or_else(|| Misfit::custom("a key was not read"))?;
        let read = seed.deserialize(node.clone()).map_err(|misfit| misfit.at(&node));
        if self.is_struct { read.map_err(|misfit| misfit.inside(&node)) } else { read }
    }
}

struct Items<'a> {
    node: Node<'a>,
    next: usize,
}

impl<'a> SeqAccess<'a> for Items<'a> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misfit> {
        let Some(value) = self.node.value.get_ref().get(self.next) else { return Ok(None) };
        let key = format!("{}[{}]", self.node.key, self.next);
        let node = Node { document: self.node.document, value, key };
        self.next += 1;
        seed.deserialize(node.clone()).map(Some).map_err(|misfit| misfit.at(&node))
    }
}

/// What does not fit, and where, as soon as somebody knows.
#[derive(Debug)]
pub(super) struct Misfit {
    message: String,
    place: Option<(usize, String)>,
    /// The innermost known key that it stands in, or is the value of: what is skipped, so that what
    /// is beside it is read too.
    pub(super) field: Option<String>,
    /// Which key is missing, if that is the matter.
    pub(super) missing: Option<&'static str>,
    /// Whether all is well written, and only what a value refers to is not there.
    pub(super) is_absence: bool,
}

impl Misfit {
    fn inside(mut self, node: &Node<'_>) -> Self {
        self.field.get_or_insert_with(|| node.key.clone());
        self
    }

    /// The innermost place is the right one.
    fn at(mut self, node: &Node<'_>) -> Self {
        self.place.get_or_insert_with(|| (node.value.span().start, node.key.clone()));
        self
    }

    pub(super) fn placed(self, node: &Node<'_>) -> (usize, String, String) {
        let Self { message, place, .. } = self.at(node);
        let (offset, key) = place.unwrap_or_default();
        (offset, key, message)
    }
}

impl std::error::Error for Misfit {}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl serde::de::Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            message: message.to_string(),
            place: None,
            field: None,
            missing: None,
            is_absence: false,
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = match expected.to_string().as_str() {
            "a sequence" => "a list".to_owned(),
            "a map" => "a table".to_owned(),
            "a boolean" => "true or false".to_owned(),
            "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on".to_owned(),
            "a nonzero u32" | "a nonzero usize" => "a whole number from 1 on".to_owned(),
            "f32" | "f64" => "a number".to_owned(),
            other => other.to_owned(),
        };
        Self::custom(format!("expected {expected}, found {}", kind(&found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        let list = expected.join("`, `");
        let hint = nearest(found, expected).map(|name| format!("; did you mean `{name}`?"));
        let hint = hint.unwrap_or_default();
        Self::custom(format!("expected one of `{list}`{hint}"))
    }

    fn unknown_field(found: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format!("unknown key; {}", suggestion(found, expected)))
    }

    fn missing_field(field: &'static str) -> Self {
        let misfit = Self::custom(format!("the key `{field}` is missing; add it"));
        Self { missing: Some(field), ..misfit }
    }
}

/// What was found, without its value.
fn kind(found: &Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "true or false",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
        Unexpected::Str(_) | Unexpected::Char(_) | Unexpected::Other("string") => "a string",
        Unexpected::Seq | Unexpected::Other("array") => "a list",
        Unexpected::Map | Unexpected::Other("table") => "a table",
        Unexpected::Other("integer" | "float") => "a number",
        Unexpected::Other("boolean") => "true or false",
        Unexpected::Other("datetime") => "a date",
        _ => "something else",
    }
}
