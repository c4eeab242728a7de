//! Every security scheme, as the service sees it.

use std::sync::Arc;

use serde_json::json;

use super::super::{Credential, CredentialError, Credentials, Keyring};
use super::world::http;
use crate::openapi::plan::{
    Credential as Wanted, Parameter, Plan, Position, Requirement, Scheme, Style,
};
use crate::openapi::request::Prepared;
use crate::openapi::request::tests::far::Far;
use crate::openapi::request::tests::plans::{filled, plan, styled};
use crate::protocol::Secret;

/// What must never be seen.
const SECRET: &str = "hush-hush";

fn secret() -> Secret {
    Secret::new(SECRET)
}

fn basic() -> Credential {
    Credential::Basic { user: "me".to_owned(), password: secret() }
}

fn key(position: Position, name: &str) -> Scheme {
    Scheme::ApiKey { position, name: name.to_owned() }
}

fn other(name: &str) -> Scheme {
    Scheme::OtherHttp(name.to_owned())
}

fn oauth(token_url: Option<&str>) -> Scheme {
    let token_url = token_url.map(|url| url.parse().unwrap());
    Scheme::OAuth2 { token_url, refresh_url: None, has_client_credentials: true }
}

fn requirement(schemes: &[(&str, Scheme)]) -> Requirement {
    let wanted = |(name, scheme): &(&str, Scheme)| Wanted {
        name: (*name).to_owned(),
        scheme: Arc::new(scheme.clone()),
        scopes: Vec::new(),
    };
    schemes.iter().map(wanted).collect()
}

fn generic(credentials: Vec<Credential>) -> Credentials {
    Credentials { generic: credentials, ..Credentials::default() }
}

fn named(credentials: Vec<(&str, Credential)>) -> Credentials {
    let schemes = credentials.into_iter().map(|(name, one)| (name.to_owned(), one)).collect();
    Credentials { schemes, ..Credentials::default() }
}

fn parameters() -> Plan {
    let of = |name, position, style| Parameter {
        required: false,
        ..styled(name, position, style, true)
    };
    plan(
        "/s",
        vec![
            of("q", Position::Query, Style::Form),
            of("key", Position::Query, Style::Form),
            of("c", Position::Cookie, Style::Form),
            of("session", Position::Cookie, Style::Form),
        ],
    )
}

async fn shown(
    far: &Far,
    credentials: Credentials,
    security: &[Requirement],
) -> Result<Prepared, CredentialError> {
    let input = json!({"q": "1", "key": "the caller's", "c": "2", "session": "the caller's"});
    let mut prepared = filled(parameters(), &far.address, &input).unwrap();
    Keyring::new(credentials, http())?.keys(security)?.show(&mut prepared).await.unwrap();
    Ok(prepared)
}

