//! JSON-RPC errors of passthrough requests.

use serde_json::{Value, json};
use toolpost::CallError;
use toolpost::mcp::{ServerError, server_error};
use toolpost::view::ProtocolGeneration;

use super::MISSING_META;
use crate::endpoint::mcp::json_rpc::JsonRpcError;

/// Error code of an unknown resource for clients before 2026-07-28.
const RESOURCE_NOT_FOUND: i64 = -32002;

impl JsonRpcError {
    pub(super) fn unknown_prompt(name: &str) -> Self {
        let name = truncate(name);
        let data = Some(json!({"name": name}));
        Self { data, ..Self::invalid_params(format!("unknown prompt `{name}`")) }
    }

    /// The error for a URI that no source has. `missing` lists the sources that could not be
    /// queried.
    pub(super) fn unknown_resource(
        generation: ProtocolGeneration,
        uri: &str,
        missing: &[Value],
    ) -> Self {
        let uri = truncate(uri);
        let mut data = json!({"uri": uri});
        if !missing.is_empty() {
            data[MISSING_META] = missing.into();
        }
        let code = if generation == ProtocolGeneration::Modern {
            Self::INVALID_PARAMS
        } else {
            RESOURCE_NOT_FOUND
        };
        let message = format!("unknown resource `{uri}`");
        Self { data: Some(data), ..Self::new(code, message) }
    }
}

/// Truncates client input that is quoted in an error.
fn truncate(text: &str) -> &str {
    &text[..text.floor_char_boundary(500)]
}

/// An error of an MCP server is forwarded with its own code, message and data. Any other error is
/// included in `data`.
impl From<CallError> for JsonRpcError {
    fn from(error: CallError) -> Self {
        if let Some(ServerError { code, message, data, .. }) = server_error(&error) {
            let (message, data, is_foreign) = (message.to_owned(), data.cloned(), true);
            // These codes describe the connection to the source, not the connection to this client.
            if matches!(code, Self::HEADER_MISMATCH | Self::UNSUPPORTED_VERSION) {
                let data = serde_json::to_value(&error).ok();
                return Self {
                    code: Self::INTERNAL_ERROR,
                    message,
                    data,
                    is_from_source: is_foreign,
                };
            }
            return Self { code, message, data, is_from_source: is_foreign };
        }
        let code = error.code().info().json_rpc_code;
        let data = serde_json::to_value(&error).ok();
        Self { code, message: error.message().to_owned(), data, is_from_source: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_errors_convert_to_json_rpc_errors() {
        let own = |code: &str| json!({"code": code, "message": "no", "retryable": false});
        let validation = || CallError::validation("no", &[]);
        let rpc_details = json!({"jsonrpcCode": -32050, "data": [1]});
        let issue = json!([{"path": "", "message": "no", "jsonrpcCode": -32602, "data": {"a": 1}}]);
        let mut details = own("VALIDATION_ERROR");
        details["details"] = json!([]);
        for (error, code, data) in [
            (CallError::access_denied("no"), -32603, Some(own("ACCESS_DENIED"))),
            (CallError::timeout("no"), -32603, Some(own("TIMEOUT"))),
            (CallError::unavailable("no"), -32603, Some(own("UNAVAILABLE"))),
            (validation(), -32602, Some(details)),
            (CallError::execution("no").with_details(rpc_details), -32050, Some(json!([1]))),
            (validation().with_details(issue), -32602, Some(json!({"a": 1}))),
            (CallError::execution("no").with_details(json!({"jsonrpcCode": 7})), 7, None),
        ] {
            let row = format!("{error:?}");
            let is_foreign = error
                .details()
                .is_some_and(|rpc_details| rpc_details.to_string().contains("jsonrpcCode"));
            let expected =
                JsonRpcError { code, message: "no".to_owned(), data, is_from_source: is_foreign };
            assert_eq!(JsonRpcError::from(error), expected, "{row}");
        }
    }
}
