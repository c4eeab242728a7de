//! Builds the tree from YAML parser events.

use std::collections::HashMap;

use saphyr_parser::{Event, ScalarStyle, Span, Tag};

use super::super::interner::StringId;
use super::super::tree::CompactValue;
use super::super::tree_builder::{
    BuildError, BuiltTree, ContainerStart, MAX_ALIAS_BYTES, TreeBuilder,
};
use super::scalar;

/// Size of a value in addition to its text, for the limit on alias expansion.
const VALUE_SIZE: usize = 16;

#[derive(Debug, Default)]
pub(super) struct YamlEventReader {
    builder: TreeBuilder,
    /// Arrays and objects that have started but not ended.
    open_containers: Vec<OpenContainer>,
    anchors: HashMap<usize, YamlValue>,
    /// Expanded size of all aliases so far.
    aliased_size: usize,
    root: Option<YamlValue>,
}

#[derive(Debug)]
struct OpenContainer {
    start: ContainerStart,
    anchor: usize,
    kind: ContainerKind,
    /// Size of the contents so far.
    size: usize,
    /// Nesting height of the contents so far.
    height: usize,
}

#[derive(Debug)]
enum ContainerKind {
    Array,
    Object { name: Option<PendingKey>, merged: Vec<CompactValue> },
}

#[derive(Debug, Clone, Copy)]
enum PendingKey {
    Key(StringId),
    /// `<<`, with its string for a value that cannot be merged.
    Merge(StringId),
}

/// A finished value, with the size and nesting height that an alias of it adds.
#[derive(Debug, Clone, Copy)]
struct YamlValue {
    value: CompactValue,
    size: usize,
    height: usize,
    /// Source text of a scalar, which is used if the scalar is a member name.
    source_text: Option<StringId>,
}

impl YamlEventReader {
    pub(super) fn handle_event(&mut self, event: Event<'_>, span: Span) -> Result<(), BuildError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                // The parser reports an omitted value as `~`.
                let text = if span.is_empty() && style == ScalarStyle::Plain { "" } else { &*text };
                self.handle_scalar(text, style, anchor, tag.as_deref())
            }
            Event::Alias(anchor) => self.handle_alias(anchor),
            Event::SequenceStart(anchor, _) => {
                self.reject_container_key()?;
                let start = self.builder.begin_array()?;
                self.open_container(start, anchor, ContainerKind::Array);
                Ok(())
            }
            Event::MappingStart(anchor, _) => {
                self.reject_container_key()?;
                let start = self.builder.begin_object()?;
                self.open_container(
                    start,
                    anchor,
                    ContainerKind::Object { name: None, merged: Vec::new() },
                );
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close_container(),
            _ => Ok(()),
        }
    }

    /// Returns the tree, or `None` if there was no document.
    pub(super) fn finish(self) -> Option<BuiltTree> {
        let root = self.root?;
        Some(self.builder.finish(root.value))
    }

    fn handle_scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), BuildError> {
        let source_id = if anchor > 0 { Some(self.builder.intern(text)?) } else { None };
        let size = VALUE_SIZE + text.len();
        if self.expects_key() {
            let id = self.builder.intern(text)?;
            self.store_anchor(
                anchor,
                YamlValue {
                    value: CompactValue::Text(id),
                    size,
                    height: 0,
                    source_text: source_id,
                },
            );
            let is_merge = text == "<<" && style == ScalarStyle::Plain;
            return self
                .set_key(if is_merge { PendingKey::Merge(id) } else { PendingKey::Key(id) }, size);
        }
        let compact_value = scalar::resolve_scalar(&mut self.builder, text, style, tag)?;
        self.push_value(
            anchor,
            YamlValue { value: compact_value, size, height: 0, source_text: source_id },
        )
    }

    fn handle_alias(&mut self, anchor: usize) -> Result<(), BuildError> {
        // The parser registers an anchor at the start of its value, this reader at the end. A
        // missing entry is therefore a circular alias.
        let value = *self.anchors.get(&anchor).ok_or(BuildError::CircularAlias)?;
        self.aliased_size = self.aliased_size.saturating_add(value.size);
        if self.aliased_size > MAX_ALIAS_BYTES {
            return Err(BuildError::AliasExpansion);
        }
        if value.height > 0 {
            self.builder.check_depth(value.height - 1)?;
        }
        if self.expects_key() {
            return self.set_key(
                PendingKey::Key(value.source_text.ok_or(BuildError::InvalidKey)?),
                value.size,
            );
        }
        self.push_value(0, value)
    }

    fn open_container(&mut self, start: ContainerStart, anchor: usize, kind: ContainerKind) {
        self.open_containers.push(OpenContainer {
            start,
            anchor,
            kind,
            size: VALUE_SIZE,
            height: 0,
        });
    }

    fn close_container(&mut self) -> Result<(), BuildError> {
        let Some(open) = self.open_containers.pop() else { return Ok(()) };
        let compact_value = match open.kind {
            ContainerKind::Array => self.builder.end_array(open.start)?,
            ContainerKind::Object { merged, .. } => self.builder.end_object(open.start, &merged)?,
        };
        let height = open.height + 1;
        self.push_value(
            open.anchor,
            YamlValue { value: compact_value, size: open.size, height, source_text: None },
        )
    }

    /// Whether the next value is a member name.
    fn expects_key(&self) -> bool {
        matches!(
            self.open_containers.last(),
            Some(OpenContainer { kind: ContainerKind::Object { name: None, .. }, .. })
        )
    }

    fn reject_container_key(&self) -> Result<(), BuildError> {
        if self.expects_key() { Err(BuildError::InvalidKey) } else { Ok(()) }
    }

    fn set_key(&mut self, next: PendingKey, size: usize) -> Result<(), BuildError> {
        if let Some(OpenContainer { kind: ContainerKind::Object { name, .. }, size: sum, .. }) =
            self.open_containers.last_mut()
        {
            *name = Some(next);
            *sum = sum.saturating_add(size);
        }
        Ok(())
    }

    /// Adds a value to the innermost open array or object.
    fn push_value(&mut self, anchor: usize, value: YamlValue) -> Result<(), BuildError> {
        self.store_anchor(anchor, value);
        let Some(open) = self.open_containers.last_mut() else {
            self.root = Some(value);
            return Ok(());
        };
        open.size = open.size.saturating_add(value.size);
        open.height = open.height.max(value.height);
        match &mut open.kind {
            ContainerKind::Array => self.builder.push_item(value.value),
            ContainerKind::Object { name, merged } => match name.take() {
                Some(PendingKey::Merge(_)) if self.builder.can_merge(value.value) => {
                    merged.push(value.value);
                }
                Some(PendingKey::Merge(name) | PendingKey::Key(name)) => {
                    self.builder.push_member(name, value.value);
                }
                None => {}
            },
        }
        Ok(())
    }

    fn store_anchor(&mut self, anchor: usize, value: YamlValue) {
        if anchor > 0 {
            self.anchors.insert(anchor, value);
        }
    }
}
