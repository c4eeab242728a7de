//! HTTP error responses: `application/problem+json` with the call error as a member.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use toolpost::shares::ShareError;
use toolpost::{CallError, ErrorCode, OperationSpec};

/// The header of the response to a call that did not run, because its idempotency key was used.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("toolpost-replayed");

/// An error as problem details (RFC 9457).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProblemDetails {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    #[serde(serialize_with = "as_number")]
    status: StatusCode,
    detail: String,
    /// The error of the call, if a call was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<CallError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// An additional response header, such as an authentication challenge.
    #[serde(skip)]
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

impl ProblemDetails {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status,
            detail: detail.into(),
            error: None,
            request_id: None,
            header: None,
        }
    }

    /// A 401 problem with the given `WWW-Authenticate` challenge.
    pub(crate) fn unauthorized(detail: impl Into<String>, challenge: HeaderValue) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, detail).with_header(header::WWW_AUTHENTICATE, challenge)
    }

    /// Adds a response header. An invalid value is ignored.
    pub(crate) fn with_header(
        mut self,
        name: HeaderName,
        value: impl TryInto<HeaderValue>,
    ) -> Self {
        self.header = value.try_into().ok().map(|value| Box::new((name, value)));
        self
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// The problem for a failed call. `spec` provides the status of declared errors.
    pub(crate) fn from_call_error(error: CallError, spec: Option<&OperationSpec>) -> Self {
        let mut problem = Self::new(status_of(&error, spec), error.message());
        problem.error = Some(error);
        problem
    }

    /// Returns the call error, or a validation error if there was no call.
    pub(crate) fn to_call_error(&self) -> CallError {
        let unreadable = || CallError::validation(self.detail.clone(), &[]);
        self.error.clone().unwrap_or_else(unreadable)
    }

    /// Returns the error message.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn with_request_id(mut self, id: String) -> Self {
        self.request_id = Some(id);
        self
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns `Retry-After` in seconds: the known delay, else a second if a retry may succeed.
    fn retry_after(&self) -> Option<u64> {
        let delay = self.error.as_ref().and_then(CallError::retry_after);
        let is_busy =
            matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let seconds = delay.map(|delay| delay.as_secs_f64().ceil() as u64);
        seconds.map(|seconds| seconds.max(1)).or(is_busy.then_some(1))
    }

    pub(crate) fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.to_json()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.error.as_ref().is_some_and(CallError::is_replayed) {
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        headers.extend(self.header.map(|header| *header));
        response
    }
}

/// Returns the HTTP status that the operation declares, or the default of the code.
fn status_of(error: &CallError, spec: Option<&OperationSpec>) -> StatusCode {
    let declared = match error.code() {
        ErrorCode::Domain(code) => declared_status(code, spec),
        _ => None,
    };
    let usual = || StatusCode::from_u16(error.code().info().http_status).ok();
    declared.or_else(usual).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn declared_status(code: &str, spec: Option<&OperationSpec>) -> Option<StatusCode> {
    let declared = spec?.error_schemas.iter().find(|declared| declared.code == code)?;
    let status = StatusCode::from_u16(declared.http_status?).ok()?;
    is_allowed_status(status).then_some(status)
}

/// Whether a declared error may use a status. A success status would make a failure look like a
/// result. 401 and 407 would make clients replace the token of this gateway.
fn is_allowed_status(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400..=599) && !matches!(status.as_u16(), 401 | 407)
}

fn as_number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

/// A reached share is a 429 problem, and a reached total a 503 problem.
impl From<ShareError> for ProblemDetails {
    fn from(error: ShareError) -> Self {
        let mut problem = Self::from_call_error(error.into(), None);
        if error.is_total() {
            problem.status = StatusCode::SERVICE_UNAVAILABLE;
            problem.title = problem.status.canonical_reason().unwrap_or("Error");
        }
        problem
    }
}

impl axum::response::IntoResponse for ProblemDetails {
    fn into_response(self) -> Response {
        Self::into_response(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolpost::{ErrorDefinition, OperationKind};

    use super::*;

    #[test]
    fn error_codes_map_to_http_status() {
        let mut spec = OperationSpec::new(&"t.op".parse().unwrap(), OperationKind::Query);
        spec.error_schemas = vec![
            ErrorDefinition::new("SOLD_OUT", "").with_http_status(409),
            ErrorDefinition::new("ODD", "").with_http_status(200),
            ErrorDefinition::new("WHO", "").with_http_status(401),
            ErrorDefinition::new("WHO_HALFWAY", "").with_http_status(407),
            ErrorDefinition::new("PLAIN", ""),
        ];
        for (code, status) in [
            ("OPERATION_NOT_FOUND", 404),
            ("ACCESS_DENIED", 403),
            ("VALIDATION_ERROR", 422),
            ("TIMEOUT", 504),
            ("ABORTED", 503),
            ("UNAVAILABLE", 503),
            ("OVERLOADED", 429),
            ("EXECUTION_ERROR", 502),
            ("OUTPUT_VALIDATION_FAILED", 502),
            ("UNKNOWN_ERROR", 500),
            ("IDEMPOTENCY_CONFLICT", 422),
            ("INTERRUPTED", 500),
            ("SOLD_OUT", 409),
            ("ODD", 502),
            ("WHO", 502),
            ("WHO_HALFWAY", 502),
            ("PLAIN", 502),
            ("UNDECLARED", 502),
        ] {
            let error = CallError::new(code.into(), "m");
            assert_eq!(status_of(&error, Some(&spec)).as_u16(), status, "{code}");
        }
    }

    #[test]
    fn unavailable_response_has_retry_after() {
        for (details, expected) in [
            (json!({"retryAfterMs": 2_500}), "3"),
            (json!({"retryAfterMs": 0}), "1"),
            (json!(null), "1"),
        ] {
            let error = CallError::unavailable("m").with_details(details.clone());
            let response = ProblemDetails::from_call_error(error, None).into_response();
            assert_eq!(response.headers()["retry-after"], expected, "{details}");
        }
    }
}
