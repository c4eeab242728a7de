//! Which places of a value are secret: those that a schema marks `writeOnly` or `format: password`.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// What stands in a record in the place of a secret.
pub const MASKED: &str = "***";

/// The secret places of a schema, compiled once.
///
/// Where it is not sure which of several subschemas a value belongs to, the value is secret if it
/// would be in any of them: a record loses less by that than its writer by the opposite.
///
/// ```
/// use manila::Schema;
/// use serde_json::json;
///
/// let schema = Schema::new(json!({"properties": {"pin": {"writeOnly": true}}}))?;
/// let mut value = json!({"pin": "1234", "name": "ada"});
/// assert!(schema.secrets().mask(&mut value));
/// assert_eq!(value, json!({"pin": "***", "name": "ada"}));
/// # Ok::<(), manila::SchemaError>(())
/// ```
#[derive(Debug, Default)]
pub struct Secrets {
    /// Empty where nothing is secret.
    nodes: Box<[Node]>,
}

/// What one subschema says.
#[derive(Debug, Default)]
struct Node {
    is_secret: bool,
    properties: HashMap<String, usize>,
    /// For the properties that are not named.
    others: Option<usize>,
    /// For properties of some names; which ones is not looked at.
    patterns: Vec<usize>,
    prefix: Vec<usize>,
    items: Option<usize>,
    /// What is said about the same place: references and combinations.
    also: Vec<usize>,
}

impl Secrets {
    pub(super) fn of(document: &Value) -> Self {
        let mut compiler = Compiler { document, nodes: Vec::new(), known: HashMap::new() };
        compiler.node(document);
        match compiler.nodes.iter().any(|node| node.is_secret) {
            true => Self { nodes: compiler.nodes.into() },
            false => Self::default(),
        }
    }

    /// Whether nothing is secret, so that nobody has to look.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Puts [`MASKED`] in the place of every secret, and says whether there was one.
    pub fn mask(&self, value: &mut Value) -> bool {
        !self.is_empty() && self.mask_at(&[0], value)
    }

    fn mask_at(&self, roots: &[usize], value: &mut Value) -> bool {
        let here = self.closure(roots);
        if here.iter().any(|&id| self.nodes[id].is_secret) {
            *value = MASKED.into();
            return true;
        }
        let mut found = false;
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let below = self.below_property(&here, name);
                    found |= !below.is_empty() && self.mask_at(&below, member);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let below = self.below_item(&here, index);
                    found |= !below.is_empty() && self.mask_at(&below, item);
                }
            }
            _ => {}
        }
        found
    }

    /// Every subschema of a place; references may lead in circles.
    fn closure(&self, roots: &[usize]) -> Vec<usize> {
        let mut all = roots.to_vec();
        let mut next = 0;
        while let Some(&id) = all.get(next) {
            for &also in &self.nodes[id].also {
                if !all.contains(&also) {
                    all.push(also);
                }
            }
            next += 1;
        }
        all
    }

    fn below_property(&self, here: &[usize], name: &str) -> Vec<usize> {
        let of = |&id: &usize| {
            let node = &self.nodes[id];
            let own = node.properties.get(name).copied().or(node.others);
            own.into_iter().chain(node.patterns.iter().copied())
        };
        here.iter().flat_map(of).collect()
    }

    fn below_item(&self, here: &[usize], index: usize) -> Vec<usize> {
        let of = |&id: &usize| {
            let node = &self.nodes[id];
            node.prefix.get(index).copied().or(node.items)
        };
        here.iter().filter_map(of).collect()
    }
}

struct Compiler<'a> {
    document: &'a Value,
    nodes: Vec<Node>,
    /// By the address of the subschema, so that references in circles end.
    known: HashMap<*const Value, usize>,
}

impl<'a> Compiler<'a> {
    fn node(&mut self, schema: &'a Value) -> usize {
        if let Some(&known) = self.known.get(&std::ptr::from_ref(schema)) {
            return known;
        }
        let id = self.nodes.len();
        self.known.insert(std::ptr::from_ref(schema), id);
        self.nodes.push(Node::default());
        if let Value::Object(members) = schema {
            let node = self.read(members);
            self.nodes[id] = node;
        }
        id
    }

