//! Schemas of one imported document: what they share stands among the components once.

use std::any::Any;
use std::collections::HashMap;

use serde_json::{Value, json};

use super::component::{Components, Owner, Part, Placed, reference, says_something};
use super::name::type_name;
use crate::schema::{Apart, Definition, Excerpt, Homes, Root};

/// A namespace and a document that operations in it come from.
pub(super) type Origin = (String, usize);

/// What is known of a document.
pub(super) struct Shelf {
    volume: Box<dyn Any>,
    /// Every definition that was handed out, by its number.
    definitions: HashMap<usize, Definition>,
    /// The components that definitions became.
    names: HashMap<usize, String>,
    homes: Homes,
}

impl Shelf {
    fn of(excerpt: &dyn Excerpt) -> Self {
        Self {
            volume: excerpt.volume(),
            definitions: HashMap::new(),
            names: HashMap::new(),
            homes: Homes::default(),
        }
    }

    fn take(&mut self, excerpt: &dyn Excerpt) -> Apart {
        let mut apart = excerpt.take(&mut *self.volume);
        let new = std::mem::take(&mut apart.new);
        self.definitions.extend(new.into_iter().map(|definition| (definition.number, definition)));
        apart
    }

    /// The schema itself, without its definitions.
    fn text<'t>(&'t self, root: &'t Root) -> Option<&'t Value> {
        match root {
            Root::Whole => None,
            Root::Own(text) => Some(text),
            Root::Definition(number) => Some(&self.definitions.get(number)?.text),
        }
    }

    /// `None` if it is no schema that can stand in the document.
    fn part(&self, text: &Value) -> Option<Part> {
        Part::of(text, &|_, number| Some(&self.definitions.get(&number.parse().ok()?)?.text))
    }
}

impl Components {
    /// Puts a schema of an imported document into the document; `None` if that has to be done whole.
    pub(super) fn place_excerpt(
        &mut self,
        owner: Owner<'_>,
        excerpt: &dyn Excerpt,
    ) -> Option<Placed> {
        let origin = (owner.namespace.to_owned(), excerpt.document());
        let known = self.shelves.remove(&origin);
        let mut shelf = known.unwrap_or_else(|| Shelf::of(excerpt));
        let placed = self.place_from(&mut shelf, owner, excerpt);
        self.shelves.insert(origin, shelf);
        placed
    }

    fn place_from(
        &mut self,
        shelf: &mut Shelf,
        owner: Owner<'_>,
        excerpt: &dyn Excerpt,
    ) -> Option<Placed> {
        let apart = shelf.take(excerpt);
        let own = match &apart.root {
            Root::Whole => return None,
            Root::Own(text) => Some(shelf.part(text)?),
            Root::Definition(_) => None,
        };
        if !says_something(shelf.text(&apart.root)?) {
            return None;
        }
        self.place_definitions(shelf, owner, &apart.reached)?;
        let name = match &apart.root {
            Root::Definition(number) => shelf.names.get(number)?.clone(),
            _ => self.names.claim(owner.wished, owner.wished),
        };
        let mut described = reference(&name);
        if let Some(own) = own {
            if let Some(title) = own.original.get("title") {
                described["title"] = title.clone();
            }
            self.put(&shelf.homes, &name, &own, json!({}));
        }
        for (number, key) in apart.renamed {
            described["$defs"][key] = reference(shelf.names.get(&number)?);
        }
        Some(Placed { reference: reference(&name), described, name: Some(name) })
    }

    /// `None`, and nothing is placed, if one of them cannot be.
    fn place_definitions(
        &mut self,
        shelf: &mut Shelf,
        owner: Owner<'_>,
        reached: &[usize],
    ) -> Option<()> {
        let new = reached.iter().filter(|number| !shelf.names.contains_key(*number));
        let parts = new.map(|number| {
            let definition = shelf.definitions.get(number)?;
            Some((*number, definition.key.clone(), shelf.part(&definition.text)?))
        });
        let parts: Vec<(usize, Option<String>, Part)> = parts.collect::<Option<_>>()?;
        let before = type_name(owner.namespace);
        for (number, key, _) in &parts {
            let name = match key {
                None => self.names.claim(owner.wished, owner.wished),
                Some(key) => {
                    let wished = format!("{before}{}", type_name(key));
                    self.names.claim(&wished, &format!("{before} $defs {key}"))
                }
            };
            shelf.homes.definitions.insert(("$defs", number.to_string()), name.clone());
            shelf.names.insert(*number, name);
        }
        for (number, key, part) in &parts {
            let origin = part.origin("$defs", key.as_deref());
            self.put(&shelf.homes, &shelf.names[number], part, origin);
        }
        Some(())
    }

    /// Puts a part into the document, with what is needed to have it again to the letter.
    fn put(&mut self, homes: &Homes, name: &str, part: &Part, mut origin: Value) {
        if !part.is_exact {
            let mut original = part.original.clone();
            homes.lift(&mut original);
            origin["schema"] = original;
        }
        self.insert(homes, name.to_owned(), part.published.clone(), origin);
    }
}
