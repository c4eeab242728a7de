//! Whether one capability allows everything that another one allows.
//!
//! The answer is never yes where it is no; it may be no where it is hard to tell. Between the two
//! notations it is taken for granted that the METHOD and CONTEXT of a request's kind are those of its
//! payload, which is how the gateway writes kinds.

use super::Capability;
use super::glob::{Glob, GlobToken};
use super::kind_pattern::{KindParts, KindPattern};
use super::payload_pattern::{PatternNode, PatternSelector, numbers_equal};
use super::string_pattern::StringPattern;

/// How many comparisons of parts are made before the answer is no.
const MAX_COMPARISONS: usize = 10_000;

/// The kinds whose METHOD and CONTEXT come from their own payload.
const PAYLOAD_DERIVED_KINDS: [&str; 2] = ["mcp/request", "mcp/proposal"];

impl Capability {
    /// Whether this one allows everything that `other` allows. It is never yes wrongly, and may be no
    /// where it is hard to tell.
    pub fn covers(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        if self.0.unknown_member.is_some() || other.0.unknown_member.is_some() {
            return false;
        }
        other
            .0
            .kinds
            .iter()
            .all(|kind| self.0.kinds.iter().any(|own| self.covers_kind(own, other, kind)))
    }

    /// Whether this one, as far as it is about `own`, allows what `other` allows of `kind`.
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

/// What a payload pattern says about METHOD and CONTEXT, as kinds: `{"method": "tools/call"}` with
/// `mcp/request` allows no more than `mcp/request:tools/call`.
fn narrow_kinds(kind: &KindPattern, payload: &[PatternNode]) -> Vec<KindPattern> {
    let KindPattern::Parts(parts) = kind else { return Vec::new() };
    let Some(base) = parts.base.literal().filter(|base| PAYLOAD_DERIVED_KINDS.contains(base))
    else {
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
        KindPattern::Parts(KindParts::for_mcp(base, method.duplicate(), contexts(method)))
    };
    methods.iter().map(narrow).collect()
}

/// What the parts of a kind say about the payload.
fn kind_constraints(kind: &KindPattern) -> Vec<PatternNode> {
    let KindPattern::Parts(parts) = kind else { return Vec::new() };
    let is_payload_derived =
        parts.base.literal().is_some_and(|base| PAYLOAD_DERIVED_KINDS.contains(&base));
    let Some(method) =
        parts.method.as_ref().filter(|method| is_payload_derived && !method.is_any())
    else {
        return Vec::new();
    };
    let mut constraints =
        vec![object_pattern("method", PatternNode::Text(StringPattern::Glob(method.duplicate())))];
    let member = method.literal().and_then(context_member);
    // A bare `*` also fits what names nothing.
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

/// The member of `params` that CONTEXT comes from.
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

/// The globs one of which the text at this place fits, if that is all that is asked of it.
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

/// The nodes, and what objects among them ask for.
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

/// A name as it stands in a CONTEXT, or something wider: a wildcard there stands for encoded
/// characters too.
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

/// A CONTEXT as the name that it stands for; nothing where a wildcard may end inside of an encoded
/// character.
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

/// Whether what is asked of a payload follows from what is known of it.
struct ImplicationChecker {
    remaining: usize,
}

impl ImplicationChecker {
    /// Whether a value that fits all of `given` fits `own`.
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

    /// Whether `given` is a choice, and `own` follows from each of what there is to choose.
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

    /// Whether the required node is here, or `own` finds it further below.
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

/// Whether only an object fits.
fn requires_object(node: &PatternNode) -> bool {
    matches!(
        node,
        PatternNode::Object(_)
            | PatternNode::Select(PatternSelector::Key(_) | PatternSelector::KeyGlob(_), _)
    )
}

/// Whether what is found by `given` is found by `own`.
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
