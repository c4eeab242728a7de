//! Objects.

use serde_json::{Map, Value};

use super::super::program::{Additional, ObjectRules};
use super::super::repair::Extras;
use super::{Judge, Marks};

impl<'p> Judge<'p> {
    pub(super) fn object<const CLEAN: bool>(
        &mut self,
        rules: &'p ObjectRules,
        map: &Map<String, Value>,
        mut marks: Option<&mut Marks>,
    ) -> bool {
        if !rules.admits_size(map.len()) {
            return false;
        }
        // Without marks the place has no other schema, and what this one does not name is extra.
        let strict = CLEAN && marks.is_none() && rules.closed_set && self.extras == Extras::Strip;
        let (mut cursor, mut required, mut defaults) = (0, 0, 0);
        for (at, (name, child)) in map.iter().enumerate() {
            let mut known = false;
            let mut wanted = false;
            if let Some(property) = rules.names.find(name, &mut cursor) {
                wanted = property.required;
                required += usize::from(property.required);
                defaults += usize::from(property.default.is_some());
                if let Some(node) = property.node {
                    known = true;
                    if !self.place::<CLEAN>(node, child) {
                        return false;
                    }
                }
            }
            for (pattern, node) in &rules.patterns {
                if pattern.matches(name) {
                    known = true;
                    if !self.place::<CLEAN>(*node, child) {
                        return false;
                    }
                }
            }
            if !known {
                known = match rules.additional {
                    Additional::Unsaid if strict && !wanted => return false,
                    Additional::Unsaid => false,
                    Additional::Allowed => true,
                    Additional::Forbidden => return false,
                    Additional::Schema(node) if !self.place::<CLEAN>(node, child) => return false,
                    Additional::Schema(_) => true,
                };
            }
            if known && let Some(marks) = marks.as_deref_mut() {
                marks.set(at);
            }
        }
        if let Some(marks) = marks {
            marks.closed_set |= rules.closed_set;
        }
        required == rules.required
            && (!CLEAN || defaults == rules.defaults)
            && self.admits_names(rules, map)
            && rules.admits_dependencies(map)
    }

    /// `propertyNames`, which speaks about names as if they were values.
    pub(in crate::schema) fn admits_names(
        &mut self,
        rules: &ObjectRules,
        map: &Map<String, Value>,
    ) -> bool {
        let Some(node) = rules.property_names else {
            return true;
        };
        // A name is a value for a moment only, so nothing about it may be remembered.
        map.keys().all(|name| self.fits_aside(node, &Value::String(name.clone())))
    }
}
