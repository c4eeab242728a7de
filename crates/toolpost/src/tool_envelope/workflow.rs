//! The payload of a workflow: what was run, on which model, and what came of it.

use super::Artifact;
use super::extensible_object::extensible_object;

extensible_object! {
    /// What a workflow tool returns.
    #[derive(Default)]
    pub struct WorkflowPayload {
        /// The instruction's name for people.
        display_name: String = "displayName",
        /// The instruction's id, which is the tool's.
        instruction_id: String = "instructionId",
        /// The model that the workflow is assigned to.
        model: WorkflowModel = "model",
        /// The steps in the order in which they ran.
        steps: Vec<WorkflowStep> = "steps",
        /// What to do next.
        recommendations: Vec<Recommendation> = "recommendations",
        /// Pieces to work with: templates, examples, criteria.
        artifacts: Vec<Artifact> = "artifacts",
    }
}

extensible_object! {
    /// A model by id and by name.
    #[derive(Default)]
    pub struct WorkflowModel {
        /// The id that programs use.
        id: String = "id",
        /// The name that people see.
        label: String = "label",
    }
}

extensible_object! {
    /// One step of a workflow.
    #[derive(Default)]
    pub struct WorkflowStep {
        /// What sort of step it is, as in `implement` or `review`.
        kind: String = "kind",
        /// The step's title.
        label: String = "label",
        /// What it did, in short.
        summary: String = "summary",
    }
}

extensible_object! {
    /// One thing to do next.
    #[derive(Default)]
    pub struct Recommendation {
        /// What to do.
        title: String = "title",
        /// How and why.
        detail: String = "detail",
        /// The class of model that it was written for, as in `strong`.
        model_class: Option<String> = "modelClass",
        /// What it rests on, as in `request`.
        grounding_scope: Option<String> = "groundingScope",
    }
}

#[cfg(test)]
mod tests;
