//! Whether one capability allows everything that another one allows.
//!
//! The check has no false positives; it returns `false` where coverage is hard to prove. Between
//! the two notations it assumes that the METHOD and CONTEXT of a request's kind match its payload,
//! which the gateway ensures.

use super::Capability;
use super::glob::{Glob, GlobToken};
use super::kind_pattern::{KindParts, KindPattern};
use super::payload_pattern::{PatternNode, PatternSelector, numbers_equal};
use super::string_pattern::StringPattern;
use crate::room::message::BaseKind;

/// Maximum number of node comparisons; above it, the check returns `false`.
const MAX_COMPARISONS: usize = 10_000;

impl Capability {
    /// Whether this capability allows everything that `other` allows. There are no false positives;
    /// returns `false` where coverage is hard to prove.
    pub fn covers(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        if self.0.unknown_member.is_some() || other.0.unknown_member.is_some() {
            return false;
        }
        let covers = |kind| self.0.kinds.iter().any(|own| self.covers_kind(own, other, kind));
        self.covers_addressees(other) && other.0.kinds.iter().all(covers)
    }

    fn covers_addressees(&self, other: &Self) -> bool {
        let Some(own) = &self.0.to else { return true };
        other.0.to.as_ref().is_some_and(|to| own.covers(to))
    }

    /// Whether this capability, through its kind pattern `own`, allows everything that `other`
    /// allows through `kind`.
    fn covers_kind(&self, own: &KindPattern, other: &Self, kind: &KindPattern) -> bool {
        let payload = &other.0.payload;
        let narrowed = narrow_kinds(kind, payload);
        let covers_kind = own.covers(kind)
            || (!narrowed.is_empty() && narrowed.iter().all(|kind| own.covers(kind)));
        let constraints = kind_constraints(kind);
        let given: Vec<&PatternNode> = payload.iter().chain(&constraints).collect();
        let mut implication = ImplicationChecker { remaining: MAX_COMPARISONS };
        covers_kind && self.0.payload.iter().all(|node| implication.implies(&given, node))
    }
}

/// Converts the METHOD and CONTEXT constraints of a payload pattern to kinds: `{"method":
/// "tools/call"}` with `mcp/request` allows no more than `mcp/request:tools/call`.
fn narrow_kinds(kind: &KindPattern, payload: &[PatternNode]) -> Vec<KindPattern> {
    let KindPattern::Glob(parts) = kind else { return Vec::new() };
    let Some(base) = parts.base.literal().filter(|base| is_payload_derived(base)) else {
        return Vec::new();
    };
    let given: Vec<&PatternNode> = payload.iter().collect();
    if parts.method.is_some() {
        return Vec::new();
    }
    let methods = globs_at(&given, &["method"]).unwrap_or_default();
    let contexts = |method: &Glob| {
        let member = method.literal().and_then(context_member)?;
        let names = globs_at(&given, &["params", member])?;
        Some(names.into_iter().map(encode_name).collect())
    };
    let narrow = |method: &&Glob| {
        KindPattern::Glob(KindParts::for_mcp(base, method.duplicate(), contexts(method)))
    };
    methods.iter().map(narrow).collect()
}

/// Returns the payload constraints that the parts of a kind imply.
fn kind_constraints(kind: &KindPattern) -> Vec<PatternNode> {
    let KindPattern::Glob(parts) = kind else { return Vec::new() };
    let has_payload = parts.base.literal().is_some_and(is_payload_derived);
    let Some(method) = parts.method.as_ref().filter(|method| has_payload && !method.is_any())
    else {
        return Vec::new();
    };
    let mut constraints =
        vec![object_pattern("method", PatternNode::Text(StringPattern::Glob(method.duplicate())))];
    let member = method.literal().and_then(context_member);
    // A bare `*` also matches requests without a name.
    let contexts = parts.contexts.as_ref().filter(|globs| !globs.iter().any(|glob| glob.is_any()));
    if let (Some(member), Some(contexts)) = (member, contexts) {
        let names: Option<Vec<PatternNode>> = contexts
            .iter()
            .map(|context| Some(PatternNode::Text(StringPattern::Glob(decode_context(context)?))))
            .collect();
        let names = names.map(|names| PatternNode::AnyOf(names.into()));
        constraints
            .extend(names.map(|names| object_pattern("params", object_pattern(member, names))));
    }
    constraints
}

