//! Request bodies: their media types and schemas.

use super::super::document::{NodeRef, TreeNode};
use super::super::plan::{
    BodyContent, ContentKind, ParameterLocation, PropertyEncoding, RequestBody,
};
use super::super::schema::{DocumentPath, SchemaShape, SchemaUsage};
use super::Importer;
use super::form::FormProperty;
use super::media_type;
use super::parameter::{RawParameter, RawParameterLocation, collection_style};
use super::version::SpecVersion;

/// A request body and the shape of its schema.
pub(super) struct PlannedBody {
    pub(super) body: RequestBody,
    pub(super) shape: SchemaShape,
    /// The node that describes the body.
    pub(super) described_at: Option<NodeRef>,
}

/// A media type that the body can be sent as.
struct BodyCandidate {
    media_type: String,
    kind: ContentKind,
    shape: SchemaShape,
    encodings: Vec<PropertyEncoding>,
}

impl<'l> Importer<'l> {
    /// Plans the body of an operation, if it has one.
    ///
    /// # Errors
    ///
    /// The operation has a body whose definition cannot be resolved.
    pub(super) fn body(
        &mut self,
        operation: NodeRef,
        parameters: &[RawParameter<'l>],
        doc_path: &DocumentPath<'_>,
    ) -> Result<Option<PlannedBody>, String> {
        if self.version == SpecVersion::V2 {
            return Ok(self.swagger_body(operation, parameters, doc_path));
        }
        let Some(node_ref) = self.documents.get(operation, "requestBody") else { return Ok(None) };
        let node_ref = self
            .documents
            .resolve_chain(node_ref)
            .map_err(|error| format!("the body of its request is not known: {error}"))?;
        let node = self.documents.node(node_ref);
        if !node.is_object() {
            return Ok(None);
        }
        let required = node.get("required").and_then(TreeNode::as_bool) == Some(true);
        let doc_path = doc_path.member("requestBody");
        let candidates = self.body_candidates(node_ref, &doc_path.member("content"));
        Ok(Some(self.plan_body(candidates, required, Some(node_ref))))
    }

    fn body_candidates(
        &mut self,
        node_ref: NodeRef,
        doc_path: &DocumentPath<'_>,
    ) -> Vec<BodyCandidate> {
        let documents = self.documents;
        let mut candidates = Vec::new();
        let content = documents.get(node_ref, "content");
        for (media_type, node) in
            content.into_iter().flat_map(|content| documents.node(content).members())
        {
            let doc_path = doc_path.member(media_type);
            let media = documents.node_ref(node_ref, node);
            if let Some(media) = self.resolve_object(media, &doc_path, "the media type is left out")
            {
                candidates.push(self.body_candidate(media_type, media, &doc_path));
            }
        }
        if candidates.is_empty() {
            self.warn(doc_path, "the body names no media type; it is sent as JSON");
            candidates.push(simple_candidate(
                ContentKind::Json,
                "application/json",
                SchemaShape::Unknown,
            ));
        }
        candidates
    }

    fn body_candidate(
        &mut self,
        media_type: &str,
        media: NodeRef,
        doc_path: &DocumentPath<'_>,
    ) -> BodyCandidate {
        let schema = self.documents.get(media, "schema");
        let item = self.documents.get(media, "itemSchema");
        let kind = media_type::content_kind(media_type);
        let shape = match (kind, schema, item) {
            (ContentKind::Binary, _, _) => SchemaShape::Binary(SchemaUsage::Request),
            (ContentKind::Text, schema, _) => match schema
                .filter(|node_ref| self.is_string_schema(*node_ref))
            {
                Some(node_ref) => {
                    self.schema_shape(node_ref, SchemaUsage::Request, &doc_path.member("schema"))
                }
                None => SchemaShape::Text,
            },
            (ContentKind::Form | ContentKind::Multipart, Some(node_ref), _) => {
                self.schema_shape(node_ref, SchemaUsage::Form, &doc_path.member("schema"))
            }
            (_, Some(node_ref), _) if self.is_binary_wildcard(media_type, node_ref) => {
                return simple_candidate(
                    ContentKind::Binary,
                    media_type,
                    SchemaShape::Binary(SchemaUsage::Request),
                );
            }
            (ContentKind::JsonLines, Some(node_ref), None) if !self.is_array_schema(node_ref) => {
                let item =
                    self.schema_shape(node_ref, SchemaUsage::Request, &doc_path.member("schema"));
                SchemaShape::ArrayOf(Box::new(item))
            }
            (_, Some(node_ref), _) => {
                self.schema_shape(node_ref, SchemaUsage::Request, &doc_path.member("schema"))
            }
            (_, None, Some(item)) => {
                let item =
                    self.schema_shape(item, SchemaUsage::Request, &doc_path.member("itemSchema"));
                SchemaShape::ArrayOf(Box::new(item))
            }
            (_, None, None) => SchemaShape::Unknown,
        };
        let encodings = match kind {
            ContentKind::Form | ContentKind::Multipart => self.property_encodings(media, doc_path),
            _ => Vec::new(),
        };
        BodyCandidate { encodings, ..simple_candidate(kind, media_type, shape) }
    }

    /// Whether a media type is a wildcard whose schema declares binary data.
    fn is_binary_wildcard(&self, media_type: &str, schema: NodeRef) -> bool {
        let is_range = matches!(media_type::essence(media_type).as_str(), "*/*" | "application/*");
        let node =
            self.documents.resolve_chain(schema).map(|node_ref| self.documents.node(node_ref));
        is_range && node.is_ok_and(|node| super::super::schema::is_binary(node, SchemaUsage::Form))
    }

    fn is_string_schema(&self, schema: NodeRef) -> bool {
        self.type_of(schema) == Some("string")
    }

    /// Whether the schema describes the whole sequence instead of one record.
    pub(super) fn is_array_schema(&self, schema: NodeRef) -> bool {
        self.type_of(schema) == Some("array")
    }

    pub(super) fn type_of(&self, schema: NodeRef) -> Option<&'l str> {
        let node_ref = self.documents.resolve_chain(schema).ok()?;
        self.documents.node(node_ref).get("type")?.as_str()
    }

