//! Files that refer to each other, read before anything is imported, so that following a reference
//! is never a reason to open anything.

use std::collections::HashMap;

use url::Url;

use super::index::Index;
use super::reference::{ReferenceError, percent_decoded, shown};
use super::tree::{Cell, Node, Tree};

/// The longest chain of references that only lead to another.
const MAX_HOPS: usize = 64;

/// A document and what it refers to. The first file is the one that was asked for.
#[derive(Debug)]
pub(crate) struct Library {
    files: Vec<File>,
    indexes: Vec<Index>,
    /// Whole files, and schemas that have an address.
    addresses: HashMap<Url, Target>,
}

/// One file, and where it is.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) address: Url,
    pub(crate) tree: Tree,
}

/// A value in one of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    file: u32,
    cell: Cell,
}

/// What an address stands for: a file, or a resource of its index.
#[derive(Debug, Clone, Copy)]
struct Target {
    file: u32,
    resource: Option<u32>,
}

impl Library {
    pub(crate) fn new(files: Vec<File>) -> Self {
        let mut library =
            Self { files: Vec::new(), indexes: Vec::new(), addresses: HashMap::new() };
        for file in files {
            library.add(file);
        }
        library
    }

    /// Adds a file, and gives its root.
    pub(crate) fn add(&mut self, file: File) -> Place {
        let number = u32::try_from(self.files.len()).expect("files are counted by the loader");
        let index = Index::new(&file.address, &file.tree);
        self.announce(file.address.clone(), Target { file: number, resource: None });
        if let Some(base) = &index.base {
            self.announce(base.clone(), Target { file: number, resource: None });
        }
        for (resource, at) in index.resources.iter().zip(0..) {
            self.announce(resource.address.clone(), Target { file: number, resource: Some(at) });
        }
        let place = Place { file: number, cell: file.tree.root().cell() };
        self.files.push(file);
        self.indexes.push(index);
        place
    }

    /// The first to say that it has an address has it.
    fn announce(&mut self, address: Url, target: Target) {
        self.addresses.entry(address).or_insert(target);
    }

    /// Another address of a file.
    pub(crate) fn alias(&mut self, address: Url, root: Place) {
        self.announce(address, Target { file: root.file, resource: None });
    }

    /// Another address of what is at one already.
    pub(crate) fn alias_of(&mut self, address: Url, known: &Url) {
        if let Some(target) = self.addresses.get(known).copied() {
            self.announce(address, target);
        }
    }

    /// Whether something is known by an address, which has no fragment.
    pub(crate) fn knows(&self, address: &Url) -> bool {
        self.addresses.contains_key(address)
    }

    /// The whole of the file that was asked for.
    pub(crate) fn root(&self) -> Place {
        Place { file: 0, cell: self.files[0].tree.root().cell() }
    }

