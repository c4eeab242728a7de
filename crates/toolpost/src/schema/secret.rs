//! Finds the secret parts of a value: those that a schema marks `writeOnly` or `format: password`.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::budget::{Budget, WorkLimits};
use crate::json::JsonObject;

use percent_encoding::percent_decode_str;

/// Replacement for a secret in a record.
pub const MASKED: &str = "***";

/// The secrets that a schema declares, compiled once.
///
/// If it is uncertain which of several subschemas applies, a value is secret if any of them marks
/// it secret. Masking too much in a record is safer than exposing a secret.
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
    /// Empty if the schema declares no secrets.
    nodes: Box<[SecretNode]>,
}

/// Secrets declared by one subschema.
#[derive(Debug, Default)]
struct SecretNode {
    is_secret: bool,
    /// Whether it or a subschema of a part is secret.
    leads_to_secret: bool,
    has_secret_members: bool,
    has_secret_items: bool,
    /// Whether other members are not allowed.
    is_closed: bool,
    required: Vec<String>,
    properties: HashMap<String, usize>,
    /// Members that share subschemas. Names are not matched with `patternProperties`.
    members: ChildSchemas,
    prefix: Vec<usize>,
    /// Items that share subschemas.
    items: ChildSchemas,
    /// Subschemas that apply to the same value: references and combinators.
    in_place: Vec<usize>,
}

#[derive(Debug, Default)]
struct ChildSchemas {
    /// Subschemas of children without their own.
    other: Vec<usize>,
    /// Subschemas of every child.
    every: Vec<usize>,
}

impl Secrets {
    pub(super) fn of(document: &Value) -> Self {
        let nodes = SecretCompiler::new(document).run();
        match nodes.iter().any(|node| node.is_secret) {
            true => Self { nodes: nodes.into() },
            false => Self::default(),
        }
    }

    /// Whether the schema declares no secrets.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Replaces every secret by [`MASKED`], and returns whether there was one. Parts of a value that
    /// does not have the shape of the schema are secret where the schema expects a secret, and so is
    /// what is left of a value that takes more work than [`WorkLimits::VALUE`].
    pub fn mask(&self, value: &mut Value) -> bool {
        self.visit(value, &mut |secret| *secret = MASKED.into())
    }

    /// Calls a function with every secret, and returns whether there was one.
    pub(crate) fn visit(&self, value: &mut Value, on_secret: &mut dyn FnMut(&mut Value)) -> bool {
        !self.is_empty() && self.visit_at(&[0], value, on_secret, &Budget::new(WorkLimits::VALUE))
    }

    fn visit_at(
        &self,
        roots: &[usize],
        value: &mut Value,
        on_secret: &mut dyn FnMut(&mut Value),
        budget: &Budget<'_>,
    ) -> bool {
        let current_nodes = self.closure(roots);
        let current = || current_nodes.iter().map(|&id| &self.nodes[id]);
        let is_over_budget = !budget.spend(1 + 2 * current_nodes.len());
        let is_secret = current().any(|node| node.is_secret);
        if is_over_budget || is_secret || has_wrong_type(value, current) {
            on_secret(value);
            return true;
        }
        let mut found = false;
        match value {
            Value::Object(members) => {
                let is_secret_missing = current().any(|node| {
                    node.required.iter().any(|name| {
                        let own = node.properties.get(name);
                        own.is_some_and(|&own| self.nodes[own].leads_to_secret)
                            && !members.contains_key(name)
                    })
                });
                let is_closed = current().any(|node| node.is_closed && node.has_secret_members);
                for (name, member) in members {
                    let own = |node: &SecretNode| node.properties.get(name).copied();
                    let child_nodes = self.child_nodes(&current_nodes, |node| &node.members, own);
                    // Possibly a secret under a wrong name.
                    let is_misplaced = child_nodes.is_empty() && (is_secret_missing || is_closed);
                    if is_misplaced {
                        on_secret(member);
                    }
                    found |= is_misplaced
                        || !child_nodes.is_empty()
                            && self.visit_at(&child_nodes, member, on_secret, budget);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let own = |node: &SecretNode| node.prefix.get(index).copied();
                    let child_nodes = self.child_nodes(&current_nodes, |node| &node.items, own);
                    found |= !child_nodes.is_empty()
                        && self.visit_at(&child_nodes, item, on_secret, budget);
                }
            }
            _ => {}
        }
        found
    }

