//! Pieces that a workflow hands over, each with a `kind`.

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::PayloadShapeError;
use super::extensible_object::{self, ExtensibleValue, PayloadPath, extensible_object};

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

extensible_object! {
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

extensible_object! {
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

extensible_object! {
    /// One call of a [`ToolChain`].
    #[derive(Default)]
    pub struct ToolChainStep {
        /// The tool to call.
        tool: String = "tool",
        /// What it does there.
        description: Option<String> = "description",
    }
}

extensible_object! {
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

extensible_object! {
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

extensible_object! {
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

extensible_object! {
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

impl ExtensibleValue for Artifact {
    fn read(value: &Value, path: PayloadPath<'_>) -> Result<Self, PayloadShapeError> {
        let object = extensible_object::object(value, path)?;
        let kind: String = extensible_object::member(object, "kind", path)?;
        Ok(match kind.as_str() {
            "output-template" => Self::OutputTemplate(ExtensibleValue::read(value, path)?),
            "tool-chain" => Self::ToolChain(ExtensibleValue::read(value, path)?),
            "worked-example" => Self::WorkedExample(ExtensibleValue::read(value, path)?),
            "eval-criteria" => Self::EvalCriteria(ExtensibleValue::read(value, path)?),
            "comparison-matrix" => Self::ComparisonMatrix(ExtensibleValue::read(value, path)?),
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
        ExtensibleValue::read(&json, PayloadPath::Root).map_err(de::Error::custom)
    }
}
