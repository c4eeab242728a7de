//! All security schemes, as the service receives them.

use std::sync::Arc;

use serde_json::json;

use super::super::{Credential, CredentialError, CredentialStore, Credentials};
use super::fixture::http_client;
use crate::openapi::plan::{
    OperationPlan, Parameter, ParameterLocation, SchemeRequirement, SecurityRequirement,
    SecurityScheme, Style,
};
use crate::openapi::request::PreparedRequest;
use crate::openapi::request::tests::echo_server::EchoServer;
use crate::openapi::request::tests::plans::{fill_request, plan, styled_parameter};
use crate::protocol::Secret;
use crate::tls::ClientTls;

/// Secret that must not appear in any output.
const SECRET: &str = "hush-hush";

fn secret() -> Secret {
    Secret::new(SECRET)
}

fn basic() -> Credential {
    Credential::Basic { user: "me".to_owned(), password: secret() }
}

fn api_key_scheme(location: ParameterLocation, name: &str) -> SecurityScheme {
    SecurityScheme::ApiKey { location, name: name.to_owned() }
}

fn other_http_scheme(name: &str) -> SecurityScheme {
    SecurityScheme::OtherHttp(name.to_owned())
}

fn oauth2_scheme(token_url: Option<&str>) -> SecurityScheme {
    let token_url = token_url.map(|url| url.parse().unwrap());
    SecurityScheme::OAuth2 { token_url }
}

fn requirement(schemes: &[(&str, SecurityScheme)]) -> SecurityRequirement {
    let expected = |(name, scheme): &(&str, SecurityScheme)| SchemeRequirement {
        name: (*name).to_owned(),
        scheme: Arc::new(scheme.clone()),
        scopes: Vec::new(),
    };
    schemes.iter().map(expected).collect()
}

fn generic_credentials(credentials: Vec<Credential>) -> Credentials {
    Credentials { generic: credentials, ..Credentials::default() }
}

fn scheme_credentials(credentials: Vec<(&str, Credential)>) -> Credentials {
    let schemes = credentials.into_iter().map(|(name, one)| (name.to_owned(), one)).collect();
    Credentials { schemes, ..Credentials::default() }
}

fn plan_with_parameters() -> OperationPlan {
    let of = |name, location, style| Parameter {
        required: false,
        ..styled_parameter(name, location, style, true)
    };
    plan(
        "/s",
        vec![
            of("q", ParameterLocation::Query, Style::Form),
            of("key", ParameterLocation::Query, Style::Form),
            of("c", ParameterLocation::Cookie, Style::Form),
            of("session", ParameterLocation::Cookie, Style::Form),
        ],
    )
}

async fn apply_credentials(
    echo_server: &EchoServer,
    credentials: Credentials,
    security: &[SecurityRequirement],
) -> Result<PreparedRequest, CredentialError> {
    let input = json!({"q": "1", "key": "the caller's", "c": "2", "session": "the caller's"});
    let mut prepared = fill_request(plan_with_parameters(), &echo_server.url, &input).unwrap();
    CredentialStore::new(credentials, http_client(), ClientTls::default())?
        .for_operation(security)?
        .apply(&mut prepared)
        .await
        .unwrap();
    Ok(prepared)
}

