//! Component schemas and the references to them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::name::{UniqueNames, type_name};
use super::publish::{DefinitionLookup, lookup_in, sanitize, to_portable_schema, upgrade_draft};
use super::shared;
use super::shared_defs::{ImportKey, ImportedDocument};
use crate::json::JsonObject;
use crate::schema::{self, COMPONENTS_PREFIX, ComponentNames, DEFINITION_EXTENSION, Schema};

/// The component schemas of a document.
pub(super) struct Components {
    schemas: JsonObject,
    pub(super) names: UniqueNames,
    /// Definitions shared by the operations of a namespace.
    shared: HashMap<DefinitionKey, Rc<SchemaFragment>>,
    /// Documents that operations were imported from.
    pub(super) imported: HashMap<ImportKey, ImportedDocument>,
}

/// Namespace, keyword and key of a definition.
type DefinitionKey = (String, &'static str, String);

/// The operation a schema belongs to.
#[derive(Clone, Copy)]
pub(super) struct SchemaOwner<'a> {
    /// Namespace of the operation. Operations of one namespace share definitions.
    pub(super) namespace: &'a str,
    /// Preferred name of the component.
    pub(super) preferred_name: &'a str,
}

/// A schema that was added to the document.
#[derive(Debug, Clone)]
pub(super) struct PublishedSchema {
    /// The value to use as a schema: a `$ref`, or `{}` without constraints.
    pub(super) reference: Value,
    /// The value in the extension, from which the original schema can be restored exactly.
    pub(super) lossless: Value,
    /// Name of the component, if any.
    pub(super) component: Option<String>,
}

impl Components {
    /// Creates the components with the schemas that every document has.
    pub(super) fn new() -> Self {
        let mut components = Self {
            schemas: Map::new(),
            names: UniqueNames::default(),
            shared: HashMap::new(),
            imported: HashMap::new(),
        };
        for (name, schema) in shared::schemas() {
            components.names.claim(&name, &name);
            components.schemas.insert(name, schema);
        }
        components
    }

    pub(super) fn into_schemas(mut self) -> JsonObject {
        self.schemas.sort_keys();
        self.schemas
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.schemas.get(name)
    }

    /// Adds a generated schema under its preferred name, and returns a reference to it.
    pub(super) fn add(&mut self, preferred_name: &str, schema: Value) -> Value {
        let name = self.names.claim(preferred_name, preferred_name);
        let reference = reference(&name);
        self.schemas.insert(name, schema);
        reference
    }

    /// Adds the schema of an operation: unchanged, in portable form, or not at all.
    pub(super) fn publish(&mut self, owner: SchemaOwner<'_>, schema: &Schema) -> PublishedSchema {
        let excerpt = schema.as_shared_defs();
        let published = excerpt.and_then(|excerpt| self.publish_shared(owner, excerpt));
        published.unwrap_or_else(|| self.publish_standalone(owner, schema))
    }

    fn publish_standalone(&mut self, owner: SchemaOwner<'_>, schema: &Schema) -> PublishedSchema {
        let original = schema.json();
        let nothing = || PublishedSchema {
            reference: json!({}),
            lossless: original.clone().into_owned(),
            component: None,
        };
        if schema.is_unknown() {
            return nothing();
        }
        let modern = upgrade_draft(&original);
        let is_same = matches!(modern, Cow::Borrowed(_));
        let bundled =
            schema::is_relocatable(&modern).then(|| self.bundle(owner, &modern)).flatten();
        let bundled = bundled.map(|it| BundledSchema { is_exact: it.is_exact && is_same, ..it });
        let bundled = bundled.or_else(|| {
            let portable = to_portable_schema(&original)?;
            Some(BundledSchema { is_exact: false, ..self.bundle(owner, &portable)? })
        });
        let Some(bundled) = bundled else { return nothing() };
        let described = match bundled.is_exact {
            true => self.lossless_reference(&bundled, &original),
            false => original.clone().into_owned(),
        };
        let root = bundled.component_names.root;
        PublishedSchema { reference: reference(&root), lossless: described, component: Some(root) }
    }

