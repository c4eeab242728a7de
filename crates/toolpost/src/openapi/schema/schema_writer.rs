//! Writes a schema as a self-contained JSON Schema 2020-12, whatever the dialect of the document.
//! Referenced schemas are written once under `$defs`, and keywords that would not compile are
//! omitted.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use super::super::document::{NodeRef, TreeNode};
use super::context::SchemaContext;
use super::keyword::{KeywordRule, is_nullable, is_schema, keyword_error, keyword_rule};
use super::shape::{SchemaShape, SchemaUsage, binary_schema};
use super::{definition_name, nullable, required};

/// Maximum depth of inline schemas. Deeper schemas become definitions, because a schema that is
/// nested too deeply does not compile.
const MAX_INLINE: u32 = 40;

pub(super) struct SchemaWriter<'c, 'n> {
    pub(super) context: &'c SchemaContext,
    names: &'n mut dyn DefinitionNames,
}

/// Assigns names to the schemas that are written as definitions.
pub(super) trait DefinitionNames {
    /// Returns the reference to a schema, and adds the schema as a definition if it is new.
    fn reference_to(&mut self, cursor: SchemaCursor, reference: &str) -> String;

    /// Returns the reference to a schema if it is a definition already.
    fn existing_reference(&mut self, node_ref: NodeRef, usage: SchemaUsage) -> Option<String>;
}

/// Definition names of a self-contained schema.
#[derive(Default)]
struct BundledNames {
    names: HashMap<(NodeRef, SchemaUsage), String>,
    used_names: HashSet<String>,
    queue: VecDeque<(String, SchemaCursor)>,
}

/// A schema node and how to read it.
#[derive(Clone, Copy)]
pub(super) struct SchemaCursor {
    pub(super) node_ref: NodeRef,
    pub(super) usage: SchemaUsage,
    pub(super) depth: u32,
    ignores_ref_siblings: bool,
    /// The schema that contains this one in `allOf`. It may describe the properties that this one
    /// requires.
    parent_schema: Option<NodeRef>,
}

impl<'c, 'n> SchemaWriter<'c, 'n> {
    pub(super) fn new(context: &'c SchemaContext, names: &'n mut dyn DefinitionNames) -> Self {
        Self { context, names }
    }

    pub(super) fn write(context: &'c SchemaContext, shape: &SchemaShape) -> Value {
        let mut names_of_schema = BundledNames::default();
        let root = match shape {
            SchemaShape::Schema(node_ref, usage) => {
                names_of_schema.write_root(context, *node_ref, *usage)
            }
            other => SchemaWriter::new(context, &mut names_of_schema).write_shape(other),
        };
        names_of_schema.finish(context, root)
    }

    pub(super) fn cursor(&self, node_ref: NodeRef, usage: SchemaUsage) -> SchemaCursor {
        let ignores_ref_siblings = self.context.ignores_ref_siblings;
        SchemaCursor { node_ref, usage, depth: 0, ignores_ref_siblings, parent_schema: None }
    }