    fn plan_body(
        &self,
        mut candidates: Vec<BodyCandidate>,
        required: bool,
        described: Option<NodeRef>,
    ) -> PlannedBody {
        let has_bytes = |candidate: &BodyCandidate| {
            candidate.encodings.iter().any(|encoding| encoding.is_binary)
        };
        candidates.sort_by_key(|candidate| match candidate.kind {
            // A form with binary properties ranks after multipart.
            ContentKind::Form if has_bytes(candidate) => 5,
            _ => media_type::rank(&candidate.media_type),
        });
        let is_structured = |candidate: &BodyCandidate| {
            !matches!(candidate.kind, ContentKind::Text | ContentKind::Binary)
        };
        let has_structured = candidates.iter().any(is_structured);
        // Plain text adds no alternative to the schema if there is a structured media type.
        let counts = |candidate: &&BodyCandidate| {
            !(has_structured
                && candidate.kind == ContentKind::Text
                && candidate.shape == SchemaShape::Text)
        };
        let shape = SchemaShape::any_of(
            candidates.iter().filter(counts).map(|candidate| candidate.shape.clone()),
        );
        let contents = candidates.into_iter().map(content).collect();
        let body = RequestBody { input: "body".to_owned(), required, contents };
        PlannedBody { body, shape, described_at: described }
    }

