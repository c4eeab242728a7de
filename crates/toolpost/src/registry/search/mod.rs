//! Ranked search over names, descriptions, parameter names and tags.
//!
//! The ranking is BM25F: BM25 with a weight and a length normalization for each field. A term that
//! is not a word of the index also matches words that begin with it, begin it or contain it, with a
//! lower weight.

mod builder;
mod words;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::operation::Operation;
use builder::IndexBuilder;

/// A search result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SearchHit {
    /// The matching operation.
    pub operation: Arc<Operation>,
    /// Relevance score, comparable only with other hits of the same search.
    pub score: f32,
}

/// The best matches of a search.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SearchResults {
    /// The hits, best first.
    pub hits: Vec<SearchHit>,
    /// Number of matching operations, including those beyond the limit.
    pub total: usize,
}

/// Inverted index of the words of all operations.
///
/// The vocabulary is small even for many operations. It is stored sorted in one string, so that
/// words with a prefix are contiguous and words with a substring are found in one scan. The postings
/// of all words are in one buffer, in three bytes or less each for most catalogs.
#[derive(Debug)]
pub(super) struct SearchIndex {
    /// The words in order, each preceded by a separator.
    text: String,
    words: Vec<IndexedWord>,
    /// For each word, its operations in ascending order: the difference to the previous one as a
    /// variable-length integer, and the weight of the word in the operation.
    postings: Vec<u8>,
    operations: usize,
}

/// The position of a word in the text of the index, and of its postings. The last entry of an index
/// only marks the end.
#[derive(Debug, Clone, Copy)]
struct IndexedWord {
    text: u32,
    postings: u32,
    /// Number of operations that contain the word.
    operations: u32,
}

/// Never part of a word, because words are alphanumeric.
const SEPARATOR: char = '\0';

/// Maximum number of distinct terms of a query that are searched. Further terms are ignored.
const MAX_TERMS: usize = 32;

/// Maximum length of a query in bytes. The rest is ignored.
const MAX_QUERY_BYTES: usize = 4_000;

/// Number of bytes of words and postings after which the remaining terms of a query are ignored.
const MAX_WORK: usize = 64 * 1024 * 1024;

/// Maximum number of indexed words that a term matches without being equal to them.
const MAX_SIMILAR_WORDS: usize = 256;

/// Minimum score of a hit, compared with the best one. Matches of common words alone are below it.
const MIN_RELATIVE_SCORE: f32 = 0.2;

/// Weights of similar words, before the ratio of the lengths is applied.
const PREFIX_WEIGHT: f32 = 0.7;
const SUBSTRING_WEIGHT: f32 = 0.4;

/// Minimum length in bytes of a term, or of a word inside it, that matches inexactly.
const MIN_PREFIX: usize = 3;
const MIN_PART: usize = 4;

impl SearchIndex {
    pub(super) fn new(operations: &[Arc<Operation>]) -> Self {
        IndexBuilder::new(operations).build()
    }

    /// Returns up to `limit` visible operations that match the query, best first.
    pub(super) fn search(
        &self,
        query: &str,
        limit: usize,
        operations: &[Arc<Operation>],
        is_visible: impl Fn(&Operation) -> bool,
        is_canceled: &dyn Fn() -> bool,
    ) -> SearchResults {
        let scores = self.scores(query, is_canceled).into_iter().enumerate();
        let mut found: Vec<(usize, f32)> = scores
            .filter(|(position, score)| *score > 0.0 && is_visible(&operations[*position]))
            .collect();
        let best = found.iter().map(|(_, score)| *score).fold(0.0, f32::max);
        found.retain(|(_, score)| *score >= best * MIN_RELATIVE_SCORE);
        let total = found.len();
        // Operations with the same score are ordered by id.
        let rank = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if found.len() > limit {
            found.select_nth_unstable_by(limit, rank);
            found.truncate(limit);
        }
        found.sort_unstable_by(rank);
        let hit = |(position, score): (usize, f32)| SearchHit {
            operation: Arc::clone(&operations[position]),
            score,
        };
        SearchResults { hits: found.into_iter().map(hit).collect(), total }
    }

    fn scores(&self, query: &str, is_canceled: &dyn Fn() -> bool) -> Vec<f32> {
        let mut scores = vec![0.0; self.operations];
        let mut similar_scores = vec![0.0; self.operations];
        let mut terms = HashSet::new();
        let mut work = 0;
        let query = &query[..query.floor_char_boundary(MAX_QUERY_BYTES)];
        for term in words::stems(query) {
            if terms.len() == MAX_TERMS || work > MAX_WORK || is_canceled() {
                break;
            }
            if terms.contains(&term) {
                continue;
            }
            let exact = self.position(&term).ok();
            if let Some(word) = exact {
                let rarity = self.rarity(self.words[word].operations);
                self.for_each_posting(word, |operation, weight| {
                    scores[operation] += weight * rarity;
                });
            }
            work += exact.map_or(self.text.len(), |word| self.postings_bytes(word));
            work += self.score_similar(&term, exact.is_some(), &mut similar_scores);
            work += self.operations;
            for (score, similar) in scores.iter_mut().zip(&mut similar_scores) {
                *score += std::mem::take(similar);
            }
            terms.insert(term);
        }
        scores
    }

