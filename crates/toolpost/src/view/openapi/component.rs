//! Schemas where every reference in the document finds them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::excerpt::{Origin, Shelf};
use super::name::{Names, type_name};
use super::publish::{Find, inside, modernized, said_portably, tidied};
use super::shared;
use crate::schema::{self, COMPONENTS, Homes, ORIGIN, Schema};

/// The schemas of a document.
pub(super) struct Components {
    schemas: Map<String, Value>,
    pub(super) names: Names,
    /// Definitions that the operations of a namespace share.
    shared: HashMap<Key, Rc<Part>>,
    /// The documents that operations were imported from.
    pub(super) shelves: HashMap<Origin, Shelf>,
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
        let mut components = Self {
            schemas: Map::new(),
            names: Names::default(),
            shared: HashMap::new(),
            shelves: HashMap::new(),
        };
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

    /// Puts the schema of an operation into the document: as it is where it can be moved, else in
    /// portable words, else not at all.
    pub(super) fn place(&mut self, owner: Owner<'_>, schema: &Schema) -> Placed {
        let excerpt = schema.as_excerpt();
        let placed = excerpt.and_then(|excerpt| self.place_excerpt(owner, excerpt));
        placed.unwrap_or_else(|| self.place_whole(owner, schema))
    }

    fn place_whole(&mut self, owner: Owner<'_>, schema: &Schema) -> Placed {
        let original = schema.json();
        let nothing = || Placed {
            reference: json!({}),
            described: original.clone().into_owned(),
            name: None,
        };
        if schema.is_unknown() {
            return nothing();
        }
        let modern = modernized(&original);
        let is_same = matches!(modern, Cow::Borrowed(_));
        let settled = schema::is_movable(&modern).then(|| self.settle(owner, &modern)).flatten();
        let settled = settled.map(|it| Settled { is_exact: it.is_exact && is_same, ..it });
        let settled = settled.or_else(|| {
            let said = said_portably(&original)?;
            Some(Settled { is_exact: false, ..self.settle(owner, &said)? })
        });
        let Some(settled) = settled else { return nothing() };
        let described = match settled.is_exact {
            true => self.described(&settled, &original),
            false => original.clone().into_owned(),
        };
        let root = settled.homes.root;
        Placed { reference: reference(&root), described, name: Some(root) }
    }

    /// Finds a place for a schema and for each of its definitions; `None` if it is no schema, or says
    /// nothing.
    fn settle(&mut self, owner: Owner<'_>, document: &Value) -> Option<Settled> {
        let find = inside(document);
        let root = Part::of(&without_definitions(document), &find)?;
        if !says_something(&root.published) || !root.leads_somewhere(document) {
            return None;
        }
        let mut parts = Vec::new();
        for (keyword, key, original) in schema::definitions(document) {
            let key = (owner.namespace.to_owned(), keyword, key.clone());
            let known = self.shared.get(&key).filter(|known| known.original == *original);
            let part = match known {
                Some(known) => Rc::clone(known),
                None => Rc::new(Part::of(original, &find)?),
            };
            if !part.leads_somewhere(document) {
                return None;
            }
            parts.push((key, part));
        }
        let is_exact = root.is_exact && parts.iter().all(|(_, part)| part.is_exact);
        let led = led(&root, &parts);
        let homes = self.settle_parts(owner, parts);
        self.insert(&homes, homes.root.clone(), root.published, json!({}));
        Some(Settled { homes, led, is_exact })
    }

    fn settle_parts(&mut self, owner: Owner<'_>, parts: Vec<(Key, Rc<Part>)>) -> Homes {
        let own = self.own(&parts);
        let root = self.names.claim(owner.wished, owner.wished);
        let mut homes = Homes { root, definitions: HashMap::new() };
        let mut new = Vec::new();
        for ((key, part), is_own) in parts.into_iter().zip(own) {
            let known =
                self.shared.get(&key).filter(|_| !is_own).map(|known| known.name.get().cloned());
            let name = known.flatten().unwrap_or_else(|| {
                let before = if is_own { owner.wished } else { &*type_name(owner.namespace) };
                let wished = format!("{before}{}", type_name(&key.2));
                let name = self.names.claim(&wished, &format!("{before} {} {}", key.1, key.2));
                new.push((name.clone(), part.origin(key.1, Some(&key.2)), Rc::clone(&part)));
                name
            });
            homes.definitions.insert((key.1, key.2.clone()), name.clone());
            if !is_own {
                let _ = part.name.set(name);
                self.shared.entry(key).or_insert(part);
            }
        }
        for (name, origin, part) in new {
            self.insert(&homes, name, part.published.clone(), origin);
        }
        homes
    }

    /// Puts a part into the document, with what is to be known of where it stood.
    pub(super) fn insert(&mut self, homes: &Homes, name: String, mut part: Value, origin: Value) {
        homes.lift(&mut part);
        if let Some(members) = part.as_object_mut() {
            // Generators name types by their titles, and titles are not unique.
            members.shift_remove("title");
            let is_known = origin.as_object().is_some_and(|origin| !origin.is_empty());
            members.extend(is_known.then(|| (ORIGIN.to_owned(), origin)));
        }
        self.schemas.insert(name, part);
    }

