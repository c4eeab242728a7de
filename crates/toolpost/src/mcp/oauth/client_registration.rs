//! Registers the client with an authorization server.

use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::error::{OAuthError, redact_url};
use super::fetch::{FetchClient, endpoint_error, invalid_response};
use super::metadata::AuthorizationServer;
use super::scope;
use super::store::{ClientRegistration, Credentials};
use crate::clock::epoch_ms;
use crate::mcp::settings::OAuthSettings;
use crate::protocol::Secret;
use crate::token_endpoint::{AuthMethod, TokenError};

const REGISTRATION: &str = "client registration";

impl AuthMethod {
    /// Selects the registered method, otherwise the most secure one that the server supports.
    pub(super) fn for_client(client: &ClientRegistration, server: &AuthorizationServer) -> Self {
        if client.secret.is_none() {
            return Self::None;
        }
        let all = [Self::Basic, Self::Post, Self::None];
        let registered = client.auth_method.as_deref();
        let registered = all.into_iter().find(|method| Some(method.name()) == registered);
        registered
            .or_else(|| all.into_iter().find(|method| method.is_supported(server)))
            .unwrap_or(Self::Basic)
    }

    /// Whether the server supports the method; by default only Basic (RFC 8414, section 2).
    fn is_supported(self, server: &AuthorizationServer) -> bool {
        let methods = server.auth_methods.as_ref();
        methods.map_or(self == Self::Basic, |methods| scope::contains(methods, self.name()))
    }

    /// Selects the method to register with. A client on a user's machine needs no secret.
    fn for_registration(server: &AuthorizationServer) -> Self {
        let all = [Self::None, Self::Basic, Self::Post];
        all.into_iter().find(|method| method.is_supported(server)).unwrap_or(Self::None)
    }
}

/// Returns the client: configured, with a metadata URL, registered before, or registered now.
pub(super) async fn resolve_client(
    http: &FetchClient,
    settings: &OAuthSettings,
    server: &AuthorizationServer,
    stored: &[Credentials],
    redirect_uri: &Url,
    scopes: &[String],
) -> Result<ClientRegistration, OAuthError> {
    if let Some(client) = configured_client(settings, server, stored)? {
        return Ok(client);
    }
    if let Some(address) = &settings.client_metadata_url
        && server.supports_client_metadata_url
    {
        check_metadata_url(address)?;
        return Ok(ClientRegistration::new(address.clone()));
    }
    if let Some(client) = registered_client(server, stored, redirect_uri, scopes) {
        return Ok(client);
    }
    match &server.registration_endpoint {
        Some(endpoint) => register(http, server, endpoint, redirect_uri, scopes).await,
        None => Err(OAuthError::UnregisteredClient(format!(
            "the authorization server `{}` accepts only pre-registered clients",
            redact_url(&server.issuer)
        ))),
    }
}

/// Returns the configured client; fails if it belongs to another authorization server.
fn configured_client(
    settings: &OAuthSettings,
    server: &AuthorizationServer,
    stored: &[Credentials],
) -> Result<Option<ClientRegistration>, OAuthError> {
    let Some(id) = &settings.client_id else { return Ok(None) };
    // Without a configured issuer, the client belongs to the issuer it was first used with.
    let used = stored.iter().find(|credentials| &credentials.client.id == id);
    let registered_issuer =
        settings.issuer.as_ref().or(used.map(|credentials| &credentials.issuer));
    if let Some(registered_issuer) = registered_issuer
        && !super::url_policy::is_same_issuer(registered_issuer, &server.issuer)
    {
        return Err(OAuthError::UnregisteredClient(format!(
            "the configured client was registered at `{}`, and the server now uses `{}`",
            redact_url(registered_issuer),
            redact_url(&server.issuer)
        )));
    }
    let mut client = ClientRegistration::new(id.clone());
    client.secret = settings.client_secret.clone();
    Ok(Some(client))
}

/// Checks that the client metadata URL uses HTTPS and has a path.
fn check_metadata_url(address: &str) -> Result<(), OAuthError> {
    let what = "address of the client's metadata";
    let url = super::url_policy::UrlPolicy::HttpsOnly.parse(what, address)?;
    if url.path() == "/" {
        let address = redact_url(address);
        return Err(OAuthError::InvalidUrl { what, address, reason: "it has no path" });
    }
    Ok(())
}

/// Returns the client registered before, if its redirect URI, scopes and secret still fit.
fn registered_client(
    server: &AuthorizationServer,
    stored: &[Credentials],
    redirect: &Url,
    scopes: &[String],
) -> Option<ClientRegistration> {
    let now = epoch_ms();
    let fits = |credentials: &&Credentials| {
        let client = &credentials.client;
        credentials.issuer == server.issuer
            && scope::covers(&credentials.scopes, scopes)
            && client.redirect_uri.as_deref() == Some(redirect.as_str())
            && client.secret_expires_at.is_none_or(|expires| expires > now)
    };
    stored.iter().find(fits).map(|credentials| credentials.client.clone())
}

