//! The list of repairs, which can be taken back, and the way to a place.

use serde_json::{Map, Value};

use super::super::repair::{Repair, RepairAction};

/// The way to a place: a chain through the frames of the walk, written out only on a repair.
pub(super) struct Step<'a> {
    parent: Option<&'a Step<'a>>,
    token: Token<'a>,
}

#[derive(Clone, Copy)]
enum Token<'a> {
    Root,
    Name(&'a str),
    Index(usize),
}

impl<'a> Step<'a> {
    pub(super) const ROOT: Step<'static> = Step { parent: None, token: Token::Root };

    #[inline]
    pub(super) fn name(&'a self, name: &'a str) -> Step<'a> {
        Step { parent: Some(self), token: Token::Name(name) }
    }

    #[inline]
    pub(super) fn index(&'a self, index: usize) -> Step<'a> {
        Step { parent: Some(self), token: Token::Index(index) }
    }

    /// The JSON Pointer to the place.
    pub(super) fn pointer(&self) -> String {
        let mut pointer = String::with_capacity(self.length());
        self.write(&mut pointer);
        pointer
    }

    /// Deep walks are refused long before this recursion is.
    fn write(&self, pointer: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(pointer);
        }
        match self.token {
            Token::Root => {}
            Token::Name(name) => push_token(pointer, name),
            Token::Index(index) => push_token(pointer, &index.to_string()),
        }
    }

    /// About how long the pointer will be.
    fn length(&self) -> usize {
        let own = match self.token {
            Token::Root => 0,
            Token::Name(name) => name.len() + 1,
            Token::Index(_) => 6,
        };
        own + self.parent.map_or(0, Step::length)
    }
}

/// Appends one escaped token to a JSON Pointer.
pub(in crate::schema) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    if !token.bytes().any(|byte| matches!(byte, b'~' | b'/')) {
        pointer.push_str(token);
        return;
    }
    for character in token.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

/// The repairs so far, with what undoing them needs.
#[derive(Default)]
pub(super) struct Log {
    repairs: Vec<Repair>,
    /// The positions that the stripped properties had, in the order of their repairs.
    positions: Vec<usize>,
}

impl Log {
    pub(super) fn len(&self) -> usize {
        self.repairs.len()
    }

    pub(super) fn into_repairs(self) -> Vec<Repair> {
        self.repairs
    }

    pub(super) fn converted(&mut self, at: &Step<'_>, from: Value, to: Value) {
        self.push(at, RepairAction::Converted, Some(from), Some(to));
    }

    pub(super) fn defaulted(&mut self, at: &Step<'_>, to: Value) {
        self.push(at, RepairAction::Defaulted, None, Some(to));
    }

    /// Removes the properties that `is_extra` picks; it is asked for each of them in turn.
    pub(super) fn strip(
        &mut self,
        at: &Step<'_>,
        map: &mut Map<String, Value>,
        mut is_extra: impl FnMut() -> bool,
    ) {
        let mut position = 0;
        map.retain(|name, value| {
            if is_extra() {
                let from = Some(value.take());
                self.push(&at.name(name), RepairAction::Stripped, from, None);
                self.positions.push(position);
                false
            } else {
                position += 1;
                true
            }
        });
    }

    fn push(
        &mut self,
        at: &Step<'_>,
        action: RepairAction,
        from: Option<Value>,
        to: Option<Value>,
    ) {
        self.repairs.push(Repair { path: at.pointer(), action, from, to });
    }

    /// Takes back every repair after the first `keep`; paths begin at `value`, the root.
    pub(super) fn undo(&mut self, value: &mut Value, keep: usize) {
        self.undo_below(value, "", keep);
    }

    /// Takes back every repair after the first `keep`, all of them at or below `base`.
    pub(super) fn undo_below(&mut self, place: &mut Value, base: &str, keep: usize) {
        while self.repairs.len() > keep {
            let Some(repair) = self.repairs.pop() else { return };
            let stripped = repair.action == RepairAction::Stripped;
            let position = if stripped { self.positions.pop() } else { None };
            undo(repair, position.unwrap_or_default(), place, base.len());
        }
    }
}

/// Takes one repair back; a stripped property returns to its position.
fn undo(repair: Repair, position: usize, place: &mut Value, base: usize) {
    let path = &repair.path[base..];
    if repair.action == RepairAction::Converted {
        if let (Some(changed), Some(from)) = (place.pointer_mut(path), repair.from) {
            *changed = from;
        }
        return;
    }
    let (parent, token) = path.rsplit_once('/').unwrap_or(("", ""));
    let name = token.replace("~1", "/").replace("~0", "~");
    let Some(Value::Object(map)) = place.pointer_mut(parent) else {
        return;
    };
    match repair.from {
        Some(from) => _ = map.shift_insert(position.min(map.len()), name, from),
        None => _ = map.shift_remove(&name),
    }
}
