//! Walks a schema and writes its portable form.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use super::PortableError;
use super::reference::{RefTarget, References};
use super::relaxed;
use super::structure::SchemaBuilder;

/// Maximum number of schemas in a document.
pub(super) const MAX_PARTS: u32 = 50_000;
/// Maximum number of definitions. Some clients compile them recursively.
pub(super) const MAX_DEFINITIONS: usize = 256;
/// Maximum nesting depth of schemas; deeper ones are omitted.
const MAX_DEPTH: u32 = 64;

pub(super) struct PortableWriter<'a> {
    pub(super) references: References<'a>,
    root_pointer: &'a str,
    /// Names of definitions by JSON Pointer in the original document.
    names: HashMap<String, String>,
    used_names: HashSet<String>,
    /// Definitions that have a name but are not written yet.
    pending: Vec<(String, RefTarget<'a>)>,
    omitted: BTreeSet<String>,
    parts: u32,
    refs_are_exact: bool,
    refers_to_root: bool,
    pub(super) is_relaxed: bool,
}

/// A complete document.
pub(super) struct PortableDocument {
    pub(super) root: Value,
    pub(super) definitions: Map<String, Value>,
    pub(super) omitted: BTreeSet<String>,
    /// Whether the document admits only values that the original admits.
    pub(super) is_exact: bool,
    pub(super) refers_to_root: bool,
}

/// Position of the walk.
#[derive(Clone, Copy)]
pub(super) struct WalkContext {
    depth: u32,
    /// Inside a part with its own `$id`, whose references cannot be resolved.
    is_foreign: bool,
    /// At the root of the document, outside of its subschemas.
    is_root: bool,
}

/// A written schema, and whether it admits only values that the original admits.
pub(super) struct WrittenSchema {
    pub(super) schema: Value,
    pub(super) is_exact: bool,
}

impl<'a> PortableWriter<'a> {
    pub(super) fn new(document: &'a Value, root_pointer: &'a str) -> Self {
        Self {
            references: References::new(document),
            root_pointer,
            names: HashMap::new(),
            used_names: HashSet::new(),
            pending: Vec::new(),
            omitted: BTreeSet::new(),
            parts: 0,
            refs_are_exact: true,
            refers_to_root: false,
            is_relaxed: false,
        }
    }

    /// Writes the relaxed form.
    pub(super) fn relaxed(mut self) -> Self {
        self.is_relaxed = true;
        self
    }

    /// Treats every reference as inexact.
    pub(super) fn with_inexact_refs(mut self) -> Self {
        self.refs_are_exact = false;
        self
    }

    pub(super) fn write(mut self, document: &'a Value) -> Result<PortableDocument, PortableError> {
        let context = WalkContext { depth: 0, is_foreign: false, is_root: true };
        let root = self.schema(document, context);
        let mut is_exact = root.is_exact;
        let mut definitions = Map::new();
        while let Some((name, target)) = self.pending.pop() {
            let context = WalkContext { depth: 0, is_foreign: target.is_foreign, is_root: false };
            let written = self.schema(target.schema, context);
            is_exact &= written.is_exact;
            definitions.insert(name, written.schema);
            if definitions.len() > MAX_DEFINITIONS {
                return Err(PortableError::TooManyDefinitions);
            }
        }
        if self.parts > MAX_PARTS {
            return Err(PortableError::TooLarge);
        }
        definitions.sort_keys();
        let Self { omitted, refers_to_root, .. } = self;
        Ok(PortableDocument { root: root.schema, definitions, omitted, is_exact, refers_to_root })
    }

    pub(super) fn schema(&mut self, schema: &'a Value, context: WalkContext) -> WrittenSchema {
        let is_exact = true;
        match schema {
            Value::Bool(false) if !self.is_relaxed => {
                let nothing = Map::from_iter([("not".to_owned(), Value::Object(Map::new()))]);
                WrittenSchema { schema: nothing.into(), is_exact }
            }
            Value::Object(members) if self.try_visit(context) => {
                let is_foreign = context.is_foreign || self.references.is_foreign(schema);
                let adds_null = self.is_relaxed && !context.is_root;
                let context = WalkContext { depth: context.depth + 1, is_foreign, is_root: false };
                SchemaBuilder::new(self, members, context, adds_null).write()
            }
            Value::Bool(_) => WrittenSchema { schema: Value::Object(Map::new()), is_exact },
            _ => {
                self.omit("invalid or too deeply nested schemas");
                WrittenSchema { schema: Value::Object(Map::new()), is_exact: false }
            }
        }
    }

    fn try_visit(&mut self, context: WalkContext) -> bool {
        self.parts = self.parts.saturating_add(1);
        context.depth < MAX_DEPTH && self.parts <= MAX_PARTS
    }

    /// Writes a reference to the root or to a definition, for any location the original targets.
    pub(super) fn write_ref(&mut self, reference: &Value, context: WalkContext) -> WrittenSchema {
        let own = reference.as_str().filter(|_| !context.is_foreign);
        let Some(target) = own.and_then(|reference| self.references.resolve(reference)) else {
            self.omit("$ref");
            return WrittenSchema { schema: Value::Object(Map::new()), is_exact: false };
        };
        let target_is_root = target.pointer.is_empty();
        let context = match target.pointer.as_str() {
            "" => {
                self.refers_to_root = true;
                self.root_pointer.to_owned()
            }
            _ => format!("#/$defs/{}", self.definition_name(target)),
        };
        let mut schema = Map::from_iter([("$ref".to_owned(), Value::String(context))]).into();
        // Unlike definitions, the root does not admit null.
        if self.is_relaxed && target_is_root {
            schema = relaxed::or_null(schema);
        }
        WrittenSchema { schema, is_exact: self.refs_are_exact }
    }

    fn definition_name(&mut self, target: RefTarget<'a>) -> String {
        if let Some(name) = self.names.get(&target.pointer) {
            return name.clone();
        }
        let last = target.pointer.rsplit('/').next().unwrap_or_default();
        let plain = |character: char| match character {
            _ if character.is_ascii_alphanumeric() => character,
            '-' | '.' => character,
            _ => '_',
        };
        let preferred: String = last.chars().take(64).map(plain).collect();
        let preferred = if preferred.is_empty() { "definition".to_owned() } else { preferred };
        let mut name = preferred.clone();
        // Each attempt uses a new number, and the number of definitions is limited.
        for number in 2.. {
            if self.used_names.insert(name.clone()) {
                break;
            }
            name = format!("{preferred}_{number}");
        }
        self.names.insert(target.pointer.clone(), name.clone());
        if self.names.len() <= MAX_DEFINITIONS + 1 {
            self.pending.push((name.clone(), target));
        }
        name
    }

    pub(super) fn omit(&mut self, what: &str) {
        self.omitted.insert(what.to_owned());
    }
}
