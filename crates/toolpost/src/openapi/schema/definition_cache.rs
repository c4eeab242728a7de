//! Cache of schema definitions, each written once and shared by all schemas that contain it.
//!
//! The name of a definition depends on the names assigned before it, and so does the set of schemas
//! in a discriminator mapping. The cache therefore stores the naming steps of each definition and
//! replays them for every schema that contains it.

use std::collections::{HashMap, HashSet, VecDeque};

use super::super::document::NodeRef;
use super::context::SchemaContext;
use super::definition_name;
use super::schema_writer::{DefinitionNames, SchemaCursor, SchemaWriter};
use super::shape::{SchemaShape, SchemaUsage};
use crate::schema::{SharedDefinition, SplitRoot, SplitSchema};

/// Definitions of a document that are written or referenced.
#[derive(Debug)]
pub(super) struct DefinitionCache {
    /// Whether requests and responses have the same schemas.
    is_usage_independent: bool,
    indices: HashMap<(NodeRef, SchemaUsage), usize>,
    definitions: Vec<CachedDefinition>,
    /// Definitions that are written but not returned yet.
    pending: Vec<SharedDefinition>,
}

/// A definition and its naming steps.
#[derive(Debug)]
struct CachedDefinition {
    node_ref: NodeRef,
    usage: SchemaUsage,
    /// Key of the definition when it was first written, if it had a name by then.
    key: Option<String>,
    /// Naming steps of the definition, or `None` if it is not written yet.
    naming_steps: Option<Vec<NamingStep>>,
}

/// A name operation that occurred while a definition was written.
#[derive(Debug)]
enum NamingStep {
    /// A reference to a definition, with its preferred name.
    Reference(usize, Box<str>),
    /// A lookup of a definition, and whether it had a name by then.
    Lookup(usize, bool),
}

impl DefinitionCache {
    pub(super) fn new(context: &SchemaContext) -> Self {
        let (indices, definitions, pending) = (HashMap::new(), Vec::new(), Vec::new());
        Self { is_usage_independent: is_usage_independent(context), indices, definitions, pending }
    }

    /// Splits a schema into a root and shared definitions.
    pub(super) fn extract(&mut self, context: &SchemaContext, shape: &SchemaShape) -> SplitSchema {
        let mut extraction = SchemaExtraction {
            cache: self,
            names: HashMap::new(),
            used_names: HashSet::new(),
            queue: VecDeque::new(),
            steps: Vec::new(),
            is_context_dependent: false,
        };
        let root = match shape {
            SchemaShape::Schema(node_ref, usage) => {
                SplitRoot::Definition(extraction.start_root(context, *node_ref, *usage))
            }
            other => {
                let mut writer = SchemaWriter { context, names: &mut extraction };
                SplitRoot::Inline(writer.write_shape(other))
            }
        };
        extraction.steps.clear();
        let mut reached = Vec::new();
        while let Some(index) = extraction.queue.pop_front() {
            reached.push(index);
            extraction.visit(context, index);
            if extraction.is_context_dependent {
                return SplitSchema::default();
            }
        }
        let renamed = reached.iter().filter_map(|index| extraction.renamed_key(*index)).collect();
        let new = std::mem::take(&mut self.pending);
        SplitSchema { root, new_definitions: new, referenced: reached, renamed }
    }

    fn definition_index(&mut self, node_ref: NodeRef, usage: SchemaUsage) -> usize {
        let usage = match usage {
            SchemaUsage::Request if self.is_usage_independent => SchemaUsage::Response,
            usage => usage,
        };
        let next = self.definitions.len();
        let index = *self.indices.entry((node_ref, usage)).or_insert(next);
        if index == next {
            let (key, naming_steps) = (None, None);
            self.definitions.push(CachedDefinition { node_ref, usage, key, naming_steps });
        }
        index
    }
}

/// Definition names of one schema while it is split.
struct SchemaExtraction<'v> {
    cache: &'v mut DefinitionCache,
    /// Names of the definitions in this schema, by definition index.
    names: HashMap<usize, String>,
    used_names: HashSet<String>,
    queue: VecDeque<usize>,
    steps: Vec<NamingStep>,
    /// Whether the result depends on this schema, so that its definitions cannot be shared.
    is_context_dependent: bool,
}

