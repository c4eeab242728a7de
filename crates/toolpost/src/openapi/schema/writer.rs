//! Writes a schema as a document of its own: 2020-12 whatever the document was, with everything
//! that it refers to under `$defs`, each once, and without what would not compile.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value, json};

use super::super::document::{Node, Place};
use super::context::Context;
use super::keyword::{Rule, fault, is_nullable, is_schema, rule};
use super::shape::{Shape, View, binary};
use super::{name, null, view};

/// How many schemas may stand inside each other before the inner one gets a place of its own; a
/// document that nests too deeply does not compile.
const MAX_INLINE: u32 = 40;

pub(super) struct Writer<'c, 'n> {
    pub(super) context: &'c Context,
    names: &'n mut dyn Names,
}

/// What schemas with a place of their own are called.
pub(super) trait Names {
    /// Where a schema stands in what is written, from now on if it was nowhere.
    fn link(&mut self, at: At, reference: &str) -> String;

    /// The same for one that has a place already.
    fn known(&mut self, place: Place, view: View) -> Option<String>;
}

/// The names of a schema that is a document of its own.
#[derive(Default)]
struct Keys {
    names: HashMap<(Place, View), String>,
    taken: HashSet<String>,
    waiting: VecDeque<(String, At)>,
}

/// A schema, and how it is to be read.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) place: Place,
    pub(super) view: View,
    pub(super) depth: u32,
    hides_siblings: bool,
    /// The schema that this one is a part of by `allOf`, which may describe the properties that
    /// this one requires.
    whole: Option<Place>,
}

impl<'c, 'n> Writer<'c, 'n> {
    pub(super) fn new(context: &'c Context, names: &'n mut dyn Names) -> Self {
        Self { context, names }
    }

    pub(super) fn write(context: &'c Context, shape: &Shape) -> Value {
        let mut keys = Keys::default();
        let root = match shape {
            Shape::Schema(place, view) => keys.root(context, *place, *view),
            other => Writer::new(context, &mut keys).shape(other),
        };
        keys.finish(context, root)
    }

    pub(super) fn at(&self, place: Place, view: View) -> At {
        let hides_siblings = self.context.ref_hides_siblings;
        At { place, view, depth: 0, hides_siblings, whole: None }
    }