    /// Adds a schema and its definitions; `None` if it is invalid or has no constraints.
    fn bundle(&mut self, owner: SchemaOwner<'_>, document: &Value) -> Option<BundledSchema> {
        let find = lookup_in(document);
        let root = SchemaFragment::new(&without_definitions(document), &find)?;
        if !has_constraints(&root.published) || !root.refs_resolve(document) {
            return None;
        }
        let mut parts = Vec::new();
        for (keyword, key, original) in schema::definitions(document) {
            let key = (owner.namespace.to_owned(), keyword, key.clone());
            let known = self.shared.get(&key).filter(|known| known.original == *original);
            let part = match known {
                Some(known) => Rc::clone(known),
                None => Rc::new(SchemaFragment::new(original, &find)?),
            };
            if !part.refs_resolve(document) {
                return None;
            }
            parts.push((key, part));
        }
        let is_exact = root.is_exact && parts.iter().all(|(_, part)| part.is_exact);
        let referenced = referenced_definitions(&root, &parts);
        let component_names = self.bundle_definitions(owner, parts);
        self.insert(&component_names, component_names.root.clone(), root.published, json!({}));
        Some(BundledSchema { component_names, referenced, is_exact })
    }

    fn bundle_definitions(
        &mut self,
        owner: SchemaOwner<'_>,
        parts: Vec<(DefinitionKey, Rc<SchemaFragment>)>,
    ) -> ComponentNames {
        let own = self.unshareable(&parts);
        let root = self.names.claim(owner.preferred_name, owner.preferred_name);
        let mut component_names = ComponentNames { root, definitions: HashMap::new() };
        let mut new = Vec::new();
        for ((key, part), is_own) in parts.into_iter().zip(own) {
            let known =
                self.shared.get(&key).filter(|_| !is_own).map(|known| known.name.get().cloned());
            let name = known.flatten().unwrap_or_else(|| {
                let before =
                    if is_own { owner.preferred_name } else { &*type_name(owner.namespace) };
                let preferred_name = format!("{before}{}", type_name(&key.2));
                let name =
                    self.names.claim(&preferred_name, &format!("{before} {} {}", key.1, key.2));
                new.push((
                    name.clone(),
                    part.definition_metadata(key.1, Some(&key.2)),
                    Rc::clone(&part),
                ));
                name
            });
            component_names.definitions.insert((key.1, key.2.clone()), name.clone());
            if !is_own {
                let _ = part.name.set(name);
                self.shared.entry(key).or_insert(part);
            }
        }
        for (name, origin, part) in new {
            self.insert(&component_names, name, part.published.clone(), origin);
        }
        component_names
    }

    /// Adds a part to the document, with the metadata of its original location.
    pub(super) fn insert(
        &mut self,
        component_names: &ComponentNames,
        name: String,
        mut part: Value,
        origin: Value,
    ) {
        component_names.rewrite_refs(&mut part);
        if let Some(members) = part.as_object_mut() {
            // Remove titles: code generators name types by title, and titles are not unique.
            members.shift_remove("title");
            let is_known = origin.as_object().is_some_and(|origin| !origin.is_empty());
            members.extend(is_known.then(|| (DEFINITION_EXTENSION.to_owned(), origin)));
        }
        self.schemas.insert(name, part);
    }