    /// Returns all subschemas that apply to the same value. References can be cyclic.
    fn closure(&self, roots: &[usize]) -> Vec<usize> {
        let mut all = roots.to_vec();
        let mut known: HashSet<usize> = roots.iter().copied().collect();
        let mut next = 0;
        while let Some(&id) = all.get(next) {
            all.extend(self.nodes[id].in_place.iter().filter(|&&also| known.insert(also)));
            next += 1;
        }
        all
    }

    /// Returns the subschemas of a child, which `own` finds if the child has its own.
    fn child_nodes(
        &self,
        current_nodes: &[usize],
        shared: impl Fn(&SecretNode) -> &ChildSchemas,
        own: impl Fn(&SecretNode) -> Option<usize>,
    ) -> Vec<usize> {
        let mut child_nodes = Vec::new();
        for node in current_nodes.iter().map(|&id| &self.nodes[id]) {
            match own(node) {
                Some(own) => child_nodes.push(own),
                None => child_nodes.extend(&shared(node).other),
            }
            child_nodes.extend(&shared(node).every);
        }
        child_nodes
    }
}

/// Whether a value is not the object or the array in which the schema expects a secret.
fn has_wrong_type<'a, I: Iterator<Item = &'a SecretNode>>(
    value: &Value,
    current: impl Fn() -> I,
) -> bool {
    let members = || current().any(|node| node.has_secret_members);
    let items = || current().any(|node| node.has_secret_items);
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Object(_) => items() && !members(),
        Value::Array(_) => members() && !items(),
        Value::String(_) | Value::Number(_) => members() || items(),
    }
}

struct SecretCompiler<'a> {
    refs: RefIndex<'a>,
    nodes: Vec<SecretNode>,
    /// Node ids by subschema address, so that cyclic references terminate.
    node_ids: HashMap<*const Value, usize>,
    /// Subschemas not yet compiled, as a stack: reference chains can have any length.
    pending: Vec<(usize, &'a Value)>,
}

impl<'a> SecretCompiler<'a> {
    fn new(document: &'a Value) -> Self {
        let refs = RefIndex::of(document);
        Self { refs, nodes: Vec::new(), node_ids: HashMap::new(), pending: Vec::new() }
    }

    fn run(mut self) -> Vec<SecretNode> {
        let document = self.refs.document;
        self.node(document);
        while let Some((id, schema)) = self.pending.pop() {
            self.nodes[id] = self.compile_node(schema);
        }
        mark_paths_to_secrets(&mut self.nodes);
        self.nodes
    }

    fn node(&mut self, schema: &'a Value) -> usize {
        if let Some(&known) = self.node_ids.get(&std::ptr::from_ref(schema)) {
            return known;
        }
        let id = self.nodes.len();
        self.node_ids.insert(std::ptr::from_ref(schema), id);
        self.nodes.push(SecretNode::default());
        self.pending.push((id, schema));
        id
    }

