//! Writes a schema of any dialect as a self-contained JSON Schema 2020-12. Referenced schemas are
//! written once under `$defs`, and keywords that would not compile are omitted.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Display;

use serde_json::{Map, Value, json};

use super::super::document::{Node, NodeRef};
use super::super::media_type::MediaKind;
use super::context::SchemaContext;
use super::keyword::{KeywordRule, is_nullable, is_schema, keyword_error, keyword_rule};
use super::shape::{SchemaShape, SchemaUsage, binary_schema};
use super::{definition_name, nullable, required};
use crate::json::JsonObject;

/// Maximum depth of inline schemas. Deeper schemas become definitions, because they would not
/// compile inline.
const MAX_INLINE: u32 = 40;

pub(super) struct SchemaWriter<'c, 'n> {
    pub(super) context: &'c SchemaContext,
    pub(super) names: &'n mut dyn DefinitionNames<'c>,
}

/// Assigns names to the schemas that are written as definitions.
pub(super) trait DefinitionNames<'c> {
    /// Returns the reference to a schema, and adds the schema as a definition if it is new.
    fn reference_to(&mut self, cursor: SchemaCursor<'c>, reference: &str) -> String;

    /// Returns the reference to a schema if it is a definition already.
    fn existing_reference(&mut self, node_ref: NodeRef, usage: SchemaUsage) -> Option<String>;
}

/// Definition names of a self-contained schema.
#[derive(Default)]
struct BundledNames<'c> {
    names: HashMap<(NodeRef, SchemaUsage), String>,
    used_names: HashSet<String>,
    queue: VecDeque<(String, SchemaCursor<'c>)>,
}

/// A schema node and how to read it.
#[derive(Clone, Copy)]
pub(super) struct SchemaCursor<'c> {
    pub(super) node: Node<'c>,
    pub(super) usage: SchemaUsage,
    pub(super) depth: u32,
    ignores_ref_siblings: bool,
    /// The schema with this one in `allOf`, which may describe the required properties.
    parent: Option<Node<'c>>,
}

/// Writes a shape as a self-contained schema. If the root is only a reference, its target is
/// written instead, and references to that target become `#`.
pub(super) fn write_bundled(context: &SchemaContext, shape: &SchemaShape) -> Value {
    let mut shape = shape.clone();
    let mut names = BundledNames::default();
    if let SchemaShape::Schema(node_ref, usage) = &mut shape {
        *node_ref = context.canonical(*node_ref);
        names.names.insert((*node_ref, *usage), "#".to_owned());
    }
    let root = SchemaWriter { context, names: &mut names }.write_shape(&shape);
    let mut definitions = Map::new();
    while let Some((name, cursor)) = names.queue.pop_front() {
        let schema = SchemaWriter { context, names: &mut names }.write_schema(cursor);
        definitions.insert(name, schema);
    }
    match root {
        Value::Object(mut root) if !definitions.is_empty() => {
            root.insert("$defs".to_owned(), definitions.into());
            root.into()
        }
        root => root,
    }
}

