//! How a tree grows: values are put on a stack, and a list or an object takes what was put there
//! since it began.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use serde_json::Number;

use super::large::Large;
use super::text::{TextId, Texts};
use super::tree::{Cell, Span, Tree};

/// How many lists and objects may lie in each other. It is a little less than what `serde_json`
/// reads, so that whatever is cut out of a document and wrapped can be read again.
pub(super) const MAX_DEPTH: usize = 120;

/// How much aliases may add to a document, in bytes: a text counts as long as it is, and every
/// value a few bytes more.
pub(super) const MAX_ALIASED: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct Builder {
    texts: Texts,
    numbers: Vec<Number>,
    items: Vec<Cell>,
    members: Vec<(TextId, Cell)>,
    open_items: Vec<Cell>,
    open_members: Vec<(TextId, Cell)>,
    large: Large,
    /// For each text, the last object that was found to have it as a name.
    stamps: Vec<u32>,
    stamp: u32,
    depth: usize,
    /// How many values there may be; a reader that repeats what an alias stands for needs a bound.
    most: usize,
    /// Whether `<<` takes over the members of other objects.
    merges: bool,
    /// Why the tree stopped growing, for readers that can only pass a message on.
    refusal: Option<Refusal>,
    duplicates: Vec<Duplicate>,
    duplicate_count: usize,
}

/// Why a text that is well written does not become a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the document is larger than can be read")]
    TooLarge,
    #[error("lists and objects lie in each other more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("aliases make the document more than {} MiB larger than it is written", MAX_ALIASED >> 20)]
    Expands,
    #[error("an alias stands for something that it is itself a part of")]
    Circle,
    #[error("the name of a member is a list or an object")]
    Name,
}

/// An object that says a name more than once; the last one counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Duplicate {
    pub(super) name: TextId,
    pub(super) object: Span,
}

/// So many are named; more of them say nothing new.
const MAX_DUPLICATES: usize = 20;

/// How many values were open when a list or an object began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(usize);

impl Default for Builder {
    fn default() -> Self {
        Self {
            texts: Texts::default(),
            numbers: Vec::new(),
            items: Vec::new(),
            members: Vec::new(),
            open_items: Vec::new(),
            open_members: Vec::new(),
            large: Large::default(),
            stamps: Vec::new(),
            stamp: 0,
            depth: 0,
            most: u32::MAX as usize,
            merges: false,
            refusal: None,
            duplicates: Vec::new(),
            duplicate_count: 0,
        }
    }
}

impl Builder {
    /// For a reader that writes out what an alias stands for every time, and leaves `<<` to others.
    pub(super) fn repeating(most: usize) -> Self {
        Self { most, merges: true, ..Self::default() }
    }

    pub(super) fn text(&mut self, text: &str) -> Result<TextId, Refusal> {
        self.texts.keep(text).ok_or(Refusal::TooLarge)
    }

    pub(super) fn text_of(&self, id: TextId) -> &str {
        self.texts.get(id)
    }

    pub(super) fn number(&mut self, number: Number) -> Result<Cell, Refusal> {
        let index = u32::try_from(self.numbers.len()).map_err(|_| Refusal::TooLarge)?;
        self.numbers.push(number);
        Ok(Cell::Number(index))
    }

    pub(super) fn begin_array(&mut self) -> Result<Mark, Refusal> {
        self.deeper(0)?;
        self.depth += 1;
        Ok(Mark(self.open_items.len()))
    }

    pub(super) fn item(&mut self, cell: Cell) {
        self.open_items.push(cell);
    }

    pub(super) fn end_array(&mut self, mark: Mark) -> Result<Cell, Refusal> {
        self.depth -= 1;
        let span = self.span(self.items.len(), self.open_items.len() - mark.0)?;
        self.items.extend(self.open_items.drain(mark.0..));
        Ok(Cell::Array(span))
    }

    pub(super) fn begin_object(&mut self) -> Result<Mark, Refusal> {
        self.deeper(0)?;
        self.depth += 1;
        Ok(Mark(self.open_members.len()))
    }

    pub(super) fn member(&mut self, name: TextId, cell: Cell) {
        self.open_members.push((name, cell));
    }

    /// Ends an object, which takes over what `merged` has and it has not.
    pub(super) fn end_object(&mut self, mark: Mark, merged: &[Cell]) -> Result<Cell, Refusal> {
        self.depth -= 1;
        let twice = self.settle_duplicates(mark);
        self.merge(mark, merged);
        let span = self.span(self.members.len(), self.open_members.len() - mark.0)?;
        self.large.note(&self.open_members[mark.0..], span);
        self.members.extend(self.open_members.drain(mark.0..));
        self.report(twice, span);
        Ok(Cell::Object(span))
    }

