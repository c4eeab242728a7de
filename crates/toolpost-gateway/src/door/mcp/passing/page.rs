//! A page of a source's list, and its entries.

use serde_json::value::RawValue;
use toolpost::CallError;

use super::object::Object;

/// A page as its source wrote it.
#[derive(Debug)]
pub(super) struct Page<'a> {
    entries: Vec<&'a RawValue>,
    /// Asks for the next page.
    pub(super) next: Option<String>,
}

/// An entry that can be asked for by its name.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    text: &'a str,
    object: Object<'a>,
    /// The member that holds its name.
    key: &'static str,
    pub(super) name: String,
}

impl<'a> Page<'a> {
    /// Reads the list that stands in `member`.
    ///
    /// # Errors
    ///
    /// There is no list.
    pub(super) fn read(text: &'a str, member: &str) -> Result<Self, CallError> {
        let object = Object::read(text);
        let entries = object.as_ref().and_then(|object| object.get(member));
        let entries = entries.and_then(|entries| serde_json::from_str(entries).ok());
        let entries = entries
            .ok_or_else(|| CallError::execution(format!("`{member}` of the result is no list")))?;
        let cursor = object.and_then(|object| object.get("nextCursor"));
        // What is no text is no cursor.
        let cursor = cursor.and_then(|cursor| serde_json::from_str::<String>(cursor).ok());
        Ok(Self { entries, next: cursor.filter(|cursor| !cursor.is_empty()) })
    }

    /// The entries that have a name, which `key` holds; and what is wrong with the others.
    pub(super) fn entries(
        &self,
        key: &'static str,
    ) -> impl Iterator<Item = Result<Entry<'a>, String>> {
        self.entries.iter().map(move |raw| Entry::read(raw.get(), key))
    }
}

impl<'a> Entry<'a> {
    fn read(text: &'a str, key: &'static str) -> Result<Self, String> {
        let odd = |what: &str| {
            let beginning: String = text.chars().take(80).collect();
            format!("{what}: {beginning}")
        };
        let object = Object::read(text).ok_or_else(|| odd("it is no object"))?;
        let name = object.get(key).and_then(|name| serde_json::from_str(name).ok());
        let name = name.ok_or_else(|| odd(&format!("its `{key}` is no text")))?;
        Ok(Self { text, object, key, name })
    }

    /// Appends it as it came.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.text.as_bytes());
    }

    /// Appends it with another name, and otherwise as it came.
    pub(super) fn write_as(self, out: &mut Vec<u8>, name: &str) {
        if name == self.name {
            return self.write(out);
        }
        let name = serde_json::to_string(name).expect("a text is JSON");
        let mut object = self.object;
        object.set(self.key, &name);
        object.write(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: a page, the names of its entries or what is wrong with them, and the cursor.
    #[test]
    fn a_page_is_read_and_odd_entries_are_named() {
        for (text, names, next) in [
            (r#"{"prompts":[]}"#, &[][..], None),
            (r#"{"prompts":[{"name":"a"},{"name":"b"}]}"#, &["a", "b"], None),
            (
                r#"{"prompts":[7,{"name":"é"},{"title":"t"},{"name":null}],"nextCursor":"x"}"#,
                &["it is no object: 7", "é", "its `name` is no text", "its `name` is no text"],
                Some("x"),
            ),
            (r#"{"prompts":[{"name":"\ud83d"}]}"#, &["its `name` is no text"], None),
            (r#"{"nextCursor":null,"prompts":[{"name":"a"}]}"#, &["a"], None),
            (r#"{"nextCursor":"","prompts":[{"name":"a"}]}"#, &["a"], None),
            (r#"{"nextCursor":7,"prompts":[{"name":"a"}]}"#, &["a"], None),
        ] {
            let page = Page::read(text, "prompts").unwrap();
            let found: Vec<_> = page
                .entries("name")
                .map(|entry| entry.map_or_else(|odd| odd, |entry| entry.name))
                .collect();
            assert_eq!(found.len(), names.len(), "{text}");
            let pairs = found.iter().zip(names);
            assert!(pairs.clone().all(|(found, name)| found.starts_with(name)), "{found:?}");
            assert_eq!(page.next.as_deref(), next, "{text}");
        }
        for text in ["{}", r#"{"prompts":{}}"#, r#"{"prompts":null}"#, "[]", "1"] {
            assert!(Page::read(text, "prompts").is_err(), "{text}");
        }
    }

    #[test]
    fn an_entry_gets_another_name_and_keeps_all_else() {
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
            let mut out = Vec::new();
            Entry::read(text, "name").unwrap().write_as(&mut out, name);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
