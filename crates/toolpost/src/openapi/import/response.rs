//! Declared responses of an operation.

use std::sync::Arc;

use super::super::document::{NodeRef, TreeNode};
use super::super::plan::{ContentKind, DeclaredResponse, ResponseContent, StatusRange};
use super::super::schema::{DocumentPath, SchemaShape, SchemaUsage};
use super::Importer;
use super::media_type;
use super::version::SpecVersion;
use crate::spec::ErrorDefinition;

/// The planned responses of an operation.
pub(super) struct PlannedResponses {
    pub(super) responses: Vec<DeclaredResponse>,
    pub(super) output: SchemaShape,
    pub(super) errors: Vec<ErrorDefinition>,
    /// Whether a success response may be an event stream.
    pub(super) is_stream: bool,
}

/// A declared response as parsed from the document.
struct ParsedResponse<'l> {
    status: StatusRange,
    description: &'l str,
    /// Media types with the shape of their content.
    contents: Vec<(&'l str, SchemaShape)>,
}

impl<'l> Importer<'l> {
    pub(super) fn plan_responses(
        &mut self,
        operation: NodeRef,
        is_head: bool,
        doc_path: &DocumentPath<'_>,
    ) -> PlannedResponses {
        let mut declared = self.parse_responses(operation, &doc_path.member("responses"));
        if is_head {
            declared.iter_mut().for_each(|response| response.contents.clear());
        }
        declared.sort_by_key(|response| response.status);
        let has_success = declared.iter().any(|response| is_success(response.status));
        // If no success response is declared, `default` covers success as well.
        let counts = |response: &&ParsedResponse<'_>| {
            is_success(response.status) || (!has_success && response.status == StatusRange::Default)
        };
        let successes: Vec<&ParsedResponse<'_>> = declared.iter().filter(counts).collect();
        let is_stream = successes.iter().any(|response| {
            response.contents.iter().any(|(media_type, _)| media_type::is_event_stream(media_type))
        });
        let output = if is_head { SchemaShape::Null } else { output_shape(&successes, is_stream) };
        let errors = declared.iter().filter(|response| !counts(response));
        let errors: Vec<ErrorDefinition> =
            errors.filter_map(|response| self.error_definition(response)).collect();
        let responses = declared.into_iter().map(|response| {
            let is_error = !counts(&&response);
            self.declared_response(response, is_error)
        });
        PlannedResponses { responses: responses.collect(), output, errors, is_stream }
    }

    fn parse_responses(
        &mut self,
        operation: NodeRef,
        doc_path: &DocumentPath<'_>,
    ) -> Vec<ParsedResponse<'l>> {
        let documents = self.documents;
        let mut all: Vec<ParsedResponse<'l>> = Vec::new();
        let Some(responses) = documents.get(operation, "responses") else { return all };
        for (status, node) in documents.node(responses).members() {
            if status.starts_with("x-") {
                continue;
            }
            let doc_path = doc_path.member(status);
            let node_ref = documents.node_ref(responses, node);
            let Some(range) = parse_status_range(status) else {
                self.warn(&doc_path, format!("`{status}` is no status; the response is left out"));
                continue;
            };
            if let Some(node_ref) =
                self.resolve_object(node_ref, &doc_path, "the response is left out")
            {
                let declared = self.parse_response(operation, node_ref, range, &doc_path);
                all.push(declared);
            }
        }
        all
    }

    fn parse_response(
        &mut self,
        operation: NodeRef,
        node_ref: NodeRef,
        status: StatusRange,
        doc_path: &DocumentPath<'_>,
    ) -> ParsedResponse<'l> {
        let node = self.documents.node(node_ref);
        let description = node.get("description").and_then(TreeNode::as_str).unwrap_or_default();
        let contents = match self.version {
            SpecVersion::V2 => self.swagger_response_contents(operation, node_ref, doc_path),
            _ => self.response_contents(node_ref, doc_path),
        };
        ParsedResponse { status, description, contents }
    }

    fn response_contents(
        &mut self,
        response: NodeRef,
        doc_path: &DocumentPath<'_>,
    ) -> Vec<(&'l str, SchemaShape)> {
        let documents = self.documents;
        let mut contents = Vec::new();
        let Some(content) = documents.get(response, "content") else { return contents };
        let doc_path = doc_path.member("content");
        for (media_type, node) in documents.node(content).members() {
            let doc_path = doc_path.member(media_type);
            let media = documents.node_ref(content, node);
            if let Some(media) = self.resolve_object(media, &doc_path, "the media type is left out")
            {
                let schema = documents.get(media, "schema");
                let item = documents.get(media, "itemSchema");
                contents
                    .push((media_type, self.response_shape(media_type, schema, item, &doc_path)));
            }
        }
        contents
    }

    fn swagger_response_contents(
        &mut self,
        operation: NodeRef,
        response: NodeRef,
        doc_path: &DocumentPath<'_>,
    ) -> Vec<(&'l str, SchemaShape)> {
        let produces = self.media_types(operation, "produces");
        let schema = self.documents.get(response, "schema");
        let carries =
            |media_type: &&str| schema.is_some() || media_type::is_event_stream(media_type);
        let produces: Vec<&'l str> = produces.into_iter().filter(carries).collect();
        let mut contents = Vec::new();
        for media_type in produces {
            contents.push((media_type, self.response_shape(media_type, schema, None, doc_path)));
        }
        contents
    }

    fn response_shape(
        &mut self,
        media_type: &str,
        schema: Option<NodeRef>,
        item: Option<NodeRef>,
        doc_path: &DocumentPath<'_>,
    ) -> SchemaShape {
        if media_type::is_event_stream(media_type) {
            return self.event_shape(schema, item, doc_path);
        }
        let list = |shape| SchemaShape::ArrayOf(Box::new(shape));
        match (media_type::content_kind(media_type), schema, item) {
            (ContentKind::Text | ContentKind::Form, _, _) => SchemaShape::Text,
            (ContentKind::Binary | ContentKind::Multipart, _, _) => {
                SchemaShape::Binary(SchemaUsage::Response)
            }
            (ContentKind::JsonLines, _, Some(item)) | (_, None, Some(item)) => {
                list(self.schema_shape(item, SchemaUsage::Response, &doc_path.member("itemSchema")))
            }
            (ContentKind::JsonLines, Some(node_ref), None) if !self.is_array_schema(node_ref) => {
                list(self.schema_shape(node_ref, SchemaUsage::Response, &doc_path.member("schema")))
            }
            (_, Some(node_ref), _) => {
                self.schema_shape(node_ref, SchemaUsage::Response, &doc_path.member("schema"))
            }
            (_, None, None) => SchemaShape::Unknown,
        }
    }

    /// Returns the shape of the event data. OpenAPI 3.2 describes the whole event, whose `data` is
    /// a string that may contain JSON. In earlier versions the schema usually describes the JSON in
    /// each event, unless it only declares the stream as text.
    fn event_shape(
        &mut self,
        schema: Option<NodeRef>,
        item: Option<NodeRef>,
        doc_path: &DocumentPath<'_>,
    ) -> SchemaShape {
        match (schema, item) {
            (_, Some(item)) => self.event_data_shape(item, doc_path, 3),
            (Some(schema), None) if !self.is_container(schema) => {
                self.schema_shape(schema, SchemaUsage::Response, &doc_path.member("schema"))
            }
            _ => SchemaShape::Unknown,
        }
    }

    fn event_data_shape(
        &mut self,
        item: NodeRef,
        doc_path: &DocumentPath<'_>,
        hops: u32,
    ) -> SchemaShape {
        let documents = self.documents;
        let Ok(event) = documents.resolve_chain(item) else { return SchemaShape::Unknown };
        let node = documents.node(event);
        let variants = ["oneOf", "anyOf"].into_iter().find_map(|keyword| node.get(keyword));
        if let (Some(variants), Some(hops)) = (variants, hops.checked_sub(1)) {
            let node_refs = variants.items().map(|node| documents.node_ref(event, node));
            let node_refs: Vec<NodeRef> = node_refs.collect();
            return SchemaShape::any_of(
                node_refs
                    .into_iter()
                    .map(|node_ref| self.event_data_shape(node_ref, doc_path, hops)),
            );
        }
        match documents
            .get(event, "properties")
            .and_then(|properties| documents.get(properties, "data"))
        {
            Some(data) => {
                let content = documents
                    .resolve_chain(data)
                    .ok()
                    .and_then(|data| documents.get(data, "contentSchema"));
                content.map_or(SchemaShape::Unknown, |content| {
                    self.schema_shape(
                        content,
                        SchemaUsage::Response,
                        &doc_path.member("itemSchema"),
                    )
                })
            }
            None => self.schema_shape(item, SchemaUsage::Response, &doc_path.member("itemSchema")),
        }
    }

    fn is_container(&self, schema: NodeRef) -> bool {
        matches!(self.type_of(schema), Some("string" | "array" | "file"))
    }

    fn error_definition(&mut self, response: &ParsedResponse<'_>) -> Option<ErrorDefinition> {
        let code = error_code(response.status)?;
        let shape = preferred_shape(response, false);
        let error = ErrorDefinition::new(&*code, response.description);
        let error = error.with_schema(self.shared_schema(shape));
        Some(match response.status {
            StatusRange::Exactly(status) => error.with_http_status(status),
            _ => error,
        })
    }

    fn declared_response(
        &mut self,
        response: ParsedResponse<'_>,
        is_error: bool,
    ) -> DeclaredResponse {
        let code = error_code(response.status).filter(|_| is_error);
        let responses = response.contents.into_iter().map(|(media_type, shape)| ResponseContent {
            media_type: media_type.to_owned(),
            schema: self.shared_schema(shape),
        });
        DeclaredResponse { status: response.status, contents: responses.collect(), code }
    }
}

