//! The walk through a schema.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use super::keyword::{self, Said as Kept};
use super::reference::{References, Target};
use super::{Unsayable, structure};

/// How many schemas a document may have.
pub(super) const MOST_PARTS: u32 = 50_000;
/// How many definitions; some clients compile one inside the other.
pub(super) const MOST_DEFINITIONS: usize = 256;
/// How deep schemas stand in each other; what is deeper is left out.
const DEEPEST: u32 = 64;

pub(super) struct Writer<'a> {
    references: References<'a>,
    place: &'a str,
    /// The names of definitions by where they stood.
    names: HashMap<String, String>,
    taken: HashSet<String>,
    /// Definitions that are named and not yet written.
    waiting: Vec<(String, Target<'a>)>,
    left_out: BTreeSet<String>,
    parts: u32,
    is_trusting: bool,
    refers_to_root: bool,
}

/// A whole document.
pub(super) struct Said {
    pub(super) root: Value,
    pub(super) definitions: Map<String, Value>,
    pub(super) left_out: BTreeSet<String>,
    /// Whether it admits no more than the original does.
    pub(super) is_exact: bool,
    pub(super) refers_to_root: bool,
}

/// Where the walk stands.
#[derive(Clone, Copy)]
pub(super) struct Place {
    depth: u32,
    /// Inside a part that names itself, whose references cannot be followed.
    is_foreign: bool,
}

/// One schema, and whether it admits no more than the original.
pub(super) struct Written {
    pub(super) schema: Value,
    pub(super) is_exact: bool,
}

