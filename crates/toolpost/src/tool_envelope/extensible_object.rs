//! Typed views of JSON objects that preserve unknown members.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::json::ValuePath;
use crate::schema::type_name;

/// Error for a payload that does not have the expected shape.
///
/// The payload itself is unchanged and can be used as plain JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadShapeError {
    /// A required member is missing.
    #[error("`{at}` is missing")]
    Missing {
        /// JSON Pointer to the missing member.
        at: String,
    },
    /// A value has the wrong type.
    #[error("`{at}` must be {expected}, found {found}")]
    WrongType {
        /// JSON Pointer to the value; empty for the payload itself.
        at: String,
        /// Expected JSON type, with its article.
        expected: &'static str,
        /// JSON type that was found.
        found: &'static str,
    },
}

/// A type that is read from JSON and written back without loss.
pub(super) trait ExtensibleValue: Sized + Serialize {
    /// Whether a member of this type can be absent. Such a member can also be `null`.
    const OPTIONAL: bool = false;

    fn read(value: &Value, path: ValuePath<'_>) -> Result<Self, PayloadShapeError>;

    /// Returns the value of a missing member.
    fn absent(path: ValuePath<'_>) -> Result<Self, PayloadShapeError> {
        Err(PayloadShapeError::Missing { at: path.to_string() })
    }

    fn is_absent(&self) -> bool {
        false
    }
}

/// Defines structs with named members and `extra` for unknown members.
///
/// `tagged "kind"` names a member that is neither a field nor extra, because the enclosing enum
/// represents it. A `null` in place of an optional member stays in `extra`, so that it is written
/// back. Members are written in the order of the fields, `extra` last.
macro_rules! extensible_object {
    ($(
        $(#[$outer:meta])*
        pub struct $name:ident $(tagged $tag:literal)? {
            $($(#[$inner:meta])* $field:ident: $type:ty = $wire:literal,)*
        }
    )+) => {$(
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$inner])* pub $field: $type,)*
            /// Unknown members, in their original order.
            pub extra: serde_json::Map<String, serde_json::Value>,
        }

        impl $name {
            /// Reads a typed view of `json`.
            ///
            /// # Errors
            ///
            /// Returns the path of the first member that is missing or has the wrong type.
            pub fn read(
                json: &serde_json::Value,
            ) -> Result<Self, $crate::tool_envelope::PayloadShapeError> {
                $crate::tool_envelope::extensible_object::ExtensibleValue::read(
                    json,
                    $crate::json::ValuePath::ROOT,
                )
            }
        }

        impl $crate::tool_envelope::extensible_object::ExtensibleValue for $name {
            fn read(
                value: &serde_json::Value,
                path: $crate::json::ValuePath<'_>,
            ) -> Result<Self, $crate::tool_envelope::PayloadShapeError> {
                use $crate::tool_envelope::extensible_object::{self, ExtensibleValue};
                let object = extensible_object::object(value, path)?;
                let is_field = |name: &str, value: &serde_json::Value| match name {
                    $($wire => !(<$type as ExtensibleValue>::OPTIONAL && value.is_null()),)*
                    $($tag => true,)?
                    _ => false,
                };
                Ok(Self {
                    $($field: extensible_object::member(object, $wire, path)?,)*
                    extra: extensible_object::unknown_members(object, is_field),
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                use $crate::tool_envelope::extensible_object::ExtensibleValue;
                let mut map = serializer.serialize_map(None)?;
                $(if !ExtensibleValue::is_absent(&self.$field) {
                    map.serialize_entry($wire, &self.$field)?;
                })*
                let is_written = |name: &str| match name {
                    $($wire => !ExtensibleValue::is_absent(&self.$field),)*
                    $($tag => true,)?
                    _ => false,
                };
                for (name, value) in self.extra.iter().filter(|(name, _)| !is_written(name)) {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let json = <serde_json::Value as serde::Deserialize>::deserialize(deserializer)?;
                Self::read(&json).map_err(serde::de::Error::custom)
            }
        }
    )+};
}
pub(super) use extensible_object;

/// Reads one member of an object.
pub(super) fn member<T: ExtensibleValue>(
    object: &Map<String, Value>,
    name: &str,
    path: ValuePath<'_>,
) -> Result<T, PayloadShapeError> {
    let path = path.member(name);
    object.get(name).map_or_else(|| T::absent(path), |value| T::read(value, path))
}

/// Returns the members that have no field.
pub(super) fn unknown_members(
    object: &Map<String, Value>,
    is_field: impl Fn(&str, &Value) -> bool,
) -> Map<String, Value> {
    let unknown_members = object.iter().filter(|(name, value)| !is_field(name, value));
    unknown_members.map(|(name, value)| (name.clone(), value.clone())).collect()
}

pub(super) fn object<'v>(
    value: &'v Value,
    path: ValuePath<'_>,
) -> Result<&'v Map<String, Value>, PayloadShapeError> {
    value.as_object().ok_or_else(|| wrong_type("an object", value, path))
}

fn wrong_type(expected: &'static str, value: &Value, path: ValuePath<'_>) -> PayloadShapeError {
    PayloadShapeError::WrongType { at: path.to_string(), expected, found: type_name(value) }
}

impl ExtensibleValue for String {
    fn read(value: &Value, path: ValuePath<'_>) -> Result<Self, PayloadShapeError> {
        value.as_str().map(Self::from).ok_or_else(|| wrong_type("a string", value, path))
    }
}

impl ExtensibleValue for bool {
    fn read(value: &Value, path: ValuePath<'_>) -> Result<Self, PayloadShapeError> {
        value.as_bool().ok_or_else(|| wrong_type("a boolean", value, path))
    }
}

impl ExtensibleValue for Value {
    fn read(value: &Value, _: ValuePath<'_>) -> Result<Self, PayloadShapeError> {
        Ok(value.clone())
    }
}

impl<T: ExtensibleValue> ExtensibleValue for Vec<T> {
    fn read(value: &Value, path: ValuePath<'_>) -> Result<Self, PayloadShapeError> {
        let items = value.as_array().ok_or_else(|| wrong_type("a list", value, path))?;
        let read = |(index, item)| T::read(item, path.item(index));
        items.iter().enumerate().map(read).collect()
    }
}

impl<T: ExtensibleValue> ExtensibleValue for Option<T> {
    const OPTIONAL: bool = true;

    fn read(value: &Value, path: ValuePath<'_>) -> Result<Self, PayloadShapeError> {
        if value.is_null() { Ok(None) } else { T::read(value, path).map(Some) }
    }

    fn absent(_: ValuePath<'_>) -> Result<Self, PayloadShapeError> {
        Ok(None)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}
