//! The payload of a failed call, and the tool result that contains it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::extensible_object::{ExtensibleValue, extensible_object};
use super::{PayloadShapeError, ToolEnvelope, ToolEnvelopeMeta, WriteError};
use crate::json::ValuePath;

/// Tool name of every error envelope.
pub const ERROR_TOOL: &str = "mcp";

extensible_object! {
    /// Payload of an error result.
    ///
    /// `Display` writes the text of block 0.
    pub struct ErrorPayload {
        /// Category of the error.
        category: ErrorCategory = "category",
        /// Machine-readable error code.
        code: String = "code",
        /// Human-readable message.
        message: String = "message",
        /// Further details: a location, a list of issues, a trace.
        details: Option<String> = "details",
        /// Whether calling again, as it was or with corrected input, can succeed.
        recoverable: bool = "recoverable",
        /// How to fix the error.
        suggested_action: Option<String> = "suggestedAction",
        /// Name of the tool to call next.
        next_tool: Option<String> = "nextTool",
    }
}

/// Category of an error. An unknown category keeps its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorCategory {
    /// The input is invalid.
    Validation,
    /// The tool ran and failed.
    Execution,
    /// The tool timed out.
    Timeout,
    /// The model behind the tool failed.
    Model,
    /// A network dependency is unreachable.
    Network,
    /// The caller is not authorized.
    Authorization,
    /// A rate or concurrency limit was exceeded.
    RateLimit,
    /// The tool or resource does not exist.
    NotFound,
    /// The server failed.
    Internal,
    /// A category unknown to this version.
    #[serde(untagged)]
    Other(String),
}

/// Returns the category for the code of a call error.
pub fn category_for_code(code: &str) -> ErrorCategory {
    match code {
        "VALIDATION_ERROR" => ErrorCategory::Validation,
        "TIMEOUT" => ErrorCategory::Timeout,
        "ACCESS_DENIED" => ErrorCategory::Authorization,
        "OPERATION_NOT_FOUND" => ErrorCategory::NotFound,
        "OVERLOADED" => ErrorCategory::RateLimit,
        "UNAVAILABLE" => ErrorCategory::Network,
        "UNKNOWN_ERROR" => ErrorCategory::Internal,
        _ => ErrorCategory::Execution,
    }
}

/// Returns the category for the status of an HTTP response, if the status is more specific than
/// [`ErrorCategory::Execution`].
pub fn category_for_status(status: u64) -> Option<ErrorCategory> {
    Some(match status {
        401 | 403 => ErrorCategory::Authorization,
        404 => ErrorCategory::NotFound,
        408 | 504 => ErrorCategory::Timeout,
        422 => ErrorCategory::Validation,
        429 => ErrorCategory::RateLimit,
        500..=599 => ErrorCategory::Network,
        _ => return None,
    })
}

/// Builds the tool result of a failed call: text, envelope and `isError`.
///
/// # Errors
///
/// Returns [`WriteError::TooDeep`] if an unknown member of `payload` nests too deeply.
pub fn error_result(payload: &ErrorPayload, epoch_ms: i64) -> Result<Value, WriteError> {
    let json = serde_json::to_value(payload).expect("the payload serializes");
    let envelope = ToolEnvelope::new(json, ToolEnvelopeMeta::new(ERROR_TOOL, epoch_ms));
    let mut result = envelope.to_result(payload.to_string())?;
    result["isError"] = Value::Bool(true);
    Ok(result)
}

