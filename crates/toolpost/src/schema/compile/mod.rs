//! Compiles a schema document to a [`SchemaProgram`], each schema once.

mod analyze;
mod applicators;
mod check;
mod defaults;
mod keyword;
mod object;
mod reference;

pub(super) use check::check_document;

use std::collections::{HashMap, VecDeque};

use referencing::{Draft, Registry, Resolver};
use serde_json::{Map, Value};

use super::SchemaError;
use super::budget::{Budget, ValueSize};
use super::program::{IntegerRule, NodeId, SchemaNode, SchemaProgram, TypeSet};

/// Base URI of references in a document without an identifier.
const DEFAULT_BASE: &str = "json-schema:///";

/// Compiles a document within a budget.
///
/// The document is checked and measured before its references are indexed, which costs a bounded
/// number of steps for each of its nodes.
pub(super) fn compile(document: &Value, budget: &Budget<'_>) -> Result<SchemaProgram, SchemaError> {
    let draft = Draft::default().detect(document);
    if draft == Draft::Unknown {
        return Err(SchemaError::DoesNotCompile {
            at: "/$schema".to_owned(),
            message: "unknown dialect".to_owned(),
        });
    }
    check_document(document, budget)?;
    let resource = draft.create_resource_ref(document);
    let base = resource.id().unwrap_or(DEFAULT_BASE);
    let registry = Registry::new()
        .draft(draft)
        .add(base, resource)
        .and_then(referencing::RegistryBuilder::prepare)
        .map_err(resolve_error)?;
    let base = referencing::uri::from_str(base.trim_end_matches('#')).map_err(resolve_error)?;
    let scope = CompileScope { resolver: registry.resolver(base), draft };
    let mut compiler = SchemaCompiler::new(reference::DynamicScopes::of(document), budget);
    let root = compiler.node(document, &scope)?;
    while let Some(task) = compiler.queue.pop_front() {
        let node = compiler.build(&task)?;
        compiler.nodes[task.id as usize] = node;
    }
    let mut program = SchemaProgram {
        nodes: compiler.nodes,
        root,
        integer_rule: match draft {
            Draft::Draft4 => IntegerRule::ByNotation,
            _ => IntegerRule::ByValue,
        },
        is_cyclic: false,
        has_defaults: false,
        warnings: Vec::new(),
    };
    analyze::analyze(&mut program);
    program.is_cyclic = program.nodes.iter().any(|node| node.cyclic);
    defaults::assign_defaults(&mut program, document, compiler.defaults, budget);
    analyze::mark_unstable(&mut program);
    match budget.is_exceeded() {
        true => Err(SchemaError::over_budget(budget)),
        false => Ok(program),
    }
}

/// The context of a schema: the base for its references and the draft of its keywords.
#[derive(Clone)]
struct CompileScope<'r> {
    resolver: Resolver<'r>,
    draft: Draft,
}

struct CompileTask<'r> {
    id: NodeId,
    schema: &'r Map<String, Value>,
    scope: CompileScope<'r>,
}

struct SchemaCompiler<'r> {
    budget: &'r Budget<'r>,
    nodes: Vec<SchemaNode>,
    queue: VecDeque<CompileTask<'r>>,
    /// Nodes of schema objects, by address in the document and dynamic scope.
    node_ids: HashMap<NodeKey, NodeId>,
    defaults: Vec<defaults::DefaultChoice>,
    scopes: reference::DynamicScopes,
}

/// The address of a schema object, and the dynamic scope in which it is compiled.
type NodeKey = (usize, u32);

/// The first two nodes of every program: `ANY` admits every value, `NEVER` none.
const ANY: NodeId = 0;
const NEVER: NodeId = 1;

/// Memory of a node and its task, without its keywords.
const NODE_MEMORY: usize = 512;

impl<'r> SchemaCompiler<'r> {
    fn new(scopes: reference::DynamicScopes, budget: &'r Budget<'r>) -> Self {
        Self {
            budget,
            nodes: vec![
                SchemaNode::from_types(TypeSet::ANY),
                SchemaNode::from_types(TypeSet::NONE),
            ],
            queue: VecDeque::new(),
            node_ids: HashMap::new(),
            defaults: Vec::new(),
            scopes,
        }
    }

    /// Returns the node of a schema. A schema that is only a reference has the node of its target.
    fn node(&mut self, schema: &'r Value, scope: &CompileScope<'r>) -> Result<NodeId, SchemaError> {
        let Some((schema, scope)) = self.follow_refs(schema, scope.clone())? else {
            return Ok(ANY);
        };
        let members = match schema {
            Value::Bool(false) => return Ok(NEVER),
            Value::Object(members) if !members.is_empty() => members,
            _ => return Ok(ANY),
        };
        let address = std::ptr::from_ref(members) as usize;
        let key = (address, self.scopes.id(&scope.resolver, self.budget));
        if let Some(id) = self.node_ids.get(&key) {
            return Ok(*id);
        }
        self.spend(1)?;
        if !self.budget.allocate(NODE_MEMORY) {
            return Err(SchemaError::over_budget(self.budget));
        }
        let id = NodeId::try_from(self.nodes.len())
            .map_err(|_| SchemaError::at_root("schema is too large"))?;
        self.nodes.push(SchemaNode::from_types(TypeSet::ANY));
        self.node_ids.insert(key, id);
        self.queue.push_back(CompileTask { id, schema: members, scope });
        Ok(id)
    }

    fn build(&mut self, task: &CompileTask<'r>) -> Result<SchemaNode, SchemaError> {
        let CompileTask { id, schema, scope } = task;
        self.spend(1 + schema.len())?;
        // References can lead to places that are not schemas.
        check::check_members(schema, scope.draft)
            .map_err(|(_, message)| SchemaError::at_root(message))?;
        let applicators = self.applicators(schema, scope)?;
        let mut node = SchemaNode::from_types(TypeSet::ANY);
        if !reference::ignores_ref_siblings(schema, scope.draft) {
            node.types = keyword::types(schema);
            node.declared_types = node.types;
            node.literals = self.literals(schema, scope.draft)?;
            node.number = keyword::number(schema, scope.draft).map(Box::new);
            node.string = self.string(schema, scope.draft)?.map(Box::new);
            node.array = self.array(schema, scope)?.map(Box::new);
            node.object = self.object(*id, schema, scope)?.map(Box::new);
        }
        node.applicators = applicators.map(Box::new);
        if let Some(literals) = &node.literals {
            node.types = node.types.intersection(keyword::types_of(literals));
            node.literal_steps =
                literals.iter().map(|literal| ValueSize::of(literal).nodes).sum::<usize>() / 8;
        }
        node.type_only = node.literals.is_none()
            && node.number.is_none()
            && node.string.is_none()
            && node.array.is_none()
            && node.object.is_none()
            && node.applicators.is_none();
        Ok(node)
    }

    fn spend(&self, steps: usize) -> Result<(), SchemaError> {
        match self.budget.spend(steps) && !self.budget.is_exceeded() {
            true => Ok(()),
            false => Err(SchemaError::over_budget(self.budget)),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "passed to `map_err`")]
fn resolve_error(error: referencing::Error) -> SchemaError {
    SchemaError::at_root(error.to_string())
}