/// A schema that is being put together.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) members: Map<String, Value>,
    /// What must hold too, but has no keyword of its own left.
    pub(super) also: Vec<Value>,
    pub(super) is_weaker: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(document: &'a Value, place: &'a str) -> Self {
        Self {
            references: References::new(document),
            place,
            names: HashMap::new(),
            taken: HashSet::new(),
            waiting: Vec::new(),
            left_out: BTreeSet::new(),
            parts: 0,
            is_trusting: true,
            refers_to_root: false,
        }
    }

    /// Takes no reference for exact.
    pub(super) fn distrusting(mut self) -> Self {
        self.is_trusting = false;
        self
    }

    pub(super) fn write(mut self, document: &'a Value) -> Result<Said, Unsayable> {
        let root = self.schema(document, Place { depth: 0, is_foreign: false });
        let mut is_exact = root.is_exact;
        let mut definitions = Map::new();
        while let Some((name, target)) = self.waiting.pop() {
            let place = Place { depth: 0, is_foreign: target.is_foreign };
            let written = self.schema(target.schema, place);
            is_exact &= written.is_exact;
            definitions.insert(name, written.schema);
            if definitions.len() > MOST_DEFINITIONS {
                return Err(Unsayable::TooManyDefinitions);
            }
        }
        if self.parts > MOST_PARTS {
            return Err(Unsayable::TooLarge);
        }
        definitions.sort_keys();
        let Self { left_out, refers_to_root, .. } = self;
        Ok(Said { root: root.schema, definitions, left_out, is_exact, refers_to_root })
    }

    pub(super) fn schema(&mut self, schema: &'a Value, place: Place) -> Written {
        let is_exact = true;
        match schema {
            Value::Bool(false) => {
                let nothing = Map::from_iter([("not".to_owned(), Value::Object(Map::new()))]);
                Written { schema: nothing.into(), is_exact }
            }
            Value::Object(members) if self.has_room(place) => {
                let is_foreign = place.is_foreign || self.references.is_foreign(schema);
                self.members(members, Place { depth: place.depth + 1, is_foreign })
            }
            Value::Bool(true) => Written { schema: Value::Object(Map::new()), is_exact },
            _ => {
                self.leave_out("what nests too deep or is no schema");
                Written { schema: Value::Object(Map::new()), is_exact: false }
            }
        }
    }

    fn has_room(&mut self, place: Place) -> bool {
        self.parts = self.parts.saturating_add(1);
        place.depth < DEEPEST && self.parts <= MOST_PARTS
    }

    fn members(&mut self, members: &'a Map<String, Value>, place: Place) -> Written {
        let mut draft = Draft::default();
        if let Some(reference) = members.get("$ref") {
            let written = self.reference(reference, place);
            if self.references.stand_alone {
                return written;
            }
            draft.is_weaker |= !written.is_exact;
            draft.also.push(written.schema);
        }
        for (keyword, value) in members {
            match keyword::say(keyword, value, members) {
                Some(Kept::Exactly(value)) => drop(draft.members.insert(keyword.clone(), value)),
                Some(Kept::Weaker(value)) => {
                    draft.members.insert(keyword.clone(), value);
                    draft.is_weaker = true;
                }
                Some(Kept::Nothing) => {}
                Some(Kept::Unsayable) => self.weaken(&mut draft, keyword),
                None => structure::say(self, keyword, value, members, &mut draft, place),
            }
        }
        structure::say_items(self, members, &mut draft, place);
        draft.finish()
    }

    /// A reference to a definition of its own, whatever place of the document it named.
    fn reference(&mut self, reference: &Value, place: Place) -> Written {
        let own = reference.as_str().filter(|_| !place.is_foreign);
        let Some(target) = own.and_then(|reference| self.references.target(reference)) else {
            self.leave_out("$ref");
            return Written { schema: Value::Object(Map::new()), is_exact: false };
        };
        let place = match target.pointer.as_str() {
            "" => {
                self.refers_to_root = true;
                self.place.to_owned()
            }
            _ => format!("#/$defs/{}", self.definition(target)),
        };
        let schema = Map::from_iter([("$ref".to_owned(), Value::String(place))]).into();
        Written { schema, is_exact: self.is_trusting }
    }

    fn definition(&mut self, target: Target<'a>) -> String {
        if let Some(name) = self.names.get(&target.pointer) {
            return name.clone();
        }
        let last = target.pointer.rsplit('/').next().unwrap_or_default();
        let plain = |character: char| match character {
            _ if character.is_ascii_alphanumeric() => character,
            '-' | '.' => character,
            _ => '_',
        };
        let wanted: String = last.chars().take(64).map(plain).collect();
        let wanted = if wanted.is_empty() { "definition".to_owned() } else { wanted };
        let mut name = wanted.clone();
        // Every try is another number, and there are few definitions.
        for number in 2.. {
            if self.taken.insert(name.clone()) {
                break;
            }
            name = format!("{wanted}_{number}");
        }
        self.names.insert(target.pointer.clone(), name.clone());
        if self.names.len() <= MOST_DEFINITIONS + 1 {
            self.waiting.push((name.clone(), target));
        }
        name
    }

    /// Leaves a keyword out where that admits more.
    pub(super) fn weaken(&mut self, draft: &mut Draft, keyword: &str) {
        self.leave_out(keyword);
        draft.is_weaker = true;
    }

    fn leave_out(&mut self, what: &str) {
        self.left_out.insert(what.to_owned());
    }
}

impl Draft {
    pub(super) fn set(&mut self, keyword: &str, written: Written) {
        self.is_weaker |= !written.is_exact;
        self.members.insert(keyword.to_owned(), written.schema);
    }

    fn finish(self) -> Written {
        let Self { mut members, mut also, is_weaker } = self;
        let is_annotated = members.keys().all(|keyword| is_annotation(keyword));
        if let [Value::Object(only)] = also.as_mut_slice()
            && is_annotated
        {
            // Beside a reference draft 7 reads nothing, and there is nothing to be read.
            only.append(&mut members);
            return Written { schema: also.swap_remove(0), is_exact: !is_weaker };
        }
        also.retain(|schema| schema.as_object().is_none_or(|members| !members.is_empty()));
        if !also.is_empty() {
            let all = members.entry("allOf").or_insert_with(|| Value::Array(Vec::new()));
            all.as_array_mut().into_iter().for_each(|all| all.append(&mut also));
        }
        Written { schema: members.into(), is_exact: !is_weaker }
    }
}

fn is_annotation(keyword: &str) -> bool {
    let annotations =
        ["title", "description", "$comment", "default", "examples", "deprecated", "readOnly"];
    annotations.contains(&keyword) || keyword == "writeOnly" || keyword.starts_with("x-")
}
