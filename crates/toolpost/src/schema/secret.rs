//! Which places of a value are secret: those that a schema marks `writeOnly` or `format: password`.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::cast::percent_decoded;

/// What stands in a record in the place of a secret.
pub const MASKED: &str = "***";

/// The secret places of a schema, compiled once.
///
/// Where it is not sure which of several subschemas a value belongs to, the value is secret if it
/// would be in any of them: a record loses less by that than its writer by the opposite.
///
/// ```
/// use toolpost::Schema;
/// use serde_json::json;
///
/// let schema = Schema::new(json!({"properties": {"pin": {"writeOnly": true}}}))?;
/// let mut value = json!({"pin": "1234", "name": "ada"});
/// assert!(schema.secrets().mask(&mut value));
/// assert_eq!(value, json!({"pin": "***", "name": "ada"}));
/// # Ok::<(), toolpost::SchemaError>(())
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
    others: Vec<usize>,
    /// For properties of some names; which ones is not looked at.
    patterns: Vec<usize>,
    prefix: Vec<usize>,
    /// For the items behind those.
    items: Vec<usize>,
    /// For some items; which ones is not looked at.
    contained: Vec<usize>,
    /// What is said about the same place: references and combinations.
    also: Vec<usize>,
}

impl Secrets {
    pub(super) fn of(document: &Value) -> Self {
        let nodes = Compiler::new(document).run();
        match nodes.iter().any(|node| node.is_secret) {
            true => Self { nodes: nodes.into() },
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
        let mut known: HashSet<usize> = roots.iter().copied().collect();
        let mut next = 0;
        while let Some(&id) = all.get(next) {
            all.extend(self.nodes[id].also.iter().filter(|&&also| known.insert(also)));
            next += 1;
        }
        all
    }

    fn below_property(&self, here: &[usize], name: &str) -> Vec<usize> {
        let mut below = Vec::new();
        for node in here.iter().map(|&id| &self.nodes[id]) {
            match node.properties.get(name) {
                Some(&own) => below.push(own),
                None => below.extend(&node.others),
            }
            below.extend(&node.patterns);
        }
        below
    }

    fn below_item(&self, here: &[usize], index: usize) -> Vec<usize> {
        let mut below = Vec::new();
        for node in here.iter().map(|&id| &self.nodes[id]) {
            match node.prefix.get(index) {
                Some(&own) => below.push(own),
                None => below.extend(&node.items),
            }
            below.extend(&node.contained);
        }
        below
    }
}

struct Compiler<'a> {
    names: Names<'a>,
    nodes: Vec<Node>,
    /// By the address of the subschema, so that references in circles end.
    known: HashMap<*const Value, usize>,
    /// Those that are not read yet. Kept here and not on the stack, because references lead from one
    /// to the next as often as their author likes.
    unread: Vec<(usize, &'a Value)>,
}

impl<'a> Compiler<'a> {
    fn new(document: &'a Value) -> Self {
        let names = Names::of(document);
        Self { names, nodes: Vec::new(), known: HashMap::new(), unread: Vec::new() }
    }

    fn run(mut self) -> Vec<Node> {
        let document = self.names.document;
        self.node(document);
        while let Some((id, schema)) = self.unread.pop() {
            self.nodes[id] = self.read(schema);
        }
        self.nodes
    }

    fn node(&mut self, schema: &'a Value) -> usize {
        if let Some(&known) = self.known.get(&std::ptr::from_ref(schema)) {
            return known;
        }
        let id = self.nodes.len();
        self.known.insert(std::ptr::from_ref(schema), id);
        self.nodes.push(Node::default());
        self.unread.push((id, schema));
        id
    }

    fn read(&mut self, schema: &'a Value) -> Node {
        let Value::Object(members) = schema else { return Node::default() };
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
                    node.others.push(self.node(said));
                }
                ("prefixItems" | "items", Value::Array(list)) => {
                    node.prefix = list.iter().map(|schema| self.node(schema)).collect();
                }
                ("items" | "additionalItems" | "unevaluatedItems", Value::Object(_)) => {
                    node.items.push(self.node(said));
                }
                ("contains", Value::Object(_)) => node.contained.push(self.node(said)),
                ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                    node.also.extend(list.iter().map(|schema| self.node(schema)));
                }
                ("if" | "then" | "else", Value::Object(_)) => node.also.push(self.node(said)),
                ("dependentSchemas" | "dependencies", Value::Object(list)) => {
                    node.also.extend(list.values().map(|schema| self.node(schema)));
                }
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => {
                    for schema in self.names.targets(schema, target) {
                        node.also.push(self.node(schema));
                    }
                }
                _ => {}
            }
        }
        node
    }
}

/// How many schemas of one name a reference is taken to lead to.
const MOST_OF_A_NAME: usize = 16;

/// What references can lead to.
struct Names<'a> {
    document: &'a Value,
    /// Schemas with an address of their own, by the last part of it.
    addressed: HashMap<&'a str, Vec<&'a Value>>,
    anchored: HashMap<&'a str, Vec<&'a Value>>,
    /// The one with an address that a schema is inside of, where it is not the document.
    homes: HashMap<*const Value, &'a Value>,
}

