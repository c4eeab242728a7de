//! Requests to the token endpoint.

use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::client_registration::{AuthMethod, basic_authorization};
use super::error::{OAuthError, excerpt};
use super::fetch::{FetchClient, FetchResponse};
use super::metadata::AuthorizationServer;
use super::scope;
use super::store::{ClientRegistration, Tokens};
use crate::clock::epoch_ms;
use crate::protocol::Secret;

const TOKEN_ENDPOINT: &str = "token endpoint";
/// Maximum length of a token in bytes; every request carries it in a header.
const MAX_TOKEN_BYTES: usize = 64 * 1024;

/// A grant to exchange for tokens.
#[derive(Debug)]
pub(super) enum Grant<'a> {
    /// The authorization code of a user authorization.
    AuthorizationCode { code: &'a Secret, verifier: &'a Secret, redirect_uri: &'a str },
    /// The refresh token from the last response.
    RefreshToken(&'a Secret),
}

/// Exchanges a grant for tokens. If the server states no scopes, `scopes` are assumed; if it issues
/// no new refresh token, the old one stays valid.
pub(super) async fn exchange(
    http: &FetchClient,
    server: &AuthorizationServer,
    client: &ClientRegistration,
    resource: &str,
    grant: &Grant<'_>,
    scopes: &[String],
) -> Result<Tokens, OAuthError> {
    let (form, header) = token_request(server, client, resource, grant);
    let url = &server.token_endpoint;
    let response = http.post_form(TOKEN_ENDPOINT, url, form, header.as_ref()).await?;
    let mut tokens = parse_tokens(&response)?;
    tokens.scopes.get_or_insert_with(|| scopes.to_vec());
    if let Grant::RefreshToken(old) = grant {
        tokens.refresh.get_or_insert_with(|| (*old).clone());
    }
    Ok(tokens)
}

/// Returns the form of a token request and its `Authorization` header.
fn token_request(
    server: &AuthorizationServer,
    client: &ClientRegistration,
    resource: &str,
    grant: &Grant<'_>,
) -> (String, Option<Secret>) {
    let method = AuthMethod::for_client(client, server);
    let mut form = Serializer::new(String::new());
    match grant {
        Grant::AuthorizationCode { code, verifier, redirect_uri } => form
            .append_pair("grant_type", "authorization_code")
            .append_pair("code", code.reveal())
            .append_pair("code_verifier", verifier.reveal())
            .append_pair("redirect_uri", redirect_uri),
        Grant::RefreshToken(token) => form
            .append_pair("grant_type", "refresh_token")
            .append_pair("refresh_token", token.reveal()),
    };
    // Some servers read the client id only from the form, so it is sent even with the header.
    form.append_pair("resource", resource).append_pair("client_id", &client.id);
    let mut header = None;
    match (method, &client.secret) {
        (AuthMethod::Basic, Some(secret)) => header = Some(basic_authorization(&client.id, secret)),
        (AuthMethod::Post, Some(secret)) => {
            form.append_pair("client_secret", secret.reveal());
        }
        _ => {}
    }
    (form.finish(), header)
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: Option<String>,
    token_type: Option<String>,
    /// A number; some servers send it as a string.
    expires_in: Option<Value>,
    refresh_token: Option<String>,
    scope: Option<String>,
    error: Option<String>,
}

fn parse_tokens(response: &FetchResponse) -> Result<Tokens, OAuthError> {
    // Some servers return errors with status 200.
    let parsed: Option<TokenResponse> = serde_json::from_slice(&response.body).ok();
    let rejected = parsed.as_ref().is_some_and(|parsed| parsed.error.is_some());
    if response.status != 200 || rejected {
        return Err(error_from_response(response));
    }
    // The parser error could quote the token.
    let parsed =
        parsed.ok_or_else(|| response.invalid_response("it is not the description of a token"))?;
    let access =
        parsed.access_token.ok_or_else(|| response.invalid_response("it has no access token"))?;
    if !is_valid_token(&access) {
        return Err(response.invalid_response("the access token does not fit a header"));
    }
    if parsed.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(response.invalid_response("the token is not of the type Bearer"));
    }
    let mut tokens = Tokens::new(Secret::new(access));
    tokens.obtained_at = epoch_ms();
    tokens.refresh = parsed.refresh_token.filter(|token| !token.is_empty()).map(Secret::new);
    tokens.scopes = parsed.scope.map(|text| scope::parse(&text)).filter(|list| !list.is_empty());
    let seconds = parsed.expires_in.as_ref().and_then(parse_seconds);
    tokens.expires_at =
        seconds.map(|seconds| tokens.obtained_at.saturating_add(seconds.saturating_mul(1_000)));
    Ok(tokens)
}

fn is_valid_token(token: &str) -> bool {
    !token.is_empty()
        && token.len() <= MAX_TOKEN_BYTES
        && token.bytes().all(|byte| byte.is_ascii_graphic())
}

