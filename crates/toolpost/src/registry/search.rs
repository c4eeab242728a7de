//! Ranked search over names, tags and descriptions.

use std::collections::HashMap;
use std::sync::Arc;

use crate::operation::Operation;

/// A search result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SearchHit {
    /// The matching operation.
    pub operation: Arc<Operation>,
    /// Relevance score, comparable only with other hits of the same search.
    pub score: u32,
}

/// Inverted index of the words of all operations, sorted.
///
/// The vocabulary is small even for many operations. It is stored as one string, so that a query
/// word is matched against all words in one scan instead of one scan per operation.
#[derive(Debug)]
pub(super) struct SearchIndex {
    /// The words, each preceded by a separator.
    text: String,
    /// The start of each word in `text`, and its postings.
    words: Vec<(usize, Vec<Posting>)>,
    operations: usize,
}

#[derive(Debug, Clone, Copy)]
struct Posting {
    operation: u32,
    weight: u32,
}

/// Never part of a word, because words are alphanumeric.
const SEPARATOR: char = '\0';

/// Weights of a word by the field that contains it.
const NAME_WEIGHT: u32 = 100;
const NAMESPACE_WEIGHT: u32 = 60;
const TITLE_WEIGHT: u32 = 50;
const TAG_WEIGHT: u32 = 40;
const DESCRIPTION_WEIGHT: u32 = 10;

impl SearchIndex {
    pub(super) fn new(operations: &[Arc<Operation>]) -> Self {
        let mut words = HashMap::<String, Vec<Posting>>::new();
        for (position, operation) in (0..).zip(operations) {
            for (word, weight) in weighted_words(operation) {
                let postings = words.entry(word).or_default();
                match postings.last_mut().filter(|last| last.operation == position) {
                    Some(last) => last.weight = last.weight.max(weight),
                    None => postings.push(Posting { operation: position, weight }),
                }
            }
        }
        let mut sorted: Vec<_> = words.into_iter().collect();
        sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let (mut text, mut words) = (String::new(), Vec::with_capacity(sorted.len()));
        for (word, postings) in sorted {
            text.push(SEPARATOR);
            words.push((text.len(), postings));
            text.push_str(&word);
        }
        text.push(SEPARATOR);
        Self { text, words, operations: operations.len() }
    }

    pub(super) fn search(
        &self,
        query: &str,
        limit: usize,
        operations: &[Arc<Operation>],
    ) -> Vec<SearchHit> {
        let mut scores = vec![SearchScore::default(); self.operations];
        for word in tokenize(query) {
            self.add_word(&word, &mut scores);
        }
        let found = scores.into_iter().enumerate().filter(|(_, score)| score.matched > 0);
        let mut hits: Vec<(usize, SearchScore)> = found.collect();
        // Order by number of matched words, then by score, then by id, so that the order is stable.
        let rank = |(position, score): &(usize, SearchScore)| {
            (std::cmp::Reverse((score.matched, score.total)), *position)
        };
        if hits.len() > limit {
            hits.select_nth_unstable_by_key(limit, rank);
            hits.truncate(limit);
        }
        hits.sort_unstable_by_key(rank);
        let hit = |(position, score): (usize, SearchScore)| SearchHit {
            operation: Arc::clone(&operations[position]),
            score: score.total,
        };
        hits.into_iter().map(hit).collect()
    }

    /// Adds the best match of one query word to the score of each operation.
    fn add_word(&self, term: &str, scores: &mut [SearchScore]) {
        for at in memchr::memmem::find_iter(self.text.as_bytes(), term.as_bytes()) {
            let word_index =
                self.words.partition_point(|(begin, _)| *begin <= at).saturating_sub(1);
            self.add_postings(word_index, closeness(term, at, self.bounds(word_index)), scores);
        }
        // Prefixes of the query word also match whole words, so `issues` finds `issue`.
        for (end, _) in term.char_indices().skip(4) {
            if let Some(word_index) = self.position(&term[..end]) {
                self.add_postings(word_index, Some(1), scores);
            }
        }
        for score in scores.iter_mut().filter(|score| score.current > 0) {
            score.matched += 1;
            score.total += score.current;
            score.current = 0;
        }
    }

