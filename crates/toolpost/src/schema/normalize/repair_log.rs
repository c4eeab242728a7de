//! The list of repairs, with undo.

use std::collections::HashMap;

use serde_json::Value;
use smallvec::SmallVec;

use super::super::budget::Budget;
use super::super::program::PropertyDefault;
use super::super::repair::{Repair, RepairAction};
use crate::json::{JsonObject, JsonPointer, ValuePath, unescape_token};

/// The repairs made so far, with the data needed to undo them.
pub(super) struct RepairLog<'p> {
    budget: &'p Budget<'p>,
    pub(super) repairs: Vec<Repair>,
    /// Original positions of stripped properties, in the order of their repairs.
    positions: SmallVec<[usize; 6]>,
    /// Buffer for property names, which saves an allocation per name.
    name_buffer: String,
}

/// Memory of a repair, without its path and values.
const REPAIR_MEMORY: usize = size_of::<Repair>();

impl<'p> RepairLog<'p> {
    pub(super) fn new(budget: &'p Budget<'p>) -> Self {
        Self { budget, repairs: Vec::new(), positions: SmallVec::new(), name_buffer: String::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.repairs.len()
    }

    /// Replaces a value by its conversion and records the repair.
    pub(super) fn convert(&mut self, at: &ValuePath<'_>, value: &mut Value, new: Value) {
        let repair = self.push(at, RepairAction::Converted);
        repair.to = Some(new.clone());
        repair.from = Some(std::mem::replace(value, new));
    }

    /// Records a default, of which the value gets another copy.
    pub(super) fn record_default(&mut self, at: &ValuePath<'_>, default: &PropertyDefault) {
        self.budget.spend(default.size.nodes);
        self.budget.allocate(2 * default.size.bytes);
        self.push(at, RepairAction::Defaulted).to = Some(default.value.clone());
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
            self.budget.spend(1);
            self.budget.allocate(REPAIR_MEMORY + repair.path.as_str().len());
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
        self.budget.spend(1);
        self.budget.allocate(REPAIR_MEMORY + repair.path.as_str().len());
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
        self.budget.spend(self.repairs.len() - keep);
        let mut positions = &self.positions[..];
        let mut repairs = &mut self.repairs[keep..];
        while let Some(last) = repairs.last_mut() {
            if last.action != RepairAction::Stripped {
                undo(last, target, base.len());
                let end = repairs.len() - 1;
                repairs = &mut repairs[..end];
                continue;
            }
            let count = last_group(repairs, positions);
            let (rest, group) = repairs.split_at_mut(repairs.len() - count);
            let (rest_positions, group_positions) = positions.split_at(positions.len() - count);
            undo_strips(group, group_positions, target, base.len());
            (repairs, positions) = (rest, rest_positions);
        }
    }

    /// Makes the repairs after the first `keep` again, after [`RepairLog::revert`].
    pub(super) fn reapply(&mut self, target: &mut Value, base: &str, keep: usize) {
        self.budget.spend(self.repairs.len() - keep);
        let mut repairs = &mut self.repairs[keep..];
        while let Some(first) = repairs.first_mut() {
            if first.action != RepairAction::Stripped {
                redo(first, target, base.len());
                repairs = &mut repairs[1..];
                continue;
            }
            let parent = parent_path(first).to_owned();
            let is_sibling = |repair: &Repair| {
                repair.action == RepairAction::Stripped && parent_path(repair) == parent
            };
            let count = repairs.iter().take_while(|repair| is_sibling(repair)).count();
            let (group, rest) = repairs.split_at_mut(count);
            redo_strips(group, target, base.len());
            repairs = rest;
        }
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

/// Returns the number of repairs at the end that stripped properties of one object in one go.
fn last_group(repairs: &[Repair], positions: &[usize]) -> usize {
    let Some(last) = repairs.last() else { return 0 };
    let (repair_count, position_count) = (repairs.len(), positions.len());
    let mut count = 1;
    while count < repair_count.min(position_count) {
        let before = &repairs[repair_count - count - 1];
        // Positions of one go do not decrease.
        if before.action != RepairAction::Stripped
            || positions[position_count - count - 1] > positions[position_count - count]
            || parent_path(before) != parent_path(last)
        {
            break;
        }
        count += 1;
    }
    count
}

fn parent_path(repair: &Repair) -> &str {
    repair.path.as_str().rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Moves stripped properties of one object back to their original positions, in linear time.
fn undo_strips(group: &mut [Repair], positions: &[usize], target: &mut Value, base: usize) {
    let Some(first) = group.first() else { return };
    let Some((map, _)) = parent_of(target, &first.path[base..]) else { return };
    let mut stripped = positions.iter().zip(group).peekable();
    let mut restored = JsonObject::with_capacity(map.len() + positions.len());
    let insert = |restored: &mut JsonObject, repair: &mut Repair| {
        if let Some(from) = repair.from.take() {
            restored.insert(name_of(repair), from);
        }
    };
    for (index, (name, value)) in std::mem::take(map).into_iter().enumerate() {
        while let Some((_, repair)) = stripped.next_if(|(position, _)| **position <= index) {
            insert(&mut restored, repair);
        }
        restored.insert(name, value);
    }
    stripped.for_each(|(_, repair)| insert(&mut restored, repair));
    *map = restored;
}

/// Strips properties of one object again, in linear time.
fn redo_strips(group: &mut [Repair], target: &mut Value, base: usize) {
    let Some(first) = group.first() else { return };
    let Some((map, _)) = parent_of(target, &first.path[base..]) else { return };
    let mut by_name: HashMap<String, &mut Repair> =
        group.iter_mut().map(|repair| (name_of(repair), repair)).collect();
    map.retain(|name, value| {
        let repair = by_name.remove(name);
        let is_kept = repair.is_none();
        if let Some(repair) = repair {
            repair.from = Some(value.take());
        }
        is_kept
    });
}

/// Returns the name of the property that a repair changed.
fn name_of(repair: &Repair) -> String {
    unescape_token(repair.path.as_str().rsplit_once('/').map_or("", |(_, token)| token))
}

/// Undoes a conversion or a default.
fn undo(repair: &Repair, target: &mut Value, base: usize) {
    let path = &repair.path[base..];
    if repair.action == RepairAction::Converted {
        if let (Some(changed), Some(from)) = (target.pointer_mut(path), &repair.from) {
            changed.clone_from(from);
        }
    } else if let Some((map, name)) = parent_of(target, path) {
        map.shift_remove(&name);
    }
}

/// Makes an undone conversion or default again.
fn redo(repair: &Repair, target: &mut Value, base: usize) {
    let path = &repair.path[base..];
    let Some(to) = &repair.to else { return };
    if repair.action == RepairAction::Converted {
        if let Some(changed) = target.pointer_mut(path) {
            changed.clone_from(to);
        }
    } else if let Some((map, name)) = parent_of(target, path) {
        map.insert(name, to.clone());
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

    use super::super::super::budget::WorkLimits;
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
            let budget = Budget::new(WorkLimits::VALUE);
            let (mut many, mut few) = (RepairLog::new(&budget), RepairLog::new(&budget));
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
