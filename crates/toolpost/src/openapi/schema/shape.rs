//! What a schema is made of: places of the document, and the little that stands around them.

use std::any::Any;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::document::Place;
use super::context::Context;
use super::volume::Volume;
use super::writer::Writer;
use crate::schema::{Apart, Excerpt, Schema, SchemaPart};

/// From which side a schema is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum View {
    /// What is read only need not be there.
    Request,
    /// As above, in a form: what is bytes by its schema is given as `$binary`.
    Form,
    /// What is write only need not be there.
    Response,
}

/// A schema that can be written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    Unknown,
    Null,
    Text,
    Binary(View),
    /// A schema of the document.
    Schema(Place, View),
    /// A list of what the other is.
    ListOf(Box<Shape>),
    /// The form of Swagger 2.0: the parameters that make it up.
    Form(Box<[Place]>),
    AnyOf(Box<[Shape]>),
    /// The input of an operation.
    Input(Box<[Member]>),
}

/// A property of an input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    pub(crate) name: Box<str>,
    pub(crate) required: bool,
    pub(crate) source: Source,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Parameter(Place),
    /// A name in the path that no parameter describes.
    Undeclared,
    /// The body, and the place where it is described.
    Body(Shape, Option<Place>),
}

impl Shape {
    /// All of them, each once; one of them alone is itself.
    pub(crate) fn any_of(shapes: impl IntoIterator<Item = Shape>) -> Shape {
        let mut distinct: Vec<Shape> = Vec::new();
        for shape in shapes {
            if !distinct.contains(&shape) {
                distinct.push(shape);
            }
        }
        match distinct.len() {
            0 => Shape::Unknown,
            1 => distinct.remove(0),
            _ if distinct.contains(&Shape::Unknown) => Shape::Unknown,
            _ => Shape::AnyOf(distinct.into()),
        }
    }

    /// The same for every way that leads to one schema.
    pub(crate) fn canonical(&self, context: &Context) -> Shape {
        let canonical = |shape: &Shape| shape.canonical(context);
        match self {
            Shape::Schema(place, view) => Shape::Schema(context.canonical(*place), *view),
            Shape::ListOf(shape) => Shape::ListOf(Box::new(canonical(shape))),
            Shape::AnyOf(shapes) => Shape::any_of(shapes.iter().map(canonical)),
            other => other.clone(),
        }
    }
}

/// The schema of a shape; it is written when somebody asks.
pub(crate) fn schema(context: &Arc<Context>, shape: Shape) -> Schema {
    match shape {
        Shape::Unknown => Schema::unknown(),
        shape => Schema::excerpt(Arc::new(Part { context: Arc::clone(context), shape })),
    }
}

struct Part {
    context: Arc<Context>,
    shape: Shape,
}

impl SchemaPart for Part {
    fn write(&self) -> Value {
        Writer::write(&self.context, &self.shape)
    }
}

impl Excerpt for Part {
    fn document(&self) -> usize {
        Arc::as_ptr(&self.context) as usize
    }

    fn volume(&self) -> Box<dyn Any> {
        Box::new(Volume::of(&self.context))
    }

    fn take(&self, volume: &mut dyn Any) -> Apart {
        let volume = volume.downcast_mut::<Volume>();
        volume.map(|volume| volume.take(&self.context, &self.shape)).unwrap_or_default()
    }
}

/// Bytes as JSON carries them. Whoever sends them may leave out what can be told from them, and
/// write nothing but the text.
pub(super) fn binary(view: View) -> Value {
    let bytes = json!({"type": "string", "contentEncoding": "base64"});
    match view {
        View::Response => json!({
            "type": "object",
            "properties": {
                "$binary": bytes,
                "contentType": {"type": "string"},
                "size": {"type": "integer", "minimum": 0},
            },
            "required": ["$binary", "contentType", "size"],
        }),
        View::Request | View::Form => json!({
            "type": ["object", "string"],
            "properties": {
                "$binary": bytes,
                "contentType": {"type": "string"},
                "filename": {"type": "string"},
            },
            "required": ["$binary"],
        }),
    }
}
