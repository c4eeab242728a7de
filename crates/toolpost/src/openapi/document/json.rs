//! JSON text as a tree, in one pass.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::Number;

use super::builder::{Builder, Grown};
use super::read::ReadError;
use super::text::TextId;
use super::tree::Cell;

/// Reads a whole JSON text.
pub(super) fn read(text: &str) -> Result<Grown, ReadError> {
    let mut builder = Builder::default();
    let mut reader = serde_json::Deserializer::from_str(text);
    let root = Grow(&mut builder).deserialize(&mut reader);
    match root.and_then(|root| reader.end().map(|()| root)) {
        Ok(root) => Ok(builder.finish(root)),
        Err(error) => Err(why(&builder, &error)),
    }
}

fn why(builder: &Builder, error: &serde_json::Error) -> ReadError {
    let (line, column) = (error.line(), error.column());
    if let Some(why) = builder.refusal() {
        return ReadError::Refused { why, line, column };
    }
    let message = error.to_string();
    let place = format!(" at line {line} column {column}");
    let message = message.strip_suffix(&place).unwrap_or(&message).to_owned();
    ReadError::Json { message, line, column }
}

/// Puts what comes into the tree. It takes any format that describes itself.
pub(super) struct Grow<'b>(pub(super) &'b mut Builder);

impl<'de> DeserializeSeed<'de> for Grow<'_> {
    type Value = Cell;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cell, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Grow<'_> {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Cell, E> {
        Ok(Cell::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Cell, E> {
        Ok(Cell::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Cell, E> {
        self.0.number(value.into()).map_err(|why| self.0.refuse(why))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Cell, E> {
        self.0.number(value.into()).map_err(|why| self.0.refuse(why))
    }

    // Numbers of any size are numbers; what does not fit is as near as a float comes.
    fn visit_i128<E: Error>(self, value: i128) -> Result<Cell, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Cell, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Cell, E> {
        // Formats that know `.inf` and `.nan` have numbers that JSON cannot say.
        Number::from_f64(value)
            .map_or(Ok(Cell::Null), |number| self.0.number(number))
            .map_err(|why| self.0.refuse(why))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Cell, E> {
        self.0.text(value).map(Cell::Text).map_err(|why| self.0.refuse(why))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Cell, A::Error> {
        let mark = self.0.begin_array().map_err(|why| self.0.refuse(why))?;
        while let Some(item) = items.next_element_seed(Grow(self.0))? {
            self.0.item(item);
        }
        self.0.end_array(mark).map_err(|why| self.0.refuse(why))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Cell, A::Error> {
        let mark = self.0.begin_object().map_err(|why| self.0.refuse(why))?;
        let mut merged = Vec::new();
        while let Some(name) = members.next_key_seed(Name(self.0))? {
            let value = members.next_value_seed(Grow(self.0))?;
            if self.0.is_merge(name, value) {
                merged.push(value);
            } else {
                self.0.member(name, value);
            }
        }
        self.0.end_object(mark, &merged).map_err(|why| self.0.refuse(why))
    }

    /// A tag that only its writer knows says nothing about the value.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Cell, A::Error> {
        let (_, value) = tagged.variant::<IgnoredAny>()?;
        value.newtype_variant_seed(self)
    }
}

/// The name of a member.
struct Name<'b>(&'b mut Builder);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = TextId;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TextId, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = TextId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<TextId, E> {
        self.0.text(value).map_err(|why| self.0.refuse(why))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tree::{Node, Tree};

    fn read(text: &str) -> Tree {
        super::read(text).unwrap().tree
    }

    #[test]
    fn a_tree_says_what_the_text_says() {
        let rows = [
            json!(null),
            json!([1, -2, 0.5, 18_446_744_073_709_551_615_u64, true, "a", [], {}]),
            json!({"a": {"b": [{"a": "a"}, {"a": "b"}]}, "é": "\n", "": 1e300}),
        ];
        for row in rows {
            assert_eq!(read(&row.to_string()).root().to_value(), row);
        }
    }

    #[test]
    fn the_last_of_two_members_of_one_name_counts() {
        let text = r#"{"a": 1, "b": {"a": 2, "a": 3, "c": 0, "a": 4}, "a": 5}"#;
        let value = serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(read(text).root().to_value(), value);
    }

    #[test]
    fn places_are_found_by_name_and_by_pointer() {
        let tree = read(r#"{"a/b": [10, {"~": "x"}], "n": null}"#);
        let root = tree.root();
        assert_eq!(root.pointer("/a~1b/1/~0").and_then(Node::as_str), Some("x"));
        assert!(root.get("n").unwrap().is_null() && root.get("m").is_none());
        for wrong in ["a", "/a~1b/2", "/a~1b/x", "/n/a"] {
            assert!(root.pointer(wrong).is_none(), "{wrong}");
        }
    }
}