/// Whether METHOD and CONTEXT of the kind are derived from its own payload.
fn is_payload_derived(base: &str) -> bool {
    matches!(BaseKind::parse(base), Some(BaseKind::McpRequest | BaseKind::McpProposal))
}

/// The member of `params` that CONTEXT is derived from.
fn context_member(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Some("uri"),
        _ => None,
    }
}

fn object_pattern(key: &str, node: PatternNode) -> PatternNode {
    PatternNode::Object(
        [PatternNode::Select(PatternSelector::Key(key.into()), Box::new(node))].into(),
    )
}

/// Returns the globs of which the string at `path` must match one; `None` if there is no such
/// constraint.
pub(super) fn globs_at<'a>(given: &[&'a PatternNode], path: &[&str]) -> Option<Vec<&'a Glob>> {
    let Some((key, path)) = path.split_first() else {
        return given.iter().find_map(|node| alternative_globs(node));
    };
    let inner: Vec<&PatternNode> =
        flatten(given).into_iter().filter_map(|node| child_at_key(node, key)).collect();
    globs_at(&inner, path)
}

fn child_at_key<'a>(node: &'a PatternNode, key: &str) -> Option<&'a PatternNode> {
    match node {
        PatternNode::Select(PatternSelector::Key(own), node) if **own == *key => Some(node),
        _ => None,
    }
}

fn alternative_globs(node: &PatternNode) -> Option<Vec<&Glob>> {
    match node {
        PatternNode::Text(StringPattern::Glob(glob)) => Some(vec![glob]),
        PatternNode::AnyOf(nodes) => nodes
            .iter()
            .map(alternative_globs)
            .collect::<Option<Vec<_>>>()
            .map(|globs| globs.concat()),
        _ => None,
    }
}

/// Returns the nodes, with each object replaced by its members.
fn flatten<'a>(given: &[&'a PatternNode]) -> Vec<&'a PatternNode> {
    let mut all = Vec::with_capacity(given.len());
    for node in given {
        match node {
            PatternNode::Object(nodes) => all.extend(nodes.iter()),
            node => all.push(*node),
        }
    }
    all
}

/// Converts a name glob to a CONTEXT glob that matches the encoded names, and possibly more: a
/// wildcard also matches encoded characters.
fn encode_name(name: &Glob) -> Glob {
    let mut tokens: Vec<GlobToken> = Vec::new();
    for token in name.tokens() {
        match token {
            GlobToken::Literal('%') => tokens.extend("%25".chars().map(GlobToken::Literal)),
            GlobToken::Literal('*') => tokens.extend("%2A".chars().map(GlobToken::Literal)),
            GlobToken::Literal(letter) => tokens.push(GlobToken::Literal(*letter)),
            _ if tokens.last() == Some(&GlobToken::AnyRun) => {}
            _ => tokens.push(GlobToken::AnyRun),
        }
    }
    Glob::from_tokens(tokens)
}

/// Converts a CONTEXT glob to a glob for the decoded name; `None` if a `%` is no known escape or a
/// wildcard can end inside an escape.
fn decode_context(context: &Glob) -> Option<Glob> {
    let mut tokens = Vec::new();
    let mut rest = context.tokens();
    while let Some((token, after)) = rest.split_first() {
        let inside = matches!(token, GlobToken::Literal('2' | '5' | 'A'));
        let behind_run = tokens.last().is_some_and(|last: &GlobToken| last.literal().is_none());
        if inside && behind_run {
            return None;
        }
        let (token, after) = match (token, after) {
            (
                GlobToken::Literal('%'),
                [GlobToken::Literal('2'), GlobToken::Literal('5'), after @ ..],
            ) => (GlobToken::Literal('%'), after),
            (
                GlobToken::Literal('%'),
                [GlobToken::Literal('2'), GlobToken::Literal('A'), after @ ..],
            ) => (GlobToken::Literal('*'), after),
            (GlobToken::Literal('%'), _) => return None,
            (token, after) => (*token, after),
        };
        tokens.push(token);
        rest = after;
    }
    Some(Glob::from_tokens(tokens))
}

