//! What a client is told when there is no result.

use serde_json::{Value, json};
use toolpost::CallError;
use toolpost::mcp::{ServerError, server_error};
use toolpost::view::Era;

use super::MISSING_META;
use crate::door::mcp::message::Fault;

/// What clients before 2026-07-28 know an unknown resource by.
const RESOURCE_NOT_FOUND: i64 = -32002;

impl Fault {
    pub(super) fn unknown_prompt(name: &str) -> Self {
        let name = short(name);
        let data = Some(json!({"name": name}));
        Self { data, ..Self::invalid_params(format!("there is no prompt `{name}`")) }
    }

    /// Nobody knows the address, apart from those who could not be asked.
    pub(super) fn unknown_resource(era: Era, uri: &str, missing: &[Value]) -> Self {
        let uri = short(uri);
        let mut data = json!({"uri": uri});
        if !missing.is_empty() {
            data[MISSING_META] = missing.into();
        }
        let code = if era == Era::Modern { Self::INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
        let words = format!("there is no resource `{uri}`");
        Self { data: Some(data), ..Self::new(code, words) }
    }
}

/// The beginning of what a client said; it knows the rest.
fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(500)]
}

/// What a server said goes on in its own words; everything else is told whole in the data.
impl From<CallError> for Fault {
    fn from(error: CallError) -> Self {
        if let Some(ServerError { code, message, data, .. }) = server_error(&error) {
            let (message, data, is_foreign) = (message.to_owned(), data.cloned(), true);
            // What is said about a connection is about the one behind this server.
            if matches!(code, Self::HEADER_MISMATCH | Self::UNSUPPORTED_VERSION) {
                let data = serde_json::to_value(&error).ok();
                return Self { code: Self::INTERNAL, message, data, is_foreign };
            }
            return Self { code, message, data, is_foreign };
        }
        let code = error.code().meaning().json_rpc_code;
        let data = serde_json::to_value(&error).ok();
        Self { code, message: error.message().to_owned(), data, is_foreign: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_what_they_say() {
        let own = |code: &str| json!({"code": code, "message": "no", "retryable": false});
        let validation = || CallError::validation("no", &[]);
        let said = json!({"jsonrpcCode": -32050, "data": [1]});
        let issue = json!([{"path": "", "message": "no", "jsonrpcCode": -32602, "data": {"a": 1}}]);
        let mut details = own("VALIDATION_ERROR");
        details["details"] = json!([]);
        for (error, code, data) in [
            (CallError::access_denied("no"), -32603, Some(own("ACCESS_DENIED"))),
            (CallError::timeout("no"), -32603, Some(own("TIMEOUT"))),
            (CallError::unavailable("no"), -32603, Some(own("UNAVAILABLE"))),
            (validation(), -32602, Some(details)),
            (CallError::execution("no").with_details(said), -32050, Some(json!([1]))),
            (validation().with_details(issue), -32602, Some(json!({"a": 1}))),
            (CallError::execution("no").with_details(json!({"jsonrpcCode": 7})), 7, None),
        ] {
            let row = format!("{error:?}");
            let is_foreign =
                error.details().is_some_and(|said| said.to_string().contains("jsonrpcCode"));
            let expected = Fault { code, message: "no".to_owned(), data, is_foreign };
            assert_eq!(Fault::from(error), expected, "{row}");
        }
    }
}