    fn read(&mut self, members: &'a Map<String, Value>) -> Node {
        let is_true = |name| members.get(name) == Some(&Value::Bool(true));
        let is_password = members.get("format").is_some_and(|format| format == "password");
        let mut node = Node { is_secret: is_true("writeOnly") || is_password, ..Node::default() };
        for (name, said) in members {
            match (name.as_str(), said) {
                ("properties", Value::Object(list)) => {
                    let all = list.iter().map(|(name, schema)| (name.clone(), self.node(schema)));
                    node.properties = all.collect();
                }
                ("patternProperties", Value::Object(list)) => {
                    node.patterns = list.values().map(|schema| self.node(schema)).collect();
                }
                ("additionalProperties" | "unevaluatedProperties", Value::Object(_)) => {
                    node.others = Some(self.node(said));
                }
                ("prefixItems" | "items", Value::Array(list)) => {
                    node.prefix = list.iter().map(|schema| self.node(schema)).collect();
                }
                ("items" | "additionalItems" | "unevaluatedItems", Value::Object(_)) => {
                    node.items = Some(self.node(said));
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                    node.also.extend(list.iter().map(|schema| self.node(schema)));
                }
                ("if" | "then" | "else", Value::Object(_)) => node.also.push(self.node(said)),
                ("dependentSchemas", Value::Object(list)) => {
                    node.also.extend(list.values().map(|schema| self.node(schema)));
                }
                ("$ref" | "$dynamicRef", Value::String(target)) => {
                    let found = self.target(target);
                    node.also.extend(found.map(|schema| self.node(schema)));
                }
                _ => {}
            }
        }
        node
    }

    /// What a reference inside the document leads to: a pointer, or a name.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        let (_, fragment) = reference.split_once('#')?;
        let fragment = fragment.replace("%25", "%").replace("%22", "\"");
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.document.pointer(&fragment);
        }
        let definitions = self.document.get("$defs")?.as_object()?;
        let is_named = |schema: &&Value| {
            ["$anchor", "$dynamicAnchor"]
                .iter()
                .any(|key| schema.get(key).is_some_and(|name| name == fragment.as_str()))
        };
        definitions.values().find(is_named)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_found_wherever_a_schema_puts_them() {
        let secret = json!({"writeOnly": true});
        let password = json!({"type": "string", "format": "password"});
        for (schema, value, expected) in [
            (json!(true), json!({"a": 1}), json!({"a": 1})),
            (json!({"properties": {"a": {"format": "email"}}}), json!({"a": 1}), json!({"a": 1})),
            (secret.clone(), json!({"a": 1}), json!("***")),
            (
                json!({"properties": {"a": secret}}),
                json!({"a": 1, "b": 2}),
                json!({"a": "***", "b": 2}),
            ),
            (json!({"properties": {"a": password}}), json!({"a": {"x": [1]}}), json!({"a": "***"})),
            (json!({"items": secret}), json!([1, 2]), json!(["***", "***"])),
            (json!({"prefixItems": [true, secret]}), json!([1, 2, 3]), json!([1, "***", 3])),
            (
                json!({"properties": {"a": true}, "additionalProperties": secret}),
                json!({"a": 1, "b": 2}),
                json!({"a": 1, "b": "***"}),
            ),
            (json!({"patternProperties": {"^x": secret}}), json!({"x1": 1}), json!({"x1": "***"})),
            (
                json!({"$ref": "#/$defs/login", "$defs": {"login": {"properties": {"pin": secret}}}}),
                json!({"pin": 1, "name": "ada"}),
                json!({"pin": "***", "name": "ada"}),
            ),
            (
                json!({"$ref": "#login", "$defs": {"x": {"$anchor": "login", "properties": {"pin": secret}}}}),
                json!({"pin": 1}),
                json!({"pin": "***"}),
            ),
            (
                json!({"anyOf": [{"properties": {"a": secret}}, {"properties": {"b": true}}]}),
                json!({"a": 1, "b": 2}),
                json!({"a": "***", "b": 2}),
            ),
            (
                json!({"properties": {"pin": secret, "next": {"$ref": "#"}}}),
                json!({"pin": 1, "next": {"pin": 2, "next": {"pin": 3}}}),
                json!({"pin": "***", "next": {"pin": "***", "next": {"pin": "***"}}}),
            ),
            (
                json!({"allOf": [{"$ref": "#"}, {"properties": {"a": secret}}]}),
                json!({"a": 1}),
                json!({"a": "***"}),
            ),
        ] {
            let mut masked = value.clone();
            let found = Secrets::of(&schema).mask(&mut masked);
            assert_eq!(masked, expected, "{schema}");
            assert_eq!(found, masked != value, "{schema}");
        }
    }
}
