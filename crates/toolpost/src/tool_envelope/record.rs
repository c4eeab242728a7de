//! Typed views of JSON objects that keep every member they do not know.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::schema::type_name;

/// Where a payload does not have the shape that was asked for.
///
/// The payload itself is untouched and can be used as plain JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// A member that must be there is not.
    #[error("`{at}` is missing")]
    Missing {
        /// JSON Pointer into the payload.
        at: String,
    },
    /// A value has another type.
    #[error("`{at}` must be {expected}, found {found}")]
    WrongType {
        /// JSON Pointer into the payload; empty for the payload itself.
        at: String,
        /// The JSON type that it must have, with its article.
        expected: &'static str,
        /// The JSON type that it has.
        found: &'static str,
    },
}

/// A place in a payload, kept as a chain on the stack and spelt out only for an error.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Root,
    Member(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

/// A type that is read from JSON and written back without loss.
pub(super) trait Wire: Sized + Serialize {
    /// Whether a member of this type may be absent; such a member may also be `null`.
    const OPTIONAL: bool = false;

    fn read(value: &Value, place: Place<'_>) -> Result<Self, PayloadError>;

    /// What stands for a member that is not there.
    fn absent(place: Place<'_>) -> Result<Self, PayloadError> {
        Err(PayloadError::Missing { at: place.pointer() })
    }

    fn is_absent(&self) -> bool {
        false
    }
}

/// Defines a struct with named members and `extra` for all the others.
///
/// `tagged "kind"` names a member that is neither a field nor extra, because an enum around the
/// struct says it. A `null` in place of an optional member stays in `extra`, so that it is
/// written back; members are written in the order of the fields, `extra` last.
macro_rules! record {
    (
        $(#[$outer:meta])*
        pub struct $name:ident $(tagged $tag:literal)? {
            $($(#[$inner:meta])* $field:ident: $type:ty = $wire:literal,)*
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$inner])* pub $field: $type,)*
            /// Members that this type does not know, in their order.
            pub extra: serde_json::Map<String, serde_json::Value>,
        }

        impl $name {
            /// Reads the typed view of `json`.
            ///
            /// # Errors
            ///
            /// The place of the first member that is missing or has another type.
            pub fn read(
                json: &serde_json::Value,
            ) -> Result<Self, $crate::tool_envelope::PayloadError> {
                $crate::tool_envelope::record::Wire::read(
                    json,
                    $crate::tool_envelope::record::Place::Root,
                )
            }

            pub(super) fn serialize_members<M: serde::ser::SerializeMap>(
                &self,
                map: &mut M,
            ) -> Result<(), M::Error> {
                use $crate::tool_envelope::record::Wire;
                $(if !Wire::is_absent(&self.$field) {
                    map.serialize_entry($wire, &self.$field)?;
                })*
                let is_written = |name: &str| match name {
                    $($wire => !Wire::is_absent(&self.$field),)*
                    $($tag => true,)?
                    _ => false,
                };
                self.extra
                    .iter()
                    .filter(|(name, _)| !is_written(name))
                    .try_for_each(|(name, value)| map.serialize_entry(name, value))
            }
        }

        impl $crate::tool_envelope::record::Wire for $name {
            fn read(
                value: &serde_json::Value,
                place: $crate::tool_envelope::record::Place<'_>,
            ) -> Result<Self, $crate::tool_envelope::PayloadError> {
                use $crate::tool_envelope::record::{self, Wire};
                let object = record::object(value, place)?;
                let is_field = |name: &str, value: &serde_json::Value| match name {
                    $($wire => !(<$type as Wire>::OPTIONAL && value.is_null()),)*
                    $($tag => true,)?
                    _ => false,
                };
                Ok(Self {
                    $($field: record::member(object, $wire, place)?,)*
                    extra: record::others(object, is_field),
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                self.serialize_members(&mut map)?;
                map.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let json = <serde_json::Value as serde::Deserialize>::deserialize(deserializer)?;
                Self::read(&json).map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(super) use record;

/// Reads one member of an object.
pub(super) fn member<T: Wire>(
    object: &Map<String, Value>,
    name: &str,
    place: Place<'_>,
) -> Result<T, PayloadError> {
    let place = Place::Member(&place, name);
    object.get(name).map_or_else(|| T::absent(place), |value| T::read(value, place))
}

/// The members for which there is no field.
pub(super) fn others(
    object: &Map<String, Value>,
    is_field: impl Fn(&str, &Value) -> bool,
) -> Map<String, Value> {
    let others = object.iter().filter(|(name, value)| !is_field(name, value));
    others.map(|(name, value)| (name.clone(), value.clone())).collect()
}

pub(super) fn object<'v>(
    value: &'v Value,
    place: Place<'_>,
) -> Result<&'v Map<String, Value>, PayloadError> {
    value.as_object().ok_or_else(|| wrong_type("an object", value, place))
}

fn wrong_type(expected: &'static str, value: &Value, place: Place<'_>) -> PayloadError {
    PayloadError::WrongType { at: place.pointer(), expected, found: type_name(value) }
}

impl Place<'_> {
    /// JSON Pointer to the place.
    fn pointer(self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Member(parent, name) => format!("{}/{name}", parent.pointer()),
            Self::Item(parent, index) => format!("{}/{index}", parent.pointer()),
        }
    }
}

impl Wire for String {
    fn read(value: &Value, place: Place<'_>) -> Result<Self, PayloadError> {
        value.as_str().map(Self::from).ok_or_else(|| wrong_type("a string", value, place))
    }
}

impl Wire for bool {
    fn read(value: &Value, place: Place<'_>) -> Result<Self, PayloadError> {
        value.as_bool().ok_or_else(|| wrong_type("a boolean", value, place))
    }
}

impl Wire for Value {
    fn read(value: &Value, _: Place<'_>) -> Result<Self, PayloadError> {
        Ok(value.clone())
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn read(value: &Value, place: Place<'_>) -> Result<Self, PayloadError> {
        let items = value.as_array().ok_or_else(|| wrong_type("a list", value, place))?;
        let read = |(index, item)| T::read(item, Place::Item(&place, index));
        items.iter().enumerate().map(read).collect()
    }
}

impl<T: Wire> Wire for Option<T> {
    const OPTIONAL: bool = true;

    fn read(value: &Value, place: Place<'_>) -> Result<Self, PayloadError> {
        if value.is_null() { Ok(None) } else { T::read(value, place).map(Some) }
    }

    fn absent(_: Place<'_>) -> Result<Self, PayloadError> {
        Ok(None)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}
