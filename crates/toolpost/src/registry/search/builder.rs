//! Builds a search index.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::words::stems;
use super::{IndexedWord, SEPARATOR, SearchIndex, push_varint};
use crate::operation::Operation;
use crate::schema::PropertyNames;

/// How fast the weight of a word grows with its frequency in an operation (`k1` of BM25).
const SATURATION: f32 = 1.2;

/// Maximum number of words of a field that are indexed.
const MAX_WORDS: usize = 256;

/// Approximate number of operations from which the average lengths are estimated.
const SAMPLE: usize = 256;

/// A field of an operation.
struct Field {
    /// How much a word in this field counts.
    weight: f32,
    /// How much a longer text reduces the weight, from 0 to 1 (`b` of BM25).
    length_penalty: f32,
}

const FIELDS: [Field; 7] = [
    Field { weight: 6.0, length_penalty: 0.5 },
    Field { weight: 2.0, length_penalty: 0.0 },
    Field { weight: 4.0, length_penalty: 0.5 },
    Field { weight: 3.0, length_penalty: 0.3 },
    Field { weight: 2.0, length_penalty: 0.5 },
    Field { weight: 1.0, length_penalty: 0.5 },
    Field { weight: 0.5, length_penalty: 0.75 },
];

/// The texts of an operation, one list per field: name, namespace, title, tags, parameters,
/// description, and the names inside parameters.
type FieldTexts<'o> = [Vec<Cow<'o, str>>; FIELDS.len()];

pub(super) struct IndexBuilder<'o> {
    operations: &'o [Arc<Operation>],
    /// Average number of words of each field, among sampled operations that have it.
    average_lengths: [f32; FIELDS.len()],
    words: HashMap<String, WordPostings, foldhash::fast::RandomState>,
}

#[derive(Default)]
struct WordPostings {
    encoded: Vec<u8>,
    last: u32,
    count: u32,
}

impl<'o> IndexBuilder<'o> {
    pub(super) fn new(operations: &'o [Arc<Operation>]) -> Self {
        Self { operations, average_lengths: [1.0; FIELDS.len()], words: HashMap::default() }
    }

    pub(super) fn build(mut self) -> SearchIndex {
        self.average_lengths = average_lengths(self.operations);
        for (position, operation) in (0..).zip(self.operations) {
            self.add(position, &texts(operation));
        }
        let mut sorted: Vec<_> = self.words.into_iter().collect();
        sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let (mut text, mut words) = (String::new(), Vec::with_capacity(sorted.len() + 1));
        let mut postings = Vec::new();
        for (word, found) in sorted {
            text.push(SEPARATOR);
            words.push(indexed_word(&text, &postings, found.count));
            text.push_str(&word);
            postings.extend(found.encoded);
        }
        text.push(SEPARATOR);
        words.push(indexed_word(&text, &postings, 0));
        text.shrink_to_fit();
        postings.shrink_to_fit();
        SearchIndex { text, words, postings, operations: self.operations.len() }
    }

    fn add(&mut self, position: u32, texts: &FieldTexts<'_>) {
        let mut frequencies: HashMap<String, f32, foldhash::fast::RandomState> = HashMap::default();
        for ((field, texts), average) in FIELDS.iter().zip(texts).zip(self.average_lengths) {
            let words: Vec<String> = field_words(texts).collect();
            #[expect(clippy::cast_precision_loss, reason = "at most MAX_WORDS")]
            let length = words.len() as f32;
            let penalty = 1.0 - field.length_penalty + field.length_penalty * length / average;
            for word in words {
                *frequencies.entry(word).or_default() += field.weight / penalty;
            }
        }
        for (word, frequency) in frequencies {
            self.words.entry(word).or_default().push(position, frequency);
        }
    }
}

impl WordPostings {
    fn push(&mut self, operation: u32, frequency: f32) {
        let weight = f32::from(u8::MAX) * frequency / (SATURATION + frequency);
        push_varint(&mut self.encoded, operation - self.last);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 1 and 255"
        )]
        self.encoded.push(weight.round().clamp(1.0, 255.0) as u8);
        self.last = operation;
        self.count += 1;
    }
}

fn indexed_word(text: &str, postings: &[u8], operations: u32) -> IndexedWord {
    let position = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    IndexedWord { text: position(text.len()), postings: position(postings.len()), operations }
}

fn texts(operation: &Operation) -> FieldTexts<'_> {
    let (id, spec) = (operation.id(), operation.spec());
    let PropertyNames { required, optional, nested } = spec.input_schema.property_names();
    [
        vec![id.name().into()],
        vec![id.namespace().into()],
        spec.title.iter().map(Cow::from).collect(),
        spec.tags.iter().map(Cow::from).collect(),
        required.into_iter().chain(optional).map(Cow::from).collect(),
        vec![spec.description.as_str().into()],
        nested.into_iter().map(Cow::from).collect(),
    ]
}

fn field_words(texts: &[Cow<'_, str>]) -> impl Iterator<Item = String> {
    texts.iter().flat_map(|text| stems(text)).take(MAX_WORDS)
}

#[expect(clippy::cast_precision_loss, reason = "words are counted in millions at most")]
fn average_lengths(operations: &[Arc<Operation>]) -> [f32; FIELDS.len()] {
    let (mut lengths, mut counts) = ([0_usize; FIELDS.len()], [0_usize; FIELDS.len()]);
    for operation in operations.iter().step_by(operations.len() / SAMPLE + 1) {
        for (field, texts) in texts(operation).iter().enumerate() {
            let length = field_words(texts).count();
            lengths[field] += length;
            counts[field] += usize::from(length > 0);
        }
    }
    std::array::from_fn(|field| lengths[field].max(1) as f32 / counts[field].max(1) as f32)
}