    pub(super) fn write_shape(&mut self, shape: &SchemaShape) -> Value {
        match shape {
            SchemaShape::Unknown => Value::Bool(true),
            SchemaShape::Null => json!({"type": "null"}),
            SchemaShape::Text => json!({"type": "string"}),
            SchemaShape::Binary(usage) => binary_schema(*usage),
            SchemaShape::Schema(node_ref, usage) => {
                self.write_schema(self.cursor(*node_ref, *usage))
            }
            SchemaShape::ArrayOf(item) => json!({"type": "array", "items": self.write_shape(item)}),
            SchemaShape::SwaggerForm(parameters) => self.write_form(parameters),
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

    pub(super) fn write_schema(&mut self, cursor: SchemaCursor) -> Value {
        let node = self.context.documents.node(cursor.node_ref);
        match node.as_bool() {
            Some(fits) => Value::Bool(fits),
            None if !node.is_object() => Value::Bool(true),
            None if cursor.depth > MAX_INLINE => {
                json!({"$ref": self.names.reference_to(cursor, "#/inner")})
            }
            None => self.write_object(cursor, node),
        }
    }

    fn write_object(&mut self, mut cursor: SchemaCursor, node: TreeNode<'c>) -> Value {
        if let Some(dialect) = node.get("$schema").and_then(TreeNode::as_str) {
            cursor.ignores_ref_siblings = dialect_ignores_ref_siblings(dialect);
        }
        let mut schema = Map::new();
        let reference = node.get("$ref").and_then(TreeNode::as_str);
        match reference.filter(|_| cursor.ignores_ref_siblings) {
            Some(reference) => self.write_lone_reference(&mut schema, cursor, reference),
            None => {
                for (keyword, value) in node.members() {
                    if keyword_error(self.context, keyword, value, node).is_none() {
                        self.write_keyword(&mut schema, cursor, keyword, value);
                    }
                }
            }
        }
        if node.get("type").and_then(TreeNode::as_str) == Some("file")
            || is_binary(node, cursor.usage)
        {
            replace_with_binary(&mut schema, cursor.usage);
            if allows_null(node) {
                nullable::allow_null(&mut schema);
            }
        }
        relax_discriminator_base(&mut schema);
        relax_one_of(&mut schema);
        if is_nullable(node) {
            nullable::allow_null(&mut schema);
        }
        schema.into()
    }

    /// Writes a reference without its sibling keywords, except for the description.
    fn write_lone_reference(
        &mut self,
        schema: &mut Map<String, Value>,
        cursor: SchemaCursor,
        reference: &str,
    ) {
        if let Some(target) = self.write_reference(cursor, reference) {
            schema.insert("$ref".to_owned(), target.into());
        }
        let node = self.context.documents.node(cursor.node_ref);
        if let Some(description) = node.get("description").and_then(TreeNode::as_str) {
            schema.insert("description".to_owned(), description.into());
        }
    }

    fn write_keyword(
        &mut self,
        schema: &mut Map<String, Value>,
        cursor: SchemaCursor,
        keyword: &str,
        value: TreeNode<'c>,
    ) {
        let node = self.context.documents.node(cursor.node_ref);
        let written = match keyword_rule(keyword) {
            KeywordRule::Ignored => return,
            KeywordRule::Reference | KeywordRule::DynamicReference => {
                let target =
                    value.as_str().and_then(|reference| self.write_reference(cursor, reference));
                schema.extend(target.map(|target| ("$ref".to_owned(), target.into())));
                return;
            }
            KeywordRule::Schema => self.write_subschema(cursor, value),
            KeywordRule::Items => return self.write_items(schema, cursor, value),
            KeywordRule::Schemas => self.write_list(cursor, keyword, value),
            KeywordRule::SchemaMap => self.write_map(cursor, value),
            KeywordRule::PatternMap => self.write_pattern_map(cursor, value),
            KeywordRule::Type => match type_list(value) {
                Some(types) => types,
                None => return,
            },
            KeywordRule::Number => {
                let keyword = limit_keyword(keyword, node);
                schema.insert(keyword.to_owned(), value.to_value());
                return;
            }
            KeywordRule::Limit if value.as_number().is_none() => return,
            KeywordRule::Names => match required::required_names(
                self.context,
                cursor.node_ref,
                cursor.parent_schema,
                cursor.usage,
            ) {
                names if names.is_empty() => return,
                names => names.into(),
            },
            KeywordRule::Example => {
                schema.entry("examples").or_insert_with(|| json!([value.to_value()]));
                return;
            }
            KeywordRule::Discriminator => match self.write_discriminator(cursor, value) {
                Some(written) => written,
                None => return,
            },
            _ => value.to_value(),
        };
        schema.insert(keyword.to_owned(), written);
    }

    /// Writes a nested schema.
    fn write_subschema(&mut self, cursor: SchemaCursor, node: TreeNode<'c>) -> Value {
        let node_ref = self.context.documents.node_ref(cursor.node_ref, node);
        self.write_schema(SchemaCursor {
            node_ref,
            depth: cursor.depth + 1,
            parent_schema: None,
            ..cursor
        })
    }

    fn write_list(&mut self, cursor: SchemaCursor, keyword: &str, value: TreeNode<'c>) -> Value {
        let parent_schema =
            (keyword == "allOf").then(|| cursor.parent_schema.unwrap_or(cursor.node_ref));
        let documents = &self.context.documents;
        value
            .items()
            .map(|item| {
                let node_ref = documents.node_ref(cursor.node_ref, item);
                self.write_schema(SchemaCursor {
                    node_ref,
                    depth: cursor.depth + 1,
                    parent_schema,
                    ..cursor
                })
            })
            .collect()
    }

    fn write_map(&mut self, cursor: SchemaCursor, value: TreeNode<'c>) -> Value {
        let schemas = value
            .members()
            .map(|(name, node)| (name.to_owned(), self.write_subschema(cursor, node)));
        Value::Object(schemas.collect())
    }

    fn write_pattern_map(&mut self, cursor: SchemaCursor, value: TreeNode<'c>) -> Value {
        let schemas = value
            .members()
            .filter(|(pattern, _)| self.context.is_valid_pattern(pattern))
            .collect::<Vec<_>>();
        let schemas = schemas
            .into_iter()
            .map(|(name, node)| (name.to_owned(), self.write_subschema(cursor, node)));
        Value::Object(schemas.collect())
    }

    /// Writes `items`. An array of schemas, as in older drafts, becomes `prefixItems`.
    fn write_items(
        &mut self,
        schema: &mut Map<String, Value>,
        cursor: SchemaCursor,
        value: TreeNode<'c>,
    ) {
        if !value.is_array() {
            let written = self.write_subschema(cursor, value);
            schema.insert("items".to_owned(), written);
            return;
        }
        if value.items().len() > 0 && !schema.contains_key("prefixItems") {
            let listed = self.write_list(cursor, "prefixItems", value);
            schema.insert("prefixItems".to_owned(), listed);
        }
        let rest = self.context.documents.node(cursor.node_ref).get("additionalItems");
        if let Some(rest) = rest.filter(|rest| is_schema(*rest)) {
            let written = self.write_subschema(cursor, rest);
            schema.insert("items".to_owned(), written);
        }
    }

    /// Writes a discriminator. The mapping contains only schemas that are definitions already.
    fn write_discriminator(&mut self, cursor: SchemaCursor, value: TreeNode<'c>) -> Option<Value> {
        let property = value.as_str().or_else(|| value.get("propertyName")?.as_str())?;
        let mut written = Map::new();
        written.insert("propertyName".to_owned(), property.into());
        let mut mapping = Map::new();
        for (text, target) in value.get("mapping").into_iter().flat_map(TreeNode::members) {
            let Some(target) = target.as_str() else { continue };
            let by_name = format!("#/components/schemas/{target}");
            let documents = &self.context.documents;
            let node_ref = [&*by_name, target]
                .into_iter()
                .find_map(|reference| documents.resolve(cursor.node_ref, reference).ok());
            let known =
                node_ref.and_then(|node_ref| self.names.existing_reference(node_ref, cursor.usage));
            mapping.extend(known.map(|known| (text.to_owned(), known.into())));
        }
        if !mapping.is_empty() {
            written.insert("mapping".to_owned(), mapping.into());
        }
        Some(written.into())
    }

    /// Returns the written form of a reference, or `None` if it cannot be resolved.
    fn write_reference(&mut self, cursor: SchemaCursor, reference: &str) -> Option<String> {
        let target = resolve_schema(self.context, cursor.node_ref, reference).ok()?;
        let cursor = SchemaCursor { node_ref: target, ..self.cursor(target, cursor.usage) };
        Some(self.names.reference_to(cursor, reference))
    }
}

impl BundledNames {
    /// Writes the root schema. If it is only a reference, its target is written instead, and
    /// references to that target become `#`.
    fn write_root(
        &mut self,
        context: &SchemaContext,
        node_ref: NodeRef,
        usage: SchemaUsage,
    ) -> Value {
        let node_ref = context.canonical(node_ref);
        self.names.insert((node_ref, usage), "#".to_owned());
        let mut writer = SchemaWriter::new(context, self);
        writer.write_schema(writer.cursor(node_ref, usage))
    }

    fn finish(mut self, context: &SchemaContext, root: Value) -> Value {
        let mut definitions = Map::new();
        while let Some((name, cursor)) = self.queue.pop_front() {
            let schema = SchemaWriter::new(context, &mut self).write_schema(cursor);
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
}

impl DefinitionNames for BundledNames {
    fn reference_to(&mut self, cursor: SchemaCursor, reference: &str) -> String {
        let key = (cursor.node_ref, cursor.usage);
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
///
/// # Errors
///
/// The target does not exist or is not a schema, or the reference is circular.
pub(super) fn resolve_schema(
    context: &SchemaContext,
    from: NodeRef,
    reference: &str,
) -> Result<NodeRef, String> {
    let documents = &context.documents;
    let left_out = |reason: String| format!("{reason}; the reference is left out");
    let target = documents.resolve(from, reference).map_err(|error| left_out(error.to_string()))?;
    documents.resolve_chain(target).map_err(|error| left_out(error.to_string()))?;
    match is_schema(documents.node(target)) {
        true => Ok(target),
        false => Err(left_out(format!("`{reference}` leads to what is no schema"))),
    }
}

/// Whether `$ref` ignores its sibling keywords in a JSON Schema dialect.
pub(crate) fn dialect_ignores_ref_siblings(dialect: &str) -> bool {
    ["draft-03", "draft-04", "draft-05", "draft-06", "draft-07"]
        .iter()
        .any(|draft| dialect.contains(draft))
}

/// Returns the keyword for a limit. A limit with a boolean `exclusiveMinimum` or `exclusiveMaximum`
/// becomes that keyword.
fn limit_keyword<'k>(keyword: &'k str, schema: TreeNode<'_>) -> &'k str {
    let strict = match keyword {
        "minimum" => "exclusiveMinimum",
        _ => "exclusiveMaximum",
    };
    match schema.get(strict).and_then(TreeNode::as_bool) {
        Some(true) => strict,
        _ => keyword,
    }
}

fn type_list(value: TreeNode<'_>) -> Option<Value> {
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

/// Whether the schema of a form property declares binary data.
pub(crate) fn is_binary(schema: TreeNode<'_>, usage: SchemaUsage) -> bool {
    if usage != SchemaUsage::Form {
        return false;
    }
    let text = |name| schema.get(name).and_then(TreeNode::as_str);
    match text("type") {
        Some("string") => {
            text("format") == Some("binary")
                || schema.get("contentEncoding").is_some()
                || text("contentMediaType").is_some_and(|kind| !kind.ends_with("json"))
        }
        Some("file") => true,
        Some(_) => false,
        None => text("format") == Some("binary") || text("contentMediaType").is_some(),
    }
}

/// Replaces a string schema by the schema of a `$binary` object. Constraints of the string are
/// removed.
fn replace_with_binary(schema: &mut Map<String, Value>, usage: SchemaUsage) {
    schema.retain(|keyword, _| matches!(keyword.as_str(), "title" | "description" | "deprecated"));
    if let Value::Object(binary) = binary_schema(usage) {
        schema.extend(binary);
    }
}

/// Whether `null` is in a list of types.
fn allows_null(schema: TreeNode<'_>) -> bool {
    let types = schema.get("type").into_iter().flat_map(TreeNode::items);
    types.filter_map(TreeNode::as_str).any(|name| name == "null")
}

/// Replaces `oneOf` by `anyOf` if open objects could match several of its schemas; services mean
/// that at least one matches. If the discriminator has a mapping, each schema also restricts the
/// discriminator property to its mapped values.
fn relax_one_of(schema: &mut Map<String, Value>) {
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

/// Whether a schema may describe an object with additional properties, judged by its own keywords
/// only.
fn is_open_object(schema: &Value) -> bool {
    ["$ref", "properties", "allOf"].iter().any(|keyword| schema.get(keyword).is_some())
}

/// Allows additional properties in a discriminator base. Such a schema has a discriminator without
/// alternatives and is extended by the schemas that include it.
fn relax_discriminator_base(schema: &mut Map<String, Value>) {
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