impl ErrorPayload {
    /// Creates a non-recoverable error with only a category, a code and a message.
    pub fn new(
        category: ErrorCategory,
        code: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            category,
            code: code.into(),
            message: message.into(),
            details: None,
            recoverable: false,
            suggested_action: None,
            next_tool: None,
            extra: serde_json::Map::new(),
        }
    }

    /// Creates the payload of a call error. The category is derived from the code, or from
    /// `statusCode` in the details if the code means a failed execution. Errors of the categories
    /// `validation` and `rate_limit` are recoverable.
    ///
    /// Text details are kept as they are; other details become compact JSON.
    pub fn from_call_error(
        code: impl Into<String>,
        message: impl Into<String>,
        details: Option<&Value>,
    ) -> Self {
        let code = code.into();
        let mut category = category_for_code(&code);
        if category == ErrorCategory::Execution {
            let status = details.and_then(|details| details.get("statusCode")?.as_u64());
            category = status.and_then(category_for_status).unwrap_or(category);
        }
        let mut payload = Self::new(category, code, message);
        payload.recoverable =
            matches!(payload.category, ErrorCategory::Validation | ErrorCategory::RateLimit);
        payload.details = details.map(|details| match details {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        payload
    }
}

impl fmt::Display for ErrorPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]: {}", self.category.label(), self.code, self.message)?;
        if let Some(details) = &self.details {
            write!(f, "\nDetails: {details}")?;
        }
        if let Some(action) = &self.suggested_action {
            write!(f, "\nSuggestion: {action}")?;
        }
        if let Some(tool) = &self.next_tool {
            write!(f, "\nNext: call `{tool}` to proceed.")?;
        }
        if self.recoverable {
            f.write_str("\n(This error may be recoverable — retry is safe.)")?;
        }
        Ok(())
    }
}

impl ErrorCategory {
    /// Returns the icon and label at the start of an error's text.
    ///
    /// Two of the icons are followed by two spaces, because terminals draw them wider.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Validation => "❌ Validation error",
            Self::Execution => "⚠️  Execution error",
            Self::Timeout => "⏱  Timeout",
            Self::Model => "🤖 Model error",
            Self::Network => "🌐 Network error",
            Self::Authorization => "🔒 Authorization error",
            Self::RateLimit => "🚦 Rate limit exceeded",
            Self::NotFound => "🔍 Not found",
            Self::Internal => "💥 Internal error",
            Self::Other(_) => "❌ Error",
        }
    }
}

