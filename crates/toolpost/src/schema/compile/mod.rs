//! Compiles a schema document to a [`SchemaProgram`], each schema once.

mod analyze;
mod applicators;
mod defaults;
mod keyword;
mod object;
mod reference;
mod shallow;

use std::collections::{HashMap, VecDeque};

use referencing::{Draft, Registry, Resolver};
use serde_json::{Map, Value};

use super::SchemaError;
use super::program::{IntegerRule, NodeId, SchemaNode, SchemaProgram, TypeSet};

/// Base URI of references in a document without an identifier.
const DEFAULT_BASE: &str = "json-schema:///";

/// Compiles a document that the `jsonschema` crate has accepted.
pub(super) fn compile(document: &Value) -> Result<SchemaProgram, SchemaError> {
    let draft = Draft::default().detect(document);
    let resource = draft.create_resource_ref(document);
    let base = resource.id().unwrap_or(DEFAULT_BASE);
    let registry = Registry::new()
        .draft(draft)
        .add(base, resource)
        .and_then(referencing::RegistryBuilder::prepare)
        .map_err(resolve_error)?;
    let base = referencing::uri::from_str(base.trim_end_matches('#')).map_err(resolve_error)?;
    let scope = CompileScope { resolver: registry.resolver(base), draft };
    let mut compiler = SchemaCompiler::new(reference::DynamicAnchors::of(document));
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
        draft,
        requires_fallback: compiler.requires_fallback || draft == Draft::Unknown,
        has_defaults: false,
        warnings: Vec::new(),
    };
    analyze::analyze(&mut program);
    // JSON Schema does not define the meaning of a schema that refers to itself in place, so the
    // `jsonschema` crate, which also produces the errors, decides.
    program.requires_fallback |= program.nodes.iter().any(|node| node.cyclic);
    defaults::assign_defaults(&mut program, document, compiler.defaults);
    analyze::mark_unstable(&mut program);
    Ok(program)
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
    nodes: Vec<SchemaNode>,
    queue: VecDeque<CompileTask<'r>>,
    /// Nodes of schema objects, by address in the document.
    node_ids: HashMap<usize, NodeId>,
    defaults: Vec<defaults::DefaultChoice>,
    anchors: reference::DynamicAnchors,
    requires_fallback: bool,
}

/// The first two nodes of every program: `ANY` admits every value, `NEVER` none.
const ANY: NodeId = 0;
const NEVER: NodeId = 1;

impl<'r> SchemaCompiler<'r> {
    fn new(anchors: reference::DynamicAnchors) -> Self {
        let mut nodes =
            vec![SchemaNode::from_types(TypeSet::ANY), SchemaNode::from_types(TypeSet::NONE)];
        nodes[NEVER as usize].shallow = Some(Box::new(Value::Bool(false)));
        Self {
            nodes,
            queue: VecDeque::new(),
            node_ids: HashMap::new(),
            defaults: Vec::new(),
            anchors,
            requires_fallback: false,
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
        if let Some(id) = self.node_ids.get(&address) {
            return Ok(*id);
        }
        let id = NodeId::try_from(self.nodes.len())
            .map_err(|_| SchemaError::at_root("schema is too large"))?;
        self.nodes.push(SchemaNode::from_types(TypeSet::ANY));
        self.node_ids.insert(address, id);
        self.queue.push_back(CompileTask { id, schema: members, scope });
        Ok(id)
    }

    fn build(&mut self, task: &CompileTask<'r>) -> Result<SchemaNode, SchemaError> {
        let CompileTask { id, schema, scope } = task;
        let applicators = self.applicators(schema, scope)?;
        let mut node = SchemaNode::from_types(TypeSet::ANY);
        if !reference::ignores_ref_siblings(schema, scope.draft) {
            node.types = keyword::types(schema);
            node.literals = keyword::literals(schema, scope.draft);
            node.number = keyword::number(schema, scope.draft).map(Box::new);
            node.string = keyword::string(schema, scope.draft).map(Box::new);
            node.array = self.array(schema, scope)?.map(Box::new);
            node.object = self.object(*id, schema, scope)?.map(Box::new);
        }
        node.applicators = applicators.map(Box::new);
        if let Some(literals) = &node.literals {
            node.types = node.types.intersection(keyword::types_of(literals));
        }
        node.type_only = node.literals.is_none()
            && node.number.is_none()
            && node.string.is_none()
            && node.array.is_none()
            && node.object.is_none()
            && node.applicators.is_none();
        node.shallow = shallow::shallow_schema(schema, &node).map(Box::new);
        Ok(node)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "passed to `map_err`")]
fn resolve_error(error: referencing::Error) -> SchemaError {
    SchemaError::at_root(error.to_string())
}
