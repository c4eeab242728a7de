//! Schemas as short text in the notation of TypeScript, for models.

use serde_json::{Map, Value};

use crate::prose::{ELLIPSIS, first_sentence, shortened};

/// How much of a schema is written.
#[derive(Clone, Copy)]
struct Detail {
    /// Nesting levels of objects.
    depth: u32,
    /// Maximum length of a comment in characters.
    comment: usize,
}

/// The details that are tried, in this order, until the text is short enough.
const DETAILS: [Detail; 7] = [
    Detail { depth: 8, comment: 80 },
    Detail { depth: 4, comment: 80 },
    Detail { depth: 3, comment: 80 },
    Detail { depth: 2, comment: 80 },
    Detail { depth: 2, comment: 30 },
    Detail { depth: 2, comment: 0 },
    Detail { depth: 1, comment: 0 },
];

/// Maximum number of properties of an object inside another.
const MAX_PROPERTIES: usize = 40;

/// Maximum nesting of schemas that are not objects.
const MAX_NESTING: u32 = 64;

/// Maximum number of values of an `enum`.
const MAX_VALUES: usize = 16;

/// Maximum length of a literal value in characters.
const MAX_LITERAL: usize = 40;

/// A schema in the notation of TypeScript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeText {
    pub(crate) text: String,
    /// Whether parts are omitted.
    pub(crate) is_shortened: bool,
}

/// Writes a schema in about `max_len` bytes. Deeply nested objects are omitted first.
pub(super) fn type_text(schema: &Value, max_len: usize) -> TypeText {
    let mut shortest = None;
    for detail in DETAILS {
        let mut writer = TypeWriter::new(schema, max_len, detail);
        let text = writer.write(schema, 0).text;
        let is_complete = writer.remaining > 0;
        shortest = Some(TypeText { text, is_shortened: writer.is_shortened });
        if is_complete {
            break;
        }
    }
    shortest.expect("there is at least one level of detail")
}

/// A type, and whether it needs parentheses in front of `[]`.
struct TypeExpression {
    text: String,
    is_compound: bool,
}

impl<T: Into<String>> From<T> for TypeExpression {
    fn from(text: T) -> Self {
        Self { text: text.into(), is_compound: false }
    }
}

struct TypeWriter<'s> {
    root: &'s Value,
    /// Number of bytes that may still be written.
    remaining: usize,
    detail: Detail,
    depth: u32,
    /// References that contain the current schema.
    open: Vec<&'s str>,
    is_shortened: bool,
}

impl<'s> TypeWriter<'s> {
    fn new(root: &'s Value, max_len: usize, detail: Detail) -> Self {
        let (open, is_shortened) = (Vec::new(), false);
        Self { root, remaining: max_len, detail, depth: 0, open, is_shortened }
    }