impl<'c> SchemaWriter<'c, '_> {
    pub(super) fn cursor(&self, node: Node<'c>, usage: SchemaUsage) -> SchemaCursor<'c> {
        let ignores_ref_siblings = self.context.ignores_ref_siblings;
        SchemaCursor { node, usage, depth: 0, ignores_ref_siblings, parent: None }
    }

    pub(super) fn write_shape(&mut self, shape: &SchemaShape) -> Value {
        match shape {
            SchemaShape::Unknown => Value::Bool(true),
            SchemaShape::Null => json!({"type": "null"}),
            SchemaShape::Text(usage) => {
                let mut text = Map::from_iter([("type".to_owned(), "string".into())]);
                if *usage == SchemaUsage::Part {
                    accept_binary(&mut text);
                }
                text.into()
            }
            SchemaShape::Binary(usage) => binary_schema(*usage),
            SchemaShape::Schema(node_ref, usage) => {
                self.write_schema(self.cursor(self.context.documents.node(*node_ref), *usage))
            }
            SchemaShape::ArrayOf(item) => json!({"type": "array", "items": self.write_shape(item)}),
            SchemaShape::SwaggerForm(parameters, usage) => self.write_form(parameters, *usage),
            SchemaShape::AnyOf(shapes) => {
                let mut schemas: Vec<Value> = Vec::new();
                for schema in shapes.iter().map(|shape| self.write_shape(shape)) {
                    if !schemas.contains(&schema) {
                        schemas.push(schema);
                    }
                }
                match schemas.len() {
                    1 => schemas.remove(0),
                    _ => json!({ "anyOf": schemas }),
                }
            }
            SchemaShape::Input(members) => self.write_input(members),
        }
    }

    pub(super) fn write_schema(&mut self, cursor: SchemaCursor<'c>) -> Value {
        match cursor.node.as_bool() {
            Some(fits) => Value::Bool(fits),
            None if !cursor.node.is_object() => Value::Bool(true),
            None if cursor.depth > MAX_INLINE => {
                json!({"$ref": self.names.reference_to(cursor, "#/inner")})
            }
            None => self.write_object(cursor),
        }
    }

    fn write_object(&mut self, mut cursor: SchemaCursor<'c>) -> Value {
        let node = cursor.node;
        if let Some(dialect) = node.text("$schema") {
            cursor.ignores_ref_siblings = dialect_ignores_ref_siblings(dialect);
        }
        let mut schema = Map::new();
        if let Some(reference) = node.text("$ref").filter(|_| cursor.ignores_ref_siblings) {
            // Sibling keywords are omitted, except for the description.
            let target = self.write_reference(cursor, reference);
            schema.extend(target.map(|target| ("$ref".to_owned(), target.into())));
            let description = node.text("description");
            schema.extend(description.map(|text| ("description".to_owned(), text.into())));
        } else {
            for (keyword, value) in node.members() {
                if keyword_error(self.context, keyword, value, node).is_none() {
                    let written = self.write_keyword(&mut schema, cursor, keyword, value);
                    schema.extend(written.map(|(keyword, value)| (keyword.to_owned(), value)));
                }
            }
        }
        let is_field = matches!(cursor.usage, SchemaUsage::Field | SchemaUsage::Part);
        if node.text("type") == Some("file") || (is_field && is_binary(node)) {
            replace_with_binary(&mut schema, cursor.usage);
        } else if cursor.usage == SchemaUsage::Part {
            accept_binary(&mut schema);
        }
        relax_discriminator_base(&mut schema);
        relax_one_of(&mut schema);
        if is_nullable(node) {
            nullable::allow_null(&mut schema);
        }
        schema.into()
    }

    /// Returns the written keyword and its value, or `None` if it is omitted or written already.
    fn write_keyword<'k>(
        &mut self,
        schema: &mut JsonObject,
        cursor: SchemaCursor<'c>,
        keyword: &'k str,
        value: Node<'c>,
    ) -> Option<(&'k str, Value)> {
        let written = match keyword_rule(keyword) {
            KeywordRule::Ignored => return None,
            KeywordRule::Reference | KeywordRule::DynamicReference => {
                return Some(("$ref", self.write_reference(cursor, value.as_str()?)?.into()));
            }
            KeywordRule::Schema if is_property_keyword(keyword) => {
                self.write_subschema(cursor.with_usage(cursor.usage.of_properties()), value)
            }
            KeywordRule::Schema => self.write_subschema(cursor, value),
            KeywordRule::Items => {
                self.write_items(schema, cursor.with_usage(cursor.usage.of_items()), value);
                return None;
            }
            KeywordRule::Schemas => self.write_list(cursor, keyword, value),
            KeywordRule::SchemaMap if is_property_keyword(keyword) => {
                let cursor = cursor.with_usage(cursor.usage.of_properties());
                self.write_map(cursor, value, |_| true)
            }
            KeywordRule::SchemaMap => self.write_map(cursor, value, |_| true),
            KeywordRule::PatternMap => {
                let context = self.context;
                let cursor = cursor.with_usage(cursor.usage.of_properties());
                self.write_map(cursor, value, |pattern| context.is_valid_pattern(pattern))
            }
            KeywordRule::Type => type_list(value)?,
            KeywordRule::Number => {
                return Some((limit_keyword(keyword, cursor.node), value.to_value()));
            }
            KeywordRule::Limit if value.as_number().is_none() => return None,
            KeywordRule::Names => {
                let names = required::required_names(cursor.node, cursor.parent, cursor.usage);
                Some(names).filter(|names| !names.is_empty())?.into()
            }
            KeywordRule::Example if schema.contains_key("examples") => return None,
            KeywordRule::Example => return Some(("examples", json!([value.to_value()]))),
            KeywordRule::Discriminator => self.write_discriminator(cursor, value)?,
            _ => value.to_value(),
        };
        Some((keyword, written))
    }

    /// Writes a nested schema.
    fn write_subschema(&mut self, cursor: SchemaCursor<'c>, node: Node<'c>) -> Value {
        self.write_schema(SchemaCursor { node, depth: cursor.depth + 1, parent: None, ..cursor })
    }

    fn write_list(&mut self, cursor: SchemaCursor<'c>, keyword: &str, value: Node<'c>) -> Value {
        let parent = (keyword == "allOf").then(|| cursor.parent.unwrap_or(cursor.node));
        let depth = cursor.depth + 1;
        let schemas = value
            .items()
            .map(|node| self.write_schema(SchemaCursor { node, depth, parent, ..cursor }));
        schemas.collect()
    }

    fn write_map(
        &mut self,
        cursor: SchemaCursor<'c>,
        value: Node<'c>,
        is_valid: impl Fn(&str) -> bool,
    ) -> Value {
        let members = value.members().filter(|(name, _)| is_valid(name));
        let schemas =
            members.map(|(name, node)| (name.to_owned(), self.write_subschema(cursor, node)));
        Value::Object(schemas.collect())
    }

    /// Writes `items`. An array of schemas, as in older drafts, becomes `prefixItems`.
    fn write_items(&mut self, schema: &mut JsonObject, cursor: SchemaCursor<'c>, value: Node<'c>) {
        if value.items().len() > 0 && !schema.contains_key("prefixItems") {
            let listed = self.write_list(cursor, "prefixItems", value);
            schema.insert("prefixItems".to_owned(), listed);
        }
        let items = match value.is_array() {
            true => cursor.node.get("additionalItems").filter(|rest| is_schema(*rest)),
            false => Some(value),
        };
        let written = items.map(|items| self.write_subschema(cursor, items));
        schema.extend(written.map(|written| ("items".to_owned(), written)));
    }

    /// Writes a discriminator. The mapping contains only schemas that are definitions already.
    fn write_discriminator(&mut self, cursor: SchemaCursor<'c>, value: Node<'c>) -> Option<Value> {
        let property = value.as_str().or_else(|| value.text("propertyName"))?;
        let mut written = Map::new();
        written.insert("propertyName".to_owned(), property.into());
        let mut mapping = Map::new();
        for (text, target) in value.members_of("mapping") {
            let Some(target) = target.as_str() else { continue };
            let by_name = format!("#/components/schemas/{target}");
            let node = [&*by_name, target]
                .into_iter()
                .find_map(|reference| cursor.node.resolve(reference).ok());
            let known =
                node.and_then(|node| self.names.existing_reference(node.node_ref(), cursor.usage));
            mapping.extend(known.map(|known| (text.to_owned(), known.into())));
        }
        if !mapping.is_empty() {
            written.insert("mapping".to_owned(), mapping.into());
        }
        Some(written.into())
    }

    /// Returns the written form of a reference, or `None` if it cannot be resolved.
    fn write_reference(&mut self, cursor: SchemaCursor<'c>, reference: &str) -> Option<String> {
        let target = resolve_schema(cursor.node, reference).ok()?;
        Some(self.names.reference_to(self.cursor(target, cursor.usage), reference))
    }
}

