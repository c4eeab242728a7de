//! Server URL of an operation. It is selected at registration, not for each call.

use std::collections::BTreeMap;

use url::Url;

use super::super::plan::{ServerTemplate, ServerVariable};

/// Server settings of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// URL that overrides the servers of the document.
    pub url: Option<Url>,
    /// Values of the server variables in the document.
    pub variables: BTreeMap<String, String>,
}

/// Why there is no server URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("the document has no server; set `server` to the URL of the service")]
    NoServer,
    #[error(
        "the server `{0}` is relative, and the document was not read from a URL: set \
         `server` to the URL of the service"
    )]
    Relative(String),
    #[error("the server `{0}` is not a valid URL; set `server` to the URL of the service")]
    InvalidUrl(String),
    #[error("the server `{0}` is neither http nor https; set `server` to the URL of the service")]
    Scheme(String),
    #[error(
        "the server `{url}` has a variable `{name}` without a value: set it in `server_variables`, \
         or set `server` to the URL of the service"
    )]
    MissingVariable { url: String, name: String },
    #[error("the server URL contains credentials; configure them under `auth` instead")]
    UserInUrl,
    #[error("the variable `{name}` of the server `{url}` must be {}", list_allowed(.allowed))]
    VariableNotAllowed { url: String, name: String, allowed: Vec<String> },
}

/// Returns the configured server URL, or the first valid one of the document.
pub(crate) fn server_url(
    servers: &[ServerTemplate],
    settings: &ServerSettings,
) -> Result<Url, ServerError> {
    if let Some(address) = &settings.url {
        return check_url(address.clone(), address.as_str());
    }
    let mut first = None;
    for server in servers {
        match fill_variables(server, settings).and_then(|url| resolve_url(server, &url)) {
            Ok(address) => return Ok(address),
            // An invalid configured value is an error, even if another server is valid.
            Err(error @ ServerError::VariableNotAllowed { .. }) => return Err(error),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or(ServerError::NoServer))
}

/// Returns the server URL with its variables filled in.
fn fill_variables(
    server: &ServerTemplate,
    settings: &ServerSettings,
) -> Result<String, ServerError> {
    let mut out = String::with_capacity(server.url.len());
    let mut rest = server.url.as_str();
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        out.push_str(before);
        out.push_str(variable_value(server, settings, name)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn variable_value<'a>(
    server: &'a ServerTemplate,
    settings: &'a ServerSettings,
    name: &str,
) -> Result<&'a str, ServerError> {
    let variable = server.variables.iter().find(|variable| variable.name == name);
    match (settings.variables.get(name), variable) {
        (Some(value), Some(ServerVariable { allowed, .. }))
            if !allowed.is_empty() && !allowed.contains(value) =>
        {
            let (url, name) = (server.url.clone(), name.to_owned());
            Err(ServerError::VariableNotAllowed { url, name, allowed: allowed.clone() })
        }
        (Some(value), _) => Ok(value),
        (None, Some(variable)) => Ok(&variable.default),
        (None, None) => {
            Err(ServerError::MissingVariable { url: server.url.clone(), name: name.to_owned() })
        }
    }
}

fn resolve_url(server: &ServerTemplate, url: &str) -> Result<Url, ServerError> {
    let owned = || url.to_owned();
    let address = match (Url::parse(url), &server.base) {
        (Ok(address), _) => address,
        (Err(url::ParseError::RelativeUrlWithoutBase), None) => {
            return Err(ServerError::Relative(owned()));
        }
        (Err(url::ParseError::RelativeUrlWithoutBase), Some(base)) => {
            base.join(url).map_err(|_| ServerError::InvalidUrl(owned()))?
        }
        (Err(_), _) => return Err(ServerError::InvalidUrl(owned())),
    };
    check_url(address, url)
}

fn check_url(mut address: Url, url: &str) -> Result<Url, ServerError> {
    if !matches!(address.scheme(), "http" | "https") {
        return Err(ServerError::Scheme(url.to_owned()));
    }
    if !address.username().is_empty() || address.password().is_some() {
        return Err(ServerError::UserInUrl);
    }
    address.set_fragment(None);
    Ok(address)
}

fn list_allowed(allowed: &[String]) -> String {
    allowed.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str, base: Option<&str>) -> ServerTemplate {
        let base = base.map(|base| base.parse().unwrap());
        let variable = |name: &str, default: &str, allowed: &[&str]| ServerVariable {
            name: name.to_owned(),
            default: default.to_owned(),
            allowed: allowed.iter().map(|one| (*one).to_owned()).collect(),
        };
        let variables =
            vec![variable("tenant", "demo", &[]), variable("stage", "prod", &["prod", "test"])];
        ServerTemplate { url: url.to_owned(), base, variables }
    }

    #[test]
    fn first_usable_server_is_selected() {
        const BASE: Option<&str> = Some("https://docs.example/api/openapi.json?v=1");
        type Rows<'a> = [(&'a [(&'a str, Option<&'a str>)], Result<&'a str, &'a str>); 16];
        let rows: Rows<'_> = [
            (&[("https://a.example/v1/", None)], Ok("https://a.example/v1/")),
            (&[("https://{tenant}.example/{stage}", None)], Ok("https://demo.example/prod")),
            (&[("/v2", BASE)], Ok("https://docs.example/v2")),
            (&[("v2", BASE)], Ok("https://docs.example/api/v2")),
            (&[("./", BASE)], Ok("https://docs.example/api/")),
            (&[("/", BASE)], Ok("https://docs.example/")),
            (&[("//b.example/x", BASE)], Ok("https://b.example/x")),
            (&[("https://a.example#x", None)], Ok("https://a.example/")),
            (&[("/v2", None), ("https://a.example", None)], Ok("https://a.example/")),
            (&[("/v2", None)], Err("the server `/v2` is relative, and")),
            (&[("https://{other}/", None)], Err("has a variable `other` without a value")),
            (&[("ftp://a.example", None)], Err("neither http nor https")),
            (&[("localhost:8080/v1", None)], Err("neither http nor https")),
            (&[("https://", None)], Err("is not a valid URL")),
            (&[("https://me:hush@a.example", None)], Err("contains credentials")),
            (&[], Err("the document has no server; set `server`")),
        ];
        for (servers, expected) in rows {
            let servers: Vec<ServerTemplate> =
                servers.iter().map(|(url, base)| server(url, *base)).collect();
            match (server_url(&servers, &ServerSettings::default()), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_str(), expected),
                (Err(error), Err(expected_message)) => {
                    assert!(error.to_string().contains(expected_message), "{error}");
                    assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
                }
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn server_variables_are_limited_to_allowed_values() {
        let servers = [server("https://{tenant}.example/{stage}", None)];
        let rows = [
            ([("tenant", "acme"), ("stage", "test")], Ok("https://acme.example/test")),
            ([("tenant", "acme"), ("stage", "dev")], Err("must be `prod` or `test`")),
        ];
        for (variables, expected) in rows {
            let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let mut settings = ServerSettings { url: None, variables: variables.into() };
            match (server_url(&servers, &settings), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_str(), expected),
                (Err(error), Err(expected_message)) => {
                    assert!(error.to_string().contains(expected_message), "{error}");
                }
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
            settings.url = Some("http://localhost:9/x".parse().unwrap());
            assert_eq!(server_url(&servers, &settings).unwrap().as_str(), "http://localhost:9/x");
        }
    }
}
