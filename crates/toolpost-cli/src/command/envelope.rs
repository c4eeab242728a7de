//! `decode` and `encode`: convert between ToolEnvelope V1 and its readable form.

use anyhow::{Context, anyhow};
use toolpost::tool_envelope::{self, EnvelopeReader};

use super::document;
use crate::arguments::EnvelopeInput;
use crate::error::CommandError;
use crate::output;

/// Decodes the envelopes in the input. For a document without an envelope, prints the text it
/// contains.
pub(crate) fn decode(input: &EnvelopeInput) -> Result<(), CommandError> {
    let text = document::read(input.file.as_deref())?;
    let documents = document::split_documents(&text);
    let mut without = 0;
    for (position, document) in documents.iter().enumerate() {
        match tool_envelope::decode(&EnvelopeReader::default(), document) {
            Ok(readable) => output::print_json(&readable, input.format.json)?,
            Err(fallback) => {
                without += 1;
                let reason = fallback.to_string();
                if let Some(text) = fallback.text {
                    output::print_line(&output::sanitize(&text))?;
                }
                output::error(&with_line_number(position, documents.len(), &reason));
            }
        }
    }
    if without > 0 { Err(CommandError::Reported) } else { Ok(()) }
}

/// Prints each encoded envelope on one line, without formatting, because the exact bytes matter.
pub(crate) fn encode(input: &EnvelopeInput) -> Result<(), CommandError> {
    let text = document::read(input.file.as_deref())?;
    let documents = document::split_documents(&text);
    for (position, document) in documents.iter().enumerate() {
        let line_error =
            |reason: String| anyhow!(with_line_number(position, documents.len(), &reason));
        let readable = serde_json::from_str(document)
            .map_err(|error| line_error(error.to_string()))
            .context("the input is not JSON")?;
        let result = tool_envelope::encode(readable)
            .map_err(|error| line_error(error.to_string()))
            .context("the input is not {payload, meta, summary}")?;
        output::print_json_line(&result)?;
    }
    Ok(())
}

fn with_line_number(position: usize, documents: usize, reason: &str) -> String {
    if documents == 1 { reason.to_owned() } else { format!("line {}: {reason}", position + 1) }
}
