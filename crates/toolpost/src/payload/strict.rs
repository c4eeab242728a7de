//! Strict parsing of untrusted JSON: no duplicate keys, limited depth.
//!
//! Parsers disagree about which of two duplicate keys wins, so validation and execution could read
//! different values. Such JSON is rejected here, and text that passes this check does not fail to
//! parse later.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// Parses JSON into a [`Value`] and rejects duplicate keys.
pub(super) struct StrictTree;

/// Validates the document without building a value.
pub(super) struct StrictCheck;

fn duplicate_key<E: Error>(key: &str) -> E {
    let end = key.floor_char_boundary(100);
    E::custom(format_args!("duplicate key `{}`", &key[..end]))
}

impl<'de> DeserializeSeed<'de> for StrictTree {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictTree {
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
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(StrictTree)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            match members.entry(key) {
                Entry::Vacant(vacant) => {
                    vacant.insert(entries.next_value_seed(StrictTree)?);
                }
                Entry::Occupied(first) => return Err(duplicate_key(first.key())),
            }
        }
        Ok(Value::Object(members))
    }
}

impl<'de> DeserializeSeed<'de> for StrictCheck {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictCheck {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(StrictCheck)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut keys = ObjectKeys::default();
        while let Some(key) = entries.next_key::<String>()? {
            if let Err(key) = keys.insert(key) {
                return Err(duplicate_key(&key));
            }
            entries.next_value_seed(StrictCheck)?;
        }
        Ok(())
    }
}

/// The keys of one object. The first keys are searched linearly, which is fastest for small
/// objects; the rest are hashed.
#[derive(Default)]
struct ObjectKeys {
    linear: Vec<String>,
    hashed: HashSet<String>,
}

impl ObjectKeys {
    const LINEAR_LIMIT: usize = 16;

    /// Adds a key. Returns the key as the error if it is a duplicate.
    fn insert(&mut self, key: String) -> Result<(), String> {
        if self.linear.contains(&key) || self.hashed.contains(&key) {
            return Err(key);
        }
        if self.linear.len() < Self::LINEAR_LIMIT {
            self.linear.push(key);
        } else {
            self.hashed.insert(key);
        }
        Ok(())
    }
}