    fn compile_node(&mut self, schema: &'a Value) -> SecretNode {
        let Value::Object(members) = schema else { return SecretNode::default() };
        let is_true = |name| members.get(name) == Some(&Value::Bool(true));
        let is_password = members.get("format").is_some_and(|format| format == "password");
        let mut node =
            SecretNode { is_secret: is_true("writeOnly") || is_password, ..SecretNode::default() };
        for (name, value) in members {
            match (name.as_str(), value) {
                ("properties", Value::Object(list)) => {
                    let all = list.iter().map(|(name, schema)| (name.clone(), self.node(schema)));
                    node.properties = all.collect();
                }
                ("patternProperties", Value::Object(list)) => {
                    node.members.every = list.values().map(|schema| self.node(schema)).collect();
                }
                ("additionalProperties" | "unevaluatedProperties", Value::Bool(false)) => {
                    node.is_closed = true;
                }
                ("required", Value::Array(names)) => {
                    let names = names.iter().filter_map(Value::as_str);
                    node.required = names.map(str::to_owned).collect();
                }
                ("additionalProperties" | "unevaluatedProperties", Value::Object(_)) => {
                    node.members.other.push(self.node(value));
                }
                ("prefixItems" | "items", Value::Array(list)) => {
                    node.prefix = list.iter().map(|schema| self.node(schema)).collect();
                }
                ("items" | "additionalItems" | "unevaluatedItems", Value::Object(_)) => {
                    node.items.other.push(self.node(value));
                }
                ("contains", Value::Object(_)) => node.items.every.push(self.node(value)),
                ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                    node.in_place.extend(list.iter().map(|schema| self.node(schema)));
                }
                ("if" | "then" | "else", Value::Object(_)) => node.in_place.push(self.node(value)),
                ("dependentSchemas" | "dependencies", Value::Object(list)) => {
                    node.in_place.extend(list.values().map(|schema| self.node(schema)));
                }
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => {
                    for schema in self.refs.resolve(schema, target) {
                        node.in_place.push(self.node(schema));
                    }
                }
                _ => {}
            }
        }
        node
    }
}

/// Marks the nodes from which a secret can be reached.
fn mark_paths_to_secrets(nodes: &mut [SecretNode]) {
    let mut parents = vec![Vec::new(); nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        for &child in node.members().chain(node.items()).chain(&node.in_place) {
            parents[child].push(id);
        }
    }
    let is_secret = |id: &usize| nodes[*id].is_secret;
    let mut pending: Vec<usize> = (0..nodes.len()).filter(is_secret).collect();
    while let Some(id) = pending.pop() {
        if !std::mem::replace(&mut nodes[id].leads_to_secret, true) {
            pending.append(&mut parents[id]);
        }
    }
    for id in 0..nodes.len() {
        let leads_to_secret = |child: &usize| nodes[*child].leads_to_secret;
        let has_secret_members = nodes[id].members().any(leads_to_secret);
        let has_secret_items = nodes[id].items().any(leads_to_secret);
        (nodes[id].has_secret_members, nodes[id].has_secret_items) =
            (has_secret_members, has_secret_items);
    }
}

impl SecretNode {
    /// Returns the subschemas of members.
    fn members(&self) -> impl Iterator<Item = &usize> {
        self.properties.values().chain(&self.members.other).chain(&self.members.every)
    }

    /// Returns the subschemas of items.
    fn items(&self) -> impl Iterator<Item = &usize> {
        self.prefix.iter().chain(&self.items.other).chain(&self.items.every)
    }
}

/// Maximum number of targets indexed per name.
const MAX_TARGETS_PER_NAME: usize = 16;

/// Index of possible reference targets.
struct RefIndex<'a> {
    document: &'a Value,
    /// Schemas with an id, by the last path segment of the id.
    by_id: HashMap<&'a str, Vec<&'a Value>>,
    by_anchor: HashMap<&'a str, Vec<&'a Value>>,
    /// The innermost schema with an id that encloses each schema, by address.
    enclosing_resources: HashMap<*const Value, &'a Value>,
}

impl<'a> RefIndex<'a> {
    fn of(document: &'a Value) -> Self {
        let (by_id, by_anchor, enclosing_resources) = Default::default();
        let mut names = Self { document, by_id, by_anchor, enclosing_resources };
        let mut unread = vec![(document, None)];
        while let Some((value, home)) = unread.pop() {
            match value {
                Value::Object(members) => {
                    let home = names.index_schema(value, members).or(home);
                    let enclosing = home.map(|home| (std::ptr::from_ref(value), home));
                    names.enclosing_resources.extend(enclosing);
                    unread.extend(members.values().map(|member| (member, home)));
                }
                Value::Array(items) => unread.extend(items.iter().map(|item| (item, home))),
                _ => {}
            }
        }
        names
    }

