//! Compiles a schema document and determines the kind of each part.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde_json::{Map, Value};

use super::error::CastCode;
use super::js::{self, MAX_DEPTH, MAX_LITERAL_DEPTH};
use super::node::{CastKind, CastNode, CastNodeId, CastReference, CastSchema, UndeclaredRule};
use super::references::AnchorIndex;
use super::unique;

pub(super) type SchemaObject = Map<String, Value>;

impl CastSchema {
    /// Compiles a document. Errors are reported when a value is checked against their part.
    pub fn new(root: &Value) -> Self {
        let mut compiler = CastCompiler::default();
        let root_node = compiler.enqueue(root);
        let links = compiler.drain_queue(root);
        compiler.resolve_refs(&links);
        Self { nodes: compiler.nodes, root: root_node }
    }
}

/// Compiles a schema document to nodes.
///
/// Members and items are compiled from a queue, so documents can nest to any depth. Only
/// applicators (`allOf`, `anyOf`, `oneOf`, `not`) recurse, because they can collapse into their
/// only part.
#[derive(Default)]
pub(super) struct CastCompiler<'s> {
    nodes: Vec<CastNode>,
    /// Compiled nodes by the address of their schema.
    compiled: HashMap<usize, CastNodeId, RandomState>,
    /// Nodes whose schemas are queued or were taken from the queue.
    queued: HashMap<usize, CastNodeId, RandomState>,
    queue: Vec<(CastNodeId, &'s Value)>,
    /// Current nesting depth of applicators.
    depth: usize,
}

/// Which node gets the `default` next to a keyword: that of the keyword, or its parent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DefaultOwner {
    ThisNode,
    ParentNode,
}

impl<'s> CastCompiler<'s> {
    /// Returns the node of a schema and queues the schema for compilation.
    pub(super) fn enqueue(&mut self, schema: &'s Value) -> CastNodeId {
        let address = unique::address(schema);
        if let Some(queued) = self.queued.get(&address) {
            return *queued;
        }
        let id = self.add(CastKind::Unknown);
        self.queued.insert(address, id);
        self.queue.push((id, schema));
        id
    }

    /// Compiles a schema immediately, for callers that need its kind.
    fn compile_schema(&mut self, schema: &'s Value) -> CastNodeId {
        let address = unique::address(schema);
        if let Some(known) = self.compiled.get(&address) {
            return *known;
        }
        if self.depth == MAX_DEPTH {
            return self.add(CastKind::TooDeep);
        }
        self.depth += 1;
        let id = match schema {
            Value::Bool(false) => self.add(CastKind::Never),
            Value::Object(document) => self.compile_object(document),
            _ => self.add(CastKind::Unknown),
        };
        self.depth -= 1;
        self.compiled.insert(address, id);
        id
    }

    fn compile_object(&mut self, document: &'s SchemaObject) -> CastNodeId {
        let lists = ["allOf", "anyOf", "oneOf"].map(|keyword| array_keyword(document, keyword));
        let not = document.get("not");
        let applied = lists.iter().flatten().count() + usize::from(not.is_some());
        if applied == 0 {
            return self.base(document, DefaultOwner::ThisNode);
        }
        let base = self.base(document, DefaultOwner::ParentNode);
        let mut parts = Vec::new();
        if !matches!(self.node(base).kind, CastKind::Unknown) {
            parts.push(base);
        }
        let alone = parts.is_empty() && applied == 1;
        let defaults = if alone { DefaultOwner::ThisNode } else { DefaultOwner::ParentNode };
        let [all_of, any_of, one_of] = lists;
        parts.extend(all_of.into_iter().flatten().map(|schema| self.compile_schema(schema)));
        for variants in [any_of, one_of].into_iter().flatten() {
            let variants = variants.iter().map(|schema| self.compile_schema(schema)).collect();
            parts.push(self.union(variants, document, defaults));
        }
        if let Some(not) = not {
            let kind = CastKind::Not(self.compile_schema(not));
            parts.push(self.with_default(kind, document, defaults));
        }
        if alone && all_of.is_none() { parts[0] } else { self.intersect(parts, document) }
    }

