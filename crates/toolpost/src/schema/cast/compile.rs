//! Reads a schema document and decides which kind each part of it is.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde_json::{Map, Value};

use super::error::CastCode;
use super::js::{self, MAX_DEPTH, MAX_WRITTEN_DEPTH};
use super::node::{Kind, Node, NodeId, Program, Reference, Rest};
use super::references::Names;
use super::unique;

pub(super) type Document = Map<String, Value>;

impl Program {
    /// Compiles a document; whatever is wrong with it shows only where a value meets it.
    pub(in crate::schema) fn compile(root: &Value) -> Self {
        let mut compiler = Compiler {
            nodes: Vec::new(),
            known: HashMap::default(),
            queued: HashMap::default(),
            waiting: Vec::new(),
            depth: 0,
        };
        let root_node = compiler.later(root);
        let links = compiler.finish(root);
        compiler.resolve(&links);
        Self { nodes: compiler.nodes, root: root_node }
    }
}

/// Members and items are compiled from a queue, so that documents may nest as they like; only
/// applicators (`allOf` and its kin) recurse, since they can collapse into their only part.
pub(super) struct Compiler<'s> {
    nodes: Vec<Node>,
    /// Finished nodes by the address of their schema: no part of a document is compiled twice.
    known: HashMap<usize, NodeId, RandomState>,
    /// Nodes whose schemas are in the queue or have passed it.
    queued: HashMap<usize, NodeId, RandomState>,
    waiting: Vec<(NodeId, &'s Value)>,
    /// How many applicators are open.
    depth: usize,
}

/// Whether the `default` beside a keyword belongs to the node made from that keyword.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Defaults {
    Here,
    Elsewhere,
}

impl<'s> Compiler<'s> {
    /// The node of a schema that is compiled when its turn comes.
    pub(super) fn later(&mut self, schema: &'s Value) -> NodeId {
        let address = unique::address(schema);
        if let Some(queued) = self.queued.get(&address) {
            return *queued;
        }
        let id = self.add(Kind::Unknown);
        self.queued.insert(address, id);
        self.waiting.push((id, schema));
        id
    }

    /// The node of a schema whose kind matters now.
    fn schema(&mut self, schema: &'s Value) -> NodeId {
        let address = unique::address(schema);
        if let Some(known) = self.known.get(&address) {
            return *known;
        }
        if self.depth == MAX_DEPTH {
            return self.add(Kind::TooDeep);
        }
        self.depth += 1;
        let id = match schema {
            Value::Bool(false) => self.add(Kind::Never),
            Value::Object(document) => self.document(document),
            _ => self.add(Kind::Unknown),
        };
        self.depth -= 1;
        self.known.insert(address, id);
        id
    }

    fn document(&mut self, document: &'s Document) -> NodeId {
        let lists = ["allOf", "anyOf", "oneOf"].map(|keyword| list(document, keyword));
        let not = document.get("not");
        let applied = lists.iter().flatten().count() + usize::from(not.is_some());
        if applied == 0 {
            return self.base(document, Defaults::Here);
        }
        let base = self.base(document, Defaults::Elsewhere);
        let mut parts = Vec::new();
        if !matches!(self.node(base).kind, Kind::Unknown) {
            parts.push(base);
        }
        let alone = parts.is_empty() && applied == 1;
        let defaults = if alone { Defaults::Here } else { Defaults::Elsewhere };
        let [all_of, any_of, one_of] = lists;
        parts.extend(all_of.into_iter().flatten().map(|schema| self.schema(schema)));
        for variants in [any_of, one_of].into_iter().flatten() {
            let variants = variants.iter().map(|schema| self.schema(schema)).collect();
            parts.push(self.union(variants, document, defaults));
        }
        if let Some(not) = not {
            let kind = Kind::Not(self.schema(not));
            parts.push(self.with_default(kind, document, defaults));
        }
        if alone && all_of.is_none() { parts[0] } else { self.intersect(parts, document) }
    }

    fn intersect(&mut self, parts: Vec<NodeId>, document: &'s Document) -> NodeId {
        match parts[..] {
            [] => self.with_default(Kind::Never, document, Defaults::Here),
            [only] => self.inherit(only, document, Defaults::Here),
            _ => {
                let unevaluated = self.rest(document, "unevaluatedProperties");
                let kind = Kind::Intersect { parts, unevaluated };
                self.with_default(kind, document, Defaults::Here)
            }
        }
    }

    fn base(&mut self, document: &'s Document, defaults: Defaults) -> NodeId {
        if let Some(Value::String(text)) = document.get("$ref") {
            let unresolved = Reference { text: text.clone(), target: Err(CastCode::Deref) };
            let kind = Kind::Reference(Box::new(unresolved));
            return self.with_default(kind, document, Defaults::Here);
        }
        if let Some(constant) = document.get("const") {
            let kind = literal(constant);
            return self.with_default(kind, document, defaults);
        }
        if let Some(members) = list(document, "enum") {
            let variants = members.iter().map(|member| self.add(literal(member))).collect();
            return self.union(variants, document, defaults);
        }
        match document.get("type") {
            Some(Value::Array(types)) => return self.types(types, document, defaults),
            Some(Value::String(name)) => return self.of_type(name, document, defaults),
            _ => {}
        }
        if document.get("properties").is_some_and(Value::is_object) {
            self.of_type("object", document, defaults)
        } else if document.contains_key("items") || list(document, "prefixItems").is_some() {
            self.of_type("array", document, defaults)
        } else {
            self.with_default(Kind::Unknown, document, defaults)
        }
    }

