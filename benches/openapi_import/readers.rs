//! What reads a document.

use std::any::Any;
use std::hint::black_box;

use saphyr_parser::Parser;
use serde_json::Value;
use toolpost::Registry;
use toolpost::openapi::parsers::Document;
use toolpost::openapi::{Location, OpenApiSettings, from_openapi};

use crate::documents::Format;

pub(crate) struct Reader {
    pub(crate) name: &'static str,
    /// Whether its costs are claimed.
    pub(crate) is_ours: bool,
    /// Gives what is left of the document, so that it can be dropped when nobody measures.
    pub(crate) read: fn(&[u8]) -> Box<dyn Any>,
}

const JSON: [Reader; 3] = [
    Reader {
        name: "serde_json, Value",
        is_ours: false,
        read: |bytes| Box::new(serde_json::from_slice::<Value>(bytes).unwrap()),
    },
    TREE,
    OPERATIONS,
];

const YAML: [Reader; 4] = [
    Reader { name: "saphyr, events", is_ours: false, read: |bytes| Box::new(events(bytes)) },
    Reader {
        name: "serde_norway, Value",
        is_ours: false,
        read: |bytes| Box::new(serde_norway::from_slice::<Value>(bytes).ok()),
    },
    TREE,
    OPERATIONS,
];

const TREE: Reader =
    Reader { name: "tree", is_ours: true, read: |bytes| Box::new(Document::read(bytes).unwrap()) };

/// All that happens until the operations can be called.
const OPERATIONS: Reader = Reader {
    name: "operations in a registry",
    is_ours: true,
    read: |bytes| {
        let registry = Registry::new();
        let mut settings = OpenApiSettings::new(Location::of("document"));
        settings.server.address = Some("http://127.0.0.1:1".parse().unwrap());
        let text = std::str::from_utf8(bytes).unwrap();
        let found = from_openapi(&registry, "any", text, settings).unwrap();
        Box::new((registry, found))
    },
};

/// The parser that ours is measured by comes first.
pub(crate) fn of(format: Format) -> &'static [Reader] {
    match format {
        Format::Json => const { &JSON },
        Format::Yaml => const { &YAML },
    }
}

pub(crate) fn named(name: &str) -> &'static Reader {
    let all = of(Format::Json).iter().chain(of(Format::Yaml));
    all.into_iter().find(|reader| reader.name == name).unwrap()
}

fn events(bytes: &[u8]) -> usize {
    let mut parser = Parser::new_from_str(std::str::from_utf8(bytes).unwrap());
    let mut count = 0;
    while let Some(event) = parser.next_event() {
        black_box(event.unwrap());
        count += 1;
    }
    count
}
