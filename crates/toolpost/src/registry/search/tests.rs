use serde_json::json;

use super::*;
use crate::registry::{Catalog, Registry};
use crate::schema::Schema;
use crate::spec::{OperationKind, OperationSpec};

fn catalog(operations: &[(&str, &str, &str, &[&str])]) -> Arc<Catalog> {
    let registry = Registry::new();
    for (id, description, tag, parameters) in operations {
        let mut spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Query);
        spec.description = (*description).to_owned();
        spec.tags = vec![(*tag).to_owned()];
        let properties = parameters.iter().map(|name| ((*name).to_owned(), json!({})));
        let properties: crate::json::JsonObject = properties.collect();
        spec.input_schema = Schema::new(json!({ "properties": properties })).unwrap();
        registry.register(Operation::from_spec(spec).build().unwrap()).unwrap();
    }
    registry.catalog()
}

fn ids(catalog: &Catalog, query: &str, limit: usize) -> Vec<String> {
    let hits = catalog.search(query, limit).hits.into_iter();
    hits.map(|hit| hit.operation.id().to_string()).collect()
}

#[test]
fn search_ranks_by_field_rarity_and_length() {
    let catalog = catalog(&[
        ("github.issues/list", "Lists the issues of a repository", "tracker", &["owner", "since"]),
        ("github.issues/create", "Opens an issue", "tracker", &["owner", "assignees"]),
        ("github.repos/get", "One repository with its issues count", "code", &["owner"]),
        ("files.readFile", "Reads a file", "disk", &["path"]),
        ("files.write_file", "Writes a file; the folder of the path must exist", "disk", &["path"]),
        ("notes.list", "Lists notes", "", &[]),
    ]);
    for (query, expected) in [
        ("issues list", &["github.issues/list"][..]),
        ("list issues", &["github.issues/list"]),
        ("listing an issue", &["github.issues/list"]),
        ("LIST", &["notes.list", "github.issues/list"]),
        ("read file", &["files.readFile", "files.write_file"]),
        ("how do I read the content of a file", &["files.readFile", "files.write_file"]),
        ("write", &["files.write_file"]),
        ("writing", &["files.write_file"]),
        ("tracker", &["github.issues/create", "github.issues/list"]),
        ("disk", &["files.readFile", "files.write_file"]),
        ("repositories", &["github.repos/get", "github.issues/list"]),
        ("github.repos/get", &["github.repos/get"]),
        ("assignees", &["github.issues/create"]),
        ("since", &["github.issues/list"]),
        ("creat", &["github.issues/create"]),
        ("createissue", &["github.issues/create"]),
        ("racker", &["github.issues/create", "github.issues/list"]),
        ("weather", &[]),
        ("", &[]),
    ] {
        let found = ids(&catalog, query, 2);
        assert_eq!(found[..found.len().min(expected.len().max(1))], *expected, "{query}");
    }
}

/// Each row: a query, and whether it matches.
#[test]
fn search_ignores_terms_beyond_the_limit() {
    let catalog = catalog(&[("notes.list", "Lists notes", "", &[])]);
    let others: String = (0..MAX_TERMS).map(|number| format!("zz{number} ")).collect();
    for (query, matches) in [(format!("notes {others}"), true), (format!("{others} notes"), false)]
    {
        assert_eq!(!ids(&catalog, &query, 5).is_empty(), matches, "{query}");
    }
}

#[test]
fn search_counts_matches_beyond_the_limit() {
    let catalog = catalog(&[
        ("notes.list", "Lists notes", "", &[]),
        ("notes.add", "Adds a note", "", &[]),
        ("notes.hidden", "Hides notes", "", &[]),
        ("files.list", "", "", &[]),
    ]);
    let found =
        catalog
            .search_visible("notes", 1, |operation| operation.id().name() != "hidden", &|| false);
    assert_eq!((found.hits.len(), found.total), (1, 2));
    assert_eq!(catalog.search("notes", 0).total, 3);
}

#[test]
fn postings_round_trip_as_varints() {
    for value in [0, 1, 127, 128, 300, 16_383, 16_384, 70_000, u32::MAX] {
        let mut bytes = Vec::new();
        push_varint(&mut bytes, value);
        let mut bytes = bytes.into_iter();
        assert_eq!((read_varint(&mut bytes), bytes.next()), (Some(value), None));
    }
}