    /// Returns which definitions cannot be shared: those that differ from another operation's
    /// definition with the same key, those that refer to the schema root, and those that refer to
    /// one of these.
    fn unshareable(&self, parts: &[(DefinitionKey, Rc<SchemaFragment>)]) -> Vec<bool> {
        let index_by_key: HashMap<(&str, &str), usize> =
            parts.iter().enumerate().map(|(at, (key, _))| ((key.1, &*key.2), at)).collect();
        let mut leading_here = vec![Vec::new(); parts.len()];
        let mut found = Vec::new();
        for (at, (key, part)) in parts.iter().enumerate() {
            let mut is_own = self.shared.get(key).is_some_and(|known| !Rc::ptr_eq(known, part));
            for target in &part.targets {
                let target_index =
                    target.as_ref().and_then(|(keyword, key)| index_by_key.get(&(*keyword, key)));
                match target_index {
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

    /// Returns a reference to the components from which the original schema can be restored.
    fn lossless_reference(&self, bundled: &BundledSchema, original: &Value) -> Value {
        let component_names = &bundled.component_names;
        let mut described = reference(&component_names.root);
        for keyword in ["$schema", "title"] {
            if let Some(value) = original.get(keyword) {
                described[keyword] = value.clone();
            }
        }
        for (keyword, key, _) in schema::definitions(original) {
            let key = (keyword, key.clone());
            if let Some(home) =
                component_names.definitions.get(&key).filter(|_| !bundled.referenced.contains(&key))
            {
                described[keyword][key.1] = reference(home);
            }
        }
        // Many definitions would be read again for each operation.
        debug_assert!(
            component_names.definitions.len() > 50
                || schema::unbundle(&described, |name| self.schemas.get(name)).as_ref()
                    == Some(original),
            "the lossless form unbundles to the original",
        );
        described
    }
}

/// A schema that was added as components.
struct BundledSchema {
    component_names: ComponentNames,
    /// Definitions that are referenced; all others must be listed by name to be restored.
    referenced: HashSet<(&'static str, String)>,
    /// Whether the original schema can be restored exactly.
    is_exact: bool,
}

fn referenced_definitions(
    root: &SchemaFragment,
    parts: &[(DefinitionKey, Rc<SchemaFragment>)],
) -> HashSet<(&'static str, String)> {
    let parts: HashMap<(&str, &str), &SchemaFragment> =
        parts.iter().map(|(key, part)| ((key.1, &*key.2), &**part)).collect();
    let mut referenced = HashSet::new();
    let mut waiting = vec![root];
    while let Some(part) = waiting.pop() {
        for (keyword, key) in part.targets.iter().flatten() {
            let Some(target) = parts.get(&(*keyword, key)) else { continue };
            if referenced.insert((*keyword, key.clone())) {
                waiting.push(target);
            }
        }
    }
    referenced
}

/// The root of a schema without its definitions, or one definition.
pub(super) struct SchemaFragment {
    pub(super) original: Value,
    pub(super) published: Value,
    references: Vec<String>,
    /// The definitions that the references target; `None` for the schema root.
    targets: Vec<Option<(&'static str, String)>>,
    /// Whether the original can be restored exactly.
    pub(super) is_exact: bool,
    /// Name of the component, once the definition is shared.
    name: OnceCell<String>,
}

impl SchemaFragment {
    /// Creates a fragment. Returns `None` if it is not a valid schema.
    pub(super) fn new(original: &Value, find: DefinitionLookup<'_, '_>) -> Option<Self> {
        let published = sanitize(original, find)?;
        let references = schema::collect_refs(&published);
        let target = |link: &str| {
            let (keyword, key, _) = schema::parse_definition_pointer(link.strip_prefix('#')?)?;
            Some((keyword, key))
        };
        let is_exact = equals_except_dialect(original, &published)
            && references.iter().all(|reference| schema::ref_round_trips(reference));
        let targets = schema::ref_targets(&published).into_iter().map(target).collect();
        let (original, name) = (original.clone(), OnceCell::new());
        Some(Self { original, published, references, targets, is_exact, name })
    }

    /// Returns the metadata that another gateway needs to restore a definition.
    pub(super) fn definition_metadata(&self, keyword: &str, key: Option<&str>) -> Value {
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

    fn refs_resolve(&self, document: &Value) -> bool {
        let is_schema = |value: &Value| value.is_object() || value.is_boolean();
        let target = |reference: &String| document.pointer(reference.strip_prefix('#')?);
        self.references.iter().all(|reference| target(reference).is_some_and(is_schema))
    }
}

/// Whether the schemas are equal apart from `$schema`, which is restored separately.
fn equals_except_dialect(original: &Value, published: &Value) -> bool {
    let (Some(original), Some(published)) = (original.as_object(), published.as_object()) else {
        return false;
    };
    let keywords = original.iter().filter(|(keyword, _)| *keyword != "$schema");
    keywords.clone().count() == published.len()
        && keywords.into_iter().all(|(keyword, value)| published.get(keyword) == Some(value))
}

fn without_definitions(document: &Value) -> Value {
    let members = document.as_object().into_iter().flatten();
    let members =
        members.filter(|(keyword, _)| !matches!(keyword.as_str(), "$defs" | "definitions"));
    Value::Object(members.map(|(keyword, value)| (keyword.clone(), value.clone())).collect())
}

/// Whether a schema has constraints; a title alone is none.
pub(super) fn has_constraints(document: &Value) -> bool {
    document.as_object().is_some_and(|members| members.keys().any(|keyword| keyword != "title"))
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{COMPONENTS_PREFIX}{name}")})
}
