//! The body of a request: what it may be sent as, and what it takes.

use super::super::document::{Node, Place};
use super::super::plan::{Body, Content, ContentKind, Encoding, Position};
use super::super::schema::{Shape, Spot, View};
use super::Importer;
use super::form::Fields;
use super::media;
use super::parameter::{Raw, RawPosition, collection};
use super::version::Version;

/// A body, and the schema of its value.
pub(super) struct SettledBody {
    pub(super) body: Body,
    pub(super) shape: Shape,
    /// Where it is described.
    pub(super) described: Option<Place>,
}

/// One way to send it.
struct Way {
    media_type: String,
    kind: ContentKind,
    shape: Shape,
    encodings: Vec<Encoding>,
}

impl<'l> Importer<'l> {
    /// The body of an operation, if it has one.
    ///
    /// # Errors
    ///
    /// There is one, and it cannot be known what it is.
    pub(super) fn body(
        &mut self,
        operation: Place,
        raws: &[Raw<'l>],
        spot: &Spot<'_>,
    ) -> Result<Option<SettledBody>, String> {
        if self.version == Version::V2 {
            return Ok(self.swagger_body(operation, raws, spot));
        }
        let Some(place) = self.library.get(operation, "requestBody") else { return Ok(None) };
        let place = self
            .library
            .follow(place)
            .map_err(|error| format!("the body of its request is not known: {error}"))?;
        let node = self.library.node(place);
        if !node.is_object() {
            return Ok(None);
        }
        let required = node.get("required").and_then(Node::as_bool) == Some(true);
        let spot = spot.member("requestBody");
        let ways = self.ways(place, &spot.member("content"));
        Ok(Some(self.settle_body(ways, required, Some(place))))
    }

    fn ways(&mut self, place: Place, spot: &Spot<'_>) -> Vec<Way> {
        let library = self.library;
        let mut ways = Vec::new();
        let content = library.get(place, "content");
        for (media_type, node) in
            content.into_iter().flat_map(|content| library.node(content).members())
        {
            let spot = spot.member(media_type);
            let media = library.beside(place, node);
            if let Some(media) = self.follow(media, &spot, "the media type is left out") {
                ways.push(self.way(media_type, media, &spot));
            }
        }
        if ways.is_empty() {
            self.warn(spot, "the body names no media type; it is sent as JSON");
            ways.push(plain(ContentKind::Json, "application/json", Shape::Unknown));
        }
        ways
    }

    fn way(&mut self, media_type: &str, media: Place, spot: &Spot<'_>) -> Way {
        let schema = self.library.get(media, "schema");
        let item = self.library.get(media, "itemSchema");
        let kind = media::kind(media_type);
        let shape = match (kind, schema, item) {
            (ContentKind::Binary, _, _) => Shape::Binary(View::Request),
            (ContentKind::Text, schema, _) => match schema.filter(|place| self.is_text(*place)) {
                Some(place) => self.seen(place, View::Request, &spot.member("schema")),
                None => Shape::Text,
            },
            (ContentKind::Form | ContentKind::Multipart, Some(place), _) => {
                self.seen(place, View::Form, &spot.member("schema"))
            }
            (_, Some(place), _) if self.is_any_bytes(media_type, place) => {
                return plain(ContentKind::Binary, media_type, Shape::Binary(View::Request));
            }
            (ContentKind::JsonLines, Some(place), None) if !self.is_list(place) => {
                let item = self.seen(place, View::Request, &spot.member("schema"));
                Shape::ListOf(Box::new(item))
            }
            (_, Some(place), _) => self.seen(place, View::Request, &spot.member("schema")),
            (_, None, Some(item)) => {
                let item = self.seen(item, View::Request, &spot.member("itemSchema"));
                Shape::ListOf(Box::new(item))
            }
            (_, None, None) => Shape::Unknown,
        };
        let encodings = match kind {
            ContentKind::Form | ContentKind::Multipart => self.encodings(media, spot),
            _ => Vec::new(),
        };
        Way { encodings, ..plain(kind, media_type, shape) }
    }

    /// A range that takes anything, and a schema that says that it is bytes.
    fn is_any_bytes(&self, media_type: &str, schema: Place) -> bool {
        let is_range = matches!(media::essence(media_type).as_str(), "*/*" | "application/*");
        let node = self.library.follow(schema).map(|place| self.library.node(place));
        is_range && node.is_ok_and(|node| super::super::schema::is_bytes(node, View::Form))
    }

    fn is_text(&self, schema: Place) -> bool {
        self.type_of(schema) == Some("string")
    }

    /// Whether the schema is that of all lines, not of each.
    pub(super) fn is_list(&self, schema: Place) -> bool {
        self.type_of(schema) == Some("array")
    }

    pub(super) fn type_of(&self, schema: Place) -> Option<&'l str> {
        let place = self.library.follow(schema).ok()?;
        self.library.node(place).get("type")?.as_str()
    }

