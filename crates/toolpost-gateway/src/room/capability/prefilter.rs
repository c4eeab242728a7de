//! Prefilter for payload patterns, evaluated once per decision.
//!
//! Most patterns constrain the method of a request and the name or URI in its params. These members
//! are looked up once, so most patterns are ruled out without traversing the payload.

use std::cell::OnceCell;

use super::glob::Glob;
use super::payload_pattern::{PatternNode, get_member};
use super::request::CapabilityRequest;
use super::subsumption::globs_at;

/// Payload paths that the prefilter checks, most selective first.
const PREFILTER_PATHS: [&[&str]; 3] = [&["params", "name"], &["params", "uri"], &["method"]];

/// Globs that the strings at the prefilter paths must match.
#[derive(Debug)]
pub(super) struct Prefilter(Box<[(usize, Glob)]>);

impl Prefilter {
    pub(super) fn new(payload: &[PatternNode]) -> Self {
        let nodes: Vec<&PatternNode> = payload.iter().collect();
        let glob = |path: &[&str]| match globs_at(&nodes, path).as_deref() {
            Some([glob]) => Some(glob.duplicate()),
            _ => None,
        };
        let paths = PREFILTER_PATHS.iter().enumerate();
        Self(paths.filter_map(|(index, path)| Some((index, glob(path)?))).collect())
    }

    /// Whether the payload can match. If `false`, the full pattern does not match either.
    pub(super) fn may_match(&self, input: &PrefilterInput<'_>) -> bool {
        let fits = |(index, glob): &(usize, Glob)| {
            input.values()[*index].is_some_and(|text| glob.matches(text))
        };
        self.0.iter().all(fits)
    }
}

pub(super) struct PrefilterInput<'a> {
    pub(super) request: &'a CapabilityRequest<'a>,
    values: OnceCell<[Option<&'a str>; PREFILTER_PATHS.len()]>,
}

impl<'a> PrefilterInput<'a> {
    pub(super) fn new(request: &'a CapabilityRequest<'a>) -> Self {
        Self { request, values: OnceCell::new() }
    }

    fn values(&self) -> &[Option<&'a str>; PREFILTER_PATHS.len()] {
        let text = |path: &[&str]| {
            let mut value = self.request.payload()?;
            for key in path {
                value = get_member(value.as_object()?, key)?;
            }
            value.as_str()
        };
        self.values.get_or_init(|| PREFILTER_PATHS.map(text))
    }
}