    fn write(&mut self, schema: &'s Value, nesting: u32) -> TypeExpression {
        let Value::Object(members) = schema else {
            return self.leaf(if *schema == Value::Bool(false) { "never" } else { "unknown" });
        };
        if self.remaining == 0 || nesting > MAX_NESTING {
            return self.omitted();
        }
        let mut parts = Vec::new();
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            parts.push(self.reference(reference, nesting));
        }
        parts.extend(self.own_type(members, nesting));
        for all in schemas(members, "allOf") {
            parts.push(self.write(all, nesting + 1));
        }
        for keyword in ["anyOf", "oneOf"] {
            let choices: Vec<_> =
                schemas(members, keyword).map(|one| self.write(one, nesting + 1)).collect();
            if !choices.is_empty() {
                parts.push(joined(choices, " | "));
            }
        }
        // A condition without a type, such as a list of required properties, says nothing here.
        if parts.len() > 1 {
            parts.retain(|part| part.text != "unknown");
        }
        if parts.is_empty() { self.leaf("unknown") } else { joined(parts, " & ") }
    }

    /// Writes the type that the keywords of a schema describe, except for combined schemas.
    fn own_type(
        &mut self,
        members: &'s Map<String, Value>,
        nesting: u32,
    ) -> Option<TypeExpression> {
        if let Some(value) = members.get("const") {
            return Some(self.literal(value));
        }
        if let Some(values) = members.get("enum").and_then(Value::as_array) {
            return Some(self.values(values));
        }
        let types = match members.get("type") {
            Some(Value::String(name)) => vec![name.as_str()],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ if is_object(members) => vec!["object"],
            _ if members.contains_key("items") || members.contains_key("prefixItems") => {
                vec!["array"]
            }
            _ => return None,
        };
        let types = types.into_iter().map(|name| match name {
            "object" => self.object(members, nesting),
            "array" => self.array(members, nesting),
            name => self.leaf(name),
        });
        let types = types.collect();
        Some(joined(types, " | "))
    }

    fn reference(&mut self, reference: &'s str, nesting: u32) -> TypeExpression {
        let target = reference.strip_prefix('#').map(percent_decoded);
        let target = target.and_then(|pointer| self.root.pointer(&pointer));
        let name = reference.rsplit('/').next().unwrap_or(reference);
        match target {
            Some(schema) if !self.open.contains(&reference) => {
                self.open.push(reference);
                let written = self.write(schema, nesting + 1);
                self.open.pop();
                written
            }
            // A recursive type is only named.
            _ if name == "#" => self.leaf("object"),
            _ => self.leaf(name),
        }
    }

    fn object(&mut self, members: &'s Map<String, Value>, nesting: u32) -> TypeExpression {
        if !is_object(members) {
            return self.leaf("object");
        }
        if self.depth == self.detail.depth {
            self.is_shortened = true;
            return self.leaf("{…}");
        }
        self.depth += 1;
        let indent = "  ".repeat(self.depth as usize);
        let mut text = "{\n".to_owned();
        let properties = properties(members);
        let count = properties.len();
        for (index, (name, schema, is_required)) in properties.into_iter().enumerate() {
            if self.remaining == 0 || (index == MAX_PROPERTIES && self.depth > 1) {
                self.is_shortened = true;
                text += &format!("{indent}{ELLIPSIS} {} more\n", count - index);
                break;
            }
            let name = if is_identifier(name) { name.to_owned() } else { quoted(name) };
            let mark = if is_required { "" } else { "?" };
            let comment = comment(schema, self.detail.comment);
            self.spend(indent.len() + name.len() + comment.len() + ": \n".len());
            let value = self.write(schema, nesting + 1).text;
            text += &format!("{indent}{name}{mark}: {value}{comment}\n");
        }
        if let Some(schema) = members.get("additionalProperties").filter(|it| it.is_object()) {
            let value = self.write(schema, nesting + 1).text;
            text += &format!("{indent}[key: string]: {value}\n");
        }
        self.depth -= 1;
        text += &"  ".repeat(self.depth as usize);
        text.push('}');
        text.into()
    }

    fn array(&mut self, members: &'s Map<String, Value>, nesting: u32) -> TypeExpression {
        if let Some(items) = members.get("prefixItems").and_then(Value::as_array) {
            let items = items.iter().map(|item| self.write(item, nesting + 1).text);
            let items: Vec<String> = items.collect();
            return format!("[{}]", items.join(", ")).into();
        }
        let item = match members.get("items") {
            Some(items) => self.write(items, nesting + 1),
            None => self.leaf("unknown"),
        };
        match item.is_compound {
            true => format!("({})[]", item.text).into(),
            false => format!("{}[]", item.text).into(),
        }
    }

    fn values(&mut self, values: &'s [Value]) -> TypeExpression {
        let mut literals: Vec<_> =
            values.iter().take(MAX_VALUES).map(|value| self.literal(value)).collect();
        if values.len() > MAX_VALUES {
            literals.push(self.omitted());
        }
        joined(literals, " | ")
    }

    fn literal(&mut self, value: &Value) -> TypeExpression {
        let text = shortened(&value.to_string(), MAX_LITERAL);
        self.is_shortened |= text.ends_with(ELLIPSIS);
        self.leaf(&text)
    }

    fn omitted(&mut self) -> TypeExpression {
        self.is_shortened = true;
        ELLIPSIS.to_string().into()
    }

    fn leaf(&mut self, text: &str) -> TypeExpression {
        self.spend(text.len());
        text.into()
    }

    fn spend(&mut self, bytes: usize) {
        self.remaining = self.remaining.saturating_sub(bytes);
    }
}

/// Joins distinct types.
fn joined(types: Vec<TypeExpression>, separator: &str) -> TypeExpression {
    let mut distinct: Vec<TypeExpression> = Vec::new();
    for one in types {
        if !distinct.iter().any(|known| known.text == one.text) {
            distinct.push(one);
        }
    }
    match distinct.len() {
        1 => distinct.remove(0),
        _ => {
            let is_intersection = separator == " & ";
            let texts = distinct.into_iter().map(|one| match one.is_compound && is_intersection {
                true => format!("({})", one.text),
                false => one.text,
            });
            let texts: Vec<String> = texts.collect();
            TypeExpression { text: texts.join(separator), is_compound: true }
        }
    }
}

