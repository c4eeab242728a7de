//! What a capability asks of the kind.

use regex::Regex;

use super::error::{Budget, CapabilityError};
use super::glob::{Glob, Notation};
use super::subject::Subject;
use super::text::{check_negation, compile, expression, fits};
use super::traversal::climbs;

/// How far a message fits; what is larger came nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    Kind,
    Method,
    Context,
    Payload,
    Whole,
}

/// One of the alternatives of a pattern's `kind`.
#[derive(Debug)]
pub(super) enum Kind {
    Parts(Parts),
    /// Held against BASE alone, unless it speaks of colons: a tool could have the name of a kind.
    Regex {
        regex: Box<Regex>,
        full: bool,
    },
    Not(Box<Kind>),
}

impl Kind {
    pub(super) fn compile(budget: &mut Budget, text: &str) -> Result<Self, CapabilityError> {
        budget.part()?;
        budget.text(text)?;
        if let Some(negated) = text.strip_prefix('!') {
            check_negation(text, negated)?;
            return Ok(Self::Not(Box::new(Self::positive(budget, negated)?)));
        }
        Self::positive(budget, text)
    }

    fn positive(budget: &mut Budget, text: &str) -> Result<Self, CapabilityError> {
        if let Some(expression) = expression(text) {
            let full = speaks_of_colons(expression);
            return Ok(Self::Regex { regex: Box::new(compile(budget, expression)?), full });
        }
        // A lone `*` is every kind, however many segments it has.
        let notation = if text == "*" { Notation::Whole } else { Notation::Segments };
        Ok(Self::Parts(Parts::compile(notation, text)?))
    }

    pub(super) fn fits(&self, subject: &Subject<'_>) -> bool {
        let begins = match self {
            Self::Parts(parts) => subject.kind().starts_with(&*parts.beginning),
            _ => true,
        };
        begins && self.fit(subject) == Fit::Whole
    }

    pub(super) fn fit(&self, subject: &Subject<'_>) -> Fit {
        let fits = match self {
            Self::Parts(parts) => return parts.fit(subject),
            Self::Regex { regex, full: true } => fits(regex, subject.kind()),
            Self::Regex { regex, full: false } => fits(regex, subject.base()),
            Self::Not(inner) => !climbs(subject.kind()) && inner.fit(subject) != Fit::Whole,
        };
        if fits { Fit::Whole } else { Fit::Kind }
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Parts(own), _) if own.is_every() => true,
            (Self::Parts(own), Self::Parts(other)) => own.covers(other),
            (Self::Regex { regex: own, .. }, Self::Regex { regex: other, .. }) => {
                own.as_str() == other.as_str()
            }
            (Self::Not(own), Self::Not(other)) => other.covers(own),
            (_, Self::Parts(other)) => self.asks_only_for_base() && self.covers_base_of(other),
            _ => false,
        }
    }

    fn asks_only_for_base(&self) -> bool {
        match self {
            Self::Parts(parts) => parts.method.is_none() && !parts.crosses,
            Self::Regex { full, .. } => !full,
            Self::Not(inner) => inner.asks_only_for_base(),
        }
    }

    /// Whether it fits the one BASE that `other` has. A context that climbs is asked about with all
    /// of the kind, so that nothing is said of it here.
    fn covers_base_of(&self, other: &Parts) -> bool {
        let literal =
            if other.is_only_mcp() { other.base.literal() } else { other.whole.literal() };
        let narrow = !matches!(self, Self::Not(_)) || other.whole.literal().is_some_and(is_alone);
        narrow && literal.is_some_and(|base| self.fit(&Subject::new(base, None)) == Fit::Whole)
    }
}

/// Whether a kind of this BASE has nothing behind it that could climb.
fn is_alone(base: &str) -> bool {
    !base.starts_with("mcp/")
}

/// Whether a regular expression has a colon that stands for one: not that of `(?:`, `(?i:` or
/// `[[:alpha:]]`.
fn speaks_of_colons(expression: &str) -> bool {
    let is_name = |letter: char| letter.is_ascii_alphabetic() || letter == '-' || letter == '^';
    expression.match_indices(':').any(|(at, _)| {
        let (before, after) = (&expression[..at], &expression[at + 1..]);
        let named = before.trim_end_matches(is_name);
        let begins = before.ends_with('[') && after.trim_start_matches(is_name).starts_with(":]");
        let ends = named.ends_with("[:") && after.starts_with(']');
        !(named.ends_with("(?") || begins || ends)
    })
}

