//! `decode` and `encode`: convert between ToolEnvelope V1 and its readable form.

use anyhow::{Context, anyhow};
use toolpost::tool_envelope::{self, EnvelopeReader};

use super::document;
use crate::arguments::InputFile;
use crate::error::CommandError;
use crate::output;

/// Decodes the envelopes in the input. For a document without an envelope, prints the text it
/// contains.
pub(crate) fn decode(input: &InputFile) -> Result<(), CommandError> {
    let text = document::read(input.file.as_deref())?;
    let documents = document::split_documents(&text);
    let mut result = Ok(());
    for (position, document) in documents.iter().enumerate() {
        match tool_envelope::decode(&EnvelopeReader::default(), document) {
            Ok(readable) => output::print_json(&readable)?,
            Err(fallback) => {
                if let Some(text) = &fallback.text {
                    output::print_text(text)?;
                }
                output::error(&with_line_number(position, documents.len(), &fallback));
                result = Err(CommandError::Reported);
            }
        }
    }
    result
}

/// Prints each encoded envelope on one line, without formatting, because the exact bytes matter.
pub(crate) fn encode(input: &InputFile) -> Result<(), CommandError> {
    let text = document::read(input.file.as_deref())?;
    let documents = document::split_documents(&text);
    for (position, document) in documents.iter().enumerate() {
        let line_error = |reason: &dyn std::fmt::Display| {
            anyhow!(with_line_number(position, documents.len(), reason))
        };
        let readable = serde_json::from_str(document)
            .map_err(|error| line_error(&error))
            .context("the input is not JSON")?;
        let result = tool_envelope::encode(readable)
            .map_err(|error| line_error(&error))
            .context("the input is not {payload, meta, summary}")?;
        output::print_json_line(&result)?;
    }
    Ok(())
}

fn with_line_number(position: usize, documents: usize, reason: &dyn std::fmt::Display) -> String {
    if documents == 1 { reason.to_string() } else { format!("line {}: {reason}", position + 1) }
}
