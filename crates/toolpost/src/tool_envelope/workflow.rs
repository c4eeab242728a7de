//! Payload of a workflow: the instruction, the model, the steps and the results.

use super::Artifact;
use super::extensible_object::extensible_object;

extensible_object! {
    /// Payload of a workflow tool.
    #[derive(Default)]
    pub struct WorkflowPayload {
        /// Human-readable name of the instruction.
        display_name: String = "displayName",
        /// Id of the instruction, which is also the id of the tool.
        instruction_id: String = "instructionId",
        /// The model that the workflow is assigned to.
        model: WorkflowModel = "model",
        /// The steps, in execution order.
        steps: Vec<WorkflowStep> = "steps",
        /// Recommended next actions.
        recommendations: Vec<Recommendation> = "recommendations",
        /// Artifacts such as templates, examples and criteria.
        artifacts: Vec<Artifact> = "artifacts",
    }

    /// A model, with its id and label.
    #[derive(Default)]
    pub struct WorkflowModel {
        /// Machine-readable model id.
        id: String = "id",
        /// Human-readable model name.
        label: String = "label",
    }

    /// A step of a workflow.
    #[derive(Default)]
    pub struct WorkflowStep {
        /// Kind of step, such as `implement` or `review`.
        kind: String = "kind",
        /// Title of the step.
        label: String = "label",
        /// Short summary of the step.
        summary: String = "summary",
    }

    /// A recommended next action.
    #[derive(Default)]
    pub struct Recommendation {
        /// Title of the action.
        title: String = "title",
        /// Description of the action and its reason.
        detail: String = "detail",
        /// Model class that the recommendation was written for, such as `strong`.
        model_class: Option<String> = "modelClass",
        /// What the recommendation is based on, such as `request`.
        grounding_scope: Option<String> = "groundingScope",
    }
}

#[cfg(test)]
mod tests;
