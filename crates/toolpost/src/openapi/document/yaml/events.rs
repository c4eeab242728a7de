//! What each event does to the tree.

use std::collections::HashMap;

use saphyr_parser::{Event, ScalarStyle, Span, Tag};

use super::super::builder::{Builder, Grown, MAX_ALIASED, Mark, Refusal};
use super::super::text::TextId;
use super::super::tree::Cell;
use super::scalar;

/// What a value counts for besides its text, when it is measured what aliases add.
const VALUE_SIZE: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Reader {
    builder: Builder,
    /// The lists and objects that have begun and not ended.
    open: Vec<Open>,
    anchors: HashMap<usize, Value>,
    /// What the aliases so far stand for, written out.
    aliased: usize,
    root: Option<Value>,
}

#[derive(Debug)]
struct Open {
    mark: Mark,
    anchor: usize,
    kind: Kind,
    /// The size of what is in it so far.
    size: usize,
    /// How many lists and objects lie in each other in it so far.
    height: usize,
}

#[derive(Debug)]
enum Kind {
    Array,
    Object { name: Option<Name>, merged: Vec<Cell> },
}

#[derive(Debug, Clone, Copy)]
enum Name {
    Member(TextId),
    /// `<<`, with its text for when what follows cannot be merged.
    Merge(TextId),
}

/// A finished value, and what an alias of it would add.
#[derive(Debug, Clone, Copy)]
struct Value {
    cell: Cell,
    size: usize,
    height: usize,
    /// A scalar as it is written, which is what it says when it is the name of a member.
    written: Option<TextId>,
}

impl Reader {
    pub(super) fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Refusal> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                // What is not written at all comes as a tilde.
                let text = if span.is_empty() && style == ScalarStyle::Plain { "" } else { &*text };
                self.scalar(text, style, anchor, tag.as_deref())
            }
            Event::Alias(anchor) => self.alias(anchor),
            Event::SequenceStart(anchor, _) => {
                self.refuse_as_name()?;
                let mark = self.builder.begin_array()?;
                self.begin(mark, anchor, Kind::Array);
                Ok(())
            }
            Event::MappingStart(anchor, _) => {
                self.refuse_as_name()?;
                let mark = self.builder.begin_object()?;
                self.begin(mark, anchor, Kind::Object { name: None, merged: Vec::new() });
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            _ => Ok(()),
        }
    }

    /// The tree, if there was a document.
    pub(super) fn finish(self) -> Option<Grown> {
        let root = self.root?;
        Some(self.builder.finish(root.cell))
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), Refusal> {
        let written = if anchor > 0 { Some(self.builder.text(text)?) } else { None };
        let size = VALUE_SIZE + text.len();
        if self.awaits_name() {
            let id = self.builder.text(text)?;
            self.keep(anchor, Value { cell: Cell::Text(id), size, height: 0, written });
            let is_merge = text == "<<" && style == ScalarStyle::Plain;
            return self.name(if is_merge { Name::Merge(id) } else { Name::Member(id) }, size);
        }
        let cell = scalar::cell(&mut self.builder, text, style, tag)?;
        self.value(anchor, Value { cell, size, height: 0, written })
    }

    fn alias(&mut self, anchor: usize) -> Result<(), Refusal> {
        // An anchor is known to the parser from its beginning, and here from its end.
        let value = *self.anchors.get(&anchor).ok_or(Refusal::Circle)?;
        self.aliased = self.aliased.saturating_add(value.size);
        if self.aliased > MAX_ALIASED {
            return Err(Refusal::Expands);
        }
        if value.height > 0 {
            self.builder.deeper(value.height - 1)?;
        }
        if self.awaits_name() {
            return self.name(Name::Member(value.written.ok_or(Refusal::Name)?), value.size);
        }
        self.value(0, value)
    }

    fn begin(&mut self, mark: Mark, anchor: usize, kind: Kind) {
        self.open.push(Open { mark, anchor, kind, size: VALUE_SIZE, height: 0 });
    }

    fn end(&mut self) -> Result<(), Refusal> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let cell = match open.kind {
            Kind::Array => self.builder.end_array(open.mark)?,
            Kind::Object { merged, .. } => self.builder.end_object(open.mark, &merged)?,
        };
        let height = open.height + 1;
        self.value(open.anchor, Value { cell, size: open.size, height, written: None })
    }

    /// Whether the next value is the name of a member.
    fn awaits_name(&self) -> bool {
        matches!(self.open.last(), Some(Open { kind: Kind::Object { name: None, .. }, .. }))
    }

    fn refuse_as_name(&self) -> Result<(), Refusal> {
        if self.awaits_name() { Err(Refusal::Name) } else { Ok(()) }
    }

    fn name(&mut self, next: Name, size: usize) -> Result<(), Refusal> {
        if let Some(Open { kind: Kind::Object { name, .. }, size: sum, .. }) = self.open.last_mut()
        {
            *name = Some(next);
            *sum = sum.saturating_add(size);
        }
        Ok(())
    }

    /// Puts a value where the innermost open list or object has its next.
    fn value(&mut self, anchor: usize, value: Value) -> Result<(), Refusal> {
        self.keep(anchor, value);
        let Some(open) = self.open.last_mut() else {
            self.root = Some(value);
            return Ok(());
        };
        open.size = open.size.saturating_add(value.size);
        open.height = open.height.max(value.height);
        match &mut open.kind {
            Kind::Array => self.builder.item(value.cell),
            Kind::Object { name, merged } => match name.take() {
                Some(Name::Merge(_)) if self.builder.can_merge(value.cell) => {
                    merged.push(value.cell);
                }
                Some(Name::Merge(name) | Name::Member(name)) => {
                    self.builder.member(name, value.cell);
                }
                None => {}
            },
        }
        Ok(())
    }

    fn keep(&mut self, anchor: usize, value: Value) {
        if anchor > 0 {
            self.anchors.insert(anchor, value);
        }
    }
}