/// Returns the shape of the best declared media type, preferably JSON.
fn preferred_shape(response: &ParsedResponse<'_>, is_stream: bool) -> SchemaShape {
    let best = response.contents.iter().map(|(media_type, _)| rank(media_type)).min();
    let counts = |media_type: &str| {
        Some(rank(media_type)) == best || (is_stream && media_type::is_event_stream(media_type))
    };
    let shapes = response.contents.iter().filter(|(media_type, _)| counts(media_type));
    SchemaShape::any_of(shapes.map(|(_, shape)| shape.clone()))
}

/// Returns the preference of a media type. All JSON types are equal.
fn rank(media_type: &str) -> u8 {
    media_type::rank(media_type).max(1)
}

/// Returns the output shape of the success responses. Responses without content are ignored, except
/// for 204 and 205, which are null.
fn output_shape(successes: &[&ParsedResponse<'_>], is_stream: bool) -> SchemaShape {
    let shapes = successes.iter().filter_map(|response| match response.status {
        StatusRange::Exactly(204 | 205) => Some(SchemaShape::Null),
        _ if response.contents.is_empty() => None,
        _ => Some(preferred_shape(response, is_stream)),
    });
    SchemaShape::any_of(shapes)
}

fn is_success(status: StatusRange) -> bool {
    matches!(status, StatusRange::Exactly(200..=299) | StatusRange::Class(2))
}

/// Returns the error code of a response: `HTTP_404`, `HTTP_4XX`, or `HTTP_ERROR` for `default`.
/// Informational responses have none.
fn error_code(status: StatusRange) -> Option<Arc<str>> {
    match status {
        StatusRange::Exactly(100..=199) | StatusRange::Class(1) => None,
        StatusRange::Exactly(status) => Some(format!("HTTP_{status}").into()),
        StatusRange::Class(class) => Some(format!("HTTP_{class}XX").into()),
        StatusRange::Default => Some("HTTP_ERROR".into()),
    }
}

fn parse_status_range(status: &str) -> Option<StatusRange> {
    let status = status.trim();
    if status.eq_ignore_ascii_case("default") {
        return Some(StatusRange::Default);
    }
    let class = status.strip_suffix("XX").or_else(|| status.strip_suffix("xx"));
    match class {
        Some(class) => {
            class.parse().ok().filter(|class| (1..=5).contains(class)).map(StatusRange::Class)
        }
        None => {
            let status = status.parse().ok().filter(|status| (100..=599).contains(status));
            status.map(StatusRange::Exactly)
        }
    }
}
