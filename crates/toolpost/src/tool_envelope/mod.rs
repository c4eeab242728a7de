//! ToolEnvelope V1: a structured payload next to the text of a tool result.
//!
//! A tool result has two text blocks. Block 0 is human-readable Markdown. Block 1 is
//! `__ENVELOPE_V1__:` followed by the base64 of
//! `{"payload":…,"meta":{"tool","ts","version":1}}`. The writer is strict. The reader is lenient
//! about base64 and strict about the content. Each cause of rejection has its own error variant,
//! and [`Fallback`] also contains the text of block 0.
//!
//! - [`ToolEnvelope`] and [`ToolEnvelopeMeta`] are the content of block 1.
//! - [`EnvelopeReader`] reads blocks and whole tool results within a size limit.
//! - [`WorkflowPayload`] and [`ErrorPayload`] are lossless typed views of a payload.
//! - [`decode`] and [`encode`] convert a tool result to readable JSON and back.
//!
//! ```
//! use toolpost::tool_envelope::{EnvelopeReader, Fallback, ToolEnvelope, ToolEnvelopeMeta};
//! use serde_json::json;
//!
//! let meta = ToolEnvelopeMeta::new("system-design", 1_750_185_000_000);
//! let envelope = ToolEnvelope::new(json!({"steps": 3}), meta);
//! let result = envelope.to_result("Three steps planned.")?;
//!
//! let read = EnvelopeReader::default().read_result(&result).map_err(Fallback::into_owned)?;
//! assert_eq!(read.summary, "Three steps planned.");
//! assert_eq!(read.envelope.meta.ts(), "2025-06-17T18:30:00.000Z");
//! assert_eq!(read.envelope.payload, json!({"steps": 3}));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod artifact;
mod base64;
mod convert;
mod diagnose;
mod envelope;
mod error;
mod extensible_object;
mod failure;
mod prefix;
mod reader;
mod workflow;

pub use artifact::{
    Artifact, ComparisonMatrix, EvalCriteria, MatrixRow, OutputTemplate, ToolChain, ToolChainStep,
    WorkedExample,
};
pub use convert::{EncodeError, decode, encode};
pub use envelope::{ToolEnvelope, ToolEnvelopeMeta, WriteError};
pub use error::{EnvelopeError, Fallback};
pub use extensible_object::PayloadShapeError;
pub use failure::{
    ERROR_TOOL, ErrorCategory, ErrorPayload, category_for_code, category_for_status, error_result,
};
pub use prefix::PREFIX;
pub use reader::{EnvelopeReader, EnvelopeResult, MAX_DEPTH};
pub use workflow::{Recommendation, WorkflowModel, WorkflowPayload, WorkflowStep};
