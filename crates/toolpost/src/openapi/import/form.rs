//! Property encodings of forms and multipart bodies.

use super::super::document::{NodeRef, TreeNode};
use super::super::plan::{PropertyEncoding, Style};
use super::super::schema::{DocumentPath, SchemaUsage, is_binary};
use super::Importer;
use super::parameter::parse_style;
use super::version::SpecVersion;

/// Maximum depth of references and `allOf` in the search for properties.
const MAX_HOPS: u32 = 8;

/// A property of a form.
pub(super) struct FormProperty {
    pub(super) property: String,
    pub(super) is_binary: bool,
}

impl FormProperty {
    pub(super) fn encoding(self, style: Option<(Style, bool, bool)>) -> PropertyEncoding {
        let Self { property, is_binary } = self;
        PropertyEncoding { property, content_type: None, headers: Vec::new(), style, is_binary }
    }
}

impl Importer<'_> {
    /// Returns the declared encodings of the properties, and the encodings of binary properties.
    pub(super) fn property_encodings(
        &mut self,
        media: NodeRef,
        doc_path: &DocumentPath<'_>,
    ) -> Vec<PropertyEncoding> {
        let documents = self.documents;
        let mut fields = Vec::new();
        if let Some(schema) = documents.get(media, "schema") {
            self.collect_form_properties(schema, &mut fields, MAX_HOPS);
        }
        let mut encodings: Vec<PropertyEncoding> = fields
            .into_iter()
            .filter(|field| field.is_binary)
            .map(|field| field.encoding(None))
            .collect();
        let declared = documents.get(media, "encoding");
        let doc_path = doc_path.member("encoding");
        for (property, node) in
            declared.into_iter().flat_map(|declared| documents.node(declared).members())
        {
            let known = encodings.iter().position(|encoding| encoding.property == property);
            let is_binary = known.is_some();
            let node_ref = documents.node_ref(media, node);
            let encoding =
                self.property_encoding(property, node_ref, is_binary, &doc_path.member(property));
            match known {
                Some(at) => encodings[at] = encoding,
                None => encodings.push(encoding),
            }
        }
        encodings
    }

    fn property_encoding(
        &mut self,
        property: &str,
        node_ref: NodeRef,
        is_binary: bool,
        doc_path: &DocumentPath<'_>,
    ) -> PropertyEncoding {
        let node = self.documents.node(node_ref);
        let fields = FormProperty { property: property.to_owned(), is_binary };
        let content_type = node.get("contentType").and_then(TreeNode::as_str);
        PropertyEncoding {
            content_type: content_type.map(str::to_owned),
            headers: self.fixed_headers(node_ref),
            ..fields.encoding(self.declared_style(node, doc_path))
        }
    }

    /// Returns the declared style, `explode` and `allowReserved`. If any of them is declared, the
    /// property is serialized like a query parameter.
    fn declared_style(
        &mut self,
        node: TreeNode<'_>,
        doc_path: &DocumentPath<'_>,
    ) -> Option<(Style, bool, bool)> {
        let flag = |name| node.get(name).and_then(TreeNode::as_bool);
        let style_name = node.get("style").and_then(TreeNode::as_str);
        if style_name.is_none() && flag("explode").is_none() && flag("allowReserved").is_none() {
            return None;
        }
        let style = match style_name.map(|name| (name, parse_style(name))) {
            Some((name, None)) => {
                self.warn(doc_path, format!("there is no style `{name}`; it is written as a form"));
                Style::Form
            }
            Some((_, Some(style))) => style,
            None => Style::Form,
        };
        let explode = flag("explode").unwrap_or(matches!(style, Style::Form | Style::DeepObject));
        Some((style, explode, flag("allowReserved") == Some(true)))
    }

    /// Returns the part headers whose schema fixes a value.
    fn fixed_headers(&self, encoding: NodeRef) -> Vec<(String, String)> {
        let documents = self.documents;
        let Some(headers) = documents.get(encoding, "headers") else { return Vec::new() };
        let fixed = |(name, node): (&str, TreeNode<'_>)| {
            let header = documents.resolve_chain(documents.node_ref(headers, node)).ok()?;
            let schema = documents.resolve_chain(documents.get(header, "schema")?).ok()?;
            let value = fixed_value(documents.node(schema))?;
            (!name.eq_ignore_ascii_case("content-type")).then(|| (name.to_owned(), value))
        };
        documents.node(headers).members().filter_map(fixed).collect()
    }

    fn collect_form_properties(&self, schema: NodeRef, found: &mut Vec<FormProperty>, hops: u32) {
        let Some(hops) = hops.checked_sub(1) else { return };
        let documents = self.documents;
        let Ok(schema) = documents.resolve_chain(schema) else { return };
        let node = documents.node(schema);
        for (name, property) in node.get("properties").into_iter().flat_map(TreeNode::members) {
            let property = documents.node_ref(schema, property);
            let is_binary = self.is_binary(property, 4);
            found.push(FormProperty { property: name.to_owned(), is_binary });
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for part in node.get(keyword).into_iter().flat_map(TreeNode::items) {
                self.collect_form_properties(documents.node_ref(schema, part), found, hops);
            }
        }
        let mut names = std::collections::HashSet::new();
        found.sort_by_key(|field| !field.is_binary);
        found.retain(|field| names.insert(field.property.clone()));
    }

    /// Whether a property is binary data or an array of it.
    fn is_binary(&self, property: NodeRef, hops: u32) -> bool {
        let Some(hops) = hops.checked_sub(1) else { return false };
        let documents = self.documents;
        let Ok(property) = documents.resolve_chain(property) else { return false };
        let node = documents.node(property);
        let parts = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| node.get(keyword));
        let mut inner = parts.flat_map(TreeNode::items).chain(node.get("items"));
        is_binary(node, SchemaUsage::Form)
            || self.is_untyped(node)
            || inner.any(|part| self.is_binary(documents.node_ref(property, part), hops))
    }

    /// Whether a property has no type. From OpenAPI 3.1 on, such a property is binary.
    fn is_untyped(&self, node: TreeNode<'_>) -> bool {
        self.version >= SpecVersion::V31
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

fn fixed_value(schema: TreeNode<'_>) -> Option<String> {
    let only = schema.get("enum").filter(|values| values.items().len() == 1);
    let only = only.and_then(|values| values.items().next());
    let value = schema.get("const").or(only).or_else(|| schema.get("default"))?;
    match value.to_value() {
        serde_json::Value::String(text) => Some(text),
        serde_json::Value::Null => None,
        other => Some(other.to_string()),
    }
}
