//! An operation as a tool.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::annotations;
use super::input::InputMapping;
use super::name::{local_tool_name, tool_name};
use super::output::{self, OutputMapping};
use super::settings::{Dialect, ProtocolGeneration, ViewSettings};
use crate::error::CallError;
use crate::mcp::header::{self, HeaderParam};
use crate::operation::Operation;
use crate::payload::Payload;
use crate::spec::OperationId;

/// An operation under the name and in the dialect of an endpoint.
#[derive(Debug)]
pub struct Tool {
    name: String,
    operation: Arc<Operation>,
    dialect: Dialect,
    /// Found out when it is first listed or called: most tools of a compact listing never are.
    mappings: OnceLock<ToolMappings>,
}

#[derive(Debug)]
pub(super) struct ToolMappings {
    pub(super) input: InputMapping,
    pub(super) output: OutputMapping,
    /// The arguments that a client of 2026-07-28 also says in headers.
    headers: Vec<HeaderParam>,
}

/// What a list says about a tool, and what it could not say.
pub(super) struct ToolDescription {
    pub(super) tool: Map<String, Value>,
    pub(super) notes: Vec<String>,
}

impl Tool {
    pub(super) fn new(operation: Arc<Operation>, settings: &ViewSettings) -> Self {
        let (id, dialect) = (operation.id(), settings.dialect);
        let name = if settings.namespace.is_some() { local_tool_name(id) } else { tool_name(id) };
        Self { name, operation, dialect, mappings: OnceLock::new() }
    }

    /// The name that clients call it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The operation that it is.
    pub fn id(&self) -> &OperationId {
        self.operation.id()
    }

    /// The operation that it is, with all that it says about itself.
    pub fn operation(&self) -> &Arc<Operation> {
        &self.operation
    }

    /// How its results stand on the wire.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The input of the operation in the arguments of a call.
    ///
    /// They are the same, except for an operation whose input is no object: its tool takes it as the
    /// argument `input`, and one that takes nothing but `null` ignores its arguments.
    ///
    /// # Errors
    ///
    /// `VALIDATION_ERROR`: the argument is missing, or the arguments are no object.
    pub fn input(&self, arguments: Payload) -> Result<Payload, CallError> {
        self.mappings().input.extract_input(arguments)
    }

    /// Whether the headers of a request of 2026-07-28 say the same as its arguments.
    ///
    /// # Errors
    ///
    /// Which header does not.
    pub fn check_headers<'h>(
        &self,
        arguments: &Payload,
        sent: impl Fn(&str) -> Option<&'h str>,
    ) -> Result<(), String> {
        let headers = &self.mappings().headers;
        if headers.is_empty() {
            return Ok(());
        }
        let arguments = match arguments.as_value() {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(arguments.clone().into_value().map_err(|error| error.to_string())?),
        };
        headers.iter().try_for_each(|header| header.verify(&arguments, sent(&header.header)))
    }

    pub(super) fn mappings(&self) -> &ToolMappings {
        self.mappings.get_or_init(|| {
            let spec = self.operation.spec();
            let input = InputMapping::from_schema(&spec.input_schema);
            let headers = match input {
                InputMapping::Arguments => header::header_params(&spec.input_schema.json()),
                _ => Ok(Vec::new()),
            };
            ToolMappings {
                input,
                output: OutputMapping::from_spec(spec),
                headers: headers.unwrap_or_default(),
            }
        })
    }

    pub(super) fn describe(&self, generation: ProtocolGeneration) -> ToolDescription {
        let (spec, mappings) = (self.operation.spec(), self.mappings());
        let mut tool = Map::new();
        tool.insert("name".to_owned(), self.name.as_str().into());
        if let Some(title) = self.title() {
            tool.insert("title".to_owned(), title.into());
        }
        if !spec.description.is_empty() {
            tool.insert("description".to_owned(), spec.description.as_str().into());
        }
        let mut input = Value::Object(mappings.input.arguments_schema(&spec.input_schema));
        // A client must leave out a tool whose annotations are not as they should be.
        if header::header_params(&input).is_err() {
            header::strip_annotations(&mut input);
        }
        tool.insert("inputSchema".to_owned(), input);
        let declared = output::output_schema(spec, self.dialect, &mappings.output, generation);
        if let Some(schema) = declared.schema {
            tool.insert("outputSchema".to_owned(), schema.into());
        }
        annotations::add(&mut tool, spec);
        ToolDescription { tool, notes: declared.notes }
    }

    /// A name that ends in digits says less than the operation's own.
    fn title(&self) -> Option<&str> {
        let spec = self.operation.spec();
        let prefix = spec.namespace.len() + "__".len();
        let is_full_name = self.name.strip_suffix(spec.name.as_str());
        let is_full_name =
            is_full_name.is_some_and(|remaining| remaining.is_empty() || remaining.len() == prefix);
        spec.title.as_deref().or_else(|| (!is_full_name).then_some(spec.name.as_str()))
    }
}