    pub(super) fn shape(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Unknown => Value::Bool(true),
            Shape::Null => json!({"type": "null"}),
            Shape::Text => json!({"type": "string"}),
            Shape::Binary(view) => binary(*view),
            Shape::Schema(place, view) => self.schema(self.at(*place, *view)),
            Shape::ListOf(item) => json!({"type": "array", "items": self.shape(item)}),
            Shape::Form(parameters) => self.form(parameters),
            Shape::AnyOf(shapes) => {
                let mut schemas: Vec<Value> = Vec::new();
                for schema in shapes.iter().map(|shape| self.shape(shape)) {
                    if !schemas.contains(&schema) {
                        schemas.push(schema);
                    }
                }
                match schemas.len() {
                    1 => schemas.remove(0),
                    _ => json!({ "anyOf": schemas }),
                }
            }
            Shape::Input(members) => self.input(members),
        }
    }

    pub(super) fn schema(&mut self, at: At) -> Value {
        let node = self.context.library.node(at.place);
        match node.as_bool() {
            Some(fits) => Value::Bool(fits),
            None if !node.is_object() => Value::Bool(true),
            None if at.depth > MAX_INLINE => {
                json!({"$ref": self.names.link(at, "#/inner")})
            }
            None => self.object(at, node),
        }
    }

    fn object(&mut self, mut at: At, node: Node<'c>) -> Value {
        if let Some(dialect) = node.get("$schema").and_then(Node::as_str) {
            at.hides_siblings = hides_siblings(dialect);
        }
        let mut schema = Map::new();
        let reference = node.get("$ref").and_then(Node::as_str);
        match reference.filter(|_| at.hides_siblings) {
            Some(reference) => self.lone_reference(&mut schema, at, reference),
            None => {
                for (keyword, value) in node.members() {
                    if fault(self.context, keyword, value, node).is_none() {
                        self.keyword(&mut schema, at, keyword, value);
                    }
                }
            }
        }
        if node.get("type").and_then(Node::as_str) == Some("file") || is_bytes(node, at.view) {
            become_binary(&mut schema, at.view);
            if takes_null(node) {
                null::admit(&mut schema);
            }
        }
        open_base(&mut schema);
        choice(&mut schema);
        if is_nullable(node) {
            null::admit(&mut schema);
        }
        schema.into()
    }

    /// What stands beside the reference does not count; a description harms nobody.
    fn lone_reference(&mut self, schema: &mut Map<String, Value>, at: At, reference: &str) {
        if let Some(target) = self.reference(at, reference) {
            schema.insert("$ref".to_owned(), target.into());
        }
        let node = self.context.library.node(at.place);
        if let Some(description) = node.get("description").and_then(Node::as_str) {
            schema.insert("description".to_owned(), description.into());
        }
    }

    fn keyword(&mut self, schema: &mut Map<String, Value>, at: At, keyword: &str, value: Node<'c>) {
        let node = self.context.library.node(at.place);
        let written = match rule(keyword) {
            Rule::Silent => return,
            Rule::Reference | Rule::DynamicReference => {
                let target = value.as_str().and_then(|reference| self.reference(at, reference));
                schema.extend(target.map(|target| ("$ref".to_owned(), target.into())));
                return;
            }
            Rule::Schema => self.inner(at, value),
            Rule::Items => return self.items(schema, at, value),
            Rule::Schemas => self.list(at, keyword, value),
            Rule::SchemaMap => self.map(at, value),
            Rule::PatternMap => self.pattern_map(at, value),
            Rule::Type => match types(value) {
                Some(types) => types,
                None => return,
            },
            Rule::Number => {
                let keyword = limit(keyword, node);
                schema.insert(keyword.to_owned(), value.to_value());
                return;
            }
            Rule::Limit if value.as_number().is_none() => return,
            Rule::Names => match view::required(self.context, at.place, at.whole, at.view) {
                names if names.is_empty() => return,
                names => names.into(),
            },
            Rule::Example => {
                schema.entry("examples").or_insert_with(|| json!([value.to_value()]));
                return;
            }
            Rule::Discriminator => match self.discriminator(at, value) {
                Some(written) => written,
                None => return,
            },
            _ => value.to_value(),
        };
        schema.insert(keyword.to_owned(), written);
    }

    /// A schema that stands in another.
    fn inner(&mut self, at: At, node: Node<'c>) -> Value {
        let place = self.context.library.beside(at.place, node);
        self.schema(At { place, depth: at.depth + 1, whole: None, ..at })
    }

    fn list(&mut self, at: At, keyword: &str, value: Node<'c>) -> Value {
        let whole = (keyword == "allOf").then(|| at.whole.unwrap_or(at.place));
        let library = &self.context.library;
        value
            .items()
            .map(|item| {
                let place = library.beside(at.place, item);
                self.schema(At { place, depth: at.depth + 1, whole, ..at })
            })
            .collect()
    }

    fn map(&mut self, at: At, value: Node<'c>) -> Value {
        let schemas = value.members().map(|(name, node)| (name.to_owned(), self.inner(at, node)));
        Value::Object(schemas.collect())
    }

    fn pattern_map(&mut self, at: At, value: Node<'c>) -> Value {
        let schemas = value
            .members()
            .filter(|(pattern, _)| self.context.is_pattern(pattern))
            .collect::<Vec<_>>();
        let schemas =
            schemas.into_iter().map(|(name, node)| (name.to_owned(), self.inner(at, node)));
        Value::Object(schemas.collect())
    }

    /// The older list of schemas is what `prefixItems` is now.
    fn items(&mut self, schema: &mut Map<String, Value>, at: At, value: Node<'c>) {
        if !value.is_array() {
            let written = self.inner(at, value);
            schema.insert("items".to_owned(), written);
            return;
        }
        if value.items().len() > 0 && !schema.contains_key("prefixItems") {
            let listed = self.list(at, "prefixItems", value);
            schema.insert("prefixItems".to_owned(), listed);
        }
        let rest = self.context.library.node(at.place).get("additionalItems");
        if let Some(rest) = rest.filter(|rest| is_schema(*rest)) {
            let written = self.inner(at, rest);
            schema.insert("items".to_owned(), written);
        }
    }

    /// The property that tells, and which of the schemas that are there each of its texts means.
    fn discriminator(&mut self, at: At, value: Node<'c>) -> Option<Value> {
        let property = value.as_str().or_else(|| value.get("propertyName")?.as_str())?;
        let mut written = Map::new();
        written.insert("propertyName".to_owned(), property.into());
        let mut mapping = Map::new();
        for (text, target) in value.get("mapping").into_iter().flat_map(Node::members) {
            let Some(target) = target.as_str() else { continue };
            let by_name = format!("#/components/schemas/{target}");
            let library = &self.context.library;
            let place = [&*by_name, target]
                .into_iter()
                .find_map(|reference| library.resolve(at.place, reference).ok());
            let known = place.and_then(|place| self.names.known(place, at.view));
            mapping.extend(known.map(|known| (text.to_owned(), known.into())));
        }
        if !mapping.is_empty() {
            written.insert("mapping".to_owned(), mapping.into());
        }
        Some(written.into())
    }

    /// Where the target of a reference stands in what is written; `None` if it leads nowhere.
    fn reference(&mut self, at: At, reference: &str) -> Option<String> {
        let target = target(self.context, at.place, reference).ok()?;
        let at = At { place: target, ..self.at(target, at.view) };
        Some(self.names.link(at, reference))
    }
}

impl Keys {
    /// The schema itself, even where there is only a reference to it; what refers to it refers to
    /// the whole document then.
    fn root(&mut self, context: &Context, place: Place, view: View) -> Value {
        let place = context.canonical(place);
        self.names.insert((place, view), "#".to_owned());
        let mut writer = Writer::new(context, self);
        writer.schema(writer.at(place, view))
    }

