//! Regular expressions: linear time where possible, otherwise bounded backtracking.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use super::super::budget::Budget;

/// A compiled `pattern` or `patternProperties` key.
pub(crate) struct PatternMatcher {
    source: Box<str>,
    engine: Engine,
    /// Steps per byte of text, in sixteenths.
    weight: usize,
}

enum Engine {
    /// Linear-time engine, with the pattern translated from ECMAScript.
    Linear(Box<regex::Regex>),
    /// An engine with backtracking, for look-around and back-references.
    Backtracking(Box<BacktrackingPattern>),
}

struct BacktrackingPattern {
    translated: Box<str>,
    /// Engine with few backtracks, which suffice for nearly every text.
    short: fancy_regex::Regex,
    /// Engine with many backtracks, built when a text needs them.
    long: OnceLock<Option<fancy_regex::Regex>>,
}

/// Sizes of compiled patterns. The steps and the memory of a pattern are those of its class.
const SIZE_CLASSES: [usize; 4] = [32 << 10, 256 << 10, 2 << 20, 8 << 20];

const SHORT_BACKTRACKS: usize = 2_000;
const LONG_BACKTRACKS: usize = 200_000;

/// Number of backtracks that count as one step.
const BACKTRACKS_PER_STEP: usize = 10;

impl PatternMatcher {
    /// Compiles a pattern; `None` if it is invalid, too large, or the budget is exceeded.
    pub(crate) fn compile(pattern: &str, budget: &Budget<'_>) -> Option<Self> {
        let translated = jsonschema_regex::to_rust_regex(pattern).ok()?;
        for (class, size) in SIZE_CLASSES.into_iter().enumerate() {
            if !(budget.spend(pattern.len() + (size >> 4)) && budget.allocate(size)) {
                return None;
            }
            let built =
                regex::RegexBuilder::new(&translated).size_limit(size).dfa_size_limit(size).build();
            match built {
                Ok(regex) => {
                    let engine = Engine::Linear(Box::new(regex));
                    return Some(Self { source: pattern.into(), engine, weight: 1 << (3 * class) });
                }
                Err(regex::Error::CompiledTooBig(_)) => budget.release(size),
                Err(_) => return Self::backtracking(pattern, &translated, budget),
            }
        }
        None
    }

    fn backtracking(pattern: &str, translated: &str, budget: &Budget<'_>) -> Option<Self> {
        let size = SIZE_CLASSES[1];
        if !(budget.spend(size >> 4) && budget.allocate(size)) {
            return None;
        }
        let engine = Engine::Backtracking(Box::new(BacktrackingPattern {
            short: build_backtracking(translated, SHORT_BACKTRACKS)?,
            long: OnceLock::new(),
            translated: translated.into(),
        }));
        Some(Self { source: pattern.into(), engine, weight: 8 })
    }

    /// Returns the pattern as written in the schema.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Whether the pattern matches within `text`. A text that needs too many backtracks does not.
    pub(crate) fn matches(&self, text: &str, budget: &Budget<'_>) -> bool {
        if !budget.spend(1 + (text.len() / 16).saturating_mul(self.weight)) {
            return false;
        }
        match &self.engine {
            // The engine panics on a few rare patterns; these match nothing.
            Engine::Linear(regex) => {
                catch_unwind(AssertUnwindSafe(|| regex.is_match(text))).unwrap_or(false)
            }
            Engine::Backtracking(pattern) => pattern.matches(text, budget),
        }
    }
}

impl BacktrackingPattern {
    fn matches(&self, text: &str, budget: &Budget<'_>) -> bool {
        if !budget.spend(SHORT_BACKTRACKS / BACKTRACKS_PER_STEP / 16) {
            return false;
        }
        if let Some(is_match) = run(&self.short, text) {
            return is_match;
        }
        budget.spend((SHORT_BACKTRACKS + LONG_BACKTRACKS) / BACKTRACKS_PER_STEP)
            && self
                .long
                .get_or_init(|| build_backtracking(&self.translated, LONG_BACKTRACKS))
                .as_ref()
                .is_some_and(|regex| run(regex, text).unwrap_or(false))
    }
}

/// Whether the pattern matches; `None` if it backtracks too much.
fn run(regex: &fancy_regex::Regex, text: &str) -> Option<bool> {
    catch_unwind(AssertUnwindSafe(|| regex.is_match(text))).unwrap_or(Ok(false)).ok()
}

fn build_backtracking(translated: &str, backtracks: usize) -> Option<fancy_regex::Regex> {
    fancy_regex::RegexBuilder::new(translated)
        .backtrack_limit(backtracks)
        .delegate_size_limit(SIZE_CLASSES[1])
        .delegate_dfa_size_limit(SIZE_CLASSES[1])
        .build()
        .ok()
}
