//! Request bodies: their media types and schemas.

use super::super::document::Node;
use super::super::media_type::{self, MediaKind};
use super::super::plan::{BodyContent, ParameterLocation, PropertyEncoding, RequestBody};
use super::super::schema::{SchemaShape, SchemaUsage, is_binary};
use super::Importer;
use super::form::property_encoding;
use super::parameter::{RawParameter, RawParameterLocation, collection_style};
use super::version::SpecVersion;
use crate::json::ValuePath;

/// A request body and the shape of its schema.
pub(super) struct PlannedBody<'l> {
    pub(super) body: RequestBody,
    pub(super) shape: SchemaShape,
    /// The node that describes the body.
    pub(super) described_at: Option<Node<'l>>,
}

/// A media type that the body can be sent as, and the shape of its schema.
type BodyCandidate = (BodyContent, SchemaShape);

impl<'l> Importer<'l> {
    /// Plans the body of an operation, if it has one.
    pub(super) fn body(
        &mut self,
        operation: Node<'l>,
        parameters: &[RawParameter<'l>],
        path: &ValuePath<'_>,
    ) -> Result<Option<PlannedBody<'l>>, String> {
        if self.version == SpecVersion::V2 {
            return Ok(self.swagger_body(operation, parameters, path));
        }
        let Some(node) = operation.get("requestBody") else { return Ok(None) };
        let node = node
            .target()
            .map_err(|error| format!("its request body cannot be resolved: {error}"))?;
        if !node.is_object() {
            return Ok(None);
        }
        let candidates = self.body_candidates(node, &path.member("requestBody").member("content"));
        Ok(Some(plan_body(candidates, node.flag("required"), Some(node))))
    }

    fn body_candidates(&mut self, body: Node<'l>, path: &ValuePath<'_>) -> Vec<BodyCandidate> {
        let mut candidates = Vec::new();
        for (media_type, media) in body.members_of("content") {
            let path = path.member(media_type);
            if let Some(media) = self.resolve_object(media, &path, "the media type is ignored") {
                candidates.push(self.body_candidate(media_type, media, &path));
            }
        }
        if candidates.is_empty() {
            self.warn(path, "the body declares no media type; it is sent as JSON");
            candidates.push(candidate(MediaKind::Json, "application/json", SchemaShape::Unknown));
        }
        candidates
    }

    fn body_candidate(
        &mut self,
        media_type: &str,
        media: Node<'l>,
        path: &ValuePath<'_>,
    ) -> BodyCandidate {
        let binary = SchemaShape::Binary(SchemaUsage::Request);
        let kind = MediaKind::of_request(media_type);
        let usage = match kind {
            MediaKind::Form => SchemaUsage::Form,
            MediaKind::Multipart => SchemaUsage::Multipart,
            MediaKind::Text => SchemaUsage::Part,
            _ => SchemaUsage::Request,
        };
        let shape = match (kind, media.get("schema")) {
            (MediaKind::Binary, _) => binary,
            (MediaKind::Text, Some(schema)) if has_type(schema, &["string"]) => {
                self.schema_shape(schema, usage, &path.member("schema"))
            }
            (MediaKind::Text, _) => SchemaShape::Text(usage),
            (MediaKind::Json, Some(schema)) if is_binary_wildcard(media_type, schema) => {
                return candidate(MediaKind::Binary, media_type, binary);
            }
            _ => self.media_shape(kind, media, usage, path),
        };
        let (mut content, shape) = candidate(kind, media_type, shape);
        if matches!(kind, MediaKind::Form | MediaKind::Multipart) {
            content.encodings = self.property_encodings(media, path);
        }
        (content, shape)
    }

    /// Returns the shape of the schema of a media type, which may describe one value of a list.
    pub(super) fn media_shape(
        &mut self,
        kind: MediaKind,
        media: Node<'l>,
        usage: SchemaUsage,
        path: &ValuePath<'_>,
    ) -> SchemaShape {
        let (schema, item) = (media.get("schema"), media.get("itemSchema"));
        let list = |shape| SchemaShape::ArrayOf(Box::new(shape));
        match (schema, item) {
            (Some(schema), None) if kind.is_json_list() && !has_type(schema, &["array"]) => {
                list(self.schema_shape(schema, usage, &path.member("schema")))
            }
            (schema, Some(item))
                if schema.is_none() || kind.is_json_list() && usage == SchemaUsage::Response =>
            {
                list(self.schema_shape(item, usage, &path.member("itemSchema")))
            }
            (Some(schema), _) => self.schema_shape(schema, usage, &path.member("schema")),
            (None, _) => SchemaShape::Unknown,
        }
    }