    /// Indexes the anchors and the id of a schema. Returns the schema if it has an id.
    fn index_schema(&mut self, schema: &'a Value, members: &'a JsonObject) -> Option<&'a Value> {
        let string_member = |name: &str| members.get(name).and_then(Value::as_str);
        for anchor in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(string_member) {
            add_target(&mut self.by_anchor, anchor, schema);
        }
        let address = string_member("$id").or_else(|| string_member("id"))?;
        if let Some(anchor) = address.strip_prefix('#') {
            add_target(&mut self.by_anchor, anchor, schema);
            return None;
        }
        add_target(&mut self.by_id, last_segment(address), schema);
        Some(schema)
    }

    /// Returns the possible targets of a reference, which is a JSON Pointer, an anchor or a URI.
    /// URIs are matched by their last path segment, so there can be several targets.
    fn resolve(&self, schema: &Value, reference: &str) -> Vec<&'a Value> {
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let fragment = percent_decode_str(fragment).decode_utf8_lossy();
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return self.by_anchor.get(&*fragment).cloned().unwrap_or_default();
        }
        let roots = match address {
            "" => {
                let home = self.enclosing_resources.get(&std::ptr::from_ref(schema)).copied();
                std::iter::once(self.document).chain(home).collect()
            }
            _ => self.by_id.get(last_segment(address)).cloned().unwrap_or_default(),
        };
        roots.into_iter().filter_map(|root| root.pointer(&fragment)).collect()
    }
}

fn add_target<'a>(names: &mut HashMap<&'a str, Vec<&'a Value>>, name: &'a str, schema: &'a Value) {
    let all = names.entry(name).or_default();
    if all.len() < MAX_TARGETS_PER_NAME {
        all.push(schema);
    }
}

/// Returns the last path segment of a URI, which is the same in its relative and absolute form.
fn last_segment(address: &str) -> &str {
    let address = address.split('#').next().unwrap_or_default().trim_end_matches('/');
    address.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_masked_under_every_keyword() {
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
    fn values_of_wrong_shape_are_masked() {
        let secret = json!({"writeOnly": true});
        let open = json!({"properties": {"pin": secret, "name": true}});
        let required = json!({"required": ["pin"], "properties": {"pin": secret, "name": true}});
        let closed =
            json!({"additionalProperties": false, "properties": {"pin": secret, "name": true}});
        let outer = json!({"properties": {"login": open, "other": true}});
        for (schema, value, expected) in [
            (&open, json!("1234"), json!("***")),
            (&open, json!(1234), json!("***")),
            (&open, json!(["1234"]), json!("***")),
            (&open, json!(null), json!(null)),
            (&open, json!({"name": "ada", "x": 1}), json!({"name": "ada", "x": 1})),
            (&outer, json!({"login": "1234", "other": 1}), json!({"login": "***", "other": 1})),
            (&json!({"items": open}), json!({"pin": 1}), json!("***")),
            (&json!({"items": open}), json!(["1234", {"name": 1}]), json!(["***", {"name": 1}])),
            (
                &required,
                json!({"pinn": "1234", "name": "ada"}),
                json!({"pinn": "***", "name": "ada"}),
            ),
            (&required, json!({"pin": 1, "x": "y"}), json!({"pin": "***", "x": "y"})),
            (&closed, json!({"in": {"pin": 1}, "name": 1}), json!({"in": "***", "name": 1})),
            (&json!({"properties": {"name": true}}), json!("text"), json!("text")),
        ] {
            let mut masked = value.clone();
            Secrets::of(schema).mask(&mut masked);
            assert_eq!(masked, expected, "{schema} {value}");
        }
    }

    #[test]
    fn secrets_resolve_long_ref_chains() {
        let length = 20_000;
        let mut definitions: JsonObject = (0..length)
            .map(|n| (n.to_string(), json!({"$ref": format!("#/$defs/{}", n + 1)})))
            .collect();
        definitions.insert(length.to_string(), json!({"writeOnly": true}));
        let schema = json!({"$ref": "#/$defs/0", "$defs": definitions});
        let mut value = json!("x");
        assert!(Secrets::of(&schema).mask(&mut value));
        assert_eq!(value, MASKED);
    }
}
