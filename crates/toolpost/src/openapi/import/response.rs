//! Declared responses of an operation.

use std::sync::Arc;

use super::super::document::Node;
use super::super::media_type::{self, MediaKind};
use super::super::plan::{DeclaredResponse, ResponseContent, StatusRange};
use super::super::schema::{SchemaShape, SchemaUsage};
use super::Importer;
use super::body::has_type;
use super::version::SpecVersion;
use crate::json::ValuePath;
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
        operation: Node<'l>,
        is_head: bool,
        path: &ValuePath<'_>,
    ) -> PlannedResponses {
        let mut declared = self.parse_responses(operation, &path.member("responses"));
        if is_head {
            declared.iter_mut().for_each(|response| response.contents.clear());
        }
        declared.sort_by_key(|response| response.status);
        let has_success = declared.iter().any(|response| response.status.is_success());
        // If no success response is declared, `default` covers success as well.
        let counts = |response: &&ParsedResponse<'_>| {
            response.status.is_success()
                || (!has_success && response.status == StatusRange::Default)
        };
        let successes: Vec<&ParsedResponse<'_>> = declared.iter().filter(counts).collect();
        let is_stream = successes.iter().any(|response| {
            response.contents.iter().any(|(media_type, _)| is_event_stream(media_type))
        });
        let output = if is_head { SchemaShape::Null } else { output_shape(&successes, is_stream) };
        let errors = declared.iter().filter(|response| !counts(response));
        let errors: Vec<ErrorDefinition> =
            errors.filter_map(|response| self.error_definition(response)).collect();
        let responses = declared.into_iter().map(|response| {
            let code = error_code(response.status).filter(|_| !counts(&&response));
            let contents =
                response.contents.into_iter().map(|(media_type, shape)| ResponseContent {
                    media_type: media_type.to_owned(),
                    schema: self.shared_schema(shape),
                });
            DeclaredResponse { status: response.status, contents: contents.collect(), code }
        });
        PlannedResponses { responses: responses.collect(), output, errors, is_stream }
    }

    fn parse_responses(
        &mut self,
        operation: Node<'l>,
        path: &ValuePath<'_>,
    ) -> Vec<ParsedResponse<'l>> {
        let mut all = Vec::new();
        for (status, node) in operation.members_of("responses") {
            if status.starts_with("x-") {
                continue;
            }
            let path = path.member(status);
            let Some(range) = parse_status_range(status) else {
                self.warn(
                    &path,
                    format!("`{status}` is not a status code; the response is ignored"),
                );
                continue;
            };
            if let Some(node) = self.resolve_object(node, &path, "the response is ignored") {
                let contents = match self.version {
                    SpecVersion::V2 => self.swagger_response_contents(operation, node, &path),
                    _ => self.response_contents(node, &path),
                };
                let description = node.text("description").unwrap_or_default();
                all.push(ParsedResponse { status: range, description, contents });
            }
        }
        all
    }

    fn response_contents(
        &mut self,
        response: Node<'l>,
        path: &ValuePath<'_>,
    ) -> Vec<(&'l str, SchemaShape)> {
        let mut contents = Vec::new();
        let path = path.member("content");
        for (media_type, media) in response.members_of("content") {
            let path = path.member(media_type);
            if let Some(media) = self.resolve_object(media, &path, "the media type is ignored") {
                contents.push((media_type, self.response_shape(media_type, media, &path)));
            }
        }
        contents
    }

    /// A response of Swagger 2.0 has a schema like a media type.
    fn swagger_response_contents(
        &mut self,
        operation: Node<'l>,
        response: Node<'l>,
        path: &ValuePath<'_>,
    ) -> Vec<(&'l str, SchemaShape)> {
        let has_schema = response.get("schema").is_some();
        let mut produces = self.media_types(operation, "produces");
        produces.retain(|media_type| has_schema || is_event_stream(media_type));
        let shapes = produces
            .into_iter()
            .map(|media_type| (media_type, self.response_shape(media_type, response, path)));
        shapes.collect()
    }

    fn response_shape(
        &mut self,
        media_type: &str,
        media: Node<'l>,
        path: &ValuePath<'_>,
    ) -> SchemaShape {
        if is_event_stream(media_type) {
            return self.event_shape(media, path);
        }
        match MediaKind::of_request(media_type) {
            MediaKind::Text | MediaKind::Form => SchemaShape::Text(SchemaUsage::Response),
            MediaKind::Binary | MediaKind::Multipart => SchemaShape::Binary(SchemaUsage::Response),
            kind => self.media_shape(kind, media, SchemaUsage::Response, path),
        }
    }

    /// Returns the shape of the event data. OpenAPI 3.2 describes the whole event, whose `data` is
    /// a string that may contain JSON. In earlier versions the schema usually describes the JSON in
    /// each event, unless it only declares the stream as text.
    fn event_shape(&mut self, media: Node<'l>, path: &ValuePath<'_>) -> SchemaShape {
        match (media.get("schema"), media.get("itemSchema")) {
            (_, Some(item)) => self.event_data_shape(item, &path.member("itemSchema"), 3),
            (Some(schema), None) if !has_type(schema, &["string", "array", "file"]) => {
                self.schema_shape(schema, SchemaUsage::Response, &path.member("schema"))
            }
            _ => SchemaShape::Unknown,
        }
    }

    fn event_data_shape(&mut self, item: Node<'l>, path: &ValuePath<'_>, hops: u32) -> SchemaShape {
        let Ok(event) = item.target() else { return SchemaShape::Unknown };
        let variants = ["oneOf", "anyOf"].into_iter().find_map(|keyword| event.get(keyword));
        if let (Some(variants), Some(hops)) = (variants, hops.checked_sub(1)) {
            let shapes = variants.items().map(|variant| self.event_data_shape(variant, path, hops));
            return SchemaShape::any_of(shapes.collect::<Vec<_>>());
        }
        let schema = match event.get("properties").and_then(|properties| properties.get("data")) {
            Some(data) => data.target().ok().and_then(|data| data.get("contentSchema")),
            None => Some(item),
        };
        schema.map_or(SchemaShape::Unknown, |schema| {
            self.schema_shape(schema, SchemaUsage::Response, path)
        })
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
}