impl SchemaExtraction<'_> {
    /// Starts with the root schema, which has no key in this schema. The name in its reference is
    /// suggested as key, because other schemas probably use it.
    fn start_root(
        &mut self,
        context: &SchemaContext,
        node_ref: NodeRef,
        usage: SchemaUsage,
    ) -> usize {
        let index = self.cache.definition_index(context.canonical(node_ref), usage);
        if let Some(reference) = context.documents.node(node_ref).text("$ref") {
            self.suggest_key(index, &definition_name::name_from_reference(reference));
        }
        self.names.insert(index, "#".to_owned());
        self.queue.push_back(index);
        index
    }

    /// Replays the naming steps of a definition, or writes it and records them.
    fn visit(&mut self, context: &SchemaContext, definition_index: usize) {
        let definition = &mut self.cache.definitions[definition_index];
        let (node_ref, usage) = (definition.node_ref, definition.usage);
        let steps = match definition.naming_steps.take() {
            Some(steps) => {
                steps.iter().for_each(|step| self.replay(step));
                steps
            }
            None => {
                let node = context.documents.node(node_ref);
                let mut writer = SchemaWriter { context, names: self };
                let schema = writer.write_schema(writer.cursor(node, usage));
                let key = self.cache.definitions[definition_index].key.clone();
                self.cache.pending.push(SharedDefinition { index: definition_index, key, schema });
                deduplicate_steps(std::mem::take(&mut self.steps))
            }
        };
        self.cache.definitions[definition_index].naming_steps = Some(steps);
    }

    fn replay(&mut self, step: &NamingStep) {
        match step {
            NamingStep::Reference(index, preferred_name) => {
                self.assign_name(*index, preferred_name);
            }
            NamingStep::Lookup(index, was_named) => {
                self.is_context_dependent |= self.names.contains_key(index) != *was_named;
            }
        }
    }

    fn assign_name(&mut self, index: usize, preferred_name: &str) {
        if self.names.contains_key(&index) {
            return;
        }
        let name = definition_name::unique_name(&mut self.used_names, preferred_name);
        self.suggest_key(index, &name);
        self.names.insert(index, name);
        self.queue.push_back(index);
    }

    /// Sets the key of a definition, unless it has one or was already written without one.
    fn suggest_key(&mut self, index: usize, key: &str) {
        let definition = &mut self.cache.definitions[index];
        if definition.naming_steps.is_none() && definition.key.is_none() {
            definition.key = Some(key.to_owned());
        }
    }

    fn renamed_key(&self, index: usize) -> Option<(usize, String)> {
        let name = self.names.get(&index).filter(|name| *name != "#")?;
        (self.cache.definitions[index].key.as_ref() != Some(name)).then(|| (index, name.clone()))
    }
}

impl DefinitionNames<'_> for SchemaExtraction<'_> {
    fn reference_to(&mut self, cursor: SchemaCursor<'_>, reference: &str) -> String {
        // A schema that becomes a definition because of its depth depends on the schema around it.
        self.is_context_dependent |= cursor.depth > 0;
        let index = self.cache.definition_index(cursor.node.node_ref(), cursor.usage);
        let preferred_name = definition_name::name_from_reference(reference);
        self.assign_name(index, &preferred_name);
        self.steps.push(NamingStep::Reference(index, preferred_name.into()));
        definition_pointer(index)
    }

    fn existing_reference(&mut self, node_ref: NodeRef, usage: SchemaUsage) -> Option<String> {
        let index = self.cache.definition_index(node_ref, usage);
        let is_named = self.names.contains_key(&index);
        self.steps.push(NamingStep::Lookup(index, is_named));
        is_named.then(|| definition_pointer(index))
    }
}

/// Whether the document contains nothing that is specific to requests or responses.
fn is_usage_independent(context: &SchemaContext) -> bool {
    let documents = &context.documents;
    let mut flags = documents.members_named("readOnly").chain(documents.members_named("writeOnly"));
    flags.all(|flag| flag.as_bool() != Some(true))
        && documents.members_named("type").all(|name| name.as_str() != Some("file"))
}

/// Removes repeated references to the same definition.
fn deduplicate_steps(mut steps: Vec<NamingStep>) -> Vec<NamingStep> {
    let mut referenced = HashSet::new();
    steps.retain(|step| match step {
        NamingStep::Reference(index, _) => referenced.insert(*index),
        NamingStep::Lookup(..) => true,
    });
    steps
}

fn definition_pointer(index: usize) -> String {
    format!("#/$defs/{index}")
}