#[tokio::test]
async fn every_security_scheme_is_applied_where_declared() {
    const BEARER: &str = "Bearer hush-hush";
    const BASIC: &str = "Basic bWU6aHVzaC1odXNo";
    let echo_server = EchoServer::start().await;
    let bearer = || Credential::Bearer(secret());
    let api_key = || Credential::ApiKey(secret());
    let in_header = || api_key_scheme(ParameterLocation::Header, "X-Key");
    let rows: Vec<(SecurityScheme, Credential, (&str, &str))> = vec![
        (SecurityScheme::Bearer, bearer(), ("authorization", BEARER)),
        (SecurityScheme::Basic, basic(), ("authorization", BASIC)),
        (oauth2_scheme(None), bearer(), ("authorization", BEARER)),
        (SecurityScheme::OpenIdConnect, bearer(), ("authorization", BEARER)),
        (other_http_scheme("Token"), api_key(), ("authorization", "Token hush-hush")),
        (in_header(), api_key(), ("x-key", SECRET)),
        (
            api_key_scheme(ParameterLocation::Header, "Authorization"),
            api_key(),
            ("authorization", SECRET),
        ),
        (
            api_key_scheme(ParameterLocation::Header, "authorization"),
            bearer(),
            ("authorization", BEARER),
        ),
        (
            api_key_scheme(ParameterLocation::Header, "authorization"),
            basic(),
            ("authorization", BASIC),
        ),
        (
            api_key_scheme(ParameterLocation::Query, "key"),
            api_key(),
            ("query", "q=1&key=hush-hush"),
        ),
        (
            api_key_scheme(ParameterLocation::Query, "a&b"),
            api_key(),
            ("query", "q=1&key=the%20caller%27s&a%26b=hush-hush"),
        ),
        (
            api_key_scheme(ParameterLocation::Cookie, "session"),
            api_key(),
            ("cookie", "c=2; session=hush-hush"),
        ),
    ];
    for (scheme, credential, (location, expected)) in rows {
        // The credential is configured once by scheme name and once as a generic credential.
        let both = [
            scheme_credentials(vec![("s", credential.clone())]),
            generic_credentials(vec![credential]),
        ];
        for credentials in both {
            let security = [requirement(&[("s", scheme.clone())])];
            let prepared = apply_credentials(&echo_server, credentials, &security).await.unwrap();
            let message = format!("{prepared:?} {}", prepared.redacted_url());
            assert!(
                !message.contains(SECRET) && !message.contains("bWU6aHVzaC1odXNo"),
                "{message}"
            );
            let mut without_secrets = prepared.clone();
            let received = echo_server.send(prepared).await;
            let found = if location == "query" {
                Some(received.query())
            } else {
                received.header(location)
            };
            assert_eq!(found, Some(expected), "{scheme:?}");

            // A request to another origin contains no credentials.
            without_secrets.drop_secrets();
            let received = echo_server.send(without_secrets).await;
            assert!(!format!("{received:?}").contains("hush"), "{received:?}");
            assert!(received.query().starts_with("q=1"), "{received:?}");
            assert_eq!(received.header("authorization"), None);
        }
    }
}

