//! What a service may answer with.

use std::sync::Arc;

use super::super::document::{Node, Place};
use super::super::plan::{Answer, ContentKind, Response, StatusRange};
use super::super::schema::{Shape, Spot, View};
use super::Importer;
use super::media;
use super::version::Version;
use crate::spec::ErrorDefinition;

/// The answers of an operation.
pub(super) struct Responses {
    pub(super) responses: Vec<Response>,
    pub(super) output: Shape,
    pub(super) errors: Vec<ErrorDefinition>,
    /// Whether a success may be a stream of events.
    pub(super) is_stream: bool,
}

/// A declared answer before it is sorted out.
struct Declared<'l> {
    status: StatusRange,
    description: &'l str,
    /// Media types with what they carry.
    contents: Vec<(&'l str, Shape)>,
}

impl<'l> Importer<'l> {
    pub(super) fn responses(
        &mut self,
        operation: Place,
        is_head: bool,
        spot: &Spot<'_>,
    ) -> Responses {
        let mut declared = self.declared(operation, &spot.member("responses"));
        if is_head {
            declared.iter_mut().for_each(|response| response.contents.clear());
        }
        declared.sort_by_key(|response| response.status);
        let has_success = declared.iter().any(|response| is_success(response.status));
        // A document that only has a default means everything by it.
        let counts = |response: &&Declared<'_>| {
            is_success(response.status) || (!has_success && response.status == StatusRange::Default)
        };
        let successes: Vec<&Declared<'_>> = declared.iter().filter(counts).collect();
        let is_stream = successes.iter().any(|response| {
            response.contents.iter().any(|(media_type, _)| media::is_event_stream(media_type))
        });
        let output = if is_head { Shape::Null } else { output(&successes, is_stream) };
        let errors = declared.iter().filter(|response| !counts(response));
        let errors: Vec<ErrorDefinition> =
            errors.filter_map(|response| self.error(response)).collect();
        let responses = declared.into_iter().map(|response| {
            let is_error = !counts(&&response);
            self.response(response, is_error)
        });
        Responses { responses: responses.collect(), output, errors, is_stream }
    }

    fn declared(&mut self, operation: Place, spot: &Spot<'_>) -> Vec<Declared<'l>> {
        let library = self.library;
        let mut all: Vec<Declared<'l>> = Vec::new();
        let Some(responses) = library.get(operation, "responses") else { return all };
        for (status, node) in library.node(responses).members() {
            if status.starts_with("x-") {
                continue;
            }
            let spot = spot.member(status);
            let place = library.beside(responses, node);
            let Some(range) = status_range(status) else {
                self.warn(&spot, format!("`{status}` is no status; the response is left out"));
                continue;
            };
            if let Some(place) = self.follow(place, &spot, "the response is left out") {
                let declared = self.declared_one(operation, place, range, &spot);
                all.push(declared);
            }
        }
        all
    }

    fn declared_one(
        &mut self,
        operation: Place,
        place: Place,
        status: StatusRange,
        spot: &Spot<'_>,
    ) -> Declared<'l> {
        let node = self.library.node(place);
        let description = node.get("description").and_then(Node::as_str).unwrap_or_default();
        let contents = match self.version {
            Version::V2 => self.swagger_contents(operation, place, spot),
            _ => self.contents(place, spot),
        };
        Declared { status, description, contents }
    }

    fn contents(&mut self, response: Place, spot: &Spot<'_>) -> Vec<(&'l str, Shape)> {
        let library = self.library;
        let mut contents = Vec::new();
        let Some(content) = library.get(response, "content") else { return contents };
        let spot = spot.member("content");
        for (media_type, node) in library.node(content).members() {
            let spot = spot.member(media_type);
            let media = library.beside(content, node);
            if let Some(media) = self.follow(media, &spot, "the media type is left out") {
                let schema = library.get(media, "schema");
                let item = library.get(media, "itemSchema");
                contents.push((media_type, self.answer(media_type, schema, item, &spot)));
            }
        }
        contents
    }

    fn swagger_contents(
        &mut self,
        operation: Place,
        response: Place,
        spot: &Spot<'_>,
    ) -> Vec<(&'l str, Shape)> {
        let produces = self.media_types(operation, "produces");
        let schema = self.library.get(response, "schema");
        let carries = |media_type: &&str| schema.is_some() || media::is_event_stream(media_type);
        let produces: Vec<&'l str> = produces.into_iter().filter(carries).collect();
        let mut contents = Vec::new();
        for media_type in produces {
            contents.push((media_type, self.answer(media_type, schema, None, spot)));
        }
        contents
    }

    fn answer(
        &mut self,
        media_type: &str,
        schema: Option<Place>,
        item: Option<Place>,
        spot: &Spot<'_>,
    ) -> Shape {
        if media::is_event_stream(media_type) {
            return self.event(schema, item, spot);
        }
        let list = |shape| Shape::ListOf(Box::new(shape));
        match (media::kind(media_type), schema, item) {
            (ContentKind::Text | ContentKind::Form, _, _) => Shape::Text,
            (ContentKind::Binary | ContentKind::Multipart, _, _) => Shape::Binary(View::Response),
            (ContentKind::JsonLines, _, Some(item)) | (_, None, Some(item)) => {
                list(self.seen(item, View::Response, &spot.member("itemSchema")))
            }
            (ContentKind::JsonLines, Some(place), None) if !self.is_list(place) => {
                list(self.seen(place, View::Response, &spot.member("schema")))
            }
            (_, Some(place), _) => self.seen(place, View::Response, &spot.member("schema")),
            (_, None, None) => Shape::Unknown,
        }
    }

    /// What the data of an event looks like. OpenAPI 3.2 describes the whole event, whose `data` is a
    /// text that may hold JSON; before that a schema is mostly that of the JSON in each event, except
    /// where it only says that a stream is text.
    fn event(&mut self, schema: Option<Place>, item: Option<Place>, spot: &Spot<'_>) -> Shape {
        match (schema, item) {
            (_, Some(item)) => self.event_data(item, spot, 3),
            (Some(schema), None) if !self.is_container(schema) => {
                self.seen(schema, View::Response, &spot.member("schema"))
            }
            _ => Shape::Unknown,
        }
    }

    fn event_data(&mut self, item: Place, spot: &Spot<'_>, hops: u32) -> Shape {
        let library = self.library;
        let Ok(event) = library.follow(item) else { return Shape::Unknown };
        let node = library.node(event);
        let variants = ["oneOf", "anyOf"].into_iter().find_map(|keyword| node.get(keyword));
        if let (Some(variants), Some(hops)) = (variants, hops.checked_sub(1)) {
            let places = variants.items().map(|node| library.beside(event, node));
            let places: Vec<Place> = places.collect();
            return Shape::any_of(
                places.into_iter().map(|place| self.event_data(place, spot, hops)),
            );
        }
        match library
            .get(event, "properties")
            .and_then(|properties| library.get(properties, "data"))
        {
            Some(data) => {
                let content =
                    library.follow(data).ok().and_then(|data| library.get(data, "contentSchema"));
                content.map_or(Shape::Unknown, |content| {
                    self.seen(content, View::Response, &spot.member("itemSchema"))
                })
            }
            None => self.seen(item, View::Response, &spot.member("itemSchema")),
        }
    }

    fn is_container(&self, schema: Place) -> bool {
        matches!(self.type_of(schema), Some("string" | "array" | "file"))
    }

    fn error(&mut self, response: &Declared<'_>) -> Option<ErrorDefinition> {
        let code = code(response.status)?;
        let shape = preferred(response, false);
        let error = ErrorDefinition::new(&*code, response.description);
        let error = error.with_schema(self.schema(shape));
        Some(match response.status {
            StatusRange::Exactly(status) => error.with_http_status(status),
            _ => error,
        })
    }

    fn response(&mut self, response: Declared<'_>, is_error: bool) -> Response {
        let code = code(response.status).filter(|_| is_error);
        let answers = response.contents.into_iter().map(|(media_type, shape)| Answer {
            media_type: media_type.to_owned(),
            schema: self.schema(shape),
        });
        Response { status: response.status, contents: answers.collect(), code }
    }
}

