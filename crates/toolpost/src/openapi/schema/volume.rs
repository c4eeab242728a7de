//! The schemas of a document taken apart: each definition is written once, for all that have it.
//!
//! What a definition is called depends on what was called before it, and so does which schemas a
//! discriminator knows. So the steps of writing a definition are kept, and taken again for each schema
//! that has it.

use std::collections::{HashMap, HashSet, VecDeque};

use super::super::document::{Node, Place};
use super::context::Context;
use super::name;
use super::shape::{Shape, View};
use super::writer::{At, Names, Writer};
use crate::schema::{Apart, Definition, Root};

/// What was handed out of a document.
#[derive(Debug)]
pub(super) struct Volume {
    /// Whether requests and answers have the same schemas.
    is_one_sided: bool,
    numbers: HashMap<(Place, View), usize>,
    sheets: Vec<Sheet>,
    /// What was written and not handed out yet.
    kept: Vec<Definition>,
}

/// A definition.
#[derive(Debug)]
struct Sheet {
    place: Place,
    view: View,
    /// What it was called when it was handed out, if anybody had called it by then.
    key: Option<String>,
    /// What was asked while it was written, if it was.
    steps: Option<Vec<Step>>,
}

/// What was asked of the names while a definition was written.
#[derive(Debug)]
enum Step {
    /// Something leads to a definition, which would be called so.
    Link(usize, Box<str>),
    /// Whether a definition had a name by then.
    Look(usize, bool),
}

impl Volume {
    pub(super) fn of(context: &Context) -> Self {
        let (numbers, sheets, kept) = (HashMap::new(), Vec::new(), Vec::new());
        Self { is_one_sided: is_one_sided(context), numbers, sheets, kept }
    }

    /// Takes a schema apart.
    pub(super) fn take(&mut self, context: &Context, shape: &Shape) -> Apart {
        let mut trail = Trail::new(self);
        let root = match shape {
            Shape::Schema(place, view) => Root::Definition(trail.begin(context, *place, *view)),
            other => Root::Own(Writer::new(context, &mut trail).shape(other)),
        };
        trail.steps.clear();
        let mut reached = Vec::new();
        while let Some(number) = trail.waiting.pop_front() {
            reached.push(number);
            trail.go(context, number);
            if trail.is_lost {
                return Apart::default();
            }
        }
        let renamed = reached.iter().filter_map(|number| trail.renamed(*number)).collect();
        let new = std::mem::take(&mut self.kept);
        Apart { root, new, reached, renamed }
    }

    fn number(&mut self, place: Place, view: View) -> usize {
        let view = match view {
            View::Request if self.is_one_sided => View::Response,
            view => view,
        };
        let next = self.sheets.len();
        let number = *self.numbers.entry((place, view)).or_insert(next);
        if number == next {
            self.sheets.push(Sheet { place, view, key: None, steps: None });
        }
        number
    }
}

/// The names of one schema while it is taken apart.
struct Trail<'v> {
    volume: &'v mut Volume,
    /// What the definitions of this schema are called, by their numbers.
    called: HashMap<usize, String>,
    taken: HashSet<String>,
    waiting: VecDeque<usize>,
    steps: Vec<Step>,
    /// Whether something came up that another schema may see otherwise.
    is_lost: bool,
}

impl<'v> Trail<'v> {
    fn new(volume: &'v mut Volume) -> Self {
        Self {
            volume,
            called: HashMap::new(),
            taken: HashSet::new(),
            waiting: VecDeque::new(),
            steps: Vec::new(),
            is_lost: false,
        }
    }

    /// The schema itself, which has no key here. Others will likely call it as this one would have been
    /// called.
    fn begin(&mut self, context: &Context, place: Place, view: View) -> usize {
        let number = self.volume.number(context.canonical(place), view);
        let reference = context.library.node(place).get("$ref").and_then(Node::as_str);
        if let Some(reference) = reference {
            self.suggest(number, &name::plain(reference));
        }
        self.called.insert(number, "#".to_owned());
        self.waiting.push_back(number);
        number
    }

    /// Goes through a definition: on the known way, or on one that is known from now on.
    fn go(&mut self, context: &Context, number: usize) {
        let sheet = &mut self.volume.sheets[number];
        let (place, view) = (sheet.place, sheet.view);
        let steps = match sheet.steps.take() {
            Some(steps) => {
                steps.iter().for_each(|step| self.again(step));
                steps
            }
            None => {
                let mut writer = Writer::new(context, self);
                let text = writer.schema(writer.at(place, view));
                let key = self.volume.sheets[number].key.clone();
                self.volume.kept.push(Definition { number, key, text });
                distinct(std::mem::take(&mut self.steps))
            }
        };
        self.volume.sheets[number].steps = Some(steps);
    }

    fn again(&mut self, step: &Step) {
        match step {
            Step::Link(number, plain) => self.call(*number, plain),
            Step::Look(number, was_known) => {
                self.is_lost |= self.called.contains_key(number) != *was_known;
            }
        }
    }

    fn call(&mut self, number: usize, plain: &str) {
        if self.called.contains_key(&number) {
            return;
        }
        let name = name::numbered(&mut self.taken, plain);
        self.suggest(number, &name);
        self.called.insert(number, name);
        self.waiting.push_back(number);
    }

    /// Calls a definition so, unless it has a key already, or was handed out without one.
    fn suggest(&mut self, number: usize, key: &str) {
        let sheet = &mut self.volume.sheets[number];
        if sheet.steps.is_none() && sheet.key.is_none() {
            sheet.key = Some(key.to_owned());
        }
    }

    fn renamed(&self, number: usize) -> Option<(usize, String)> {
        let name = self.called.get(&number).filter(|name| *name != "#")?;
        (self.volume.sheets[number].key.as_ref() != Some(name)).then(|| (number, name.clone()))
    }
}

impl Names for Trail<'_> {
    fn link(&mut self, at: At, reference: &str) -> String {
        // What stands so deep is read as a part of what is around it.
        self.is_lost |= at.depth > 0;
        let number = self.volume.number(at.place, at.view);
        let plain = name::plain(reference);
        self.call(number, &plain);
        self.steps.push(Step::Link(number, plain.into()));
        pointer(number)
    }

    fn known(&mut self, place: Place, view: View) -> Option<String> {
        let number = self.volume.number(place, view);
        let is_known = self.called.contains_key(&number);
        self.steps.push(Step::Look(number, is_known));
        is_known.then(|| pointer(number))
    }
}

/// Whether nothing in the document is for one direction only.
fn is_one_sided(context: &Context) -> bool {
    let library = &context.library;
    let mut flags = library.all_named("readOnly").chain(library.all_named("writeOnly"));
    flags.all(|flag| flag.as_bool() != Some(true))
        && library.all_named("type").all(|name| name.as_str() != Some("file"))
}

/// Who goes to the same place again sees nothing new.
fn distinct(mut steps: Vec<Step>) -> Vec<Step> {
    let mut seen = HashSet::new();
    steps.retain(|step| match step {
        Step::Link(number, _) => seen.insert(*number),
        Step::Look(..) => true,
    });
    steps
}

fn pointer(number: usize) -> String {
    format!("#/$defs/{number}")
}