    fn add_postings(&self, word_index: usize, closeness: Option<u32>, scores: &mut [SearchScore]) {
        let Some(closeness) = closeness else { return };
        for posting in &self.words[word_index].1 {
            let score = &mut scores[posting.operation as usize];
            score.current = score.current.max(posting.weight * closeness);
        }
    }

    fn position(&self, word: &str) -> Option<usize> {
        let found = self.words.binary_search_by(|(begin, _)| {
            self.text[*begin..].split(SEPARATOR).next().unwrap_or_default().cmp(word)
        });
        found.ok()
    }

    fn bounds(&self, word_index: usize) -> (usize, usize) {
        let next = self.words.get(word_index + 1).map_or(self.text.len(), |(next, _)| *next);
        (self.words[word_index].0, next - SEPARATOR.len_utf8())
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct SearchScore {
    /// Number of matched query words.
    matched: u32,
    /// Sum of the scores of the query words.
    total: u32,
    /// Best score of the current query word.
    current: u32,
}

/// Returns how closely a query word matches the indexed word in which it was found.
fn closeness(term: &str, at: usize, (begin, end): (usize, usize)) -> Option<u32> {
    if at == begin && at + term.len() == end {
        Some(4)
    } else if at == begin {
        Some(3)
    } else if term.len() > 2 {
        Some(2)
    } else {
        None
    }
}

fn weighted_words(operation: &Operation) -> impl Iterator<Item = (String, u32)> {
    let (id, spec) = (operation.id(), operation.spec());
    let fields = [
        (id.name(), NAME_WEIGHT),
        (id.namespace(), NAMESPACE_WEIGHT),
        (spec.title.as_deref().unwrap_or_default(), TITLE_WEIGHT),
        (spec.description.as_str(), DESCRIPTION_WEIGHT),
    ];
    let tags = spec.tags.iter().map(|tag| (tag.as_str(), TAG_WEIGHT));
    let fields = fields.into_iter().chain(tags);
    fields.flat_map(|(text, weight)| tokenize(text).map(move |word| (word, weight)))
}

/// Splits text into lowercase words. `listIssues`, `list_issues` and `issues/list` each have two.
fn tokenize(text: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut previous_is_lower = false;
    for character in text.chars() {
        let starts_word = character.is_uppercase() && previous_is_lower;
        if !character.is_alphanumeric() || starts_word {
            words.push(String::new());
        }
        if character.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
        previous_is_lower = character.is_lowercase() || character.is_numeric();
    }
    words.into_iter().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::spec::{OperationKind, OperationSpec};

    fn registry() -> Registry {
        let registry = Registry::new();
        for (id, description, tag) in [
            ("github.issues/list", "Lists the issues of a repository", "tracker"),
            ("github.issues/create", "Opens an issue", "tracker"),
            ("github.repos/get", "One repository with its issues count", "code"),
            ("files.readFile", "Reads a file", "disk"),
            ("files.write_file", "Writes a file", "disk"),
            ("notes.list", "Lists notes", ""),
        ] {
            let mut spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Query);
            spec.description = description.to_owned();
            spec.tags = vec![tag.to_owned()];
            registry.register(Operation::from_spec(spec).build().unwrap()).unwrap();
        }
        registry
    }

    #[test]
    fn search_ranks_by_field_weight_and_matched_words() {
        let catalog = registry().catalog();
        for (query, expected) in [
            ("issues list", &["github.issues/list", "github.issues/create"][..]),
            ("list issues", &["github.issues/list", "github.issues/create"]),
            ("LIST", &["github.issues/list", "notes.list"]),
            ("read file", &["files.readFile", "files.write_file"]),
            ("write", &["files.write_file"]),
            ("tracker", &["github.issues/create", "github.issues/list"]),
            ("disk", &["files.readFile", "files.write_file"]),
            ("repository", &["github.repos/get", "github.issues/list"]),
            ("github.repos/get", &["github.repos/get"]),
            ("creat", &["github.issues/create"]),
            ("weather", &[]),
            ("", &[]),
        ] {
            let hits = catalog.search(query, 2);
            let found: Vec<_> = hits.iter().map(|hit| hit.operation.id().as_str()).collect();
            assert_eq!(found[..found.len().min(expected.len().max(1))], *expected, "{query}");
        }
    }
}