    fn intersect(&mut self, parts: Vec<CastNodeId>, document: &'s SchemaObject) -> CastNodeId {
        match parts[..] {
            [] => self.with_default(CastKind::Never, document, DefaultOwner::ThisNode),
            [only] => self.inherit_default(only, document, DefaultOwner::ThisNode),
            _ => {
                let unevaluated = self.undeclared_rule(document, "unevaluatedProperties");
                let kind = CastKind::Intersect { parts, unevaluated };
                self.with_default(kind, document, DefaultOwner::ThisNode)
            }
        }
    }

    fn base(&mut self, document: &'s SchemaObject, defaults: DefaultOwner) -> CastNodeId {
        if let Some(Value::String(text)) = document.get("$ref") {
            let unresolved = CastReference { text: text.clone(), target: Err(CastCode::Deref) };
            let kind = CastKind::Reference(Box::new(unresolved));
            return self.with_default(kind, document, DefaultOwner::ThisNode);
        }
        if let Some(constant) = document.get("const") {
            let kind = literal(constant);
            return self.with_default(kind, document, defaults);
        }
        if let Some(members) = array_keyword(document, "enum") {
            let variants = members.iter().map(|member| self.add(literal(member))).collect();
            return self.union(variants, document, defaults);
        }
        match document.get("type") {
            Some(Value::Array(types)) => return self.types(types, document, defaults),
            Some(Value::String(name)) => return self.compile_type(name, document, defaults),
            _ => {}
        }
        if document.get("properties").is_some_and(Value::is_object) {
            self.compile_type("object", document, defaults)
        } else if document.contains_key("items") || array_keyword(document, "prefixItems").is_some()
        {
            self.compile_type("array", document, defaults)
        } else {
            self.with_default(CastKind::Unknown, document, defaults)
        }
    }