    fn swagger_body(
        &mut self,
        operation: Node<'l>,
        parameters: &[RawParameter<'l>],
        path: &ValuePath<'_>,
    ) -> Option<PlannedBody<'l>> {
        let is_field = |raw: &&RawParameter<'_>| raw.location == RawParameterLocation::FormData;
        let fields: Vec<Node<'l>> =
            parameters.iter().filter(is_field).map(|raw| raw.node).collect();
        if !fields.is_empty() {
            return Some(self.swagger_form(operation, &fields, path));
        }
        let raw = parameters.iter().find(|raw| raw.location == RawParameterLocation::Body)?;
        let mut candidates = Vec::new();
        for media_type in self.media_types(operation, "consumes") {
            let (kind, shape) = match MediaKind::of_request(media_type) {
                MediaKind::Binary => (MediaKind::Binary, SchemaShape::Binary(SchemaUsage::Request)),
                MediaKind::Text => (MediaKind::Text, SchemaShape::Text(SchemaUsage::Part)),
                kind => {
                    // A body parameter has no form fields, so it is sent as JSON.
                    let is_form = matches!(kind, MediaKind::Form | MediaKind::Multipart);
                    let schema = raw.node.get("schema").map(|schema| {
                        self.schema_shape(schema, SchemaUsage::Request, &path.member("schema"))
                    });
                    let kind = if is_form { MediaKind::Json } else { kind };
                    (kind, schema.unwrap_or(SchemaShape::Unknown))
                }
            };
            candidates.push(candidate(kind, media_type, shape));
        }
        Some(plan_body(candidates, raw.node.flag("required"), Some(raw.node)))
    }

    fn swagger_form(
        &mut self,
        operation: Node<'l>,
        fields: &[Node<'l>],
        path: &ValuePath<'_>,
    ) -> PlannedBody<'l> {
        let has_file = fields.iter().any(|field| field.text("type") == Some("file"));
        let mut media_types = self.media_types(operation, "consumes");
        media_types.retain(|media_type| match MediaKind::of_request(media_type) {
            MediaKind::Multipart => true,
            MediaKind::Form => !has_file,
            _ => false,
        });
        if media_types.is_empty() {
            media_types.push(match has_file {
                true => "multipart/form-data",
                false => "application/x-www-form-urlencoded",
            });
        }
        let mut encodings = Vec::new();
        for field in fields {
            let name = field.text("name").unwrap_or_default();
            let path = path.member("parameters");
            self.checker.check_parameter(&self.context, *field, &path.member(name));
            encodings.extend(field_encoding(*field));
        }
        let is_multipart =
            media_types.iter().any(|one| MediaKind::of_request(one) == MediaKind::Multipart);
        let usage = if is_multipart { SchemaUsage::Part } else { SchemaUsage::Field };
        let nodes = fields.iter().map(|field| field.node_ref()).collect();
        let shape = SchemaShape::SwaggerForm(nodes, usage);
        let candidates = media_types.into_iter().map(|media_type| {
            let kind = MediaKind::of_request(media_type);
            let (content, shape) = candidate(kind, media_type, shape.clone());
            (BodyContent { encodings: encodings.clone(), ..content }, shape)
        });
        let required = fields.iter().any(|field| field.flag("required"));
        plan_body(candidates.collect(), required, None)
    }
}

fn plan_body(
    mut candidates: Vec<BodyCandidate>,
    required: bool,
    described_at: Option<Node<'_>>,
) -> PlannedBody<'_> {
    candidates.sort_by_key(|(content, _)| match content.kind {
        // A form with binary properties ranks after multipart.
        MediaKind::Form if content.encodings.iter().any(|encoding| encoding.is_binary) => 5,
        _ => media_type::rank(&content.media_type),
    });
    let has_structured = candidates
        .iter()
        .any(|(content, _)| !matches!(content.kind, MediaKind::Text | MediaKind::Binary));
    // Plain text adds no alternative to the schema if there is a structured media type, and a form
    // adds none to the same form as multipart.
    let counts = |(content, shape): &&BodyCandidate| match shape {
        SchemaShape::Text(_) => !has_structured || content.kind != MediaKind::Text,
        SchemaShape::Schema(node, SchemaUsage::Form) => {
            let multipart = SchemaShape::Schema(*node, SchemaUsage::Multipart);
            candidates.iter().all(|(_, shape)| *shape != multipart)
        }
        _ => true,
    };
    let shape =
        SchemaShape::any_of(candidates.iter().filter(counts).map(|(_, shape)| shape.clone()));
    let contents = candidates.into_iter().map(|(content, _)| content);
    let body = RequestBody { input: "body".to_owned(), required, contents: contents.collect() };
    PlannedBody { body, shape, described_at }
}

fn candidate(kind: MediaKind, media_type: &str, shape: SchemaShape) -> BodyCandidate {
    let media_type = media_type.to_owned();
    (BodyContent { media_type, kind, encodings: Vec::new() }, shape)
}

/// Whether a media type is a wildcard whose schema declares binary data.
fn is_binary_wildcard(media_type: &str, schema: Node<'_>) -> bool {
    matches!(media_type::essence(media_type), "*/*" | "application/*")
        && schema.target().is_ok_and(|schema| is_binary(schema))
}

/// Whether a schema has one of these types.
pub(super) fn has_type(schema: Node<'_>, types: &[&str]) -> bool {
    let schema = schema.target().ok();
    schema.and_then(|schema| schema.text("type")).is_some_and(|own| types.contains(&own))
}

/// Returns the encoding of a Swagger 2.0 form field. Only arrays and files need one.
fn field_encoding(field: Node<'_>) -> Option<PropertyEncoding> {
    let name = field.text("name")?;
    match field.text("type") {
        Some("file") => Some(property_encoding(name, true)),
        Some("array") => {
            let (style, explode) = collection_style(field, ParameterLocation::Query);
            let style = Some((style, explode, false));
            Some(PropertyEncoding { style, ..property_encoding(name, false) })
        }
        _ => None,
    }
}