    fn types(&mut self, types: &'s [Value], document: &'s Document, defaults: Defaults) -> NodeId {
        if let [only] = types {
            return self.of_type(only.as_str().unwrap_or_default(), document, defaults);
        }
        if types.is_empty() {
            return self.with_default(Kind::Unknown, document, defaults);
        }
        // A repeated name can never win, and would double the work at every level.
        let mut names: Vec<&str> = Vec::new();
        for name in types.iter().map(|name| name.as_str().unwrap_or_default()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let of_type = |name| self.of_type(name, document, Defaults::Elsewhere);
        let variants = names.into_iter().map(of_type).collect();
        self.with_default(Kind::Union(variants), document, defaults)
    }

    fn union(&mut self, variants: Vec<NodeId>, document: &Document, defaults: Defaults) -> NodeId {
        match variants[..] {
            [] => self.with_default(Kind::Never, document, defaults),
            [only] => self.inherit(only, document, defaults),
            _ => self.with_default(Kind::Union(variants), document, defaults),
        }
    }

    /// The node itself, or a copy with the default if it has none of its own.
    fn inherit(&mut self, id: NodeId, document: &Document, defaults: Defaults) -> NodeId {
        let node = self.node(id);
        if node.default.is_some()
            || defaults == Defaults::Elsewhere
            || !document.contains_key("default")
        {
            return id;
        }
        let kind = node.kind.clone();
        self.with_default(kind, document, defaults)
    }

    pub(super) fn rest(&mut self, document: &'s Document, keyword: &str) -> Rest {
        match document.get(keyword) {
            None | Some(Value::Bool(true)) => Rest::Open,
            Some(Value::Bool(false)) => Rest::Closed,
            Some(schema) => Rest::Schema(self.later(schema)),
        }
    }

    pub(super) fn with_default(
        &mut self,
        kind: Kind,
        document: &Document,
        defaults: Defaults,
    ) -> NodeId {
        let id = self.add(kind);
        if let (Some(default), Defaults::Here) = (document.get("default"), defaults) {
            let node = &mut self.nodes[id.0 as usize];
            node.default = js::copy(default, MAX_WRITTEN_DEPTH);
            if node.default.is_none() {
                node.kind = Kind::TooDeep;
            }
        }
        id
    }

    pub(super) fn add(&mut self, kind: Kind) -> NodeId {
        let id = u32::try_from(self.nodes.len()).expect("a document has fewer than 2^32 parts");
        self.nodes.push(Node { kind, default: None });
        NodeId(id)
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Empties the queue, which every reference found on the way fills again.
    fn finish(&mut self, root: &'s Value) -> Links {
        let mut names = None;
        let mut links = Links::default();
        let mut scanned = 0;
        loop {
            while let Some((id, schema)) = self.waiting.pop() {
                let made = self.schema(schema);
                self.nodes[id.0 as usize] = self.node(made).clone();
            }
            let end = self.nodes.len();
            if scanned == end {
                return links;
            }
            for position in scanned..end {
                if let Kind::Reference(reference) = &self.nodes[position].kind
                    && let Some(target) =
                        names.get_or_insert_with(|| Names::new(root)).find(&reference.text)
                {
                    let target = self.later(target);
                    links.insert(node_id(position), target);
                }
            }
            scanned = end;
        }
    }

    /// Points every reference to the end of its chain.
    fn resolve(&mut self, links: &Links) {
        let mut ends = Ends::default();
        for position in 0..self.nodes.len() {
            if matches!(self.nodes[position].kind, Kind::Reference(_)) {
                self.follow(node_id(position), links, &mut ends);
            }
        }
        for (id, end) in ends {
            if let Kind::Reference(reference) = &mut self.nodes[id.0 as usize].kind {
                reference.target = end;
            }
        }
    }

    /// Finds the end of a chain of references, for every link of it.
    fn follow(&self, start: NodeId, found: &Links, ends: &mut Ends) {
        let mut chain = Vec::new();
        let mut current = start;
        let end = loop {
            if let Some(end) = ends.get(&current) {
                break *end;
            }
            // A link counts as endless until its end is known, which is what a circle is.
            ends.insert(current, Err(CastCode::Stack));
            chain.push(current);
            match found.get(&current) {
                None => break Err(CastCode::Deref),
                Some(next) if matches!(self.node(*next).kind, Kind::Reference(_)) => {
                    current = *next;
                }
                Some(next) => break Ok(*next),
            }
        };
        ends.extend(chain.into_iter().map(|link| (link, end)));
    }
}

type Links = HashMap<NodeId, NodeId, RandomState>;
type Ends = HashMap<NodeId, Result<NodeId, CastCode>, RandomState>;

fn node_id(position: usize) -> NodeId {
    NodeId(u32::try_from(position).expect("a document has fewer than 2^32 parts"))
}

fn literal(value: &Value) -> Kind {
    match value {
        Value::Null => Kind::Null,
        other => js::copy(other, MAX_WRITTEN_DEPTH).map_or(Kind::TooDeep, Kind::Literal),
    }
}

pub(super) fn list<'s>(document: &'s Document, keyword: &str) -> Option<&'s Vec<Value>> {
    document.get(keyword).and_then(Value::as_array)
}