    fn finish(mut self, context: &Context, root: Value) -> Value {
        let mut definitions = Map::new();
        while let Some((name, at)) = self.waiting.pop_front() {
            let schema = Writer::new(context, &mut self).schema(at);
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

impl Names for Keys {
    fn link(&mut self, at: At, reference: &str) -> String {
        let key = (at.place, at.view);
        if let Some(name) = self.names.get(&key) {
            return pointer(name);
        }
        let name = name::numbered(&mut self.taken, &name::plain(reference));
        self.names.insert(key, name.clone());
        self.waiting.push_back((name.clone(), At { depth: 0, ..at }));
        pointer(&name)
    }

    fn known(&mut self, place: Place, view: View) -> Option<String> {
        self.names.get(&(place, view)).map(|name| pointer(name))
    }
}

/// What a reference of a schema leads to.
///
/// # Errors
///
/// It leads nowhere, in a circle, or to something that is no schema.
pub(super) fn target(context: &Context, from: Place, reference: &str) -> Result<Place, String> {
    let library = &context.library;
    let left_out = |reason: String| format!("{reason}; the reference is left out");
    let target = library.resolve(from, reference).map_err(|error| left_out(error.to_string()))?;
    library.follow(target).map_err(|error| left_out(error.to_string()))?;
    match is_schema(library.node(target)) {
        true => Ok(target),
        false => Err(left_out(format!("`{reference}` leads to what is no schema"))),
    }
}

/// Whether a dialect of JSON Schema is one in which `$ref` stands alone.
pub(crate) fn hides_siblings(dialect: &str) -> bool {
    ["draft-03", "draft-04", "draft-05", "draft-06", "draft-07"]
        .iter()
        .any(|draft| dialect.contains(draft))
}

/// A limit that a flag beside it makes exclusive is an exclusive limit.
fn limit<'k>(keyword: &'k str, schema: Node<'_>) -> &'k str {
    let strict = match keyword {
        "minimum" => "exclusiveMinimum",
        _ => "exclusiveMaximum",
    };
    match schema.get(strict).and_then(Node::as_bool) {
        Some(true) => strict,
        _ => keyword,
    }
}

fn types(value: Node<'_>) -> Option<Value> {
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

/// Whether a part of a form is bytes by its schema.
pub(crate) fn is_bytes(schema: Node<'_>, view: View) -> bool {
    if view != View::Form {
        return false;
    }
    let text = |name| schema.get(name).and_then(Node::as_str);
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

/// Bytes are given as an object; what the schema says about a text does not hold for it.
fn become_binary(schema: &mut Map<String, Value>, view: View) {
    schema.retain(|keyword, _| matches!(keyword.as_str(), "title" | "description" | "deprecated"));
    if let Value::Object(binary) = binary(view) {
        schema.extend(binary);
    }
}

/// Whether `null` is one of several types.
fn takes_null(schema: Node<'_>) -> bool {
    let types = schema.get("type").into_iter().flat_map(Node::items);
    types.filter_map(Node::as_str).any(|name| name == "null")
}

/// Objects that are open fit more than one of several schemas, and the services that say `oneOf`
/// mean one that fits. Which one, the property that tells them apart says where the document maps its
/// texts.
fn choice(schema: &mut Map<String, Value>) {
    let discriminator = schema.get("discriminator").cloned();
    let is_choice = |schemas: &Value| schemas.as_array().is_some_and(|all| all.iter().any(is_open));
    if !schema.contains_key("anyOf") && schema.get("oneOf").is_some_and(is_choice) {
        let schemas = schema.shift_remove("oneOf").unwrap_or_default();
        schema.insert("anyOf".to_owned(), schemas);
    }
    let told =
        discriminator.as_ref().and_then(|it| Some((it.get("propertyName")?, it.get("mapping")?)));
    let Some((Value::String(property), Value::Object(mapping))) = told else { return };
    let Some(Value::Array(schemas)) = schema.get_mut("anyOf") else { return };
    for one in schemas {
        let Some(target) = one.get("$ref").cloned() else { continue };
        let texts = mapping.iter().filter(|(_, place)| **place == target);
        let texts: Vec<&str> = texts.map(|(text, _)| text.as_str()).collect();
        if !texts.is_empty() {
            *one = json!({"allOf": [one.take(), {"properties": {property: {"enum": texts}}}]});
        }
    }
}

/// Whether a schema is about objects that may have more than it names, as far as can be seen here.
fn is_open(schema: &Value) -> bool {
    ["$ref", "properties", "allOf"].iter().any(|keyword| schema.get(keyword).is_some())
}

/// A schema that tells others apart by a property without naming them is the base of those that
/// include it, so its values may have more than it names.
fn open_base(schema: &mut Map<String, Value>) {
    let is_base = schema.contains_key("discriminator")
        && !["oneOf", "anyOf", "additionalProperties", "unevaluatedProperties"]
            .iter()
            .any(|keyword| schema.contains_key(*keyword));
    if is_base && schema.contains_key("properties") {
        schema.insert("additionalProperties".to_owned(), true.into());
    }
}

fn pointer(name: &str) -> String {
    match name {
        "#" => "#".to_owned(),
        name => format!("#/$defs/{name}"),
    }
}