/// What an answer carries, as far as it is declared: JSON if there is any.
fn preferred(response: &Declared<'_>, is_stream: bool) -> Shape {
    let best = response.contents.iter().map(|(media_type, _)| rank(media_type)).min();
    let counts = |media_type: &str| {
        Some(rank(media_type)) == best || (is_stream && media::is_event_stream(media_type))
    };
    let shapes = response.contents.iter().filter(|(media_type, _)| counts(media_type));
    Shape::any_of(shapes.map(|(_, shape)| shape.clone()))
}

/// Two kinds of JSON are alike.
fn rank(media_type: &str) -> u8 {
    media::rank(media_type).max(1)
}

/// What a success gives. One that declares nothing says nothing beside one that does.
fn output(successes: &[&Declared<'_>], is_stream: bool) -> Shape {
    let shapes = successes.iter().filter_map(|response| match response.status {
        StatusRange::Exactly(204 | 205) => Some(Shape::Null),
        _ if response.contents.is_empty() => None,
        _ => Some(preferred(response, is_stream)),
    });
    Shape::any_of(shapes)
}

fn is_success(status: StatusRange) -> bool {
    matches!(status, StatusRange::Exactly(200..=299) | StatusRange::Class(2))
}

/// The code of the error that an answer is raised as: `HTTP_404`, `HTTP_4XX`, and `HTTP_ERROR` for
/// all that are not named. What comes before an answer is none.
fn code(status: StatusRange) -> Option<Arc<str>> {
    match status {
        StatusRange::Exactly(100..=199) | StatusRange::Class(1) => None,
        StatusRange::Exactly(status) => Some(format!("HTTP_{status}").into()),
        StatusRange::Class(class) => Some(format!("HTTP_{class}XX").into()),
        StatusRange::Default => Some("HTTP_ERROR".into()),
    }
}

fn status_range(status: &str) -> Option<StatusRange> {
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