#[tokio::test]
async fn every_scheme_is_shown_where_the_document_says() {
    const BEARER: &str = "Bearer hush-hush";
    const BASIC: &str = "Basic bWU6aHVzaC1odXNo";
    let far = Far::start().await;
    let bearer = || Credential::Bearer(secret());
    let api_key = || Credential::ApiKey(secret());
    let in_header = || key(Position::Header, "X-Key");
    let rows: Vec<(Scheme, Credential, (&str, &str))> = vec![
        (Scheme::Bearer, bearer(), ("authorization", BEARER)),
        (Scheme::Basic, basic(), ("authorization", BASIC)),
        (oauth(None), bearer(), ("authorization", BEARER)),
        (Scheme::OpenIdConnect { url: None }, bearer(), ("authorization", BEARER)),
        (other("Token"), api_key(), ("authorization", "Token hush-hush")),
        (in_header(), api_key(), ("x-key", SECRET)),
        (key(Position::Header, "Authorization"), api_key(), ("authorization", SECRET)),
        (key(Position::Header, "authorization"), bearer(), ("authorization", BEARER)),
        (key(Position::Header, "authorization"), basic(), ("authorization", BASIC)),
        (key(Position::Query, "key"), api_key(), ("query", "q=1&key=hush-hush")),
        (
            key(Position::Query, "a&b"),
            api_key(),
            ("query", "q=1&key=the%20caller%27s&a%26b=hush-hush"),
        ),
        (key(Position::Cookie, "session"), api_key(), ("cookie", "c=2; session=hush-hush")),
    ];
    for (scheme, credential, (place, expected)) in rows {
        // Found by its name, and by its kind.
        let both = [named(vec![("s", credential.clone())]), generic(vec![credential])];
        for credentials in both {
            let security = [requirement(&[("s", scheme.clone())])];
            let prepared = shown(&far, credentials, &security).await.unwrap();
            let said = format!("{prepared:?} {}", prepared.shown_url());
            assert!(!said.contains(SECRET) && !said.contains("bWU6aHVzaC1odXNo"), "{said}");
            let mut bare = prepared.clone();
            let seen = far.sent(prepared).await;
            let found = if place == "query" { Some(seen.query()) } else { seen.header(place) };
            assert_eq!(found, Some(expected), "{scheme:?}");

            // What goes to somebody else holds nothing of it.
            bare.drop_secrets();
            let seen = far.sent(bare).await;
            assert!(!format!("{seen:?}").contains("hush"), "{seen:?}");
            assert!(seen.query().starts_with("q=1"), "{seen:?}");
            assert_eq!(seen.header("authorization"), None);
        }
    }
}