/// Response to a client registration (RFC 7591, section 3.2.1).
#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    client_secret: Option<String>,
    #[serde(default)]
    client_secret_expires_at: i64,
    token_endpoint_auth_method: Option<String>,
}

async fn register(
    http: &FetchClient,
    server: &AuthorizationServer,
    endpoint: &Url,
    redirect_uri: &Url,
    scopes: &[String],
) -> Result<ClientRegistration, OAuthError> {
    let native = redirect_uri.scheme() != "https";
    let mut registration = json!({
        "client_name": "Toolpost",
        "redirect_uris": [redirect_uri.as_str()],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": AuthMethod::for_registration(server).name(),
        "application_type": if native { "native" } else { "web" },
    });
    if !scopes.is_empty() {
        // Some servers reject scopes that the client was not registered with.
        registration["scope"] = scopes.join(" ").into();
    }
    let response = http.post_json(REGISTRATION, endpoint, &registration).await?;
    let invalid = |reason: &str| invalid_response(REGISTRATION, endpoint, reason);
    if let Some(error) = TokenError::from_response(response.status, &response.body) {
        return Err(endpoint_error(REGISTRATION, endpoint, error));
    }
    // The parser error could quote the secret.
    let registered: RegistrationResponse = serde_json::from_slice(&response.body)
        .map_err(|_| invalid("it is not a client registration response"))?;
    if registered.client_id.is_empty() {
        return Err(invalid("the client has no id"));
    }
    let mut client = ClientRegistration::new(registered.client_id);
    client.secret = registered.client_secret.map(Secret::new);
    client.auth_method = registered.token_endpoint_auth_method;
    client.redirect_uri = Some(redirect_uri.to_string());
    let expires = registered.client_secret_expires_at;
    client.secret_expires_at = (expires > 0).then(|| expires.saturating_mul(1_000));
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(methods: Option<&[&str]>) -> AuthorizationServer {
        let mut server =
            AuthorizationServer::with_default_endpoints(&Url::parse("https://a.example").unwrap());
        server.auth_methods =
            methods.map(|methods| methods.iter().map(|&method| method.to_owned()).collect());
        server
    }

    #[test]
    fn auth_method_is_chosen_from_registration_and_server() {
        use AuthMethod::{Basic, None as Public, Post};
        let [basic, post, none] = [Basic, Post, Public].map(AuthMethod::name);
        type Row<'a> = (Option<&'a str>, Option<&'a [&'a str]>, AuthMethod, AuthMethod);
        let rows: [Row<'_>; 8] = [
            // Each row: the registered method, the methods of the server, the method with a secret,
            // and the method to register with.
            (None, None, Basic, Basic),
            (None, Some(&[none]), Public, Public),
            (None, Some(&[post, basic]), Basic, Basic),
            (None, Some(&[post]), Post, Post),
            (None, Some(&["private_key_jwt"]), Basic, Public),
            (Some(post), Some(&[basic, none]), Post, Public),
            (Some(none), Some(&[basic]), Public, Basic),
            (Some("private_key_jwt"), Some(&[post]), Post, Post),
        ];
        for (agreed, known, with_secret, to_register) in rows {
            let server = server(known);
            let mut client = ClientRegistration::new("id");
            client.auth_method = agreed.map(str::to_owned);
            assert_eq!(
                AuthMethod::for_client(&client, &server),
                Public,
                "no secret, nothing to show"
            );
            client.secret = Some(Secret::new("s"));
            assert_eq!(
                AuthMethod::for_client(&client, &server),
                with_secret,
                "{agreed:?} {known:?}"
            );
            assert_eq!(AuthMethod::for_registration(&server), to_register, "{known:?}");
        }
    }

    #[test]
    fn configured_client_is_bound_to_its_issuer() {
        let mut settings = OAuthSettings { client_id: Some("id".into()), ..Default::default() };
        let here = server(None);
        let used_at = |issuer: &str| [Credentials::new(issuer, ClientRegistration::new("id"))];
        let rows: [(Option<&str>, &[Credentials], bool); 5] = [
            (None, &[], true),
            (None, &used_at("https://a.example"), true),
            (None, &used_at("https://b.example"), false),
            (Some("https://a.example/"), &used_at("https://b.example"), true),
            (Some("https://b.example"), &[], false),
        ];
        for (issuer, stored, fits) in rows {
            settings.issuer = issuer.map(str::to_owned);
            assert_eq!(configured_client(&settings, &here, stored).is_ok(), fits, "{issuer:?}");
        }
    }
}
