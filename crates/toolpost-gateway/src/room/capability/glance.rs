//! What nearly every pattern on a payload asks for, looked up once for a decision.
//!
//! Patterns are mostly about the method of a request, and the name or the address in its parameters.
//! Whether these fit is seen without walking through the payload for each pattern.

use std::cell::OnceCell;

use super::cover::globs_at;
use super::glob::Glob;
use super::node::{Node, member};
use super::subject::Subject;

/// Where a pattern may look, what selects most first.
const PLACES: [&[&str]; 3] = [&["params", "name"], &["params", "uri"], &["method"]];

/// What the texts at some places have to fit.
#[derive(Debug)]
pub(super) struct Glance(Box<[(usize, Glob)]>);

impl Glance {
    pub(super) fn of(payload: &[Node]) -> Self {
        let nodes: Vec<&Node> = payload.iter().collect();
        let glob = |path: &[&str]| match globs_at(&nodes, path).as_deref() {
            Some([glob]) => Some(glob.copy()),
            _ => None,
        };
        let places = PLACES.iter().enumerate();
        Self(places.filter_map(|(place, path)| Some((place, glob(path)?))).collect())
    }

    /// Whether a payload may fit; what may not certainly does not.
    pub(super) fn may_fit(&self, sight: &Sight<'_>) -> bool {
        let fits = |(place, glob): &(usize, Glob)| {
            sight.texts()[*place].is_some_and(|text| glob.matches(text))
        };
        self.0.iter().all(fits)
    }
}

/// The texts of one message at the places that patterns look at.
pub(super) struct Sight<'a> {
    pub(super) subject: &'a Subject<'a>,
    texts: OnceCell<[Option<&'a str>; PLACES.len()]>,
}

impl<'a> Sight<'a> {
    pub(super) fn new(subject: &'a Subject<'a>) -> Self {
        Self { subject, texts: OnceCell::new() }
    }

    fn texts(&self) -> &[Option<&'a str>; PLACES.len()] {
        let text = |path: &[&str]| {
            let mut value = self.subject.payload()?;
            for key in path {
                value = member(value.as_object()?, key)?;
            }
            value.as_str()
        };
        self.texts.get_or_init(|| PLACES.map(text))
    }
}
