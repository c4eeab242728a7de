//! Parses JSON text into a tree in one pass.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::Number;

use super::interner::StringId;
use super::parse::DocumentParseError;
use super::tree::CompactValue;
use super::tree_builder::{BuiltTree, TreeBuilder};

/// Parses a complete JSON text.
pub(super) fn parse(text: &str) -> Result<BuiltTree, DocumentParseError> {
    let mut builder = TreeBuilder::default();
    let mut reader = serde_json::Deserializer::from_str(text);
    let root = ValueSeed(&mut builder).deserialize(&mut reader);
    match root.and_then(|root| reader.end().map(|()| root)) {
        Ok(root) => Ok(builder.finish(root)),
        Err(error) => Err(json_error(&builder, &error)),
    }
}

fn json_error(builder: &TreeBuilder, error: &serde_json::Error) -> DocumentParseError {
    let (line, column) = (error.line(), error.column());
    if let Some(reason) = builder.error {
        return DocumentParseError::Rejected { reason, line, column };
    }
    let message = error.to_string();
    let suffix = format!(" at line {line} column {column}");
    let message = message.strip_suffix(&suffix).unwrap_or(&message).to_owned();
    DocumentParseError::Json { message, line, column }
}

/// Deserializes a value of any self-describing format into the tree.
pub(super) struct ValueSeed<'b>(pub(super) &'b mut TreeBuilder);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = CompactValue;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<CompactValue, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = CompactValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<CompactValue, E> {
        Ok(CompactValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<CompactValue, E> {
        Ok(CompactValue::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<CompactValue, E> {
        self.0.push_number(value.into()).map_err(|reason| self.0.fail(reason))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<CompactValue, E> {
        self.0.push_number(value.into()).map_err(|reason| self.0.fail(reason))
    }

    // Integers beyond 64 bits become the nearest float.
    fn visit_i128<E: Error>(self, value: i128) -> Result<CompactValue, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<CompactValue, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<CompactValue, E> {
        // JSON cannot represent infinity and NaN, so they become null.
        Number::from_f64(value)
            .map_or(Ok(CompactValue::Null), |number| self.0.push_number(number))
            .map_err(|reason| self.0.fail(reason))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<CompactValue, E> {
        self.0.intern(value).map(CompactValue::Text).map_err(|reason| self.0.fail(reason))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<CompactValue, A::Error> {
        let start = self.0.begin_array().map_err(|reason| self.0.fail(reason))?;
        while let Some(item) = items.next_element_seed(ValueSeed(self.0))? {
            self.0.push_item(item);
        }
        self.0.end_array(start).map_err(|reason| self.0.fail(reason))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<CompactValue, A::Error> {
        let start = self.0.begin_object().map_err(|reason| self.0.fail(reason))?;
        let mut merged = Vec::new();
        while let Some(name) = members.next_key_seed(KeySeed(self.0))? {
            let value = members.next_value_seed(ValueSeed(self.0))?;
            if self.0.is_merge_key(name, value) {
                merged.push(value);
            } else {
                self.0.push_member(name, value);
            }
        }
        self.0.end_object(start, &merged).map_err(|reason| self.0.fail(reason))
    }

    /// Ignores an unknown tag and reads the tagged value.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<CompactValue, A::Error> {
        let (_, value) = tagged.variant::<IgnoredAny>()?;
        value.newtype_variant_seed(self)
    }
}

/// Deserializes and interns a member name.
struct KeySeed<'b>(&'b mut TreeBuilder);

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = StringId;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<StringId, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = StringId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<StringId, E> {
        self.0.intern(value).map_err(|reason| self.0.fail(reason))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tree::{Tree, TreeNode};

    fn parse_tree(text: &str) -> Tree {
        super::parse(text).unwrap().tree
    }

    #[test]
    fn json_tree_round_trips_to_value() {
        let rows = [
            json!(null),
            json!([1, -2, 0.5, 18_446_744_073_709_551_615_u64, true, "a", [], {}]),
            json!({"a": {"b": [{"a": "a"}, {"a": "b"}]}, "é": "\n", "": 1e300}),
        ];
        for row in rows {
            assert_eq!(parse_tree(&row.to_string()).root().to_value(), row);
        }
    }

    #[test]
    fn json_duplicate_key_keeps_last_value() {
        let text = r#"{"a": 1, "b": {"a": 2, "a": 3, "c": 0, "a": 4}, "a": 5}"#;
        let value = serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(parse_tree(text).root().to_value(), value);
    }

    #[test]
    fn json_nodes_are_found_by_name_and_pointer() {
        let tree = parse_tree(r#"{"a/b": [10, {"~": "x"}], "n": null}"#);
        let root = tree.root();
        assert_eq!(root.pointer("/a~1b/1/~0").and_then(TreeNode::as_str), Some("x"));
        assert!(root.get("n").unwrap().is_null() && root.get("m").is_none());
        for wrong in ["a", "/a~1b/2", "/a~1b/x", "/n/a"] {
            assert!(root.pointer(wrong).is_none(), "{wrong}");
        }
    }
}
