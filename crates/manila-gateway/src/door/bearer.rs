//! `Authorization: Bearer …`: from a header to an identity, or to a 401.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use manila::Identity;

use super::problem::Problem;
use crate::auth::{AuthError, Authenticator};

/// RFC 6750 wants a parameter behind the scheme, and no error where nothing was presented.
const MISSING: &str = r#"Bearer realm="manila""#;
const REFUSED: &str = r#"Bearer realm="manila", error="invalid_token""#;

pub(super) fn identify(
    authenticator: &Authenticator,
    headers: &HeaderMap,
) -> Result<Arc<Identity>, Problem> {
    let token = presented(headers)?;
    authenticator.authenticate(token).map_err(|error| match error {
        AuthError::Missing => Problem::unauthorised(error.to_string(), MISSING),
        other => Problem::unauthorised(other.to_string(), REFUSED),
    })
}

/// The token, if there is one. Credentials of another kind are refused rather than overlooked, for
/// their owner believes to be somebody.
pub(super) fn presented(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let bearer = value.to_str().ok().and_then(|text| text.split_once(' '));
    match (bearer, values.next()) {
        (Some((scheme, token)), None) if scheme.eq_ignore_ascii_case("bearer") => {
            Ok(Some(token.trim()))
        }
        _ => Err(Problem::unauthorised(
            "the Authorization header must be `Bearer` and a token, once",
            REFUSED,
        )),
    }
}