    fn swagger_body(
        &mut self,
        operation: NodeRef,
        parameters: &[RawParameter<'l>],
        doc_path: &DocumentPath<'_>,
    ) -> Option<PlannedBody> {
        let fields: Vec<NodeRef> = parameters
            .iter()
            .filter(|raw| raw.location == RawParameterLocation::FormData)
            .map(|raw| raw.node_ref)
            .collect();
        if !fields.is_empty() {
            return Some(self.swagger_form(operation, &fields, doc_path));
        }
        let raw = parameters.iter().find(|raw| raw.location == RawParameterLocation::Body)?;
        let node = self.documents.node(raw.node_ref);
        let required = node.get("required").and_then(TreeNode::as_bool) == Some(true);
        let schema = self.documents.get(raw.node_ref, "schema");
        let mut candidates = Vec::new();
        for media_type in self.media_types(operation, "consumes") {
            let kind = match media_type::content_kind(media_type) {
                // A body parameter has no form fields, so it is sent as JSON.
                ContentKind::Form | ContentKind::Multipart => ContentKind::Json,
                kind => kind,
            };
            let shape = match (kind, schema) {
                (ContentKind::Binary, _) => SchemaShape::Binary(SchemaUsage::Request),
                (ContentKind::Text, _) => SchemaShape::Text,
                (_, Some(node_ref)) => {
                    self.schema_shape(node_ref, SchemaUsage::Request, &doc_path.member("schema"))
                }
                (_, None) => SchemaShape::Unknown,
            };
            candidates.push(simple_candidate(kind, media_type, shape));
        }
        Some(self.plan_body(candidates, required, Some(raw.node_ref)))
    }

    fn swagger_form(
        &mut self,
        operation: NodeRef,
        fields: &[NodeRef],
        doc_path: &DocumentPath<'_>,
    ) -> PlannedBody {
        let documents = self.documents;
        let is_file = |node_ref: &NodeRef| {
            documents.node(*node_ref).get("type").and_then(TreeNode::as_str) == Some("file")
        };
        let has_file = fields.iter().any(is_file);
        let mut kinds: Vec<&str> = self.media_types(operation, "consumes");
        kinds.retain(|media_type| match media_type::content_kind(media_type) {
            ContentKind::Multipart => true,
            ContentKind::Form => !has_file,
            _ => false,
        });
        if kinds.is_empty() {
            kinds.push(if has_file {
                "multipart/form-data"
            } else {
                "application/x-www-form-urlencoded"
            });
        }
        let mut encodings = Vec::new();
        let mut required = false;
        for node_ref in fields {
            let node = documents.node(*node_ref);
            let name = node.get("name").and_then(TreeNode::as_str).unwrap_or_default();
            self.checker.check_parameter(
                &self.context,
                *node_ref,
                &doc_path.member("parameters").member(name),
            );
            required |= node.get("required").and_then(TreeNode::as_bool) == Some(true);
            encodings.extend(field_encoding(node));
        }
        let shape = SchemaShape::SwaggerForm(fields.into());
        let candidate = |media_type: &&str| BodyCandidate {
            encodings: encodings.clone(),
            ..simple_candidate(media_type::content_kind(media_type), media_type, shape.clone())
        };
        let candidates = kinds.iter().map(candidate).collect();
        self.plan_body(candidates, required, None)
    }
}

/// Converts a candidate to the planned content. A wildcard range that includes JSON becomes
/// `application/json`.
fn content(candidate: BodyCandidate) -> BodyContent {
    let is_any =
        matches!(media_type::essence(&candidate.media_type).as_str(), "*/*" | "application/*" | "");
    let media_type = match candidate.kind {
        ContentKind::Json if is_any => "application/json".to_owned(),
        _ => candidate.media_type,
    };
    BodyContent { media_type, kind: candidate.kind, encodings: candidate.encodings }
}

fn simple_candidate(kind: ContentKind, media_type: &str, shape: SchemaShape) -> BodyCandidate {
    BodyCandidate { media_type: media_type.to_owned(), kind, shape, encodings: Vec::new() }
}

/// Returns the encoding of a Swagger 2.0 form field. Only arrays and files need one.
fn field_encoding(node: TreeNode<'_>) -> Option<PropertyEncoding> {
    let property = node.get("name")?.as_str()?.to_owned();
    let kind = node.get("type").and_then(TreeNode::as_str);
    let (style, explode) = collection_style(node, ParameterLocation::Query);
    let fields = FormProperty { property, is_binary: kind == Some("file") };
    match kind {
        Some("file") => Some(fields.encoding(None)),
        Some("array") => Some(fields.encoding(Some((style, explode, false)))),
        _ => None,
    }
}
