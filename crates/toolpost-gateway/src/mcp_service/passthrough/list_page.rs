//! A page of a source's list and its entries.

use serde_json::value::{RawValue, to_raw_value};
use toolpost::CallError;
use toolpost::json::RawObject;

/// A page as received from the source.
#[derive(Debug)]
pub(super) struct ListPage<'a> {
    entries: Vec<&'a RawValue>,
    /// Cursor of the next page.
    pub(super) next_cursor: Option<String>,
}

/// A list entry with a name.
#[derive(Debug)]
pub(super) struct ListEntry<'a> {
    pub(super) text: &'a str,
    object: RawObject<'a>,
    /// Name of the member that identifies the entry.
    key: &'static str,
    pub(super) name: String,
}

impl<'a> ListPage<'a> {
    /// Parses the list in `member`. Anything else is an error.
    pub(super) fn parse(text: &'a str, member: &str) -> Result<Self, CallError> {
        let object = RawObject::parse(text).ok();
        let entries = object.as_ref().and_then(|object| object.get(member));
        let entries = entries.and_then(|entries| serde_json::from_str(entries.get()).ok());
        let entries = entries.ok_or_else(|| {
            CallError::execution(format!("`{member}` of the result is not a list"))
        })?;
        let cursor = object.and_then(|object| object.get("nextCursor"));
        // A cursor that is not a string is ignored.
        let cursor = cursor.and_then(|cursor| serde_json::from_str::<String>(cursor.get()).ok());
        Ok(Self { entries, next_cursor: cursor.filter(|cursor| !cursor.is_empty()) })
    }

    /// Returns the entries, named by `key`. An entry without a name is an error message.
    pub(super) fn entries(
        &self,
        key: &'static str,
    ) -> impl Iterator<Item = Result<ListEntry<'a>, String>> {
        self.entries.iter().map(move |raw| ListEntry::parse(raw.get(), key))
    }
}

impl<'a> ListEntry<'a> {
    fn parse(text: &'a str, key: &'static str) -> Result<Self, String> {
        let odd = |what: &str| {
            let beginning: String = text.chars().take(80).collect();
            format!("{what}: {beginning}")
        };
        let object = RawObject::parse(text).map_err(|_| odd("not an object"))?;
        let name = object.get(key).and_then(|name| serde_json::from_str(name.get()).ok());
        let name = name.ok_or_else(|| odd(&format!("`{key}` is not a string")))?;
        Ok(Self { text, object, key, name })
    }

    /// Returns the JSON of the entry with another name and otherwise unchanged.
    pub(super) fn renamed(self, name: &str) -> String {
        if name == self.name {
            return self.text.to_owned();
        }
        let name = to_raw_value(name).expect("a string is JSON");
        let mut object = self.object;
        object.set(self.key, &name);
        serde_json::to_string(&object).expect("texts are joined")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: a page, the names or errors of its entries, and the cursor.
    #[test]
    fn list_page_reports_invalid_entries() {
        for (text, names, next) in [
            (r#"{"prompts":[]}"#, &[][..], None),
            (r#"{"prompts":[{"name":"a"},{"name":"b"}]}"#, &["a", "b"], None),
            (
                r#"{"prompts":[7,{"name":"é"},{"title":"t"},{"name":null}],"nextCursor":"x"}"#,
                &["not an object: 7", "é", "`name` is not a string", "`name` is not a string"],
                Some("x"),
            ),
            (r#"{"prompts":[{"name":"\ud83d"}]}"#, &["`name` is not a string"], None),
            (r#"{"nextCursor":null,"prompts":[{"name":"a"}]}"#, &["a"], None),
            (r#"{"nextCursor":"","prompts":[{"name":"a"}]}"#, &["a"], None),
            (r#"{"nextCursor":7,"prompts":[{"name":"a"}]}"#, &["a"], None),
        ] {
            let page = ListPage::parse(text, "prompts").unwrap();
            let found: Vec<_> = page
                .entries("name")
                .map(|entry| entry.map_or_else(|odd| odd, |entry| entry.name))
                .collect();
            assert_eq!(found.len(), names.len(), "{text}");
            let pairs = found.iter().zip(names);
            assert!(pairs.clone().all(|(found, name)| found.starts_with(name)), "{found:?}");
            assert_eq!(page.next_cursor.as_deref(), next, "{text}");
        }
        for text in ["{}", r#"{"prompts":{}}"#, r#"{"prompts":null}"#, "[]", "1"] {
            assert!(ListPage::parse(text, "prompts").is_err(), "{text}");
        }
    }

    #[test]
    fn renamed_entry_preserves_other_members() {
        for (text, name, expected) in [
            (r#"{ "name" : "a" }"#, "a", r#"{ "name" : "a" }"#),
            (r#"{"name":"a"}"#, "b\"", r#"{"name":"b\""}"#),
            (
                r#"{"new":[ 1.0, null ],"name":"a","_meta":{"name":"a"},"big":1e400}"#,
                "s__a",
                r#"{"new":[ 1.0, null ],"name":"s__a","_meta":{"name":"a"},"big":1e400}"#,
            ),
            (r#"{"name":"x","name":"a"}"#, "b", r#"{"name":"x","name":"b"}"#),
        ] {
            assert_eq!(ListEntry::parse(text, "name").unwrap().renamed(name), expected);
        }
    }
}