    /// Sets the score of each operation to that of its best word that is similar to a term. Returns
    /// the number of bytes read.
    fn score_similar(&self, term: &str, has_exact: bool, scores: &mut [f32]) -> usize {
        let similar = self.similar_words(term, has_exact);
        // They count as one word, so that a rare one does not outrank an exact match.
        let operations = similar.iter().map(|(word, _)| self.words[*word].operations).sum();
        let rarity = self.rarity(operations);
        let mut work = 0;
        for (word, closeness) in similar {
            work += self.postings_bytes(word);
            self.for_each_posting(word, |operation, weight| {
                scores[operation] = scores[operation].max(weight * rarity * closeness);
            });
        }
        work
    }

    /// Returns the size of the postings of a word.
    fn postings_bytes(&self, word: usize) -> usize {
        (self.words[word + 1].postings - self.words[word].postings) as usize
    }

    /// Returns the words that are similar to a term, and how similar they are. If the term is
    /// itself a word, it is not searched inside other words.
    fn similar_words(&self, term: &str, has_exact: bool) -> Vec<(usize, f32)> {
        let mut similar = Vec::new();
        let mut add = |word: usize, weight: f32| {
            let (found, term) = (self.word(word).len(), term.len());
            #[expect(clippy::cast_precision_loss, reason = "words are short")]
            let ratio = found.min(term) as f32 / found.max(term) as f32;
            similar.push((word, weight * ratio));
        };
        if term.len() >= MIN_PREFIX {
            let words = self.words_with_prefix(term).skip(usize::from(has_exact));
            words.take(MAX_SIMILAR_WORDS).for_each(|word| add(word, PREFIX_WEIGHT));
        }
        let beginnings = term.char_indices().map(|(end, _)| end).skip_while(|end| *end < MIN_PART);
        for word in beginnings.filter_map(|end| self.position(&term[..end]).ok()) {
            add(word, PREFIX_WEIGHT);
        }
        if has_exact || term.len() < MIN_PART {
            return similar;
        }
        let places = memchr::memmem::find_iter(self.text.as_bytes(), term.as_bytes());
        let words = places.filter_map(|at| {
            let word = self.words.partition_point(|word| word.text as usize <= at) - 1;
            (self.words[word].text as usize != at).then_some(word)
        });
        words.take(MAX_SIMILAR_WORDS).for_each(|word| add(word, SUBSTRING_WEIGHT));
        similar
    }

    /// Calls `visit` with each operation that contains the word, and the weight of the word in it.
    fn for_each_posting(&self, word: usize, mut visit: impl FnMut(usize, f32)) {
        let range = self.words[word].postings as usize..self.words[word + 1].postings as usize;
        let mut bytes = self.postings[range].iter().copied();
        let mut operation = 0;
        while let Some(difference) = read_varint(&mut bytes) {
            operation += difference as usize;
            let weight = f32::from(bytes.next().unwrap_or_default()) / f32::from(u8::MAX);
            visit(operation, weight);
        }
    }

    /// Returns the inverse document frequency of BM25 for a word in that many operations.
    #[expect(clippy::cast_precision_loss, reason = "operations are counted in thousands")]
    fn rarity(&self, operations: u32) -> f32 {
        let found = self.operations.min(operations as usize) as f32;
        let all = self.operations as f32;
        (1.0 + (all - found + 0.5) / (found + 0.5)).ln()
    }

    /// Returns the position of a word, or where it would be.
    fn position(&self, word: &str) -> Result<usize, usize> {
        let (words, mut low, mut high) = (self.words.len() - 1, 0, self.words.len() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.word(middle) < word { low = middle + 1 } else { high = middle }
        }
        if low < words && self.word(low) == word { Ok(low) } else { Err(low) }
    }

    fn words_with_prefix(&self, prefix: &str) -> Range<usize> {
        let begin = self.position(prefix).unwrap_or_else(|begin| begin);
        let mut rest = begin..self.words.len() - 1;
        let end = rest.find(|word| !self.word(*word).starts_with(prefix));
        begin..end.unwrap_or(self.words.len() - 1)
    }

    fn word(&self, position: usize) -> &str {
        let end = self.words[position + 1].text as usize - SEPARATOR.len_utf8();
        &self.text[self.words[position].text as usize..end]
    }
}

/// Appends a variable-length integer: seven bits per byte, lowest first; the high bit marks that
/// another byte follows.
fn push_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn read_varint(bytes: &mut impl Iterator<Item = u8>) -> Option<u32> {
    let mut value = 0;
    for shift in (0..32).step_by(7) {
        let byte = bytes.next()?;
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests;
