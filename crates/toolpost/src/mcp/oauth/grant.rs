//! Requests to the token endpoint.

use super::error::OAuthError;
use super::fetch::{FetchClient, endpoint_error};
use super::metadata::AuthorizationServer;
use super::scope;
use super::store::{ClientRegistration, Tokens};
use crate::clock::epoch_ms;
use crate::protocol::Secret;
use crate::token_endpoint::{AuthMethod, TokenRequest};

/// A grant to exchange for tokens.
#[derive(Debug)]
pub(super) enum Grant<'a> {
    /// The authorization code of a user authorization.
    AuthorizationCode { code: &'a Secret, verifier: &'a Secret, redirect_uri: &'a str },
    /// The refresh token from the last response.
    RefreshToken(&'a Secret),
}

/// Exchanges a grant for tokens. If the response contains no scopes, `scopes` are assumed. If it
/// contains no refresh token, the old one stays valid.
pub(super) async fn exchange(
    http: &FetchClient,
    server: &AuthorizationServer,
    client: &ClientRegistration,
    resource: &str,
    grant: &Grant<'_>,
    scopes: &[String],
) -> Result<Tokens, OAuthError> {
    let (mut form, old_refresh) = match grant {
        Grant::AuthorizationCode { code, verifier, redirect_uri } => {
            let form = vec![
                ("grant_type", "authorization_code"),
                ("code", code.reveal()),
                ("code_verifier", verifier.reveal()),
                ("redirect_uri", redirect_uri),
            ];
            (form, None)
        }
        Grant::RefreshToken(token) => {
            let form = vec![("grant_type", "refresh_token"), ("refresh_token", token.reveal())];
            (form, Some((*token).clone()))
        }
    };
    // Some servers read the client id only from the form, so it is sent even with the header.
    form.extend([("resource", resource), ("client_id", &client.id)]);
    let request = TokenRequest {
        url: &server.token_endpoint,
        client_id: &client.id,
        client_secret: client.secret.as_ref(),
        auth_method: AuthMethod::for_client(client, server),
        form,
    };
    let issued = request.send(&http.client).await;
    let issued = issued.map_err(|error| endpoint_error("token endpoint", request.url, error))?;
    let obtained_at = epoch_ms();
    let lifetime = issued.lifetime.and_then(|life| i64::try_from(life.as_millis()).ok());
    let granted = issued.scope.map(|text| scope::parse(&text)).filter(|list| !list.is_empty());
    Ok(Tokens {
        access: issued.access,
        refresh: issued.refresh.or(old_refresh),
        scopes: granted.or_else(|| Some(scopes.to_vec())),
        obtained_at,
        expires_at: lifetime.map(|life| obtained_at.saturating_add(life)),
    })
}
