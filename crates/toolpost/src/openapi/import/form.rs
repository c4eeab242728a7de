//! Property encodings of forms and multipart bodies.

use std::collections::HashSet;

use super::super::document::Node;
use super::super::plan::{PropertyEncoding, Style};
use super::super::schema::is_binary;
use super::Importer;
use super::parameter::parse_style;
use crate::json::ValuePath;

/// Maximum depth of references and `allOf` in the search for properties.
const MAX_HOPS: u32 = 8;

/// Keywords that combine schemas.
const COMBINATORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Returns the encoding of a property without declarations.
pub(super) fn property_encoding(property: &str, is_binary: bool) -> PropertyEncoding {
    PropertyEncoding { property: property.to_owned(), is_binary, ..PropertyEncoding::default() }
}

impl<'l> Importer<'l> {
    /// Returns the declared encodings of the properties, and the encodings of binary properties.
    pub(super) fn property_encodings(
        &mut self,
        media: Node<'l>,
        path: &ValuePath<'_>,
    ) -> Vec<PropertyEncoding> {
        let mut binary = Vec::new();
        if let Some(schema) = media.get("schema") {
            collect_binary_properties(schema, &mut binary, MAX_HOPS);
        }
        let mut known = HashSet::new();
        binary.retain(|name| known.insert(*name));
        let mut encodings: Vec<PropertyEncoding> =
            binary.iter().map(|name| property_encoding(name, true)).collect();
        for (property, node) in media.members_of("encoding") {
            let path = path.member("encoding");
            let encoding = PropertyEncoding {
                content_type: node.text("contentType").map(str::to_owned),
                headers: fixed_headers(node),
                style: self.declared_style(node, &path.member(property)),
                ..property_encoding(property, known.contains(property))
            };
            match encodings.iter_mut().find(|known| known.property == property) {
                Some(known) => *known = encoding,
                None => encodings.push(encoding),
            }
        }
        encodings
    }

    /// Returns the declared style, `explode` and `allowReserved`. If any of them is declared, the
    /// property is serialized like a query parameter.
    fn declared_style(
        &mut self,
        node: Node<'_>,
        path: &ValuePath<'_>,
    ) -> Option<(Style, bool, bool)> {
        let flag = |name| node.get(name).and_then(|flag| flag.as_bool());
        let name = node.text("style");
        if name.is_none() && flag("explode").is_none() && flag("allowReserved").is_none() {
            return None;
        }
        let style = match name.map(|name| parse_style(name).ok_or(name)) {
            Some(Err(name)) => {
                self.warn(path, format!("unknown style `{name}`; using `form`"));
                Style::Form
            }
            Some(Ok(style)) => style,
            None => Style::Form,
        };
        let explode = flag("explode").unwrap_or(matches!(style, Style::Form | Style::DeepObject));
        Some((style, explode, node.flag("allowReserved")))
    }
}

fn collect_binary_properties<'l>(schema: Node<'l>, found: &mut Vec<&'l str>, hops: u32) {
    let Some(hops) = hops.checked_sub(1) else { return };
    let Ok(schema) = schema.target() else { return };
    let properties = schema.members_of("properties");
    let binary = properties.filter(|(_, property)| is_binary_property(*property, 4));
    found.extend(binary.map(|(name, _)| name));
    for part in COMBINATORS.into_iter().flat_map(|keyword| schema.items_of(keyword)) {
        collect_binary_properties(part, found, hops);
    }
}

/// Whether a property is binary data or an array of it.
fn is_binary_property(property: Node<'_>, hops: u32) -> bool {
    let Some(hops) = hops.checked_sub(1) else { return false };
    let Ok(property) = property.target() else { return false };
    let mut parts = COMBINATORS
        .into_iter()
        .flat_map(|keyword| property.items_of(keyword))
        .chain(property.get("items"));
    is_binary(property) || parts.any(|part| is_binary_property(part, hops))
}

/// Returns the part headers whose schema fixes a value.
fn fixed_headers(encoding: Node<'_>) -> Vec<(String, String)> {
    let fixed = |(name, header): (&str, Node<'_>)| {
        let schema = header.target().ok()?.get("schema")?.target().ok()?;
        let value = fixed_value(schema)?;
        (!name.eq_ignore_ascii_case("content-type")).then(|| (name.to_owned(), value))
    };
    encoding.members_of("headers").filter_map(fixed).collect()
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
