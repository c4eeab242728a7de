//! How the properties of forms and of bodies in parts are written.

use super::super::document::{Node, Place};
use super::super::plan::{Encoding, Style};
use super::super::schema::{Spot, View, is_bytes};
use super::Importer;
use super::parameter::style;
use super::version::Version;

/// How far properties are looked for through references and `allOf`.
const MAX_HOPS: u32 = 8;

/// A property of a form.
pub(super) struct Fields {
    pub(super) property: String,
    pub(super) is_binary: bool,
}

impl Fields {
    pub(super) fn encoding(self, style: Option<(Style, bool, bool)>) -> Encoding {
        let Self { property, is_binary } = self;
        Encoding { property, content_type: None, headers: Vec::new(), style, is_binary }
    }
}

impl Importer<'_> {
    /// What the media type says about its properties, and which of them are bytes.
    pub(super) fn encodings(&mut self, media: Place, spot: &Spot<'_>) -> Vec<Encoding> {
        let library = self.library;
        let mut fields = Vec::new();
        if let Some(schema) = library.get(media, "schema") {
            self.fields(schema, &mut fields, MAX_HOPS);
        }
        let mut encodings: Vec<Encoding> = fields
            .into_iter()
            .filter(|field| field.is_binary)
            .map(|field| field.encoding(None))
            .collect();
        let said = library.get(media, "encoding");
        let spot = spot.member("encoding");
        for (property, node) in said.into_iter().flat_map(|said| library.node(said).members()) {
            let known = encodings.iter().position(|encoding| encoding.property == property);
            let is_binary = known.is_some();
            let place = library.beside(media, node);
            let encoding = self.encoding(property, place, is_binary, &spot.member(property));
            match known {
                Some(at) => encodings[at] = encoding,
                None => encodings.push(encoding),
            }
        }
        encodings
    }

    fn encoding(
        &mut self,
        property: &str,
        place: Place,
        is_binary: bool,
        spot: &Spot<'_>,
    ) -> Encoding {
        let node = self.library.node(place);
        let fields = Fields { property: property.to_owned(), is_binary };
        let content_type = node.get("contentType").and_then(Node::as_str);
        Encoding {
            content_type: content_type.map(str::to_owned),
            headers: self.fixed_headers(place),
            ..fields.encoding(self.named_style(node, spot))
        }
    }

    /// Naming any of the three takes the part for a parameter of a query.
    fn named_style(&mut self, node: Node<'_>, spot: &Spot<'_>) -> Option<(Style, bool, bool)> {
        let flag = |name| node.get(name).and_then(Node::as_bool);
        let named = node.get("style").and_then(Node::as_str);
        if named.is_none() && flag("explode").is_none() && flag("allowReserved").is_none() {
            return None;
        }
        let style = match named.map(|name| (name, style(name))) {
            Some((name, None)) => {
                self.warn(spot, format!("there is no style `{name}`; it is written as a form"));
                Style::Form
            }
            Some((_, Some(style))) => style,
            None => Style::Form,
        };
        let explode = flag("explode").unwrap_or(matches!(style, Style::Form | Style::DeepObject));
        Some((style, explode, flag("allowReserved") == Some(true)))
    }

    /// The headers of a part that can have one value only.
    fn fixed_headers(&self, encoding: Place) -> Vec<(String, String)> {
        let library = self.library;
        let Some(headers) = library.get(encoding, "headers") else { return Vec::new() };
        let fixed = |(name, node): (&str, Node<'_>)| {
            let header = library.follow(library.beside(headers, node)).ok()?;
            let schema = library.follow(library.get(header, "schema")?).ok()?;
            let value = fixed_value(library.node(schema))?;
            (!name.eq_ignore_ascii_case("content-type")).then(|| (name.to_owned(), value))
        };
        library.node(headers).members().filter_map(fixed).collect()
    }

    fn fields(&self, schema: Place, found: &mut Vec<Fields>, hops: u32) {
        let Some(hops) = hops.checked_sub(1) else { return };
        let library = self.library;
        let Ok(schema) = library.follow(schema) else { return };
        let node = library.node(schema);
        for (name, property) in node.get("properties").into_iter().flat_map(Node::members) {
            let property = library.beside(schema, property);
            let is_binary = self.is_binary(property, 4);
            found.push(Fields { property: name.to_owned(), is_binary });
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for part in node.get(keyword).into_iter().flat_map(Node::items) {
                self.fields(library.beside(schema, part), found, hops);
            }
        }
        let mut names = std::collections::HashSet::new();
        found.sort_by_key(|field| !field.is_binary);
        found.retain(|field| names.insert(field.property.clone()));
    }

    /// Whether a property is bytes, or a list of such.
    fn is_binary(&self, property: Place, hops: u32) -> bool {
        let Some(hops) = hops.checked_sub(1) else { return false };
        let library = self.library;
        let Ok(property) = library.follow(property) else { return false };
        let node = library.node(property);
        let parts = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| node.get(keyword));
        let mut inner = parts.flat_map(Node::items).chain(node.get("items"));
        is_bytes(node, View::Form)
            || self.is_untyped(node)
            || inner.any(|part| self.is_binary(library.beside(property, part), hops))
    }

    /// From OpenAPI 3.1 on, what has no schema to speak of is bytes.
    fn is_untyped(&self, node: Node<'_>) -> bool {
        self.version >= Version::V31
            && [
                "type",
                "$ref",
                "allOf",
                "anyOf",
                "oneOf",
                "properties",
                "items",
                "enum",
                "const",
                "not",
                "if",
            ]
            .iter()
            .all(|keyword| node.get(keyword).is_none())
    }
}

fn fixed_value(schema: Node<'_>) -> Option<String> {
    let only = schema.get("enum").filter(|values| values.items().len() == 1);
    let only = only.and_then(|values| values.items().next());
    let value = schema.get("const").or(only).or_else(|| schema.get("default"))?;
    match value.to_value() {
        serde_json::Value::String(text) => Some(text),
        serde_json::Value::Null => None,
        other => Some(other.to_string()),
    }
}
