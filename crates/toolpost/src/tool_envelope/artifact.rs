//! Artifacts of a workflow, tagged by `kind`.

use serde::Serialize;
use serde::de::{self, Deserialize, Deserializer};
use serde_json::Value;

use super::PayloadShapeError;
use super::extensible_object::{self, ExtensibleValue, extensible_object};
use crate::json::ValuePath;

/// An artifact, distinguished by its `kind`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Artifact {
    /// `output-template`: a text template with fields.
    OutputTemplate(OutputTemplate),
    /// `tool-chain`: a sequence of tool calls.
    ToolChain(ToolChain),
    /// `worked-example`: an input and its expected output.
    WorkedExample(WorkedExample),
    /// `eval-criteria`: criteria for evaluating a result.
    EvalCriteria(EvalCriteria),
    /// `comparison-matrix`: a table with options as rows and criteria as columns.
    ComparisonMatrix(ComparisonMatrix),
    /// An object of an unknown kind, unchanged.
    #[serde(untagged)]
    Other(Value),
}

extensible_object! {
    /// A text template with fields.
    #[derive(Default)]
    pub struct OutputTemplate tagged "kind" {
        /// Title of the template.
        title: String = "title",
        /// The text.
        template: String = "template",
        /// Names of the fields to fill in.
        fields: Vec<String> = "fields",
        /// Purpose of the template.
        description: Option<String> = "description",
    }

    /// A sequence of tool calls.
    #[derive(Default)]
    pub struct ToolChain tagged "kind" {
        /// Title of the chain.
        title: String = "title",
        /// The calls, in order.
        steps: Vec<ToolChainStep> = "steps",
        /// Purpose of the chain.
        description: Option<String> = "description",
    }

    /// A call in a [`ToolChain`].
    #[derive(Default)]
    pub struct ToolChainStep {
        /// Name of the tool to call.
        tool: String = "tool",
        /// Purpose of the tool in this step.
        description: Option<String> = "description",
    }

    /// An input and its expected output.
    #[derive(Default)]
    pub struct WorkedExample tagged "kind" {
        /// Title of the example.
        title: String = "title",
        /// The input, any JSON.
        input: Value = "input",
        /// The expected output, any JSON.
        expected_output: Value = "expectedOutput",
        /// Purpose of the example.
        description: Option<String> = "description",
    }

    /// Criteria for evaluating a result.
    #[derive(Default)]
    pub struct EvalCriteria tagged "kind" {
        /// Title of the criteria.
        title: String = "title",
        /// The criteria, one sentence each.
        criteria: Vec<String> = "criteria",
        /// Purpose of the criteria.
        description: Option<String> = "description",
    }

    /// A table with options as rows and criteria as columns.
    #[derive(Default)]
    pub struct ComparisonMatrix tagged "kind" {
        /// Title of the matrix.
        title: String = "title",
        /// Column names.
        headers: Vec<String> = "headers",
        /// The options.
        rows: Vec<MatrixRow> = "rows",
        /// Purpose of the matrix.
        description: Option<String> = "description",
    }

    /// A row of a [`ComparisonMatrix`].
    #[derive(Default)]
    pub struct MatrixRow {
        /// Name of the option.
        label: String = "label",
        /// One value per column.
        values: Vec<String> = "values",
    }
}

impl ExtensibleValue for Artifact {
    fn read(value: &Value, path: ValuePath<'_>) -> Result<Self, PayloadShapeError> {
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

impl<'de> Deserialize<'de> for Artifact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Value::deserialize(deserializer)?;
        ExtensibleValue::read(&json, ValuePath::ROOT).map_err(de::Error::custom)
    }
}