    /// Which definitions cannot be shared: those that are something else for another operation, those
    /// that lead to the schema itself, and those that lead to one of these.
    fn own(&self, parts: &[(Key, Rc<Part>)]) -> Vec<bool> {
        let places: HashMap<(&str, &str), usize> =
            parts.iter().enumerate().map(|(at, (key, _))| ((key.1, &*key.2), at)).collect();
        let mut leading_here = vec![Vec::new(); parts.len()];
        let mut found = Vec::new();
        for (at, (key, part)) in parts.iter().enumerate() {
            let mut is_own = self.shared.get(key).is_some_and(|known| !Rc::ptr_eq(known, part));
            for target in &part.targets {
                let place = target.as_ref().and_then(|(keyword, key)| places.get(&(*keyword, key)));
                match place {
                    Some(target) => leading_here[*target].push(at),
                    None => is_own = true,
                }
            }
            found.extend(is_own.then_some(at));
        }
        let mut own = vec![false; parts.len()];
        while let Some(at) = found.pop() {
            if !std::mem::replace(&mut own[at], true) {
                found.extend(&leading_here[at]);
            }
        }
        own
    }

    /// The original by its components.
    fn described(&self, settled: &Settled, original: &Value) -> Value {
        let homes = &settled.homes;
        let mut described = reference(&homes.root);
        for keyword in ["$schema", "title"] {
            if let Some(said) = original.get(keyword) {
                described[keyword] = said.clone();
            }
        }
        for (keyword, key, _) in schema::definitions(original) {
            let key = (keyword, key.clone());
            if let Some(home) = homes.definitions.get(&key).filter(|_| !settled.led.contains(&key))
            {
                described[keyword][key.1] = reference(home);
            }
        }
        // A document of hundreds of definitions is not read twice for each operation.
        debug_assert!(
            homes.definitions.len() > 50
                || schema::restored(&described, |name| self.schemas.get(name)).as_ref()
                    == Some(original),
            "what is described can be had again",
        );
        described
    }
}

/// Where a schema and its definitions are.
struct Settled {
    homes: Homes,
    /// The definitions that something leads to; the others have to be named.
    led: HashSet<(&'static str, String)>,
    /// Whether it can be had again to the letter.
    is_exact: bool,
}

fn led(root: &Part, parts: &[(Key, Rc<Part>)]) -> HashSet<(&'static str, String)> {
    let parts: HashMap<(&str, &str), &Part> =
        parts.iter().map(|(key, part)| ((key.1, &*key.2), &**part)).collect();
    let mut led = HashSet::new();
    let mut waiting = vec![root];
    while let Some(part) = waiting.pop() {
        for (keyword, key) in part.targets.iter().flatten() {
            let Some(target) = parts.get(&(*keyword, key)) else { continue };
            if led.insert((*keyword, key.clone())) {
                waiting.push(target);
            }
        }
    }
    led
}

/// A schema without its definitions, or one of these.
pub(super) struct Part {
    pub(super) original: Value,
    pub(super) published: Value,
    references: Vec<String>,
    /// The definitions that these lead to; what is none is the schema itself.
    targets: Vec<Option<(&'static str, String)>>,
    /// Whether it can be had again to the letter.
    pub(super) is_exact: bool,
    /// What it is called among the components, once it is shared.
    name: OnceCell<String>,
}

impl Part {
    /// `None` if it is no schema.
    pub(super) fn of(original: &Value, find: Find<'_, '_>) -> Option<Self> {
        let published = tidied(original, find)?;
        let references = schema::references(&published);
        let target = |link: &str| {
            let (keyword, key, _) = schema::definition(link.strip_prefix('#')?)?;
            Some((keyword, key))
        };
        let is_exact = is_same(original, &published)
            && references.iter().all(|reference| schema::is_plain(reference));
        let targets = schema::links(&published).into_iter().map(target).collect();
        let (original, name) = (original.clone(), OnceCell::new());
        Some(Self { original, published, references, targets, is_exact, name })
    }

    /// What another gateway needs to know of a definition beside its text.
    pub(super) fn origin(&self, keyword: &str, key: Option<&str>) -> Value {
        let mut origin = json!({});
        if let Some(key) = key {
            origin["key"] = key.into();
        }
        if keyword != "$defs" {
            origin["keyword"] = keyword.into();
        }
        if let Some(title) = self.original.get("title") {
            origin["title"] = title.clone();
        }
        origin
    }

    fn leads_somewhere(&self, document: &Value) -> bool {
        let is_schema = |value: &Value| value.is_object() || value.is_boolean();
        let target = |reference: &String| document.pointer(reference.strip_prefix('#')?);
        self.references.iter().all(|reference| target(reference).is_some_and(is_schema))
    }
}

/// Whether two parts differ in nothing but the dialect, which is put back.
fn is_same(original: &Value, published: &Value) -> bool {
    let (Some(original), Some(published)) = (original.as_object(), published.as_object()) else {
        return false;
    };
    let said = original.iter().filter(|(keyword, _)| *keyword != "$schema");
    said.clone().count() == published.len()
        && said.into_iter().all(|(keyword, value)| published.get(keyword) == Some(value))
}

fn without_definitions(document: &Value) -> Value {
    let members = document.as_object().into_iter().flatten();
    let members =
        members.filter(|(keyword, _)| !matches!(keyword.as_str(), "$defs" | "definitions"));
    Value::Object(members.map(|(keyword, value)| (keyword.clone(), value.clone())).collect())
}

/// A title alone does not bind anybody.
pub(super) fn says_something(document: &Value) -> bool {
    document.as_object().is_some_and(|members| members.keys().any(|keyword| keyword != "title"))
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{COMPONENTS}{name}")})
}
