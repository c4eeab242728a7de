//! The list of repairs, with undo.

use serde_json::Value;
use smallvec::SmallVec;

use super::super::repair::{Repair, RepairAction};
use crate::json::{JsonObject, JsonPointer, ValuePath, unescape_token};

/// The repairs made so far, with the data needed to undo them.
#[derive(Default)]
pub(super) struct RepairLog {
    pub(super) repairs: Vec<Repair>,
    /// Original positions of stripped properties, in the order of their repairs.
    positions: SmallVec<[usize; 6]>,
    /// Buffer for property names, which saves an allocation per name.
    name_buffer: String,
}

impl RepairLog {
    pub(super) fn len(&self) -> usize {
        self.repairs.len()
    }

    /// Replaces a value by its conversion and records the repair.
    pub(super) fn convert(&mut self, at: &ValuePath<'_>, value: &mut Value, new: Value) {
        let repair = self.push(at, RepairAction::Converted);
        repair.to = Some(new.clone());
        repair.from = Some(std::mem::replace(value, new));
    }

    pub(super) fn record_default(&mut self, at: &ValuePath<'_>, default: &Value) {
        self.push(at, RepairAction::Defaulted).to = Some(default.clone());
    }

    /// Returns an owned copy of a name, reusing the buffer of a stripped name if possible.
    pub(super) fn owned_name(&mut self, name: &str) -> String {
        let mut owned = std::mem::take(&mut self.name_buffer);
        // A much larger buffer would waste memory in the value.
        if owned.capacity() > 2 * name.len() {
            return name.to_owned();
        }
        owned.clear();
        owned.push_str(name);
        owned
    }

    /// Removes the properties for which `is_extra`, called in order, returns `true`.
    pub(super) fn strip(
        &mut self,
        at: &ValuePath<'_>,
        map: &mut JsonObject,
        mut is_extra: impl FnMut() -> bool,
    ) {
        let mut position = 0;
        map.retain(|name, value| {
            if is_extra() {
                self.push(&at.member(name), RepairAction::Stripped).from = Some(value.take());
                self.positions.push(position);
                false
            } else {
                position += 1;
                true
            }
        });
    }

    /// Removes the properties at the given sorted positions; meant for few positions.
    ///
    /// Repairs are recorded in order; properties are removed from back to front.
    pub(super) fn strip_at(
        &mut self,
        at: &ValuePath<'_>,
        map: &mut JsonObject,
        positions: &[usize],
    ) {
        let start = self.repairs.len();
        self.repairs.resize_with(start + positions.len(), || blank(RepairAction::Stripped));
        for (before, position) in positions.iter().enumerate() {
            self.positions.push(position - before);
        }
        for (repair, position) in self.repairs[start..].iter_mut().zip(positions).rev() {
            let after = map.len() - 1 - position;
            let name = map.keys().rev().nth(after).expect("the position is in the object");
            self.name_buffer.clear();
            self.name_buffer.push_str(name);
            at.member(name).write_to(&mut repair.path);
            repair.from = map.shift_remove(&self.name_buffer);
        }
    }

    /// Adds a repair with its path and action; the caller fills in the values.
    #[inline]
    fn push(&mut self, at: &ValuePath<'_>, action: RepairAction) -> &mut Repair {
        let count = self.repairs.len();
        // Unlike `push`, this constructs the repair in place and avoids a copy.
        self.repairs.resize_with(count + 1, || blank(action));
        let repair = &mut self.repairs[count];
        at.write_to(&mut repair.path);
        repair
    }

    /// Undoes all repairs after the first `keep`. Paths are relative to `value`, the root.
    pub(super) fn undo(&mut self, value: &mut Value, keep: usize) {
        self.undo_below(value, "", keep);
    }

    /// Undoes all repairs after the first `keep`. All are at or below `base`, the path of `target`.
    pub(super) fn undo_below(&mut self, target: &mut Value, base: &str, keep: usize) {
        self.revert(target, base, keep);
        self.forget(keep);
    }

    /// Undoes all repairs after the first `keep` in the value, but keeps them in the list.
    pub(super) fn revert(&mut self, target: &mut Value, base: &str, keep: usize) {
        let mut positions = self.positions.iter().rev();
        for repair in self.repairs[keep..].iter_mut().rev() {
            let stripped = repair.action == RepairAction::Stripped;
            let position = if stripped { positions.next() } else { None };
            undo(repair, position.copied().unwrap_or_default(), target, base.len());
        }
    }

