//! JSON objects with unparsed members, and paths to values.

mod depth;
mod error_message;
mod memory;
mod path;
mod pointer;
mod raw_object;
mod short_bytes;

/// The members of a JSON object.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;

/// Deserializes a member that is present, even if it is `null`.
pub(crate) fn deserialize_present<'de, T: serde::Deserialize<'de>, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

pub use depth::is_nested_deeper;
pub use error_message::error_message;
pub use memory::parsed_bytes;
pub(crate) use memory::{exceeds_max_tree, text_bytes, value_bytes};
pub(crate) use path::ValuePath;
pub use pointer::JsonPointer;
pub(crate) use pointer::{escape_token, unescape_token};
pub(crate) use raw_object::MemberName;
pub use raw_object::RawObject;
pub(crate) use short_bytes::str_eq;