fn parse_seconds(value: &Value) -> Option<i64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok()?,
        // Fractions are truncated, and values out of range saturate.
        other => other.as_f64()? as i64,
    };
    Some(number.max(0))
}

/// Converts an error response, with the OAuth error code if there is one.
pub(super) fn error_from_response(response: &FetchResponse) -> OAuthError {
    #[derive(Deserialize)]
    struct OAuthErrorResponse {
        error: String,
        error_description: Option<String>,
    }
    match serde_json::from_slice::<OAuthErrorResponse>(&response.body) {
        Ok(error_response) if response.status < 500 && response.status != 429 => {
            OAuthError::Rejected {
                what: response.what,
                address: response.address.clone(),
                error: excerpt(&error_response.error),
                description: error_response.error_description.as_deref().map(excerpt),
            }
        }
        _ => response.invalid_response(format!("it has status {}", response.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fetch_response(status: u16, body: &str) -> FetchResponse {
        let (what, address) = (TOKEN_ENDPOINT, "https://a/token".to_owned());
        FetchResponse { what, address, status, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn token_request_authenticates_client_by_method() {
        let url = url::Url::parse("https://as.example").unwrap();
        let (token, server) =
            (Secret::new("r t"), AuthorizationServer::with_default_endpoints(&url));
        let rows = [
            // Each row: client secret, registered method, expected form suffix, expected header.
            (None, None, "", None),
            (Some("s&t"), Some("client_secret_post"), "&client_secret=s%26t", None),
            (Some("s&t"), Some("client_secret_basic"), "", Some("Basic aWQ6cyUyNnQ=")),
            (Some("s&t"), None, "", Some("Basic aWQ6cyUyNnQ=")),
            (Some("s&t"), Some("none"), "", None),
        ];
        for (secret, auth_method, end, expected) in rows {
            let mut client = ClientRegistration::new("id");
            client.secret = secret.map(Secret::new);
            client.auth_method = auth_method.map(str::to_owned);
            let (form, header) =
                token_request(&server, &client, "https://r", &Grant::RefreshToken(&token));
            let start = "grant_type=refresh_token&refresh_token=r+t&resource=https%3A%2F%2Fr";
            assert_eq!(form, format!("{start}&client_id=id{end}"));
            assert_eq!(header.as_ref().map(Secret::reveal), expected, "{auth_method:?}");
        }
    }

    #[test]
    fn token_response_yields_tokens_or_error_without_secrets() {
        let long = "x".repeat(MAX_TOKEN_BYTES + 1);
        let rows = [
            (200, json!({"access_token": "hunter2", "token_type": "bearer"}), Ok(None)),
            (200, json!({"access_token": "hunter2", "expires_in": 60}), Ok(Some(60))),
            (200, json!({"access_token": "hunter2", "expires_in": "60"}), Ok(Some(60))),
            (200, json!({"access_token": "hunter2", "expires_in": 1.5}), Ok(Some(1))),
            (200, json!({"access_token": "hunter2", "expires_in": -5}), Ok(Some(0))),
            (200, json!({"access_token": "hunter2", "expires_in": []}), Ok(None)),
            (200, json!({"access_token": "hunter2", "token_type": "DPoP"}), Err("type Bearer")),
            (200, json!({"access_token": ["hunter2"]}), Err("not the description")),
            (200, json!({"access_token": "hunter2\r\nx: y"}), Err("does not fit a header")),
            (200, json!({"access_token": long}), Err("does not fit a header")),
            (200, json!({"access_token": ""}), Err("does not fit a header")),
            (200, json!({"refresh_token": "hunter2"}), Err("no access token")),
            (200, json!({"error": "bad_verification_code"}), Err("bad_verification_code")),
            (200, json!("hunter2"), Err("not the description")),
            (
                400,
                json!({"error": "invalid_grant", "error_description": "x\ny"}),
                Err("(x\u{fffd}y)"),
            ),
            (400, json!({"access_token": "hunter2"}), Err("status 400")),
            (503, json!({"error": "x"}), Err("status 503")),
        ];
        for (status, body, expected) in rows {
            let body = body.to_string();
            match (parse_tokens(&fetch_response(status, &body)), expected) {
                (Ok(tokens), Ok(seconds)) => {
                    let lives = tokens.expires_at.map(|at| (at - tokens.obtained_at) / 1_000);
                    assert_eq!(lives, seconds, "{body}");
                    assert!(!format!("{tokens:?}").contains("hunter2"));
                }
                (Err(error), Err(expected_message)) => {
                    let rendered = format!("{error} {error:?}");
                    assert!(error.to_string().contains(expected_message), "{error}");
                    assert!(!rendered.contains("hunter2"), "{rendered}");
                    assert_eq!(error.is_transient(), status == 503);
                }
                (result, _) => panic!("{body}: {result:?}"),
            }
        }
    }
}