    /// Makes the repairs after the first `keep` again, after [`RepairLog::revert`].
    pub(super) fn reapply(&mut self, target: &mut Value, base: &str, keep: usize) {
        self.repairs[keep..].iter_mut().for_each(|repair| redo(repair, target, base.len()));
    }

    /// Removes all repairs after the first `keep` from the list.
    pub(super) fn forget(&mut self, keep: usize) {
        let stripped = |repair: &&Repair| repair.action == RepairAction::Stripped;
        let strips = self.repairs[keep..].iter().filter(stripped).count();
        self.positions.truncate(self.positions.len() - strips);
        self.repairs.truncate(keep);
    }
}

#[inline]
fn blank(action: RepairAction) -> Repair {
    Repair { path: JsonPointer::default(), action, from: None, to: None }
}

/// Undoes one repair. A stripped property is moved back to its original position.
fn undo(repair: &mut Repair, position: usize, target: &mut Value, base: usize) {
    let path = &repair.path[base..];
    if repair.action == RepairAction::Converted {
        if let (Some(changed), Some(from)) = (target.pointer_mut(path), &repair.from) {
            changed.clone_from(from);
        }
        return;
    }
    let Some((map, name)) = parent_of(target, path) else { return };
    match repair.from.take() {
        Some(from) => _ = map.shift_insert(position.min(map.len()), name, from),
        None => _ = map.shift_remove(&name),
    }
}

/// Makes an undone repair again.
fn redo(repair: &mut Repair, target: &mut Value, base: usize) {
    let path = &repair.path[base..];
    match (repair.action, &repair.to) {
        (RepairAction::Converted, Some(to)) => {
            if let Some(changed) = target.pointer_mut(path) {
                changed.clone_from(to);
            }
        }
        (_, Some(to)) => {
            if let Some((map, name)) = parent_of(target, path) {
                map.insert(name, to.clone());
            }
        }
        (_, None) => {
            if let Some((map, name)) = parent_of(target, path) {
                repair.from = map.shift_remove(&name);
            }
        }
    }
}

/// Returns the object that has the property at `path`, and the name of the property.
fn parent_of<'v>(target: &'v mut Value, path: &str) -> Option<(&'v mut JsonObject, String)> {
    let (parent, token) = path.rsplit_once('/').unwrap_or(("", ""));
    let name = unescape_token(token);
    Some((target.pointer_mut(parent)?.as_object_mut()?, name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strip_at_matches_strip_and_both_undo() {
        let names =
            ["a", "b~", "c/d", "", "~1", "a name longer than a path kept in place", "€", "z"];
        let original: JsonObject =
            names.iter().enumerate().map(|(at, name)| ((*name).to_owned(), json!([at]))).collect();
        let root = ValuePath::ROOT;
        let at = root.member("x");
        let pairs = (0..names.len()).flat_map(|one| (one..names.len()).map(move |two| (one, two)));
        for (one, two) in pairs {
            let (mut many, mut few) = (RepairLog::default(), RepairLog::default());
            let (mut by_many, mut by_few) = (original.clone(), original.clone());
            let mut extras = (0..).map(|position| position == one || position == two);
            many.strip(&at, &mut by_many, || extras.next().unwrap());
            let positions = if one == two { vec![one] } else { vec![one, two] };
            few.strip_at(&at, &mut by_few, &positions);
            assert_eq!(few.repairs, many.repairs);
            assert!(by_few.iter().eq(&by_many), "{by_few:?} {by_many:?}");
            for (mut log, remaining) in [(many, by_many), (few, by_few)] {
                let mut value = json!({"x": remaining});
                log.revert(&mut value, "", 0);
                assert!(value["x"].as_object().unwrap().iter().eq(&original), "{value}");
                log.reapply(&mut value, "", 0);
                assert_eq!(value["x"].as_object().unwrap().len(), original.len() - log.len());
                log.undo(&mut value, 0);
                assert!(value["x"].as_object().unwrap().iter().eq(&original), "{value}");
            }
        }
    }
}
