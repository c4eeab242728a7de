//! Whether one capability allows everything that another one allows.
//!
//! The answer is never yes where it is no; it may be no where it is hard to tell. Between the two
//! notations it is taken for granted that the METHOD and CONTEXT of a request's kind are those of its
//! payload, which is how the gateway writes kinds.

use super::Capability;
use super::glob::{Glob, Token};
use super::kind::{Kind, Parts};
use super::node::{Find, Node, is_same_number};
use super::text::Text;

/// How many comparisons of parts are made before the answer is no.
const MOST_COMPARISONS: usize = 10_000;

/// The kinds whose METHOD and CONTEXT come from their own payload.
const ASKING: [&str; 2] = ["mcp/request", "mcp/proposal"];

impl Capability {
    /// Whether this one allows everything that `other` allows. It is never yes wrongly, and may be no
    /// where it is hard to tell.
    pub fn covers(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        if self.0.unknown.is_some() || other.0.unknown.is_some() {
            return false;
        }
        other
            .0
            .kinds
            .iter()
            .all(|kind| self.0.kinds.iter().any(|own| self.covers_as(own, other, kind)))
    }

    /// Whether this one, as far as it is about `own`, allows what `other` allows of `kind`.
    fn covers_as(&self, own: &Kind, other: &Self, kind: &Kind) -> bool {
        let payload = &other.0.payload;
        let narrowed = narrowed(kind, payload);
        let covers_kind = own.covers(kind)
            || (!narrowed.is_empty() && narrowed.iter().all(|kind| own.covers(kind)));
        let told = told_by_kind(kind);
        let given: Vec<&Node> = payload.iter().chain(&told).collect();
        let mut implication = Implication { left: MOST_COMPARISONS };
        covers_kind && self.0.payload.iter().all(|node| implication.holds(&given, node))
    }
}

/// What a payload pattern says about METHOD and CONTEXT, as kinds: `{"method": "tools/call"}` with
/// `mcp/request` allows no more than `mcp/request:tools/call`.
fn narrowed(kind: &Kind, payload: &[Node]) -> Vec<Kind> {
    let Kind::Parts(parts) = kind else { return Vec::new() };
    let Some(base) = parts.base.literal().filter(|base| ASKING.contains(base)) else {
        return Vec::new();
    };
    let given: Vec<&Node> = payload.iter().collect();
    if parts.method.is_some() {
        return Vec::new();
    }
    let methods = globs_at(&given, &["method"]).unwrap_or_default();
    let contexts = |method: &Glob| {
        let member = method.literal().and_then(context_member)?;
        let names = globs_at(&given, &["params", member])?;
        Some(names.into_iter().map(encoded).collect())
    };
    let narrow = |method: &&Glob| Kind::Parts(Parts::of(base, method.copy(), contexts(method)));
    methods.iter().map(narrow).collect()
}

/// What the parts of a kind say about the payload.
fn told_by_kind(kind: &Kind) -> Vec<Node> {
    let Kind::Parts(parts) = kind else { return Vec::new() };
    let asks = parts.base.literal().is_some_and(|base| ASKING.contains(&base));
    let Some(method) = parts.method.as_ref().filter(|method| asks && !method.is_any()) else {
        return Vec::new();
    };
    let mut told = vec![object("method", Node::Text(Text::Glob(method.copy())))];
    let member = method.literal().and_then(context_member);
    // A bare `*` also fits what names nothing.
    let contexts = parts.contexts.as_ref().filter(|them| !them.iter().any(|it| it.is_any()));
    if let (Some(member), Some(contexts)) = (member, contexts) {
        let names: Option<Vec<Node>> = contexts
            .iter()
            .map(|context| Some(Node::Text(Text::Glob(decoded(context)?))))
            .collect();
        let names = names.map(|names| Node::AnyOf(names.into()));
        told.extend(names.map(|names| object("params", object(member, names))));
    }
    told
}

/// The member of `params` that CONTEXT comes from.
fn context_member(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Some("uri"),
        _ => None,
    }
}

fn object(key: &str, node: Node) -> Node {
    Node::Object([Node::Find(Find::Key(key.into()), Box::new(node))].into())
}

/// The globs one of which the text at this place fits, if that is all that is asked of it.
pub(super) fn globs_at<'a>(given: &[&'a Node], path: &[&str]) -> Option<Vec<&'a Glob>> {
    let Some((key, path)) = path.split_first() else {
        return given.iter().find_map(|node| globs(node));
    };
    let inner: Vec<&Node> =
        flattened(given).into_iter().filter_map(|node| at_key(node, key)).collect();
    globs_at(&inner, path)
}

fn at_key<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    match node {
        Node::Find(Find::Key(own), node) if **own == *key => Some(node),
        _ => None,
    }
}

fn globs(node: &Node) -> Option<Vec<&Glob>> {
    match node {
        Node::Text(Text::Glob(glob)) => Some(vec![glob]),
        Node::AnyOf(nodes) => {
            nodes.iter().map(globs).collect::<Option<Vec<_>>>().map(|globs| globs.concat())
        }
        _ => None,
    }
}