fn schemas<'s>(
    members: &'s Map<String, Value>,
    keyword: &str,
) -> impl Iterator<Item = &'s Value> + use<'s> {
    members.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

/// Whether keywords describe the properties of an object.
fn is_object(members: &Map<String, Value>) -> bool {
    let has_properties =
        members.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    has_properties || members.get("additionalProperties").is_some_and(Value::is_object)
}

/// Returns the properties of an object, required ones first, with their schemas.
fn properties(members: &Map<String, Value>) -> Vec<(&str, &Value, bool)> {
    let required = members.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    let properties = members.get("properties").and_then(Value::as_object).into_iter().flatten();
    let mut properties: Vec<_> =
        properties.map(|(name, schema)| (name.as_str(), schema, is_required(name))).collect();
    properties.sort_by_key(|(.., is_required)| !is_required);
    properties
}

/// Returns a comment with the format, the default and the description of a property.
fn comment(schema: &Value, max_chars: usize) -> String {
    if max_chars == 0 {
        return String::new();
    }
    let text = |keyword| schema.get(keyword).and_then(Value::as_str).map(str::to_owned);
    let default = schema.get("default").map(|value| {
        let value = shortened(&value.to_string(), MAX_LITERAL);
        format!("default {value}")
    });
    let description = text("description").or_else(|| text("title"));
    let description = description.map(|text| first_sentence(&text, max_chars));
    let parts = [text("format"), default, description].into_iter().flatten();
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { String::new() } else { format!(" // {}", parts.join("; ")) }
}

fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    let is_first = |one: char| one.is_ascii_alphabetic() || one == '_' || one == '$';
    characters.next().is_some_and(is_first)
        && characters.all(|one| is_first(one) || one.is_ascii_digit())
}

fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

fn percent_decoded(pointer: &str) -> String {
    percent_encoding::percent_decode_str(pointer).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn type_text_is_typescript_like() {
        for (schema, expected) in [
            (json!(true), "unknown"),
            (json!(false), "never"),
            (json!({"type": "string"}), "string"),
            (json!({"type": ["string", "null"]}), "string | null"),
            (json!({"enum": ["a", 1, null]}), r#""a" | 1 | null"#),
            (json!({"const": "a"}), r#""a""#),
            (
                json!({"type": "array", "items": {"type": ["integer", "null"]}}),
                "(integer | null)[]",
            ),
            (json!({"type": "array"}), "unknown[]"),
            (json!({"prefixItems": [{"type": "string"}, true]}), "[string, unknown]"),
            (json!({"type": "object"}), "object"),
            (json!({"additionalProperties": {"type": "number"}}), "{\n  [key: string]: number\n}"),
            (json!({"oneOf": [{"type": "string"}, {"type": "string"}]}), "string"),
            (
                json!({"allOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]},
                    {"type": "object"}]}),
                "(string | null) & object",
            ),
            (
                json!({"type": "object", "properties": {
                    "b": {"type": "integer", "default": 3, "description": "How many. At most 9."},
                    "a-b": {"properties": {"c": {"format": "date", "type": "string"}}}},
                    "required": ["a-b"]}),
                "{\n  \"a-b\": {\n    c?: string // date\n  }\n  b?: integer // default 3; How many.\n}",
            ),
            (
                json!({"$ref": "#/$defs/a%20b", "$defs": {"a b":
                    {"type": "array", "items": {"$ref": "#/$defs/a%20b"}}}}),
                "a%20b[]",
            ),
            (json!({"anyOf": [{"required": ["a"]}], "type": "string"}), "string"),
        ] {
            let found = type_text(&schema, 1_000);
            assert_eq!((found.text.as_str(), found.is_shortened), (expected, false), "{schema}");
        }
    }

    /// Each row: a schema, the maximum length, and the shortened text.
    #[test]
    fn type_text_omits_deep_objects_first() {
        let property = |name: &str, schema: Value| json!({"properties": {name: schema}});
        let deep = property("a", property("b", property("long_name", json!({"type": "string"}))));
        let many: Map<String, Value> =
            (0..100).map(|n| (format!("p{n:02}"), json!({"type": "string"}))).collect();
        for (schema, max_len, expected) in [
            (deep.clone(), 25, "{\n  a?: {\n    b?: {…}\n  }\n}"),
            (deep, 12, "{\n  a?: {…}\n}"),
            (
                json!({"properties": many, "required": ["p77"]}),
                28,
                "{\n  p77: string\n  p00?: string\n  … 98 more\n}",
            ),
            (
                json!({"enum": (0..20).collect::<Vec<_>>()}),
                200,
                "0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13 | 14 | 15 | …",
            ),
        ] {
            let found = type_text(&schema, max_len);
            assert_eq!((found.text.as_str(), found.is_shortened), (expected, true), "{schema}");
        }
    }

    /// Definitions that each refer to the next one twice would be written 2^60 times.
    #[test]
    fn type_text_of_repeated_references_is_bounded() {
        let definition = |n: usize| {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            (format!("d{n}"), json!({"properties": {"a": next, "b": next}}))
        };
        let definitions: Map<String, Value> = (0..60).map(definition).collect();
        let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
        let found = type_text(&schema, 2_000);
        assert!(found.is_shortened && found.text.len() < 10_000, "{}", found.text.len());
    }
}