impl<'a> Names<'a> {
    fn of(document: &'a Value) -> Self {
        let (addressed, anchored) = (HashMap::new(), HashMap::new());
        let mut names = Self { document, addressed, anchored, homes: HashMap::new() };
        let mut unread = vec![(document, None)];
        while let Some((value, home)) = unread.pop() {
            match value {
                Value::Object(members) => {
                    let home = names.note(value, members).or(home);
                    names.homes.extend(home.map(|home| (std::ptr::from_ref(value), home)));
                    unread.extend(members.values().map(|member| (member, home)));
                }
                Value::Array(items) => unread.extend(items.iter().map(|item| (item, home))),
                _ => {}
            }
        }
        names
    }

    /// Notes what a schema is called, and gives it where others are inside of it.
    fn note(&mut self, schema: &'a Value, members: &'a Map<String, Value>) -> Option<&'a Value> {
        let said = |name: &str| members.get(name).and_then(Value::as_str);
        for anchor in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(said) {
            add(&mut self.anchored, anchor, schema);
        }
        let address = said("$id").or_else(|| said("id"))?;
        if let Some(anchor) = address.strip_prefix('#') {
            add(&mut self.anchored, anchor, schema);
            return None;
        }
        add(&mut self.addressed, last_part(address), schema);
        Some(schema)
    }

    /// What a reference in a schema may lead to: a pointer, a name, an address. Addresses are not
    /// resolved, so there may be several.
    fn targets(&self, schema: &Value, reference: &str) -> Vec<&'a Value> {
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let fragment = percent_decoded(fragment).unwrap_or_else(|| fragment.to_owned());
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return self.anchored.get(&*fragment).cloned().unwrap_or_default();
        }
        let roots = match address {
            "" => {
                let home = self.homes.get(&std::ptr::from_ref(schema)).copied();
                std::iter::once(self.document).chain(home).collect()
            }
            _ => self.addressed.get(last_part(address)).cloned().unwrap_or_default(),
        };
        roots.into_iter().filter_map(|root| root.pointer(&fragment)).collect()
    }
}

fn add<'a>(names: &mut HashMap<&'a str, Vec<&'a Value>>, name: &'a str, schema: &'a Value) {
    let all = names.entry(name).or_default();
    if all.len() < MOST_OF_A_NAME {
        all.push(schema);
    }
}

/// What a relative address and a whole one of the same schema have in common.
fn last_part(address: &str) -> &str {
    let address = address.split('#').next().unwrap_or_default().trim_end_matches('/');
    address.rsplit('/').next().unwrap_or_default()
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
                json!({"$ref": "#/$defs/My%20Login%2525", "$defs": {"My Login%25": {"properties": {"pin": secret}}}}),
                json!({"pin": 1}),
                json!({"pin": "***"}),
            ),
            (
                json!({"$ref": "#login", "definitions": {"x": {"items": {"$dynamicAnchor": "login", "properties": {"pin": secret}}}}}),
                json!({"pin": 1}),
                json!({"pin": "***"}),
            ),
            (
                json!({"$ref": "login.json", "$defs": {"x": {"$id": "https://x.example/login.json", "properties": {"pin": secret}}}}),
                json!({"pin": 1}),
                json!({"pin": "***"}),
            ),
            (
                json!({"$ref": "urn:x:login#/$defs/pin", "$defs": {"x": {"$id": "urn:x:login", "$defs": {"pin": secret}}}}),
                json!({"pin": 1}),
                json!("***"),
            ),
            (
                json!({"$ref": "login", "$defs": {"x": {"$id": "login", "properties": {"pin": {"$ref": "#/$defs/pin"}}, "$defs": {"pin": secret}}}}),
                json!({"pin": 1}),
                json!({"pin": "***"}),
            ),
            (json!({"$ref": "https://x.example/s"}), json!({"a": 1}), json!({"a": 1})),
            (
                json!({"additionalProperties": secret, "unevaluatedProperties": {"type": "string"}}),
                json!({"a": 1}),
                json!({"a": "***"}),
            ),
            (json!({"contains": secret}), json!([1]), json!(["***"])),
            (
                json!({"dependentSchemas": {"a": {"properties": {"b": secret}}}}),
                json!({"a": 1, "b": 2}),
                json!({"a": 1, "b": "***"}),
            ),
            (
                json!({"dependencies": {"a": {"properties": {"b": secret}}}}),
                json!({"a": 1, "b": 2}),
                json!({"a": 1, "b": "***"}),
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

    #[test]
    fn references_may_follow_each_other_as_long_as_they_like() {
        let length = 20_000;
        let mut definitions: Map<String, Value> = (0..length)
            .map(|n| (n.to_string(), json!({"$ref": format!("#/$defs/{}", n + 1)})))
            .collect();
        definitions.insert(length.to_string(), json!({"writeOnly": true}));
        let schema = json!({"$ref": "#/$defs/0", "$defs": definitions});
        let mut value = json!("x");
        assert!(Secrets::of(&schema).mask(&mut value));
        assert_eq!(value, MASKED);
    }
}