impl ExtensibleValue for ErrorCategory {
    fn read(value: &Value, path: ValuePath<'_>) -> Result<Self, PayloadShapeError> {
        let name = String::read(value, path)?;
        Ok(Self::deserialize(value).unwrap_or(Self::Other(name)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool_envelope::EnvelopeReader;

    #[test]
    fn category_for_code_maps_every_code() {
        let cases = [
            ("VALIDATION_ERROR", "validation"),
            ("TIMEOUT", "timeout"),
            ("ACCESS_DENIED", "authorization"),
            ("OPERATION_NOT_FOUND", "not_found"),
            ("OVERLOADED", "rate_limit"),
            ("UNAVAILABLE", "network"),
            ("UNKNOWN_ERROR", "internal"),
            ("EXECUTION_ERROR", "execution"),
            ("ABORTED", "execution"),
            ("OUTPUT_VALIDATION_FAILED", "execution"),
            ("timeout", "execution"),
            ("", "execution"),
        ];
        for (code, category) in cases {
            assert_eq!(json!(category_for_code(code)), category, "{code}");
        }
    }

    #[test]
    fn status_decides_the_category_of_a_failed_execution() {
        for (code, status, category, is_recoverable) in [
            ("EXECUTION_ERROR", 400, "execution", false),
            ("EXECUTION_ERROR", 401, "authorization", false),
            ("EXECUTION_ERROR", 403, "authorization", false),
            ("EXECUTION_ERROR", 404, "not_found", false),
            ("EXECUTION_ERROR", 408, "timeout", false),
            ("EXECUTION_ERROR", 409, "execution", false),
            ("EXECUTION_ERROR", 422, "validation", true),
            ("EXECUTION_ERROR", 429, "rate_limit", true),
            ("EXECUTION_ERROR", 500, "network", false),
            ("EXECUTION_ERROR", 503, "network", false),
            ("EXECUTION_ERROR", 504, "timeout", false),
            ("HTTP_ERROR", 429, "rate_limit", true),
            ("OVERLOADED", 500, "rate_limit", true),
            ("TIMEOUT", 404, "timeout", false),
        ] {
            let details = json!({"statusCode": status});
            let payload = ErrorPayload::from_call_error(code, "m", Some(&details));
            assert_eq!(json!(payload.category), category, "{code} {status}");
            assert_eq!(payload.recoverable, is_recoverable, "{code} {status}");
        }
    }

    #[test]
    fn error_category_has_label() {
        let cases = [
            ("validation", "\u{274c} Validation error"),
            ("execution", "\u{26a0}\u{fe0f}\u{20}\u{20}Execution error"),
            ("timeout", "\u{23f1}\u{20}\u{20}Timeout"),
            ("model", "\u{1f916} Model error"),
            ("network", "\u{1f310} Network error"),
            ("authorization", "\u{1f512} Authorization error"),
            ("rate_limit", "\u{1f6a6} Rate limit exceeded"),
            ("not_found", "\u{1f50d} Not found"),
            ("internal", "\u{1f4a5} Internal error"),
            ("cosmic", "\u{274c} Error"),
        ];
        for (name, label) in cases {
            let category: ErrorCategory = serde_json::from_value(json!(name)).unwrap();
            assert_eq!((json!(category), category.label()), (json!(name), label));
        }
    }

    #[test]
    fn error_payload_display_omits_absent_lines() {
        let cases = [
            (
                json!({"category": "timeout", "code": "T", "message": "m", "recoverable": false}),
                "⏱  Timeout [T]: m",
            ),
            (
                json!({"category": "model", "code": "M", "message": "m", "recoverable": true}),
                "🤖 Model error [M]: m\n(This error may be recoverable — retry is safe.)",
            ),
            (
                json!({
                    "category": "execution", "code": "E", "message": "broken.", "details": "line 3",
                    "recoverable": true, "suggestedAction": "Mend it.", "nextTool": "mend",
                }),
                "⚠️  Execution error [E]: broken.\nDetails: line 3\nSuggestion: Mend it.\n\
                 Next: call `mend` to proceed.\n\
                 (This error may be recoverable — retry is safe.)",
            ),
            (
                json!({
                    "category": "new", "code": "N", "message": "m", "details": null,
                    "recoverable": false, "nextTool": "x",
                }),
                "❌ Error [N]: m\nNext: call `x` to proceed.",
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(ErrorPayload::read(&json).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn error_result_from_call_error() {
        let details = json!({"issues": ["/a"]});
        let mut payload =
            ErrorPayload::from_call_error("VALIDATION_ERROR", "does not fit", Some(&details));
        payload.suggested_action = Some("Fit it.".to_owned());
        let result = error_result(&payload, 0).unwrap();

        let read = EnvelopeReader::default().read_result(&result).unwrap();
        assert_eq!(read.is_error, Some(true));
        assert_eq!(
            read.summary,
            "❌ Validation error [VALIDATION_ERROR]: does not fit\n\
             Details: {\"issues\":[\"/a\"]}\nSuggestion: Fit it.\n\
             (This error may be recoverable — retry is safe.)"
        );
        assert_eq!(
            serde_json::to_string(&read.envelope).unwrap(),
            concat!(
                r#"{"payload":{"category":"validation","code":"VALIDATION_ERROR","#,
                r#""message":"does not fit","details":"{\"issues\":[\"/a\"]}","recoverable":true,"#,
                r#""suggestedAction":"Fit it."},"#,
                r#""meta":{"tool":"mcp","ts":"1970-01-01T00:00:00.000Z","version":1}}"#,
            )
        );
        assert_eq!(ErrorPayload::read(&read.envelope.payload), Ok(payload));
        assert_eq!(result.as_object().unwrap().keys().collect::<Vec<_>>(), ["content", "isError"]);
    }

    #[test]
    fn error_payload_keeps_text_details() {
        let payload = ErrorPayload::from_call_error("X", "m", Some(&json!("plain")));
        assert_eq!(payload.details.as_deref(), Some("plain"));
        assert_eq!(ErrorPayload::from_call_error("X", "m", None).details, None);
    }
}