#[tokio::test]
async fn the_first_requirement_that_is_there_whole_is_chosen() {
    let far = Far::start().await;
    let bearer = || ("bearer", Scheme::Bearer);
    let id = || ("id", key(Position::Header, "x-id"));
    let app = || ("app", key(Position::Header, "x-app"));
    let api_key = |text: &str| Credential::ApiKey(Secret::new(text));
    let token = |text: &str| Credential::Bearer(Secret::new(text));
    let both = || requirement(&[id(), app()]);
    let anonymous = || requirement(&[]);
    let headers = Credentials {
        headers: [("x-app".to_owned(), Secret::new("h"))].into(),
        ..Credentials::default()
    };
    let without = Credentials { anonymous: true, ..Credentials::default() };
    // Credentials; what is asked for; `authorization`, `x-id`, `x-app`.
    type Row = (Credentials, Vec<Requirement>, [Option<&'static str>; 3]);
    let rows: Vec<Row> = vec![
        (
            named(vec![("id", api_key("i")), ("app", api_key("a")), ("bearer", token("t"))]),
            vec![both(), requirement(&[bearer()])],
            [None, Some("i"), Some("a")],
        ),
        (
            named(vec![("id", api_key("i")), ("bearer", token("t"))]),
            vec![both(), requirement(&[bearer()])],
            [Some("Bearer t"), None, None],
        ),
        // A name is better than a kind, and one key without a name is not two keys.
        (
            Credentials { generic: vec![token("g")], ..named(vec![("bearer", token("t"))]) },
            vec![requirement(&[bearer()])],
            [Some("Bearer t"), None, None],
        ),
        (
            generic(vec![api_key("g"), token("t")]),
            vec![both(), requirement(&[bearer()])],
            [Some("Bearer t"), None, None],
        ),
        (
            Credentials { generic: vec![api_key("g")], ..named(vec![("id", api_key("i"))]) },
            vec![both(), anonymous()],
            [None, None, None],
        ),
        // Nobody is the last choice.
        (
            generic(vec![token("t")]),
            vec![anonymous(), requirement(&[bearer()])],
            [Some("Bearer t"), None, None],
        ),
        (named(vec![("x", token("t"))]), vec![anonymous(), both()], [None, None, None]),
        (without, vec![both()], [None, None, None]),
        // What was given without a scheme in mind is sent whatever the document says.
        (generic(vec![token("t")]), vec![], [Some("Bearer t"), None, None]),
        (generic(vec![token("t")]), vec![both()], [Some("Bearer t"), None, None]),
        (headers, vec![both()], [None, None, Some("h")]),
        (Credentials::default(), vec![], [None, None, None]),
    ];
    for (index, (credentials, security, expected)) in rows.into_iter().enumerate() {
        let prepared = shown(&far, credentials, &security).await.unwrap();
        let seen = far.sent(prepared).await;
        let found = ["authorization", "x-id", "x-app"].map(|name| seen.header(name));
        assert_eq!(found, expected, "row {index}");
    }
}

#[test]
fn what_is_not_there_is_named_with_its_place() {
    type Row = (Credentials, Vec<(&'static str, Scheme)>, &'static str);
    let rows: Vec<Row> = vec![
        (
            Credentials::default(),
            vec![("k", key(Position::Query, "q"))],
            "`auth.schemes.k` to `api_key`",
        ),
        (Credentials::default(), vec![("b", Scheme::Basic)], "`auth.schemes.b` to `basic`"),
        (Credentials::default(), vec![("b", Scheme::Bearer)], "`auth.schemes.b` to `bearer`"),
        (
            Credentials::default(),
            vec![("o", oauth(None))],
            "`oauth2` with its `token_url`, or `bearer`",
        ),
        (Credentials::default(), vec![("m", Scheme::MutualTls)], "set `auth.client_certificate`"),
        (
            Credentials::default(),
            vec![("d", other("Digest"))],
            "`d`, which is `Digest` and is not supported",
        ),
        (Credentials::default(), vec![("u", Scheme::Unknown("magic".into()))], "is not supported"),
        (
            named(vec![("k", basic())]),
            vec![("k", key(Position::Query, "q"))],
            "(`basic` is set there, which does not fit)",
        ),
        (generic(vec![Credential::ApiKey(secret())]), vec![("b", Scheme::Basic)], "to `basic`"),
        (
            named(vec![("k", Credential::ApiKey(secret()))]),
            vec![("k", key(Position::Query, "q")), ("b", Scheme::Basic)],
            "not configured: `b`, a user and a password",
        ),
    ];
    for (credentials, schemes, words) in rows {
        let keyring = Keyring::new(credentials, http()).unwrap();
        let error = keyring.keys(&[requirement(&schemes)]).unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(said.contains(words) && !said.contains(SECRET), "{said}");
        let call = crate::CallError::from(error);
        assert_eq!(call.code().as_str(), "EXECUTION_ERROR");
    }
}

#[test]
fn values_that_fit_no_header_are_refused_without_being_shown() {
    let bad = || Secret::new("hush-hush\r\nx: y");
    let user = |user: &str| Credential::Basic { user: user.to_owned(), password: secret() };
    let rows = [
        (Credential::Bearer(bad()), Scheme::Bearer),
        (Credential::ApiKey(bad()), key(Position::Header, "x")),
        (Credential::ApiKey(bad()), key(Position::Cookie, "x")),
        (Credential::ApiKey(Secret::new("hush-hush; a=b")), key(Position::Cookie, "x")),
        (Credential::ApiKey(secret()), key(Position::Header, "a b")),
        (user("a:b"), Scheme::Basic),
    ];
    for (credential, scheme) in rows {
        let keyring = Keyring::new(named(vec![("s", credential)]), http()).unwrap();
        let error = keyring.keys(&[requirement(&[("s", scheme)])]).unwrap_err();
        let said = format!("{error} {error:?} {keyring:?}");
        assert!(said.contains("auth.schemes.s") && !said.contains(SECRET), "{said}");
    }
    for (name, value) in [("a b", "x"), ("a", "hush-hush\n")] {
        let headers = [(name.to_owned(), Secret::new(value))].into();
        let error = Keyring::new(Credentials { headers, ..Credentials::default() }, http());
        let said = error.unwrap_err().to_string();
        assert!(said.contains("auth.headers") && !said.contains(SECRET), "{said}");
    }
    let client_certificate = Some(secret());
    let credentials = Credentials { client_certificate, ..Credentials::default() };
    let error = credentials.identity().unwrap_err();
    assert!(error.to_string().contains("auth.client_certificate"), "{error}");
}