    pub(crate) fn node(&self, place: Place) -> Node<'_> {
        self.files[place.file as usize].tree.node(place.cell)
    }

    /// The file that a place is in.
    pub(crate) fn file(&self, place: Place) -> &File {
        &self.files[place.file as usize]
    }

    /// The place of a node that was reached from `from` without following a reference.
    pub(crate) fn beside(&self, from: Place, node: Node<'_>) -> Place {
        Place { file: from.file, cell: node.cell() }
    }

    /// What all members of this name are, in any file.
    pub(crate) fn all_named<'l>(&'l self, name: &'l str) -> impl Iterator<Item = Node<'l>> {
        self.files.iter().flat_map(move |file| file.tree.all_named(name))
    }

    /// The member of an object; no reference is followed.
    pub(crate) fn get(&self, place: Place, name: &str) -> Option<Place> {
        self.node(place).get(name).map(|node| self.beside(place, node))
    }

    /// What a place stands for: itself, or what its `$ref` leads to in the end.
    pub(crate) fn follow(&self, place: Place) -> Result<Place, ReferenceError> {
        let mut at = place;
        for _ in 0..MAX_HOPS {
            match self.node(at).get("$ref").and_then(Node::as_str) {
                Some(reference) => at = self.resolve(at, reference)?,
                None => return Ok(at),
            }
        }
        let reference = self.node(place).get("$ref").and_then(Node::as_str).unwrap_or_default();
        Err(ReferenceError::Circle { reference: shown(reference) })
    }

    /// What a reference that stands at `from` leads to.
    pub(crate) fn resolve(&self, from: Place, reference: &str) -> Result<Place, ReferenceError> {
        if let Some(fragment) = reference.strip_prefix('#') {
            let target = Target { file: from.file, resource: self.scope(from) };
            return self.within(target, fragment, reference);
        }
        let mut address = self
            .address(from, reference)
            .ok_or_else(|| ReferenceError::NoAddress { reference: shown(reference) })?;
        let fragment = address.fragment().unwrap_or_default().to_owned();
        address.set_fragment(None);
        let target = self.addresses.get(&address).copied();
        let unknown = || ReferenceError::UnknownFile { reference: shown(reference) };
        self.within(target.ok_or_else(unknown)?, &fragment, reference)
    }

    /// The address that a reference which stands at `from` means.
    pub(crate) fn address(&self, from: Place, reference: &str) -> Option<Url> {
        let index = &self.indexes[from.file as usize];
        let base = match self.scope(from) {
            Some(resource) => &index.resources[resource as usize].address,
            None => index.base.as_ref().unwrap_or(&self.file(from).address),
        };
        base.join(reference).ok()
    }

    /// The resource that a place is in, if it is in one.
    fn scope(&self, place: Place) -> Option<u32> {
        match place.cell {
            Cell::Array(span) | Cell::Object(span) => {
                self.indexes[place.file as usize].scopes.get(&span).copied()
            }
            _ => None,
        }
    }

    /// What a fragment means in a file or a resource: a pointer, or a name.
    fn within(
        &self,
        target: Target,
        fragment: &str,
        reference: &str,
    ) -> Result<Place, ReferenceError> {
        let fragment = percent_decoded(fragment);
        if fragment.is_empty() || fragment.starts_with('/') {
            let cell = self.pointed(target, &fragment);
            let nothing = || ReferenceError::Nothing { reference: shown(reference) };
            return cell.map(|cell| Place { file: target.file, cell }).ok_or_else(nothing);
        }
        let anchors = &self.indexes[target.file as usize].anchors;
        let anchor = anchors.get(&(target.resource, fragment.into_owned())).copied();
        let unnamed = || ReferenceError::NoAnchor { reference: shown(reference) };
        anchor.map(|cell| Place { file: target.file, cell }).ok_or_else(unnamed)
    }

    /// A pointer in a schema with an address begins at that schema; but in documents of an API it
    /// is often meant from the beginning of the file.
    fn pointed(&self, target: Target, pointer: &str) -> Option<Cell> {
        let tree = &self.files[target.file as usize].tree;
        let resources = &self.indexes[target.file as usize].resources;
        let resource = target.resource.map(|resource| tree.node(resources[resource as usize].cell));
        let found = resource.and_then(|resource| resource.pointer(pointer));
        found.or_else(|| tree.root().pointer(pointer)).map(Node::cell)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::json;
    use super::*;

    fn library(files: &[(&str, Value)]) -> Library {
        let file = |(address, value): &(&str, Value)| File {
            address: address.parse().unwrap(),
            tree: json::read(&value.to_string()).unwrap().tree,
        };
        Library::new(files.iter().map(file).collect())
    }

    /// Where references that stand at a pointer of the first file lead.
    fn check(library: &Library, rows: &[(&str, &str, Result<Value, &str>)]) {
        for (at, reference, expected) in rows {
            let from = library.resolve(library.root(), at).unwrap();
            let found = library.resolve(from, reference);
            let found = found.and_then(|place| library.follow(place));
            let said = found.map(|place| library.node(place).to_value());
            let said = said.map_err(|error| error.to_string());
            assert_eq!(said, expected.clone().map_err(str::to_owned), "{at} {reference}");
        }
    }

    #[test]
    fn references_lead_through_files_or_say_why_not() {
        let library = library(&[
            (
                "file:///a/b.json",
                json!({"x": {"/ y": 1}, "1": {"$ref": "#/2"}, "2": {"$ref": "../c%20d.json#/z"},
                       "o": {"$ref": "#/o"}, "l": [0, {"a%b": 2}]}),
            ),
            ("file:///c%20d.json", json!({"z": "there"})),
        ]);
        let rows = [
            ("#/x/~1%20y", Ok(json!(1))),
            ("#/x/~1 y", Ok(json!(1))),
            ("#/l/1/a%25b", Ok(json!(2))),
            ("#/l/1/a%b", Ok(json!(2))),
            ("b.json#/1", Ok(json!("there"))),
            ("../c d.json", Ok(json!({"z": "there"}))),
            ("../c%20d.json#", Ok(json!({"z": "there"}))),
            ("#/nothing", Err("there is nothing at `#/nothing`")),
            ("#nobody", Err("nothing in the file says that it is `#nobody`")),
            ("d.json?key=secret#/a", Err("`d.json#/a` is in a file that was not read")),
            ("http://[", Err("`http://[` is no address")),
            ("#/o", Err("`#/o` leads back to itself")),
        ];
        check(&library, &rows.map(|(reference, expected)| ("#", reference, expected)));
    }

    #[test]
    fn schemas_are_referred_to_by_the_address_and_the_name_that_they_give_themselves() {
        let library = library(&[
            (
                "file:///api.json",
                json!({"openapi": "3.1.0", "top": {"$anchor": "here", "is": "top"}, "s": {
                    "a": {"$id": "https://example.com/a", "p": {"is": "p"}, "in": {"k": 0},
                          "b": {"$id": "b#", "in": {"$ref": "#/p"}, "p": {"is": "bp"}},
                          "c": {"$anchor": "here", "is": "c"},
                          "d": {"$dynamicAnchor": "node", "is": "d"}},
                }}),
            ),
            ("file:///more.json", json!({"e": {"$id": "https://example.com/e", "is": "e"}})),
        ]);
        check(
            &library,
            &[
                ("#", "#here", Ok(json!({"$anchor": "here", "is": "top"}))),
                ("#/s/a/c", "#here", Ok(json!({"$anchor": "here", "is": "c"}))),
                ("#", "https://example.com/a#here", Ok(json!({"$anchor": "here", "is": "c"}))),
                ("#", "https://example.com/a#/p", Ok(json!({"is": "p"}))),
                ("#/s/a/in", "#/p", Ok(json!({"is": "p"}))),
                ("#/s/a/c", "b#/in", Ok(json!({"is": "bp"}))),
                ("#/s/a/c", "#/top", Ok(json!({"$anchor": "here", "is": "top"}))),
                ("#/s/a/c", "e", Ok(json!({"$id": "https://example.com/e", "is": "e"}))),
                ("#/s/a/c", "#node", Ok(json!({"$dynamicAnchor": "node", "is": "d"}))),
                ("#", "#node", Err("nothing in the file says that it is `#node`")),
            ],
        );
    }

    #[test]
    fn a_document_may_say_where_it_is() {
        let library = library(&[
            (
                "file:///here.json",
                json!({"openapi": "3.2.0", "$self": "https://example.com/v1/api.json", "a": 1}),
            ),
            ("https://example.com/v1/more.json", json!("more")),
        ]);
        let rows = [
            ("more.json", Ok(json!("more"))),
            ("api.json#/a", Ok(json!(1))),
            ("file:///here.json#/a", Ok(json!(1))),
        ];
        check(&library, &rows.map(|(reference, expected)| ("#", reference, expected)));
    }

    #[test]
    fn old_documents_have_no_addresses_inside() {
        let library = library(&[(
            "file:///api.json",
            json!({"openapi": "3.0.3", "a": {"$id": "https://example.com/a", "b": {}}, "c": 1}),
        )]);
        check(&library, &[("#/a/b", "api.json#/c", Ok(json!(1)))]);
    }
}
