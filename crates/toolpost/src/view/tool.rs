//! An operation as an MCP tool.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::annotations;
use super::input::InputMapping;
use super::name::{local_tool_name, tool_name};
use super::output::{self, OutputMapping};
use super::settings::{Dialect, ProtocolGeneration, ViewSettings};
use super::summary;
use crate::error::CallError;
use crate::header_params::{self, HeaderParam};
use crate::operation::Operation;
use crate::payload::Payload;
use crate::spec::OperationId;

/// An operation exposed as an MCP tool, with a tool name and a dialect.
#[derive(Debug)]
pub struct Tool {
    name: String,
    operation: Arc<Operation>,
    dialect: Dialect,
    /// Computed when the tool is first listed or called; most tools never are.
    mappings: OnceLock<ToolMappings>,
}

#[derive(Debug)]
pub(super) struct ToolMappings {
    pub(super) input: InputMapping,
    pub(super) output: OutputMapping,
    /// Arguments that clients also send in headers from 2026-07-28 on.
    headers: Vec<HeaderParam>,
}

/// The description of a tool in a list, and notes about what it omits.
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

    /// Returns the tool name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id of the operation.
    pub fn id(&self) -> &OperationId {
        self.operation.id()
    }

    /// Returns the operation.
    pub fn operation(&self) -> &Arc<Operation> {
        &self.operation
    }

    /// Returns the wire format of the results.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Extracts the operation input from the arguments of a call.
    ///
    /// The input is the arguments object. If the operation does not take an object, the input is
    /// the argument `input`. If it takes only `null`, arguments are ignored.
    ///
    /// # Errors
    ///
    /// Returns `VALIDATION_ERROR` if the argument is missing or the arguments are not an object.
    pub fn input(&self, arguments: Payload) -> Result<Payload, CallError> {
        let input = self.mappings().input.extract_input(arguments)?;
        Ok(if self.summarizes() { summary::with_default(&input) } else { input })
    }

    /// Checks that the headers of a request match its arguments (from 2026-07-28 on).
    ///
    /// # Errors
    ///
    /// Returns a message that names the header that does not match.
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

    /// Whether the result is short text unless the client requests structured data.
    pub(super) fn summarizes(&self) -> bool {
        self.operation.spec().summarizes
    }

    pub(super) fn mappings(&self) -> &ToolMappings {
        self.mappings.get_or_init(|| {
            let spec = self.operation.spec();
            let input = InputMapping::from_schema(&spec.input_schema);
            let headers = match input {
                InputMapping::Arguments => header_params::header_params(&spec.input_schema.json()),
                _ => Ok(Vec::new()),
            };
            ToolMappings {
                input,
                output: OutputMapping::from_operation(&self.operation),
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
        let mut input = mappings.input.arguments_schema(&spec.input_schema);
        if self.summarizes() {
            summary::publish_default(&mut input);
        }
        let mut input = Value::Object(input);
        // The MCP specification requires clients to drop tools with invalid header annotations.
        if header_params::header_params(&input).is_err() {
            header_params::strip_annotations(&mut input);
        }
        tool.insert("inputSchema".to_owned(), input);
        let (operation, output) = (&self.operation, &mappings.output);
        let published = output::output_schema(operation, self.dialect, output, generation);
        if let Some(schema) = published.schema {
            tool.insert("outputSchema".to_owned(), schema.into());
        }
        annotations::add(&mut tool, spec);
        ToolDescription { tool, notes: published.notes }
    }

    /// Returns the title, or the operation name if the tool name is hashed.
    fn title(&self) -> Option<&str> {
        let spec = self.operation.spec();
        let prefix = spec.namespace.len() + "__".len();
        let is_full_name = self.name.strip_suffix(spec.name.as_str());
        let is_full_name =
            is_full_name.is_some_and(|remaining| remaining.is_empty() || remaining.len() == prefix);
        spec.title.as_deref().or_else(|| (!is_full_name).then_some(spec.name.as_str()))
    }
}
