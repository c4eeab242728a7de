//! `/.well-known/oauth-protected-resource`: names the authorization server (RFC 9728).

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use serde_json::{Value, json};

use super::bearer;
use super::problem::ProblemDetails;
use crate::auth::Authenticator;

/// Returns the metadata of the gateway, or of the resource whose path follows. It requires no
/// authentication and reveals no operations.
pub(crate) async fn metadata(
    State(authenticator): State<Authenticator>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>, ProblemDetails> {
    let (issuer, base) =
        bearer::authorization_server(&authenticator, &headers).ok_or_else(|| {
            ProblemDetails::not_found(
                "no authorization server is configured; create tokens with `toolpost token new`",
            )
        })?;
    let below = uri.path().strip_prefix(bearer::METADATA_PATH).unwrap_or_default();
    Ok(Json(json!({
        "resource": format!("{base}{below}"),
        "authorization_servers": [issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "Toolpost",
    })))
}
