//! Walks a schema and writes its portable form.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use super::keyword::{self, KeywordMapping};
use super::reference::{RefTarget, References};
use super::{PortableError, structure};

/// Maximum number of schemas in a document.
pub(super) const MAX_PARTS: u32 = 50_000;
/// Maximum number of definitions. Some clients compile them recursively.
pub(super) const MAX_DEFINITIONS: usize = 256;
/// Maximum nesting depth of schemas; deeper ones are omitted.
const MAX_DEPTH: u32 = 64;

pub(super) struct PortableWriter<'a> {
    references: References<'a>,
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
}

/// A written schema, and whether it admits only values that the original admits.
pub(super) struct WrittenSchema {
    pub(super) schema: Value,
    pub(super) is_exact: bool,
}

/// A schema under construction.
#[derive(Default)]
pub(super) struct SchemaBuilder {
    pub(super) keywords: Map<String, Value>,
    /// Additional constraints, written under `allOf`.
    pub(super) all_of: Vec<Value>,
    pub(super) is_weaker: bool,
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
        }
    }

    /// Treats every reference as inexact.
    pub(super) fn with_inexact_refs(mut self) -> Self {
        self.refs_are_exact = false;
        self
    }

    pub(super) fn write(mut self, document: &'a Value) -> Result<PortableDocument, PortableError> {
        let root = self.schema(document, WalkContext { depth: 0, is_foreign: false });
        let mut is_exact = root.is_exact;
        let mut definitions = Map::new();
        while let Some((name, target)) = self.pending.pop() {
            let context = WalkContext { depth: 0, is_foreign: target.is_foreign };
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
        let Self { omitted: left_out, refers_to_root, .. } = self;
        Ok(PortableDocument {
            root: root.schema,
            definitions,
            omitted: left_out,
            is_exact,
            refers_to_root,
        })
    }

    pub(super) fn schema(&mut self, schema: &'a Value, context: WalkContext) -> WrittenSchema {
        let is_exact = true;
        match schema {
            Value::Bool(false) => {
                let nothing = Map::from_iter([("not".to_owned(), Value::Object(Map::new()))]);
                WrittenSchema { schema: nothing.into(), is_exact }
            }
            Value::Object(members) if self.try_visit(context) => {
                let is_foreign = context.is_foreign || self.references.is_foreign(schema);
                self.write_object(members, WalkContext { depth: context.depth + 1, is_foreign })
            }
            Value::Bool(true) => WrittenSchema { schema: Value::Object(Map::new()), is_exact },
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

    fn write_object(
        &mut self,
        members: &'a Map<String, Value>,
        context: WalkContext,
    ) -> WrittenSchema {
        let mut builder = SchemaBuilder::default();
        if let Some(reference) = members.get("$ref") {
            let written = self.write_ref(reference, context);
            if self.references.ignores_ref_siblings {
                return written;
            }
            builder.is_weaker |= !written.is_exact;
            builder.all_of.push(written.schema);
        }
        for (keyword, value) in members {
            match keyword::map_keyword(keyword, value, members) {
                Some(KeywordMapping::Exact(value)) => {
                    drop(builder.keywords.insert(keyword.clone(), value));
                }
                Some(KeywordMapping::Weaker(value)) => {
                    builder.keywords.insert(keyword.clone(), value);
                    builder.is_weaker = true;
                }
                Some(KeywordMapping::Ignored) => {}
                Some(KeywordMapping::Unsupported) => self.omit_keyword(&mut builder, keyword),
                None => {
                    structure::write_keyword(self, keyword, value, members, &mut builder, context);
                }
            }
        }
        structure::write_items(self, members, &mut builder, context);
        builder.finish()
    }

    /// Writes a reference to the root or to a definition, for any location the original targets.
    fn write_ref(&mut self, reference: &Value, context: WalkContext) -> WrittenSchema {
        let own = reference.as_str().filter(|_| !context.is_foreign);
        let Some(target) = own.and_then(|reference| self.references.resolve(reference)) else {
            self.omit("$ref");
            return WrittenSchema { schema: Value::Object(Map::new()), is_exact: false };
        };
        let context = match target.pointer.as_str() {
            "" => {
                self.refers_to_root = true;
                self.root_pointer.to_owned()
            }
            _ => format!("#/$defs/{}", self.definition_name(target)),
        };
        let schema = Map::from_iter([("$ref".to_owned(), Value::String(context))]).into();
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

    /// Omits a keyword, which makes the schema weaker.
    pub(super) fn omit_keyword(&mut self, builder: &mut SchemaBuilder, keyword: &str) {
        self.omit(keyword);
        builder.is_weaker = true;
    }

    fn omit(&mut self, what: &str) {
        self.omitted.insert(what.to_owned());
    }
}

impl SchemaBuilder {
    pub(super) fn set(&mut self, keyword: &str, written: WrittenSchema) {
        self.is_weaker |= !written.is_exact;
        self.keywords.insert(keyword.to_owned(), written.schema);
    }

    fn finish(self) -> WrittenSchema {
        let Self { keywords: mut members, all_of: mut also, is_weaker } = self;
        let is_annotated = members.keys().all(|keyword| is_annotation(keyword));
        if let [Value::Object(only)] = also.as_mut_slice()
            && is_annotated
        {
            // Annotations can be placed next to a `$ref`, although draft 7 ignores them there.
            only.append(&mut members);
            return WrittenSchema { schema: also.swap_remove(0), is_exact: !is_weaker };
        }
        also.retain(|schema| schema.as_object().is_none_or(|members| !members.is_empty()));
        if !also.is_empty() {
            let all = members.entry("allOf").or_insert_with(|| Value::Array(Vec::new()));
            all.as_array_mut().into_iter().for_each(|all| all.append(&mut also));
        }
        WrittenSchema { schema: members.into(), is_exact: !is_weaker }
    }
}

fn is_annotation(keyword: &str) -> bool {
    let annotations =
        ["title", "description", "$comment", "default", "examples", "deprecated", "readOnly"];
    annotations.contains(&keyword) || keyword == "writeOnly" || keyword.starts_with("x-")
}
