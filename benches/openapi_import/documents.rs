//! The documents: large public ones if present, else a generated one of the same shape.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) format: Format,
    pub(crate) path: PathBuf,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Format {
    Json,
    Yaml,
}

pub(crate) fn all() -> Vec<Document> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = [root.join("../shared/openapi"), root.join(".cache/openapi")];
    let document = |name: &str, format| {
        let path = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        let path = path.unwrap_or_else(|| generate_document(&root, name, format));
        Document { name: name.to_owned(), format, path }
    };
    vec![
        document("30-github.json", Format::Json),
        document("30-stripe.yaml", Format::Yaml),
        document("20-kubernetes-1.10.yaml", Format::Yaml),
    ]
}

fn generate_document(root: &Path, name: &str, format: Format) -> PathBuf {
    println!("NOT FOUND: `../shared/openapi/{name}`; a generated document is used instead; its");
    println!("numbers do not apply to the claims");
    let folder = root.join(".cache/openapi-generated");
    std::fs::create_dir_all(&folder).expect("the cache can be written");
    let path = folder.join(name);
    let document = generated(3_000);
    let text = match format {
        Format::Json => serde_json::to_string_pretty(&document).unwrap(),
        Format::Yaml => serde_norway::to_string(&document).unwrap(),
    };
    std::fs::write(&path, text).expect("the cache can be written");
    path
}

fn generated(count: usize) -> Value {
    let paths: Map<_, _> =
        (0..count).map(|at| (format!("/shelves/{at}/books/{{book}}"), path_item(at))).collect();
    let schemas: Map<_, _> = (0..count).map(|at| (format!("Book{at}"), schema(at))).collect();
    json!({
        "openapi": "3.0.3",
        "info": {"title": "generated", "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn path_item(at: usize) -> Value {
    json!({"get": {
        "operationId": format!("shelves/get-book-{at}"),
        "summary": format!("Get a book of shelf {at}"),
        "description": format!("Gives the book with this number, if it is on shelf {at}.\n\nNot all are."),
        "parameters": [
            {"name": "book", "in": "path", "required": true, "schema": {"type": "integer"}},
            {"name": "page", "in": "query", "schema": {"type": "integer", "default": 1}},
        ],
        "responses": {
            "200": {"description": "the book", "content": {"application/json": {
                "schema": {"$ref": format!("#/components/schemas/Book{at}")},
                "examples": {"default": {"value": {"id": at, "title": format!("Volume {at}"), "pages": 100.5}}},
            }}},
            "404": {"description": "it is not there"},
        },
    }})
}

fn schema(at: usize) -> Value {
    json!({
        "type": "object",
        "required": ["id", "title"],
        "properties": {
            "id": {"type": "integer", "format": "int64", "example": at},
            "title": {"type": "string", "description": format!("What is printed on volume {at}")},
            "next": {"$ref": format!("#/components/schemas/Book{}", at / 2)},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
        },
    })
}