    fn types(
        &mut self,
        types: &'s [Value],
        document: &'s SchemaObject,
        defaults: DefaultOwner,
    ) -> CastNodeId {
        if let [only] = types {
            return self.compile_type(only.as_str().unwrap_or_default(), document, defaults);
        }
        if types.is_empty() {
            return self.with_default(CastKind::Unknown, document, defaults);
        }
        // A repeated type is never selected, and would double the work at every level.
        let mut names: Vec<&str> = Vec::new();
        for name in types.iter().map(|name| name.as_str().unwrap_or_default()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let of_type = |name| self.compile_type(name, document, DefaultOwner::ParentNode);
        let variants = names.into_iter().map(of_type).collect();
        self.with_default(CastKind::Union(variants), document, defaults)
    }

    fn union(
        &mut self,
        variants: Vec<CastNodeId>,
        document: &SchemaObject,
        defaults: DefaultOwner,
    ) -> CastNodeId {
        match variants[..] {
            [] => self.with_default(CastKind::Never, document, defaults),
            [only] => self.inherit_default(only, document, defaults),
            _ => self.with_default(CastKind::Union(variants), document, defaults),
        }
    }

    /// Returns the node, or a copy with the document's default if the node has none.
    fn inherit_default(
        &mut self,
        id: CastNodeId,
        document: &SchemaObject,
        defaults: DefaultOwner,
    ) -> CastNodeId {
        let node = self.node(id);
        if node.default.is_some()
            || defaults == DefaultOwner::ParentNode
            || !document.contains_key("default")
        {
            return id;
        }
        let kind = node.kind.clone();
        self.with_default(kind, document, defaults)
    }

    pub(super) fn undeclared_rule(
        &mut self,
        document: &'s SchemaObject,
        keyword: &str,
    ) -> UndeclaredRule {
        match document.get(keyword) {
            None | Some(Value::Bool(true)) => UndeclaredRule::Open,
            Some(Value::Bool(false)) => UndeclaredRule::Closed,
            Some(schema) => UndeclaredRule::Schema(self.enqueue(schema)),
        }
    }

    pub(super) fn with_default(
        &mut self,
        kind: CastKind,
        document: &SchemaObject,
        defaults: DefaultOwner,
    ) -> CastNodeId {
        let id = self.add(kind);
        if let (Some(default), DefaultOwner::ThisNode) = (document.get("default"), defaults) {
            let node = &mut self.nodes[id.0 as usize];
            node.default = js::copy_bounded(default, MAX_LITERAL_DEPTH);
            if node.default.is_none() {
                node.kind = CastKind::TooDeep;
            }
        }
        id
    }

    pub(super) fn add(&mut self, kind: CastKind) -> CastNodeId {
        let id = node_id(self.nodes.len());
        self.nodes.push(CastNode { kind, default: None });
        id
    }

    fn node(&self, id: CastNodeId) -> &CastNode {
        &self.nodes[id.0 as usize]
    }

    /// Compiles all queued schemas. Returns the references and their targets.
    fn drain_queue(&mut self, root: &'s Value) -> RefLinks {
        let mut names = None;
        let mut links = RefLinks::default();
        let mut scanned = 0;
        loop {
            while let Some((id, schema)) = self.queue.pop() {
                let made = self.compile_schema(schema);
                self.nodes[id.0 as usize] = self.node(made).clone();
            }
            let end = self.nodes.len();
            if scanned == end {
                return links;
            }
            for position in scanned..end {
                if let CastKind::Reference(reference) = &self.nodes[position].kind
                    && let Some(target) =
                        names.get_or_insert_with(|| AnchorIndex::new(root)).resolve(&reference.text)
                {
                    let target = self.enqueue(target);
                    links.insert(node_id(position), target);
                }
            }
            scanned = end;
        }
    }

    /// Sets the target of every reference to the end of its chain.
    fn resolve_refs(&mut self, links: &RefLinks) {
        let mut ends = RefEnds::default();
        for position in 0..self.nodes.len() {
            if matches!(self.nodes[position].kind, CastKind::Reference(_)) {
                self.follow_refs(node_id(position), links, &mut ends);
            }
        }
        for (id, end) in ends {
            if let CastKind::Reference(reference) = &mut self.nodes[id.0 as usize].kind {
                reference.target = end;
            }
        }
    }

    /// Finds the end of a reference chain and records it for every link.
    fn follow_refs(&self, start: CastNodeId, found: &RefLinks, ends: &mut RefEnds) {
        let mut chain = Vec::new();
        let mut current = start;
        let end = loop {
            if let Some(end) = ends.get(&current) {
                break *end;
            }
            // The link counts as cyclic until its end is found.
            ends.insert(current, Err(CastCode::Stack));
            chain.push(current);
            match found.get(&current) {
                None => break Err(CastCode::Deref),
                Some(next) if matches!(self.node(*next).kind, CastKind::Reference(_)) => {
                    current = *next;
                }
                Some(next) => break Ok(*next),
            }
        };
        ends.extend(chain.into_iter().map(|link| (link, end)));
    }
}

type RefLinks = HashMap<CastNodeId, CastNodeId, RandomState>;
type RefEnds = HashMap<CastNodeId, Result<CastNodeId, CastCode>, RandomState>;

fn node_id(position: usize) -> CastNodeId {
    CastNodeId(u32::try_from(position).expect("fewer than 2^32 nodes"))
}

fn literal(value: &Value) -> CastKind {
    match value {
        Value::Null => CastKind::Null,
        other => {
            js::copy_bounded(other, MAX_LITERAL_DEPTH).map_or(CastKind::TooDeep, CastKind::Literal)
        }
    }
}

pub(super) fn array_keyword<'s>(
    document: &'s SchemaObject,
    keyword: &str,
) -> Option<&'s Vec<Value>> {
    document.get(keyword).and_then(Value::as_array)
}