/// `BASE[:METHOD[:CONTEXT]]` with wildcards.
#[derive(Debug)]
pub(super) struct Parts {
    /// What every kind that fits begins with: most kinds are told by it alone.
    beginning: Box<str>,
    /// All of it, for kinds that have no parts.
    whole: Glob,
    pub(super) base: Glob,
    pub(super) method: Option<Glob>,
    /// As it was written, and with the `%` encoded that somebody forgot to encode.
    pub(super) contexts: Option<Box<[Glob]>>,
    /// Whether a wildcard in BASE may run on into METHOD, as in `mcp/*/list`. It never runs into
    /// CONTEXT: whoever may list must not call a tool named `x/list`.
    crosses: bool,
}

impl Parts {
    pub(super) fn compile(notation: Notation, text: &str) -> Result<Self, CapabilityError> {
        let mut parts = text.splitn(3, ':');
        let base = parts.next().unwrap_or_default();
        let (method, context) = (parts.next(), parts.next());
        let is_empty = |part: Option<&str>| part.is_some_and(str::is_empty);
        if text.is_empty() || (text.starts_with("mcp/") && (is_empty(method) || is_empty(context)))
        {
            return Err(CapabilityError::Empty(text.to_owned()));
        }
        // A `*` that is all of a part stands for all that may be there.
        let has_parts = method.is_some();
        let part = |text: &str| match text {
            "*" if has_parts => Glob::any(),
            _ => Glob::new(notation, text),
        };
        let base = part(base);
        let method = method.map(part);
        let contexts: Option<Box<[Glob]>> =
            context.map(|context| contexts(context).map(|text| part(&text)).collect());
        Ok(Self {
            beginning: beginning(&base, method.as_ref(), contexts.as_deref()),
            whole: Glob::new(notation, text),
            crosses: notation == Notation::Whole
                && method.is_none()
                && !base.is_beginning()
                && base.literal().is_none(),
            base,
            method,
            contexts,
        })
    }

    /// A kind of MCP with this BASE.
    pub(super) fn of(base: &str, method: Glob, contexts: Option<Box<[Glob]>>) -> Self {
        let base = Glob::new(Notation::Whole, base);
        let beginning = base.beginning().into();
        Self { beginning, whole: base.copy(), base, method: Some(method), contexts, crosses: false }
    }

    pub(super) fn fit(&self, subject: &Subject<'_>) -> Fit {
        if !subject.is_mcp() {
            return if self.whole.matches(subject.kind()) { Fit::Whole } else { Fit::Kind };
        }
        if self.crosses && self.base.matches(subject.base_and_method()) {
            return Fit::Whole;
        }
        if !self.base.matches(subject.base()) {
            return Fit::Kind;
        }
        let Some(method) = &self.method else { return Fit::Whole };
        if !fits_part(std::slice::from_ref(method), subject.method()) {
            return Fit::Method;
        }
        let Some(contexts) = &self.contexts else { return Fit::Whole };
        if fits_part(contexts, subject.context()) { Fit::Whole } else { Fit::Context }
    }

    pub(super) fn is_every(&self) -> bool {
        self.whole.is_any()
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        let kinds_without_parts = other.is_only_mcp() || self.whole.covers(&other.whole);
        kinds_without_parts && (other.is_never_mcp() || self.covers_parts(other))
    }

    fn covers_parts(&self, other: &Self) -> bool {
        if other.crosses && !(self.method.is_none() && (self.crosses || self.base.is_beginning())) {
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
        self.base.beginning().starts_with("mcp/")
    }

    fn is_never_mcp(&self) -> bool {
        let beginning = self.base.beginning();
        let can_go_on = self.base.literal().is_none() && "mcp/".starts_with(&beginning);
        !can_go_on && !beginning.starts_with("mcp/")
    }
}

/// As far as there is no wildcard, and nothing that may be left out.
fn beginning(base: &Glob, method: Option<&Glob>, contexts: Option<&[Glob]>) -> Box<str> {
    let mut beginning = base.beginning();
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
        beginning.push_str(&part.beginning());
        before = part;
    }
    beginning.into()
}

/// What is not there is only covered by what covers everything.
fn fits_part(globs: &[Glob], part: Option<&str>) -> bool {
    globs.iter().any(|glob| part.map_or(glob.is_any(), |part| glob.matches(part)))
}

fn contexts(text: &str) -> impl Iterator<Item = String> {
    let encoded = encoded(text);
    let other = (encoded != text).then_some(encoded);
    std::iter::once(text.to_owned()).chain(other)
}

/// Encodes each `%` that does not stand for a character that a CONTEXT has encoded.
fn encoded(context: &str) -> String {
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
