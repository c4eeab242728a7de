//! The readers of a document.

use std::any::Any;
use std::hint::black_box;

use saphyr_parser::Parser;
use serde_json::Value;
use toolpost::Registry;
use toolpost::openapi::parsers::ParsedDocument;
use toolpost::openapi::{DocumentLocation, OpenApiSettings, from_openapi};

use crate::documents::Format;

pub(crate) struct Reader {
    pub(crate) name: &'static str,
    /// Whether there is a claim about its cost.
    pub(crate) is_ours: bool,
    /// Returns the parsed document, so that it can be dropped outside the measurement.
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

const TREE: Reader = Reader {
    name: "tree",
    is_ours: true,
    read: |bytes| Box::new(ParsedDocument::parse(bytes).unwrap()),
};

/// Everything up to callable operations.
const OPERATIONS: Reader = Reader {
    name: "operations in a registry",
    is_ours: true,
    read: |bytes| {
        let registry = Registry::new();
        let mut settings = OpenApiSettings::new(DocumentLocation::from_path_or_url("document"));
        settings.server.url = Some("http://127.0.0.1:1".parse().unwrap());
        let text = std::str::from_utf8(bytes).unwrap();
        let info = from_openapi(&registry, "any", text, settings).unwrap();
        Box::new((registry, info))
    },
};

/// The parser that ours are compared with comes first.
pub(crate) fn for_format(format: Format) -> &'static [Reader] {
    match format {
        Format::Json => const { &JSON },
        Format::Yaml => const { &YAML },
    }
}

pub(crate) fn by_name(name: &str) -> &'static Reader {
    let all = for_format(Format::Json).iter().chain(for_format(Format::Yaml));
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