/// Decides whether one payload pattern follows from others, within a comparison limit.
struct ImplicationChecker {
    remaining: usize,
}

impl ImplicationChecker {
    /// Whether every value that matches all of `given` also matches `own`.
    fn implies(&mut self, given: &[&PatternNode], own: &PatternNode) -> bool {
        if self.remaining == 0 {
            return false;
        }
        self.remaining -= 1;
        match own {
            PatternNode::Object(nodes) => {
                given.iter().any(|node| requires_object(node))
                    && nodes.iter().all(|node| self.implies(given, node))
                    || given.iter().any(|node| self.implies_for_all(node, own))
            }
            PatternNode::AnyOf(nodes) => {
                nodes.iter().any(|node| self.implies(given, node))
                    || given.iter().any(|node| self.implies_for_all(node, own))
            }
            _ => flatten(given).into_iter().any(|node| self.node_implies(node, own)),
        }
    }

    /// Whether `given` is a list of alternatives and `own` follows from each of them.
    fn implies_for_all(&mut self, given: &PatternNode, own: &PatternNode) -> bool {
        match given {
            PatternNode::AnyOf(nodes) => nodes.iter().all(|node| self.implies(&[node], own)),
            _ => false,
        }
    }

    fn node_implies(&mut self, given: &PatternNode, own: &PatternNode) -> bool {
        match (given, own) {
            (PatternNode::AnyOf(_), _) => self.implies_for_all(given, own),
            (_, PatternNode::Select(PatternSelector::Descendant(_), required)) => {
                self.implies_descendant(given, own, required)
            }
            (PatternNode::Select(given, inner), PatternNode::Select(own, required)) => {
                selector_covers(given, own) && self.implies(&[inner], required)
            }
            (PatternNode::Null, PatternNode::Null) => true,
            (PatternNode::Bool(given), PatternNode::Bool(own)) => given == own,
            (PatternNode::Number(given), PatternNode::Number(own)) => numbers_equal(given, own),
            (PatternNode::Text(given), PatternNode::Text(own)) => own.covers(given),
            _ => false,
        }
    }

    /// Whether `given` implies `required` for the value itself, or `own` for a value below it.
    fn implies_descendant(
        &mut self,
        given: &PatternNode,
        own: &PatternNode,
        required: &PatternNode,
    ) -> bool {
        let further = match given {
            PatternNode::Select(_, inner) => self.implies(&[inner], own),
            _ => false,
        };
        further || self.implies(&[given], required)
    }
}

/// Whether the node matches only objects.
fn requires_object(node: &PatternNode) -> bool {
    matches!(
        node,
        PatternNode::Object(_)
            | PatternNode::Select(PatternSelector::Key(_) | PatternSelector::KeyGlob(_), _)
    )
}

/// Whether every value that `given` selects is also selected by `own`.
fn selector_covers(given: &PatternSelector, own: &PatternSelector) -> bool {
    match (given, own) {
        (PatternSelector::Descendant(_), _) => false,
        (_, PatternSelector::AnyChild) => true,
        (PatternSelector::Key(given), PatternSelector::Key(own)) => given == own,
        (PatternSelector::Key(given), PatternSelector::KeyGlob(own)) => own.matches(given),
        (PatternSelector::KeyGlob(given), PatternSelector::KeyGlob(own)) => own.covers(given),
        (PatternSelector::Index(given), PatternSelector::Index(own)) => given == own,
        _ => false,
    }
}