impl SchemaCursor<'_> {
    fn with_usage(self, usage: SchemaUsage) -> Self {
        Self { usage, ..self }
    }
}

/// Whether the schemas of a keyword describe properties.
fn is_property_keyword(keyword: &str) -> bool {
    matches!(keyword, "properties" | "additionalProperties" | "unevaluatedProperties")
}

impl<'c> DefinitionNames<'c> for BundledNames<'c> {
    fn reference_to(&mut self, cursor: SchemaCursor<'c>, reference: &str) -> String {
        let key = (cursor.node.node_ref(), cursor.usage);
        if let Some(name) = self.names.get(&key) {
            return definition_pointer(name);
        }
        let name = definition_name::unique_name(
            &mut self.used_names,
            &definition_name::name_from_reference(reference),
        );
        self.names.insert(key, name.clone());
        self.queue.push_back((name.clone(), SchemaCursor { depth: 0, ..cursor }));
        definition_pointer(&name)
    }

    fn existing_reference(&mut self, node_ref: NodeRef, usage: SchemaUsage) -> Option<String> {
        self.names.get(&(node_ref, usage)).map(|name| definition_pointer(name))
    }
}

/// Resolves a reference in a schema.
pub(super) fn resolve_schema<'d>(from: Node<'d>, reference: &str) -> Result<Node<'d>, String> {
    let left_out = |reason: &dyn Display| format!("{reason}; the reference is ignored");
    let target = from.resolve(reference).map_err(|error| left_out(&error))?;
    target.target().map_err(|error| left_out(&error))?;
    match is_schema(target) {
        true => Ok(target),
        false => Err(left_out(&format_args!("`{reference}` does not refer to a schema"))),
    }
}

/// Whether `$ref` ignores its sibling keywords in a JSON Schema dialect.
pub(crate) fn dialect_ignores_ref_siblings(dialect: &str) -> bool {
    ["draft-03", "draft-04", "draft-05", "draft-06", "draft-07"]
        .iter()
        .any(|draft| dialect.contains(draft))
}

/// Returns the keyword for a limit, which a boolean sibling makes exclusive.
fn limit_keyword<'k>(keyword: &'k str, schema: Node<'_>) -> &'k str {
    let strict = match keyword {
        "minimum" => "exclusiveMinimum",
        _ => "exclusiveMaximum",
    };
    match schema.get(strict).and_then(|strict| strict.as_bool()) {
        Some(true) => strict,
        _ => keyword,
    }
}