    fn report(&mut self, twice: Vec<TextId>, object: Span) {
        self.duplicate_count += twice.len();
        let room = MAX_DUPLICATES - self.duplicates.len();
        let twice = twice.into_iter().take(room).map(|name| Duplicate { name, object });
        self.duplicates.extend(twice);
    }

    /// Whether something that is so high itself may stand here.
    pub(super) fn deeper(&self, height: usize) -> Result<(), Refusal> {
        if self.depth + height < MAX_DEPTH { Ok(()) } else { Err(Refusal::TooDeep) }
    }

    /// Whether a member is not one of the object, but names others whose members it has as well.
    pub(super) fn is_merge(&self, name: TextId, value: Cell) -> bool {
        self.merges && self.text_of(name) == "<<" && self.can_merge(value)
    }

    pub(super) fn can_merge(&self, value: Cell) -> bool {
        match value {
            Cell::Object(_) => true,
            Cell::Array(span) => {
                self.items[span.range()].iter().all(|item| matches!(item, Cell::Object(_)))
            }
            _ => false,
        }
    }

    fn merge(&mut self, mark: Mark, merged: &[Cell]) {
        if merged.is_empty() {
            return;
        }
        let mut names: HashSet<_> =
            self.open_members[mark.0..].iter().map(|(name, _)| *name).collect();
        for cell in merged {
            let objects = match cell {
                Cell::Array(span) => &self.items[span.range()],
                cell => std::slice::from_ref(cell),
            };
            for object in objects {
                let Cell::Object(span) = object else { continue };
                let members = self.members[span.range()].iter();
                self.open_members.extend(members.filter(|(name, _)| names.insert(*name)));
            }
        }
    }

    /// Leaves one member of each name, with the value of the last, and says which were there twice.
    fn settle_duplicates(&mut self, mark: Mark) -> Vec<TextId> {
        if !self.has_duplicates(mark) {
            return Vec::new();
        }
        let mut twice = Vec::new();
        let mut places = HashMap::new();
        for (name, cell) in self.open_members.split_off(mark.0) {
            match places.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(self.open_members.len());
                    self.open_members.push((name, cell));
                }
                Entry::Occupied(entry) => {
                    self.open_members[*entry.get()].1 = cell;
                    twice.push(name);
                }
            }
        }
        twice
    }

    /// Few are compared with each other, many leave a mark on their names.
    fn has_duplicates(&mut self, mark: Mark) -> bool {
        let members = &self.open_members[mark.0..];
        if members.len() <= 8 {
            return (1..members.len())
                .any(|at| members[..at].iter().any(|(name, _)| *name == members[at].0));
        }
        self.stamp += 1;
        self.stamps.resize(self.texts.len(), 0);
        let stamps = &mut self.stamps;
        let mut names = members.iter().map(|(name, _)| name.index());
        names.any(|name| std::mem::replace(&mut stamps[name], self.stamp) == self.stamp)
    }

    /// Keeps the reason, and gives it to readers that have errors of their own.
    pub(super) fn refuse<E: serde::de::Error>(&mut self, refusal: Refusal) -> E {
        self.refusal = Some(refusal);
        E::custom(refusal)
    }

    /// Why the tree stopped growing, if it was not for the text.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    fn span(&self, start: usize, length: usize) -> Result<Span, Refusal> {
        if self.items.len() + self.members.len() + length > self.most {
            return Err(Refusal::Expands);
        }
        let narrow = |size: usize| u32::try_from(size).map_err(|_| Refusal::TooLarge);
        narrow(start + length)?;
        Ok(Span { start: narrow(start)?, length: narrow(length)? })
    }

    pub(super) fn finish(mut self, root: Cell) -> Grown {
        self.texts.shrink();
        self.numbers.shrink_to_fit();
        self.items.shrink_to_fit();
        self.members.shrink_to_fit();
        let Self { texts, numbers, items, members, large, duplicates, duplicate_count, .. } = self;
        let tree = Tree { texts, numbers, items, members, large, root };
        Grown { tree, duplicates, duplicate_count }
    }
}

/// A finished tree, and what is to be said about it.
#[derive(Debug)]
pub(super) struct Grown {
    pub(super) tree: Tree,
    /// The first of them.
    pub(super) duplicates: Vec<Duplicate>,
    pub(super) duplicate_count: usize,
}