/// The nodes, and what objects among them ask for.
fn flattened<'a>(given: &[&'a Node]) -> Vec<&'a Node> {
    let mut all = Vec::with_capacity(given.len());
    for node in given {
        match node {
            Node::Object(nodes) => all.extend(nodes.iter()),
            node => all.push(*node),
        }
    }
    all
}

/// A name as it stands in a CONTEXT, or something wider: a wildcard there stands for encoded
/// characters too.
fn encoded(name: &Glob) -> Glob {
    let mut tokens: Vec<Token> = Vec::new();
    for token in name.tokens() {
        match token {
            Token::Letter('%') => tokens.extend("%25".chars().map(Token::Letter)),
            Token::Letter('*') => tokens.extend("%2A".chars().map(Token::Letter)),
            Token::Letter(letter) => tokens.push(Token::Letter(*letter)),
            _ if tokens.last() == Some(&Token::Across) => {}
            _ => tokens.push(Token::Across),
        }
    }
    Glob::of_tokens(tokens)
}

/// A CONTEXT as the name that it stands for; nothing where a wildcard may end inside of an encoded
/// character.
fn decoded(context: &Glob) -> Option<Glob> {
    let mut tokens = Vec::new();
    let mut rest = context.tokens();
    while let Some((token, after)) = rest.split_first() {
        let inside = matches!(token, Token::Letter('2' | '5' | 'A'));
        let behind_run = tokens.last().is_some_and(|last: &Token| last.literal().is_none());
        if inside && behind_run {
            return None;
        }
        let (token, after) = match (token, after) {
            (Token::Letter('%'), [Token::Letter('2'), Token::Letter('5'), after @ ..]) => {
                (Token::Letter('%'), after)
            }
            (Token::Letter('%'), [Token::Letter('2'), Token::Letter('A'), after @ ..]) => {
                (Token::Letter('*'), after)
            }
            (Token::Letter('%'), _) => return None,
            (token, after) => (*token, after),
        };
        tokens.push(token);
        rest = after;
    }
    Some(Glob::of_tokens(tokens))
}

/// Whether what is asked of a payload follows from what is known of it.
struct Implication {
    left: usize,
}

impl Implication {
    /// Whether a value that fits all of `given` fits `own`.
    fn holds(&mut self, given: &[&Node], own: &Node) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        match own {
            Node::Object(nodes) => {
                given.iter().any(|node| is_object(node))
                    && nodes.iter().all(|node| self.holds(given, node))
                    || given.iter().any(|node| self.all_of(node, own))
            }
            Node::AnyOf(nodes) => {
                nodes.iter().any(|node| self.holds(given, node))
                    || given.iter().any(|node| self.all_of(node, own))
            }
            _ => flattened(given).into_iter().any(|node| self.follows(node, own)),
        }
    }

    /// Whether `given` is a choice, and `own` follows from each of what there is to choose.
    fn all_of(&mut self, given: &Node, own: &Node) -> bool {
        match given {
            Node::AnyOf(nodes) => nodes.iter().all(|node| self.holds(&[node], own)),
            _ => false,
        }
    }

    fn follows(&mut self, given: &Node, own: &Node) -> bool {
        match (given, own) {
            (Node::AnyOf(_), _) => self.all_of(given, own),
            (_, Node::Find(Find::Below(_), wanted)) => self.is_below(given, own, wanted),
            (Node::Find(given, inner), Node::Find(own, wanted)) => {
                finds_too(given, own) && self.holds(&[inner], wanted)
            }
            (Node::Null, Node::Null) => true,
            (Node::Bool(given), Node::Bool(own)) => given == own,
            (Node::Number(given), Node::Number(own)) => is_same_number(given, own),
            (Node::Text(given), Node::Text(own)) => own.covers(given),
            _ => false,
        }
    }

    /// Whether `wanted` is here, or `own`, which looks for it, finds it further below.
    fn is_below(&mut self, given: &Node, own: &Node, wanted: &Node) -> bool {
        let further = match given {
            Node::Find(_, inner) => self.holds(&[inner], own),
            _ => false,
        };
        further || self.holds(&[given], wanted)
    }
}

/// Whether only an object fits.
fn is_object(node: &Node) -> bool {
    matches!(node, Node::Object(_) | Node::Find(Find::Key(_) | Find::Keys(_), _))
}

/// Whether what is found by `given` is found by `own`.
fn finds_too(given: &Find, own: &Find) -> bool {
    match (given, own) {
        (Find::Below(_), _) => false,
        (_, Find::Each) => true,
        (Find::Key(given), Find::Key(own)) => given == own,
        (Find::Key(given), Find::Keys(own)) => own.matches(given),
        (Find::Keys(given), Find::Keys(own)) => own.covers(given),
        (Find::Index(given), Find::Index(own)) => given == own,
        _ => false,
    }
}