fn is_event_stream(media_type: &str) -> bool {
    MediaKind::from_content_type(media_type) == MediaKind::EventStream
}

/// Returns the shape of the best declared media type, preferably JSON.
fn preferred_shape(response: &ParsedResponse<'_>, is_stream: bool) -> SchemaShape {
    let best = response.contents.iter().map(|(media_type, _)| rank(media_type)).min();
    let counts = |media_type: &str| {
        Some(rank(media_type)) == best || (is_stream && is_event_stream(media_type))
    };
    let shapes = response.contents.iter().filter(|(media_type, _)| counts(media_type));
    SchemaShape::any_of(shapes.map(|(_, shape)| shape.clone()))
}

/// Returns the preference of a media type. All JSON types are equal.
fn rank(media_type: &str) -> u8 {
    media_type::rank(media_type).max(1)
}

/// Returns the output shape of the success responses with content, or null for 204 and 205.
fn output_shape(successes: &[&ParsedResponse<'_>], is_stream: bool) -> SchemaShape {
    let shapes = successes.iter().filter_map(|response| match response.status {
        StatusRange::Exactly(204 | 205) => Some(SchemaShape::Null),
        _ if response.contents.is_empty() => None,
        _ => Some(preferred_shape(response, is_stream)),
    });
    SchemaShape::any_of(shapes)
}

/// Returns the error code of a response: `HTTP_404`, `HTTP_4XX`, or `HTTP_ERROR`.
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
    match (class, class.unwrap_or(status).parse().ok()?) {
        (Some(_), class @ 1..=5) => Some(StatusRange::Class(class)),
        (None, status @ 100..=599) => Some(StatusRange::Exactly(status)),
        _ => None,
    }
}
