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
    /// The name of the next member and whether it is `<<`, and the values to merge.
    Object {
        name: Option<(StringId, bool)>,
        merged: Vec<CompactValue>,
    },
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
                self.handle_scalar(text, style, anchor, tag.as_deref())?;
            }
            Event::Alias(anchor) => self.handle_alias(anchor)?,
            Event::SequenceStart(..) | Event::MappingStart(..) if self.expects_key() => {
                return Err(BuildError::InvalidKey);
            }
            Event::SequenceStart(anchor, _) => {
                let start = self.builder.begin_array()?;
                self.open_container(start, anchor, ContainerKind::Array);
            }
            Event::MappingStart(anchor, _) => {
                let start = self.builder.begin_object()?;
                let kind = ContainerKind::Object { name: None, merged: Vec::new() };
                self.open_container(start, anchor, kind);
            }
            Event::SequenceEnd | Event::MappingEnd => self.close_container()?,
            _ => {}
        }
        Ok(())
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
        let source_text = if anchor > 0 { Some(self.builder.intern(text)?) } else { None };
        let (size, height) = (VALUE_SIZE + text.len(), 0);
        if self.expects_key() {
            let id = self.builder.intern(text)?;
            let value = CompactValue::Text(id);
            self.store_anchor(anchor, YamlValue { value, size, height, source_text });
            self.set_key(id, text == "<<" && style == ScalarStyle::Plain, size);
        } else {
            let value = scalar::resolve_scalar(&mut self.builder, text, style, tag)?;
            self.push_value(anchor, YamlValue { value, size, height, source_text });
        }
        Ok(())
    }

    fn handle_alias(&mut self, anchor: usize) -> Result<(), BuildError> {
        // Anchors are stored at the end of their value, so a missing one is a circular alias.
        let value = *self.anchors.get(&anchor).ok_or(BuildError::CircularAlias)?;
        self.aliased_size = self.aliased_size.saturating_add(value.size);
        if self.aliased_size > MAX_ALIAS_BYTES {
            return Err(BuildError::AliasExpansion);
        }
        if value.height > 0 {
            self.builder.check_depth(value.height - 1)?;
        }
        if self.expects_key() {
            self.set_key(value.source_text.ok_or(BuildError::InvalidKey)?, false, value.size);
        } else {
            self.push_value(0, value);
        }
        Ok(())
    }

    fn open_container(&mut self, start: ContainerStart, anchor: usize, kind: ContainerKind) {
        let (size, height) = (VALUE_SIZE, 0);
        self.open_containers.push(OpenContainer { start, anchor, kind, size, height });
    }

    fn close_container(&mut self) -> Result<(), BuildError> {
        let Some(open) = self.open_containers.pop() else { return Ok(()) };
        let value = match open.kind {
            ContainerKind::Array => self.builder.end_array(open.start)?,
            ContainerKind::Object { merged, .. } => self.builder.end_object(open.start, &merged)?,
        };
        let (size, height) = (open.size, open.height + 1);
        self.push_value(open.anchor, YamlValue { value, size, height, source_text: None });
        Ok(())
    }

    /// Whether the next value is a member name.
    fn expects_key(&self) -> bool {
        let kind = self.open_containers.last().map(|open| &open.kind);
        matches!(kind, Some(ContainerKind::Object { name: None, .. }))
    }

    fn set_key(&mut self, key: StringId, is_merge: bool, size: usize) {
        if let Some(open) = self.open_containers.last_mut()
            && let ContainerKind::Object { name, .. } = &mut open.kind
        {
            *name = Some((key, is_merge));
            open.size = open.size.saturating_add(size);
        }
    }

    /// Adds a value to the innermost open array or object.
    fn push_value(&mut self, anchor: usize, value: YamlValue) {
        self.store_anchor(anchor, value);
        let Some(open) = self.open_containers.last_mut() else {
            self.root = Some(value);
            return;
        };
        open.size = open.size.saturating_add(value.size);
        open.height = open.height.max(value.height);
        match &mut open.kind {
            ContainerKind::Array => self.builder.push_item(value.value),
            ContainerKind::Object { name, merged } => match name.take() {
                Some((_, true)) if self.builder.can_merge(value.value) => merged.push(value.value),
                Some((name, _)) => self.builder.push_member(name, value.value),
                None => {}
            },
        }
    }

    fn store_anchor(&mut self, anchor: usize, value: YamlValue) {
        if anchor > 0 {
            self.anchors.insert(anchor, value);
        }
    }
}
