//! Pieces that a workflow hands over, each with a `kind`.

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::PayloadError;
use super::record::{self, Place, Wire, record};

/// A piece to work with, told apart by its `kind`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Artifact {
    /// `output-template`: a text with places to fill in.
    OutputTemplate(OutputTemplate),
    /// `tool-chain`: tools to call one after another.
    ToolChain(ToolChain),
    /// `worked-example`: an input with the output that it should give.
    WorkedExample(WorkedExample),
    /// `eval-criteria`: what a good result fulfils.
    EvalCriteria(EvalCriteria),
    /// `comparison-matrix`: options in rows, aspects in columns.
    ComparisonMatrix(ComparisonMatrix),
    /// An object of another kind, as it came.
    Other(Value),
}

record! {
    /// A text with places to fill in.
    #[derive(Default)]
    pub struct OutputTemplate tagged "kind" {
        /// What it is called.
        title: String = "title",
        /// The text.
        template: String = "template",
        /// The places to fill in.
        fields: Vec<String> = "fields",
        /// What it is for.
        description: Option<String> = "description",
    }
}

record! {
    /// Tools to call one after another.
    #[derive(Default)]
    pub struct ToolChain tagged "kind" {
        /// What it is called.
        title: String = "title",
        /// The calls in their order.
        steps: Vec<ToolChainStep> = "steps",
        /// What it is for.
        description: Option<String> = "description",
    }
}

record! {
    /// One call of a [`ToolChain`].
    #[derive(Default)]
    pub struct ToolChainStep {
        /// The tool to call.
        tool: String = "tool",
        /// What it does there.
        description: Option<String> = "description",
    }
}

record! {
    /// An input with the output that it should give.
    #[derive(Default)]
    pub struct WorkedExample tagged "kind" {
        /// What it is called.
        title: String = "title",
        /// What goes in, any JSON.
        input: Value = "input",
        /// What should come out, any JSON.
        expected_output: Value = "expectedOutput",
        /// What it is for.
        description: Option<String> = "description",
    }
}

record! {
    /// What a good result fulfils.
    #[derive(Default)]
    pub struct EvalCriteria tagged "kind" {
        /// What it is called.
        title: String = "title",
        /// The criteria, one sentence each.
        criteria: Vec<String> = "criteria",
        /// What it is for.
        description: Option<String> = "description",
    }
}

record! {
    /// Options in rows, aspects in columns.
    #[derive(Default)]
    pub struct ComparisonMatrix tagged "kind" {
        /// What it is called.
        title: String = "title",
        /// The names of the columns.
        headers: Vec<String> = "headers",
        /// The options.
        rows: Vec<MatrixRow> = "rows",
        /// What it is for.
        description: Option<String> = "description",
    }
}

record! {
    /// One row of a [`ComparisonMatrix`].
    #[derive(Default)]
    pub struct MatrixRow {
        /// The option's name.
        label: String = "label",
        /// One value per column.
        values: Vec<String> = "values",
    }
}

impl Artifact {
    /// The `kind` that the artifact has on the wire.
    pub fn kind(&self) -> &str {
        match self {
            Self::OutputTemplate(_) => "output-template",
            Self::ToolChain(_) => "tool-chain",
            Self::WorkedExample(_) => "worked-example",
            Self::EvalCriteria(_) => "eval-criteria",
            Self::ComparisonMatrix(_) => "comparison-matrix",
            Self::Other(json) => json.get("kind").and_then(Value::as_str).unwrap_or_default(),
        }
    }

    fn serialize_members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::OutputTemplate(template) => template.serialize_members(map),
            Self::ToolChain(chain) => chain.serialize_members(map),
            Self::WorkedExample(example) => example.serialize_members(map),
            Self::EvalCriteria(criteria) => criteria.serialize_members(map),
            Self::ComparisonMatrix(matrix) => matrix.serialize_members(map),
            Self::Other(_) => Ok(()),
        }
    }
}

impl Wire for Artifact {
    fn read(value: &Value, place: Place<'_>) -> Result<Self, PayloadError> {
        let object = record::object(value, place)?;
        let kind: String = record::member(object, "kind", place)?;
        Ok(match kind.as_str() {
            "output-template" => Self::OutputTemplate(Wire::read(value, place)?),
            "tool-chain" => Self::ToolChain(Wire::read(value, place)?),
            "worked-example" => Self::WorkedExample(Wire::read(value, place)?),
            "eval-criteria" => Self::EvalCriteria(Wire::read(value, place)?),
            "comparison-matrix" => Self::ComparisonMatrix(Wire::read(value, place)?),
            _ => Self::Other(value.clone()),
        })
    }
}

impl Serialize for Artifact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Self::Other(json) = self {
            return json.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.kind())?;
        self.serialize_members(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Artifact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Value::deserialize(deserializer)?;
        Wire::read(&json, Place::Root).map_err(de::Error::custom)
    }
}
