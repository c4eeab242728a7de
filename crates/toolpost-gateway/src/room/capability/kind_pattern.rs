//! Patterns that capabilities apply to the kind of a message.

use super::error::{CapabilityError, CompileBudget};
use super::glob::{Glob, GlobSyntax};
use super::request::CapabilityRequest;
use super::string_pattern::{PatternGlob, TextPattern, regex_matches};
use super::traversal::has_dot_segment;

/// How far a message matches a capability; larger is closer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchDepth {
    Kind,
    Method,
    Context,
    Payload,
    Addressees,
    Full,
}

pub(super) type KindPattern = TextPattern<KindParts>;

pub(super) fn compile_kind(
    budget: &mut CompileBudget,
    text: &str,
) -> Result<KindPattern, CapabilityError> {
    budget.take_node()?;
    KindPattern::compile(budget, text, |text| {
        // A bare `*` matches every kind, with any number of segments.
        let syntax = if text == "*" { GlobSyntax::Flat } else { GlobSyntax::Segmented };
        KindParts::compile(syntax, text)
    })
}

impl KindPattern {
    pub(super) fn matches(&self, request: &CapabilityRequest<'_>) -> bool {
        let begins = match self {
            Self::Glob(parts) => request.kind().starts_with(&*parts.literal_prefix),
            _ => true,
        };
        begins && self.match_depth(request) == MatchDepth::Full
    }

    pub(super) fn match_depth(&self, request: &CapabilityRequest<'_>) -> MatchDepth {
        let fits = match self {
            Self::Glob(parts) => return parts.match_depth(request),
            // Without a literal colon, an expression is for the BASE: a tool could have the name of
            // a kind.
            Self::Regex(regex) if has_literal_colon(regex.as_str()) => {
                regex_matches(regex, request.kind())
            }
            Self::Regex(regex) => regex_matches(regex, request.base()),
            Self::Not(inner) => {
                !has_dot_segment(request.kind()) && inner.match_depth(request) != MatchDepth::Full
            }
        };
        if fits { MatchDepth::Full } else { MatchDepth::Kind }
    }

    fn constrains_only_base(&self) -> bool {
        match self {
            Self::Glob(parts) => parts.method.is_none() && !parts.crosses_method,
            Self::Regex(regex) => !has_literal_colon(regex.as_str()),
            Self::Not(inner) => inner.constrains_only_base(),
        }
    }

    /// Whether this pattern matches the single BASE of `other`. A negation checks the entire kind
    /// for dot segments, so it covers only kinds that cannot have a CONTEXT.
    fn covers_base_of(&self, other: &KindParts) -> bool {
        let full = other.full.literal();
        let base = if other.is_only_mcp() { other.base.literal() } else { full };
        let narrow =
            !matches!(self, Self::Not(_)) || full.is_some_and(|kind| !kind.starts_with("mcp/"));
        let matches =
            |base| self.match_depth(&CapabilityRequest::new(base, None)) == MatchDepth::Full;
        narrow && base.is_some_and(matches)
    }
}

/// Whether a regular expression contains a literal colon, other than in `(?:`, `(?i:` or
/// `[[:alpha:]]`.
fn has_literal_colon(expression: &str) -> bool {
    let is_name = |letter: char| letter.is_ascii_alphabetic() || letter == '-' || letter == '^';
    expression.match_indices(':').any(|(at, _)| {
        let (before, after) = (&expression[..at], &expression[at + 1..]);
        let prefix = before.trim_end_matches(is_name);
        let begins = before.ends_with('[') && after.trim_start_matches(is_name).starts_with(":]");
        let ends = prefix.ends_with("[:") && after.starts_with(']');
        !(prefix.ends_with("(?") || begins || ends)
    })
}

/// A kind pattern `BASE[:METHOD[:CONTEXT]]` with wildcards.
#[derive(Debug)]
pub(super) struct KindParts {
    /// Literal prefix of every matching kind. It rules out most kinds without further matching.
    literal_prefix: Box<str>,
    /// The whole pattern, for kinds without METHOD and CONTEXT.
    full: Glob,
    pub(super) base: Glob,
    pub(super) method: Option<Glob>,
    /// The CONTEXT as written, and a variant with the unescaped `%` encoded.
    pub(super) contexts: Option<Box<[Glob]>>,
    /// Whether a wildcard in BASE can extend into METHOD, as in `mcp/*/list`. It never extends into
    /// CONTEXT: a capability to list must not allow a call to a tool named `x/list`.
    crosses_method: bool,
}