fn type_list(value: Node<'_>) -> Option<Value> {
    match value.as_str() {
        Some("file") => None,
        Some(name) => Some(name.into()),
        None => {
            let mut names: Vec<&str> = Vec::new();
            for name in value.items().map(|name| name.as_str().unwrap_or("null")) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            Some(names.into())
        }
    }
}

/// Whether a schema declares binary data.
pub(crate) fn is_binary(schema: Node<'_>) -> bool {
    let text = |name| schema.text(name);
    let is_binary_type =
        |kind| matches!(MediaKind::of_request(kind), MediaKind::Binary | MediaKind::Multipart);
    let is_binary_media =
        || text("format") == Some("binary") || text("contentMediaType").is_some_and(is_binary_type);
    match text("type") {
        Some("string") => is_binary_media() || schema.get("contentEncoding").is_some(),
        Some("file") => true,
        Some(_) => false,
        None => is_binary_media(),
    }
}

/// Replaces a string schema with its constraints by the schema of a `$binary` object.
fn replace_with_binary(schema: &mut JsonObject, usage: SchemaUsage) {
    let is_nullable =
        matches!(schema.get("type"), Some(Value::Array(names)) if names.contains(&"null".into()));
    schema.retain(|keyword, _| matches!(keyword.as_str(), "title" | "description" | "deprecated"));
    if let Value::Object(binary) = binary_schema(usage) {
        schema.extend(binary);
    }
    if is_nullable {
        nullable::allow_null(schema);
    }
}

/// Adds the schema of a `$binary` object to the schema of a string. The keywords of both are for
/// values of their own type.
fn accept_binary(schema: &mut JsonObject) {
    let constrains_all =
        ["enum", "const", "properties", "required"].iter().any(|name| schema.contains_key(*name));
    let types = match schema.get("type") {
        Some(Value::String(name)) if name == "string" => json!([name, "object"]),
        Some(Value::Array(names))
            if names.contains(&"string".into()) && !names.contains(&"object".into()) =>
        {
            names.iter().cloned().chain(["object".into()]).collect()
        }
        _ => return,
    };
    if let (Value::Object(binary), false) = (binary_schema(SchemaUsage::Part), constrains_all) {
        schema.extend(binary);
        schema.insert("type".to_owned(), types);
    }
}

/// Replaces `oneOf` by `anyOf` if open objects could match several of its schemas; services mean
/// that at least one matches. If the discriminator has a mapping, each schema also restricts the
/// discriminator property to its mapped values.
fn relax_one_of(schema: &mut JsonObject) {
    let discriminator = schema.get("discriminator").cloned();
    let is_choice =
        |schemas: &Value| schemas.as_array().is_some_and(|all| all.iter().any(is_open_object));
    if !schema.contains_key("anyOf") && schema.get("oneOf").is_some_and(is_choice) {
        let schemas = schema.shift_remove("oneOf").unwrap_or_default();
        schema.insert("anyOf".to_owned(), schemas);
    }
    let discriminator_parts =
        discriminator.as_ref().and_then(|it| Some((it.get("propertyName")?, it.get("mapping")?)));
    let Some((Value::String(property), Value::Object(mapping))) = discriminator_parts else {
        return;
    };
    let Some(Value::Array(schemas)) = schema.get_mut("anyOf") else { return };
    for one in schemas {
        let Some(target) = one.get("$ref").cloned() else { continue };
        let texts = mapping.iter().filter(|(_, node_ref)| **node_ref == target);
        let texts: Vec<&str> = texts.map(|(text, _)| text.as_str()).collect();
        if !texts.is_empty() {
            *one = json!({"allOf": [one.take(), {"properties": {property: {"enum": texts}}}]});
        }
    }
}

/// Whether the keywords of a schema may describe an object with additional properties.
fn is_open_object(schema: &Value) -> bool {
    ["$ref", "properties", "allOf"].iter().any(|keyword| schema.get(keyword).is_some())
}

/// Allows additional properties in a discriminator base. Such a schema has a discriminator without
/// alternatives and is extended by the schemas that include it.
fn relax_discriminator_base(schema: &mut JsonObject) {
    let is_base = schema.contains_key("discriminator")
        && !["oneOf", "anyOf", "additionalProperties", "unevaluatedProperties"]
            .iter()
            .any(|keyword| schema.contains_key(*keyword));
    if is_base && schema.contains_key("properties") {
        schema.insert("additionalProperties".to_owned(), true.into());
    }
}

fn definition_pointer(name: &str) -> String {
    match name {
        "#" => "#".to_owned(),
        name => format!("#/$defs/{name}"),
    }
}