#[tokio::test]
async fn first_fully_configured_requirement_is_selected() {
    let echo_server = EchoServer::start().await;
    let bearer = || ("bearer", SecurityScheme::Bearer);
    let id = || ("id", api_key_scheme(ParameterLocation::Header, "x-id"));
    let app = || ("app", api_key_scheme(ParameterLocation::Header, "x-app"));
    let api_key = |text: &str| Credential::ApiKey(Secret::new(text));
    let token = |text: &str| Credential::Bearer(Secret::new(text));
    let both = || requirement(&[id(), app()]);
    let anonymous = || requirement(&[]);
    let headers = Credentials {
        headers: [("x-app".to_owned(), Secret::new("h"))].into(),
        ..Credentials::default()
    };
    let without = Credentials { anonymous: true, ..Credentials::default() };
    // Each row: the credentials, the security requirements and the expected headers
    // `authorization`, `x-id` and `x-app`.
    type Row = (Credentials, Vec<SecurityRequirement>, [Option<&'static str>; 3]);
    let rows: Vec<Row> = vec![
        (
            scheme_credentials(vec![
                ("id", api_key("i")),
                ("app", api_key("a")),
                ("bearer", token("t")),
            ]),
            vec![both(), requirement(&[bearer()])],
            [None, Some("i"), Some("a")],
        ),
        (
            scheme_credentials(vec![("id", api_key("i")), ("bearer", token("t"))]),
            vec![both(), requirement(&[bearer()])],
            [Some("Bearer t"), None, None],
        ),
        // A named credential takes precedence over a generic one, and one generic API key does not
        // satisfy two API key schemes.
        (
            Credentials {
                generic: vec![token("g")],
                ..scheme_credentials(vec![("bearer", token("t"))])
            },
            vec![requirement(&[bearer()])],
            [Some("Bearer t"), None, None],
        ),
        (
            generic_credentials(vec![api_key("g"), token("t")]),
            vec![both(), requirement(&[bearer()])],
            [Some("Bearer t"), None, None],
        ),
        (
            Credentials {
                generic: vec![api_key("g")],
                ..scheme_credentials(vec![("id", api_key("i"))])
            },
            vec![both(), anonymous()],
            [None, None, None],
        ),
        // Anonymous access is used only if no other requirement is satisfied.
        (
            generic_credentials(vec![token("t")]),
            vec![anonymous(), requirement(&[bearer()])],
            [Some("Bearer t"), None, None],
        ),
        (
            scheme_credentials(vec![("x", token("t"))]),
            vec![anonymous(), both()],
            [None, None, None],
        ),
        (without, vec![both()], [None, None, None]),
        // Generic credentials are sent whatever the document declares.
        (generic_credentials(vec![token("t")]), vec![], [Some("Bearer t"), None, None]),
        (generic_credentials(vec![token("t")]), vec![both()], [Some("Bearer t"), None, None]),
        (headers, vec![both()], [None, None, Some("h")]),
        (Credentials::default(), vec![], [None, None, None]),
    ];
    for (index, (credentials, security, expected)) in rows.into_iter().enumerate() {
        let prepared = apply_credentials(&echo_server, credentials, &security).await.unwrap();
        let received = echo_server.send(prepared).await;
        let found = ["authorization", "x-id", "x-app"].map(|name| received.header(name));
        assert_eq!(found, expected, "row {index}");
    }
}

#[test]
fn missing_credentials_are_reported_with_their_config_key() {
    type Row = (Credentials, Vec<(&'static str, SecurityScheme)>, &'static str);
    let rows: Vec<Row> = vec![
        (
            Credentials::default(),
            vec![("k", api_key_scheme(ParameterLocation::Query, "q"))],
            "`auth.schemes.k` to `api_key`",
        ),
        (Credentials::default(), vec![("b", SecurityScheme::Basic)], "`auth.schemes.b` to `basic`"),
        (
            Credentials::default(),
            vec![("b", SecurityScheme::Bearer)],
            "`auth.schemes.b` to `bearer`",
        ),
        (
            Credentials::default(),
            vec![("o", oauth2_scheme(None))],
            "`oauth2` with its `token_url`, or `bearer`",
        ),
        (
            Credentials::default(),
            vec![("m", SecurityScheme::MutualTls)],
            "set `auth.client_certificate`",
        ),
        (
            Credentials::default(),
            vec![("d", other_http_scheme("Digest"))],
            "`d`, which is `Digest` and is not supported",
        ),
        (
            Credentials::default(),
            vec![("u", SecurityScheme::Unknown("magic".into()))],
            "is not supported",
        ),
        (
            scheme_credentials(vec![("k", basic())]),
            vec![("k", api_key_scheme(ParameterLocation::Query, "q"))],
            "(`basic` is set, which is for another scheme)",
        ),
        (
            generic_credentials(vec![Credential::ApiKey(secret())]),
            vec![("b", SecurityScheme::Basic)],
            "to `basic`",
        ),
        (
            scheme_credentials(vec![("k", Credential::ApiKey(secret()))]),
            vec![
                ("k", api_key_scheme(ParameterLocation::Query, "q")),
                ("b", SecurityScheme::Basic),
            ],
            "not configured: `b`, a user and a password",
        ),
    ];
    for (credentials, schemes, message) in rows {
        let credential_store =
            CredentialStore::new(credentials, http_client(), ClientTls::default()).unwrap();
        let error = credential_store.for_operation(&[requirement(&schemes)]).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(message) && !text.contains(SECRET), "{text}");
        let call = crate::CallError::from(error);
        assert_eq!(call.code().as_str(), "EXECUTION_ERROR");
    }
}

#[test]
fn invalid_header_values_are_rejected_without_leaking() {
    let bad = || Secret::new("hush-hush\r\nx: y");
    let user = |user: &str| Credential::Basic { user: user.to_owned(), password: secret() };
    let rows = [
        (Credential::Bearer(bad()), SecurityScheme::Bearer),
        (Credential::ApiKey(bad()), api_key_scheme(ParameterLocation::Header, "x")),
        (Credential::ApiKey(bad()), api_key_scheme(ParameterLocation::Cookie, "x")),
        (
            Credential::ApiKey(Secret::new("hush-hush; a=b")),
            api_key_scheme(ParameterLocation::Cookie, "x"),
        ),
        (Credential::ApiKey(secret()), api_key_scheme(ParameterLocation::Header, "a b")),
        (user("a:b"), SecurityScheme::Basic),
    ];
    for (credential, scheme) in rows {
        let credential_store = CredentialStore::new(
            scheme_credentials(vec![("s", credential)]),
            http_client(),
            ClientTls::default(),
        )
        .unwrap();
        let error = credential_store.for_operation(&[requirement(&[("s", scheme)])]).unwrap_err();
        let message = format!("{error} {error:?} {credential_store:?}");
        assert!(message.contains("auth.schemes.s") && !message.contains(SECRET), "{message}");
    }
    for (name, value) in [("a b", "x"), ("a", "hush-hush\n")] {
        let headers = [(name.to_owned(), Secret::new(value))].into();
        let error = CredentialStore::new(
            Credentials { headers, ..Credentials::default() },
            http_client(),
            ClientTls::default(),
        );
        let message = error.unwrap_err().to_string();
        assert!(message.contains("auth.headers") && !message.contains(SECRET), "{message}");
    }
    let client_certificate = Some(secret());
    let credentials = Credentials { client_certificate, ..Credentials::default() };
    let error = credentials.client_identity().unwrap_err();
    assert!(error.to_string().contains("auth.client_certificate"), "{error}");
}
