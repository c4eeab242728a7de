//! From a schema document to a [`Program`]: a queue of schemas, each compiled once.

mod analyze;
mod keyword;
mod logic;
mod object;
mod reference;
mod shallow;

use std::collections::{HashMap, VecDeque};

use referencing::{Draft, Registry, Resolver};
use serde_json::{Map, Value};

use super::SchemaError;
use super::program::{Integers, Node, NodeId, Program, Types};
use super::repair::Extras;
use super::verdict::Judge;

/// The base of references in a document without an identifier.
const DEFAULT_BASE: &str = "json-schema:///";

/// Compiles a document that the `jsonschema` crate has accepted.
pub(super) fn compile(document: &Value) -> Result<Program, SchemaError> {
    let draft = Draft::default().detect(document);
    let resource = draft.create_resource_ref(document);
    let base = resource.id().unwrap_or(DEFAULT_BASE);
    let registry = Registry::new()
        .draft(draft)
        .add(base, resource)
        .and_then(referencing::RegistryBuilder::prepare)
        .map_err(unresolved)?;
    let base = referencing::uri::from_str(base.trim_end_matches('#')).map_err(unresolved)?;
    let scope = Scope { resolver: registry.resolver(base), draft };
    let mut compiler = Compiler::new(reference::DynamicAnchors::of(document));
    let root = compiler.node(document, &scope)?;
    while let Some(task) = compiler.queue.pop_front() {
        let node = compiler.build(&task)?;
        compiler.nodes[task.id as usize] = node;
    }
    let integers = if draft == Draft::Draft4 { Integers::ByNotation } else { Integers::ByValue };
    let foreign = compiler.foreign || draft == Draft::Unknown;
    let mut program = Program { nodes: compiler.nodes, root, integers, draft, foreign };
    analyze::mark(&mut program);
    // What a schema means that leads back to itself at the same place is not defined; the answer
    // that counts is the one that the errors will be worded by.
    program.foreign |= program.nodes.iter().any(|node| node.cyclic);
    settle_defaults(&mut program, compiler.defaults);
    Ok(program)
}

/// Where a schema stands: what its references are relative to, and how its keywords read.
#[derive(Clone)]
struct Scope<'r> {
    resolver: Resolver<'r>,
    draft: Draft,
}

struct Task<'r> {
    id: NodeId,
    schema: &'r Map<String, Value>,
    scope: Scope<'r>,
}

struct Compiler<'r> {
    nodes: Vec<Node>,
    queue: VecDeque<Task<'r>>,
    /// The node of each schema object, by its address in the document.
    known: HashMap<usize, NodeId>,
    /// The defaults that properties may take: the node, the position of the property in it, and
    /// what there is to choose from once all of the program is there.
    defaults: Vec<(NodeId, usize, Vec<reference::Candidate>)>,
    anchors: reference::DynamicAnchors,
    foreign: bool,
}

/// The two nodes that every program begins with.
const ANY: NodeId = 0;
const NEVER: NodeId = 1;

impl<'r> Compiler<'r> {
    fn new(anchors: reference::DynamicAnchors) -> Self {
        let mut nodes = vec![Node::of_types(Types::ANY), Node::of_types(Types::NONE)];
        nodes[NEVER as usize].shallow = Some(Box::new(Value::Bool(false)));
        Self {
            nodes,
            queue: VecDeque::new(),
            known: HashMap::new(),
            defaults: Vec::new(),
            anchors,
            foreign: false,
        }
    }

    /// The node of a schema; a schema that only points elsewhere is the node it points at.
    fn node(&mut self, schema: &'r Value, scope: &Scope<'r>) -> Result<NodeId, SchemaError> {
        let Some((schema, scope)) = self.follow(schema, scope.clone())? else {
            return Ok(ANY);
        };
        let members = match schema {
            Value::Bool(false) => return Ok(NEVER),
            Value::Object(members) if !members.is_empty() => members,
            _ => return Ok(ANY),
        };
        let address = std::ptr::from_ref(members) as usize;
        if let Some(id) = self.known.get(&address) {
            return Ok(*id);
        }
        let id = NodeId::try_from(self.nodes.len()).map_err(|_| too_large())?;
        self.nodes.push(Node::of_types(Types::ANY));
        self.known.insert(address, id);
        self.queue.push_back(Task { id, schema: members, scope });
        Ok(id)
    }

    fn build(&mut self, task: &Task<'r>) -> Result<Node, SchemaError> {
        let Task { id, schema, scope } = task;
        let logic = self.logic(schema, scope)?;
        let mut node = Node::of_types(Types::ANY);
        if !reference::replaces_siblings(schema, scope.draft) {
            node.types = keyword::types(schema);
            node.literals = keyword::literals(schema, scope.draft);
            node.number = keyword::number(schema, scope.draft).map(Box::new);
            node.text = keyword::text(schema, scope.draft).map(Box::new);
            node.array = self.array(schema, scope)?.map(Box::new);
            node.object = self.object(*id, schema, scope)?.map(Box::new);
        }
        node.logic = logic.map(Box::new);
        if let Some(literals) = &node.literals {
            node.types = node.types.shared_with(keyword::types_of(literals));
        }
        node.bare = node.literals.is_none()
            && node.number.is_none()
            && node.text.is_none()
            && node.array.is_none()
            && node.object.is_none()
            && node.logic.is_none();
        node.shallow = shallow::shallow(schema, &node).map(Box::new);
        Ok(node)
    }
}

/// Gives each property the first of its defaults that counts.
fn settle_defaults(
    program: &mut Program,
    defaults: Vec<(NodeId, usize, Vec<reference::Candidate>)>,
) {
    for (id, at, candidates) in defaults {
        let counts = |candidate: &reference::Candidate| {
            let mut judge = Judge::new(program, Extras::Keep);
            candidate.variant.is_none_or(|variant| judge.fits(variant, &candidate.value))
        };
        let chosen = candidates.into_iter().find(counts);
        if let (Some(chosen), Some(rules)) = (chosen, &mut program.nodes[id as usize].object) {
            rules.names.set_default(at, chosen.value);
            rules.defaults += 1;
        }
    }
}

fn too_large() -> SchemaError {
    SchemaError::DoesNotCompile { at: String::new(), message: "schema is too large".to_owned() }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the function of `map_err`")]
fn unresolved(error: referencing::Error) -> SchemaError {
    SchemaError::DoesNotCompile { at: String::new(), message: error.to_string() }
}
