//! Schemas where every reference in the document finds them.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::name::{Names, type_name};
use super::publish::published;
use super::shared;
use crate::schema::{self, COMPONENTS, Homes, Schema};

/// The schemas of a document.
pub(super) struct Components {
    schemas: Map<String, Value>,
    names: Names,
    /// Definitions that the operations of a namespace share, and what they are called here.
    shared: HashMap<Key, (Value, String)>,
}

/// A namespace, a keyword and the key of a definition.
type Key = (String, &'static str, String);

/// Whose schema it is.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    /// Operations of one namespace share definitions.
    pub(super) namespace: &'a str,
    /// What the schema would be called.
    pub(super) wished: &'a str,
}

/// A schema that stands in the document.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    /// What is written where a schema is expected: a reference, or nothing that binds.
    pub(super) reference: Value,
    /// What is written in the extension, from which the original can be had to the letter.
    pub(super) described: Value,
    /// The component, if there is one.
    pub(super) name: Option<String>,
}

impl Components {
    /// The schemas that every document has.
    pub(super) fn new() -> Self {
        let mut components =
            Self { schemas: Map::new(), names: Names::default(), shared: HashMap::new() };
        for (name, schema) in shared::schemas() {
            components.names.claim(&name, &name);
            components.schemas.insert(name, schema);
        }
        components
    }

    pub(super) fn into_schemas(mut self) -> Map<String, Value> {
        self.schemas.sort_keys();
        self.schemas
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.schemas.get(name)
    }

    /// Puts a schema that is ours into the document.
    pub(super) fn add(&mut self, wished: &str, schema: Value) -> Value {
        let name = self.names.claim(wished, wished);
        let reference = reference(&name);
        self.schemas.insert(name, schema);
        reference
    }

    /// Puts the schema of an operation into the document.
    pub(super) fn place(&mut self, owner: Owner<'_>, schema: &Schema) -> Placed {
        let original = schema.json().into_owned();
        let published = match schema.is_unknown() {
            true => None,
            false => published(&original).filter(says_something),
        };
        let Some(published) = published else {
            return Placed { reference: json!({}), described: original, name: None };
        };
        let homes = self.settle(owner, &published);
        let described = self.described(&homes, &original);
        let name = Some(homes.root.clone());
        Placed { reference: reference(&homes.root), described, name }
    }

    /// Finds a place for a schema and for each of its definitions.
    fn settle(&mut self, owner: Owner<'_>, document: &Value) -> Homes {
        let is_own = self.own(owner, document);
        let root = self.names.claim(owner.wished, owner.wished);
        let mut homes = Homes { root, definitions: HashMap::new() };
        let mut new = Vec::new();
        for ((keyword, key, part), is_own) in schema::definitions(document).zip(is_own) {
            let shared = (owner.namespace.to_owned(), keyword, key.clone());
            let known = self.shared.get(&shared).filter(|_| !is_own);
            let name = match known {
                Some((_, name)) => name.clone(),
                None => {
                    let before = if is_own { owner.wished } else { &*type_name(owner.namespace) };
                    let wished = format!("{before}{}", type_name(key));
                    let name = self.names.claim(&wished, &format!("{before} {keyword} {key}"));
                    new.push((name.clone(), part));
                    name
                }
            };
            if !is_own {
                self.shared.entry(shared).or_insert_with(|| (part.clone(), name.clone()));
            }
            homes.definitions.insert((keyword, key.clone()), name);
        }
        self.insert(&homes, document, new);
        homes
    }

    fn insert(&mut self, homes: &Homes, document: &Value, new: Vec<(String, &Value)>) {
        let mut root = document.clone();
        if let Some(members) = root.as_object_mut() {
            members.retain(|keyword, _| !matches!(keyword.as_str(), "$defs" | "definitions"));
        }
        let parts = new.into_iter().map(|(name, part)| (name, part.clone()));
        for (name, mut part) in parts.chain([(homes.root.clone(), root)]) {
            homes.lift(&mut part);
            // Generators name types by their titles, and titles are not unique.
            part.as_object_mut().and_then(|members| members.shift_remove("title"));
            self.schemas.insert(name, part);
        }
    }

    /// Which definitions cannot be shared: those that are something else for another operation, those
    /// that lead to the schema itself, and those that lead to one of these.
    fn own(&self, owner: Owner<'_>, document: &Value) -> Vec<bool> {
        let parts: Vec<_> = schema::definitions(document).collect();
        let places: HashMap<(&str, &str), usize> = parts
            .iter()
            .enumerate()
            .map(|(at, (keyword, key, _))| ((*keyword, key.as_str()), at))
            .collect();
        let mut leading_here = vec![Vec::new(); parts.len()];
        let mut own = vec![false; parts.len()];
        let mut found = Vec::new();
        for (at, (keyword, key, part)) in parts.iter().enumerate() {
            let shared = (owner.namespace.to_owned(), *keyword, (*key).clone());
            let mut is_own = self.shared.get(&shared).is_some_and(|(known, _)| known != *part);
            for reference in schema::references(part) {
                let target = schema::definition(reference.trim_start_matches('#'));
                let target = target
                    .as_ref()
                    .and_then(|(keyword, key, _)| places.get(&(*keyword, key.as_str())));
                match target {
                    Some(target) => leading_here[*target].push(at),
                    None => is_own = true,
                }
            }
            if is_own {
                found.push(at);
            }
        }
        while let Some(at) = found.pop() {
            if !std::mem::replace(&mut own[at], true) {
                found.extend(&leading_here[at]);
            }
        }
        own
    }

    /// The original by its components, if they are all that is needed to have it again.
    fn described(&self, homes: &Homes, original: &Value) -> Value {
        let mut described = json!({"$ref": format!("{COMPONENTS}{}", homes.root)});
        for keyword in ["$schema", "title"] {
            if let Some(said) = original.get(keyword) {
                described[keyword] = said.clone();
            }
        }
        for (keyword, key, part) in schema::definitions(original) {
            let Some(home) = homes.definitions.get(&(keyword, key.clone())) else { continue };
            let mut definition = reference(home);
            if let Some(title) = part.get("title") {
                definition["title"] = title.clone();
            }
            described[keyword][key] = definition;
        }
        let restored = schema::restored(&described, |name| self.schemas.get(name));
        if restored.as_ref() == Some(original) { described } else { original.clone() }
    }
}

/// A title alone does not bind anybody.
fn says_something(document: &Value) -> bool {
    document.as_object().is_some_and(|members| members.keys().any(|keyword| keyword != "title"))
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{COMPONENTS}{name}")})
}