    fn settle_body(
        &self,
        mut ways: Vec<Way>,
        required: bool,
        described: Option<Place>,
    ) -> SettledBody {
        let has_bytes = |way: &Way| way.encodings.iter().any(|encoding| encoding.is_binary);
        ways.sort_by_key(|way| match way.kind {
            // A form that is bytes in part is better sent in parts.
            ContentKind::Form if has_bytes(way) => 5,
            _ => media::rank(&way.media_type),
        });
        let is_structured =
            |way: &Way| !matches!(way.kind, ContentKind::Text | ContentKind::Binary);
        let has_structured = ways.iter().any(is_structured);
        // Text that only says otherwise what the schema of an object says is no choice of its own.
        let counts = |way: &&Way| {
            !(has_structured && way.kind == ContentKind::Text && way.shape == Shape::Text)
        };
        let shape = Shape::any_of(ways.iter().filter(counts).map(|way| way.shape.clone()));
        let contents = ways.into_iter().map(content).collect();
        let body = Body { input: "body".to_owned(), required, contents };
        SettledBody { body, shape, described }
    }

    fn swagger_body(
        &mut self,
        operation: Place,
        raws: &[Raw<'l>],
        spot: &Spot<'_>,
    ) -> Option<SettledBody> {
        let fields: Vec<Place> = raws
            .iter()
            .filter(|raw| raw.position == RawPosition::FormData)
            .map(|raw| raw.place)
            .collect();
        if !fields.is_empty() {
            return Some(self.swagger_form(operation, &fields, spot));
        }
        let raw = raws.iter().find(|raw| raw.position == RawPosition::Body)?;
        let node = self.library.node(raw.place);
        let required = node.get("required").and_then(Node::as_bool) == Some(true);
        let schema = self.library.get(raw.place, "schema");
        let mut ways = Vec::new();
        for media_type in self.media_types(operation, "consumes") {
            let kind = match media::kind(media_type) {
                // There are no fields, so it is no form.
                ContentKind::Form | ContentKind::Multipart => ContentKind::Json,
                kind => kind,
            };
            let shape = match (kind, schema) {
                (ContentKind::Binary, _) => Shape::Binary(View::Request),
                (ContentKind::Text, _) => Shape::Text,
                (_, Some(place)) => self.seen(place, View::Request, &spot.member("schema")),
                (_, None) => Shape::Unknown,
            };
            ways.push(plain(kind, media_type, shape));
        }
        Some(self.settle_body(ways, required, Some(raw.place)))
    }

    fn swagger_form(&mut self, operation: Place, fields: &[Place], spot: &Spot<'_>) -> SettledBody {
        let library = self.library;
        let is_file =
            |place: &Place| library.node(*place).get("type").and_then(Node::as_str) == Some("file");
        let has_file = fields.iter().any(is_file);
        let mut kinds: Vec<&str> = self.media_types(operation, "consumes");
        kinds.retain(|media_type| match media::kind(media_type) {
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
        for place in fields {
            let node = library.node(*place);
            let name = node.get("name").and_then(Node::as_str).unwrap_or_default();
            self.check.parameter(&self.context, *place, &spot.member("parameters").member(name));
            required |= node.get("required").and_then(Node::as_bool) == Some(true);
            encodings.extend(field_encoding(node));
        }
        let shape = Shape::Form(fields.into());
        let way = |media_type: &&str| Way {
            encodings: encodings.clone(),
            ..plain(media::kind(media_type), media_type, shape.clone())
        };
        let ways = kinds.iter().map(way).collect();
        self.settle_body(ways, required, None)
    }
}

/// A range that JSON is in is sent as JSON.
fn content(way: Way) -> Content {
    let is_any = matches!(media::essence(&way.media_type).as_str(), "*/*" | "application/*" | "");
    let media_type = match way.kind {
        ContentKind::Json if is_any => "application/json".to_owned(),
        _ => way.media_type,
    };
    Content { media_type, kind: way.kind, encodings: way.encodings }
}

fn plain(kind: ContentKind, media_type: &str, shape: Shape) -> Way {
    Way { media_type: media_type.to_owned(), kind, shape, encodings: Vec::new() }
}

/// How a field of a Swagger 2.0 form is written; only lists and files need words.
fn field_encoding(node: Node<'_>) -> Option<Encoding> {
    let property = node.get("name")?.as_str()?.to_owned();
    let kind = node.get("type").and_then(Node::as_str);
    let (style, explode) = collection(node, Position::Query);
    let fields = Fields { property, is_binary: kind == Some("file") };
    match kind {
        Some("file") => Some(fields.encoding(None)),
        Some("array") => Some(fields.encoding(Some((style, explode, false)))),
        _ => None,
    }
}
