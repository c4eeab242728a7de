//! Schema shapes: references to schema nodes of a document and how they are combined.

use std::any::Any;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::document::NodeRef;
use super::context::SchemaContext;
use super::definition_cache::DefinitionCache;
use super::schema_writer::write_bundled;
use crate::schema::{PropertyNames, Schema, SchemaPart, SharedDefs, SplitSchema};

/// Direction in which a schema is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SchemaUsage {
    /// Read-only properties are optional.
    Request,
    /// Like `Request`, for a form with properties of the usage `Field`.
    Form,
    /// Like `Request`, for a form with properties of the usage `Part`.
    Multipart,
    /// Like `Request`, for a value that is sent as text. Binary data is a `$binary` object.
    Field,
    /// Like `Field`, for a value with its own media type. A string can be a `$binary` object.
    Part,
    /// Write-only properties are optional.
    Response,
}

/// A schema to be written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SchemaShape {
    Unknown,
    Null,
    Text(SchemaUsage),
    Binary(SchemaUsage),
    /// A schema node of the document.
    Schema(NodeRef, SchemaUsage),
    /// An array of another shape.
    ArrayOf(Box<SchemaShape>),
    /// A Swagger 2.0 form, as the list of its parameters and their usage.
    SwaggerForm(Box<[NodeRef]>, SchemaUsage),
    AnyOf(Box<[SchemaShape]>),
    /// The input of an operation.
    Input(Box<[InputProperty]>),
}

/// A property of an input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct InputProperty {
    pub(crate) name: Box<str>,
    pub(crate) required: bool,
    pub(crate) source: PropertySource,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum PropertySource {
    Parameter(NodeRef),
    /// A path placeholder without a declared parameter.
    Undeclared,
    /// The body, with the node that describes it.
    Body(SchemaShape, Option<NodeRef>),
}

impl SchemaShape {
    /// Combines distinct shapes. A single shape is returned as it is.
    pub(crate) fn any_of(shapes: impl IntoIterator<Item = SchemaShape>) -> SchemaShape {
        let mut distinct: Vec<SchemaShape> = Vec::new();
        for shape in shapes {
            if !distinct.contains(&shape) {
                distinct.push(shape);
            }
        }
        match distinct.len() {
            0 => SchemaShape::Unknown,
            1 => distinct.remove(0),
            _ if distinct.contains(&SchemaShape::Unknown) => SchemaShape::Unknown,
            _ => SchemaShape::AnyOf(distinct.into()),
        }
    }

    /// Returns the names of the properties of a body, without those of referenced parts.
    fn property_names(&self, context: &SchemaContext) -> Vec<String> {
        let documents = &context.documents;
        match self {
            SchemaShape::Schema(node_ref, _) => {
                let target = documents.node(*node_ref).target();
                let names = target.ok().into_iter().flat_map(|it| it.members_of("properties"));
                names.map(|(name, _)| name.to_owned()).collect()
            }
            SchemaShape::SwaggerForm(parameters, _) => {
                let names = parameters.iter().filter_map(|one| documents.node(*one).text("name"));
                names.map(str::to_owned).collect()
            }
            SchemaShape::AnyOf(shapes) => {
                shapes.iter().flat_map(|shape| shape.property_names(context)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the canonical form, which is equal for all references to the same schema.
    pub(crate) fn canonical(&self, context: &SchemaContext) -> SchemaShape {
        let canonical = |shape: &SchemaShape| shape.canonical(context);
        match self {
            SchemaShape::Schema(node_ref, usage) => {
                SchemaShape::Schema(context.canonical(*node_ref), *usage)
            }
            SchemaShape::ArrayOf(shape) => SchemaShape::ArrayOf(Box::new(canonical(shape))),
            SchemaShape::AnyOf(shapes) => SchemaShape::any_of(shapes.iter().map(canonical)),
            other => other.clone(),
        }
    }
}

/// Returns the schema of a shape. It is written on first use.
pub(crate) fn schema_of_shape(context: &Arc<SchemaContext>, shape: SchemaShape) -> Schema {
    match shape {
        SchemaShape::Unknown => Schema::unknown(),
        shape => Schema::with_shared_defs(Arc::new(DocumentSchema {
            context: Arc::clone(context),
            shape,
        })),
    }
}

struct DocumentSchema {
    context: Arc<SchemaContext>,
    shape: SchemaShape,
}

impl SchemaPart for DocumentSchema {
    fn to_value(&self) -> Value {
        write_bundled(&self.context, &self.shape)
    }

    fn property_names(&self) -> PropertyNames {
        let SchemaShape::Input(properties) = &self.shape else {
            return PropertyNames::of(&self.to_value());
        };
        let mut names = PropertyNames::default();
        for property in properties {
            names.push(&property.name, property.required);
            if let PropertySource::Body(body, _) = &property.source {
                names.nested.extend(body.property_names(&self.context));
            }
        }
        names
    }
}

impl SharedDefs for DocumentSchema {
    fn document_id(&self) -> usize {
        Arc::as_ptr(&self.context) as usize
    }

    fn new_cache(&self) -> Box<dyn Any> {
        Box::new(DefinitionCache::new(&self.context))
    }

    fn split(&self, cache: &mut dyn Any) -> SplitSchema {
        let cache = cache.downcast_mut::<DefinitionCache>();
        cache.map(|cache| cache.extract(&self.context, &self.shape)).unwrap_or_default()
    }
}

impl SchemaUsage {
    /// Returns the usage of the properties of an object.
    pub(super) fn of_properties(self) -> Self {
        match self {
            Self::Form => Self::Field,
            Self::Multipart => Self::Part,
            // An object in a form is sent as JSON.
            Self::Field | Self::Part => Self::Request,
            usage => usage,
        }
    }

    /// Returns the usage of the items of an array.
    pub(super) fn of_items(self) -> Self {
        if self == Self::Multipart { Self::Part } else { self }
    }
}

/// Returns the schema of binary data in JSON.
pub(super) fn binary_schema(usage: SchemaUsage) -> Value {
    let bytes = json!({"type": "string", "contentEncoding": "base64"});
    match usage {
        SchemaUsage::Response => json!({
            "type": "object",
            "properties": {
                "$binary": bytes,
                "contentType": {"type": "string"},
                "size": {"type": "integer", "minimum": 0},
            },
            "required": ["$binary", "contentType", "size"],
        }),
        _ => json!({
            "type": "object",
            "properties": {
                "$binary": bytes,
                "contentType": {"type": "string"},
                "filename": {"type": "string"},
            },
            "required": ["$binary"],
        }),
    }
}
