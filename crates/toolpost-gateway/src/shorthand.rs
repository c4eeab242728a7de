//! Settings with a short form (a single value) and a long form (a table or a list).

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// A setting with a short form. Errors contain no values.
pub(crate) trait Shorthand: Sized {
    /// Name of the JSON Schema.
    const NAME: &'static str;
    /// The accepted values, for error messages.
    const EXPECTED: &'static str;
    /// The texts of the short form; any text if empty.
    const WORDS: &'static [&'static str] = &[];
    /// Whether the long form is a list and not a table.
    const IS_LIST: bool = false;
    /// The long form.
    type Long: DeserializeOwned + JsonSchema;

    fn from_text(text: &str) -> Result<Self, String>;

    fn from_bool(_: bool) -> Option<Self> {
        None
    }

    fn from_long(long: Self::Long) -> Result<Self, String>;

    fn short_schema() -> Schema {
        match Self::WORDS {
            [] => json_schema!({"type": "string"}),
            words => json_schema!({"enum": words}),
        }
    }

    /// The error of a value that is neither form.
    fn unexpected() -> String {
        format!("expected {}", Self::EXPECTED)
    }
}

/// A value in either form.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct ShortOrLong<T>(pub(crate) T);

impl<'de, T: Shorthand> Deserialize<'de> for ShortOrLong<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FormVisitor(PhantomData)).map(Self)
    }
}

struct FormVisitor<T>(PhantomData<T>);

impl<'de, T: Shorthand> Visitor<'de> for FormVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).map_err(E::custom)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        T::from_bool(value).ok_or_else(|| E::custom(T::unexpected()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        if T::IS_LIST {
            return Err(A::Error::custom(T::unexpected()));
        }
        let long = T::Long::deserialize(MapAccessDeserializer::new(map))?;
        T::from_long(long).map_err(A::Error::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        // Serde would read a list as the fields of a struct in order.
        if !T::IS_LIST {
            return Err(A::Error::custom(T::unexpected()));
        }
        let long = T::Long::deserialize(SeqAccessDeserializer::new(list))?;
        T::from_long(long).map_err(A::Error::custom)
    }
}

impl<T: Shorthand> JsonSchema for ShortOrLong<T> {
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let long = generator.subschema_for::<T::Long>();
        json_schema!({"anyOf": [T::short_schema(), long]})
    }
}
