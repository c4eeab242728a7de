//! Strict parsing of untrusted JSON: no duplicate keys, limited depth.
//!
//! Parsers disagree about which of two duplicate keys wins, so validation and execution could read
//! different values. Such JSON is rejected. Text that passes this check always parses later.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use crate::json::MemberName;

/// Rejects duplicate keys. Parses JSON into a [`Value`], or only validates it and returns null.
#[derive(Clone, Copy)]
pub(super) enum StrictParser {
    Tree,
    Check,
}

fn duplicate_key<E: Error>(key: &str) -> E {
    let end = key.floor_char_boundary(100);
    E::custom(format_args!("duplicate key `{}`", &key[..end]))
}

impl StrictParser {
    fn tree<'de, A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            match members.entry(key) {
                Entry::Vacant(vacant) => {
                    vacant.insert(entries.next_value_seed(self)?);
                }
                Entry::Occupied(first) => return Err(duplicate_key(first.key())),
            }
        }
        Ok(Value::Object(members))
    }

    fn check<'de, A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut keys: HashSet<Cow<'de, str>, foldhash::fast::RandomState> = HashSet::default();
        while let Some(MemberName(key)) = entries.next_key()? {
            if let Some(key) = keys.replace(key) {
                return Err(duplicate_key(&key));
            }
            entries.next_value_seed(self)?;
        }
        Ok(Value::Null)
    }
}

impl<'de> DeserializeSeed<'de> for StrictParser {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictParser {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(match self {
            Self::Tree => value.into(),
            Self::Check => Value::Null,
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            if let Self::Tree = self {
                list.push(item);
            }
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Value, A::Error> {
        match self {
            Self::Tree => self.tree(entries),
            Self::Check => self.check(entries),
        }
    }
}