impl KindParts {
    pub(super) fn compile(syntax: GlobSyntax, text: &str) -> Result<Self, CapabilityError> {
        let mut parts = text.splitn(3, ':');
        let base = parts.next().unwrap_or_default();
        let (method, context) = (parts.next(), parts.next());
        let is_empty = |part: Option<&str>| part.is_some_and(str::is_empty);
        if text.is_empty() || (text.starts_with("mcp/") && (is_empty(method) || is_empty(context)))
        {
            return Err(CapabilityError::Empty(text.to_owned()));
        }
        // A part that is only `*` matches anything, including an absent part.
        let has_parts = method.is_some();
        let part = |text: &str| match text {
            "*" if has_parts => Glob::any(),
            _ => Glob::new(syntax, text),
        };
        let base = part(base);
        let method = method.map(part);
        let contexts: Option<Box<[Glob]>> =
            context.map(|context| context_variants(context).map(|text| part(&text)).collect());
        Ok(Self {
            literal_prefix: literal_prefix(&base, method.as_ref(), contexts.as_deref()),
            full: Glob::new(syntax, text),
            crosses_method: syntax == GlobSyntax::Flat
                && method.is_none()
                && !base.is_prefix()
                && base.literal().is_none(),
            base,
            method,
            contexts,
        })
    }

    pub(super) fn for_mcp(base: &str, method: Glob, contexts: Option<Box<[Glob]>>) -> Self {
        let base = Glob::new(GlobSyntax::Flat, base);
        let literal_prefix = base.literal_prefix().into();
        Self {
            literal_prefix,
            full: base.duplicate(),
            base,
            method: Some(method),
            contexts,
            crosses_method: false,
        }
    }

    pub(super) fn match_depth(&self, request: &CapabilityRequest<'_>) -> MatchDepth {
        if !request.is_mcp() {
            let fits = self.full.matches(request.kind());
            return if fits { MatchDepth::Full } else { MatchDepth::Kind };
        }
        if self.crosses_method && self.base.matches(request.base_and_method()) {
            return MatchDepth::Full;
        }
        let fits =
            |globs: Option<&[Glob]>, part| globs.is_none_or(|globs| matches_part(globs, part));
        if !self.base.matches(request.base()) {
            MatchDepth::Kind
        } else if !fits(self.method.as_ref().map(std::slice::from_ref), request.method()) {
            MatchDepth::Method
        } else if !fits(self.contexts.as_deref(), request.context()) {
            MatchDepth::Context
        } else {
            MatchDepth::Full
        }
    }

    fn covers_parts(&self, other: &Self) -> bool {
        if other.crosses_method
            && !(self.method.is_none() && (self.crosses_method || self.base.is_prefix()))
        {
            return false;
        }
        if !self.base.covers(&other.base) {
            return false;
        }
        let Some(method) = &self.method else { return true };
        if !method.is_any() && !other.method.as_ref().is_some_and(|other| method.covers(other)) {
            return false;
        }
        let Some(contexts) = &self.contexts else { return true };
        let covers_one = |other: &Glob| contexts.iter().any(|own| own.covers(other));
        contexts.iter().any(Glob::is_any)
            || other.contexts.as_ref().is_some_and(|others| others.iter().all(covers_one))
    }

    fn is_only_mcp(&self) -> bool {
        self.base.literal_prefix().starts_with("mcp/")
    }

    fn is_never_mcp(&self) -> bool {
        let beginning = self.base.literal_prefix();
        let can_go_on = self.base.literal().is_none() && "mcp/".starts_with(&beginning);
        !can_go_on && !beginning.starts_with("mcp/")
    }
}

impl PatternGlob for KindParts {
    fn is_any(&self) -> bool {
        self.full.is_any()
    }

    fn covers(&self, other: &Self) -> bool {
        let kinds_without_parts = other.is_only_mcp() || self.full.covers(&other.full);
        kinds_without_parts && (other.is_never_mcp() || self.covers_parts(other))
    }

    fn is_covered_by(&self, pattern: &KindPattern) -> bool {
        pattern.constrains_only_base() && pattern.covers_base_of(self)
    }
}

/// Returns the literal text before the first wildcard or optional part.
fn literal_prefix(base: &Glob, method: Option<&Glob>, contexts: Option<&[Glob]>) -> Box<str> {
    let mut beginning = base.literal_prefix();
    let context = contexts.and_then(|contexts| match contexts {
        [context] => Some(context),
        _ => None,
    });
    let mut before = base;
    for part in [method, context].into_iter().map_while(|part| part) {
        if before.literal().is_none() || part.is_any() {
            break;
        }
        beginning.push(':');
        beginning.push_str(&part.literal_prefix());
        before = part;
    }
    beginning.into()
}

/// Whether one of the globs matches the part. An absent part matches only a glob that matches
/// everything.
fn matches_part(globs: &[Glob], part: Option<&str>) -> bool {
    globs.iter().any(|glob| part.map_or(glob.is_any(), |part| glob.matches(part)))
}

fn context_variants(text: &str) -> impl Iterator<Item = String> {
    let encoded = encode_unescaped_percent(text);
    let other = (encoded != text).then_some(encoded);
    std::iter::once(text.to_owned()).chain(other)
}

/// Encodes each `%` that does not begin `%25` or `%2A`.
fn encode_unescaped_percent(context: &str) -> String {
    let mut encoded = String::with_capacity(context.len());
    for (at, letter) in context.char_indices() {
        encoded.push(letter);
        let rest = &context[at + letter.len_utf8()..];
        if letter == '%' && !["25", "2A"].iter().any(|code| rest.starts_with(code)) {
            encoded.push_str("25");
        }
    }
    encoded
}
