//! Validation of an MCP server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use axum::http::{HeaderName, HeaderValue};
use toolpost::mcp::{
    HttpSettings, McpSettings, McpTransport, OAuthSettings, Root, Roots, Sampling, StdioSettings,
};
use toolpost::protocol::Secret;
use url::Url;

use super::super::file::{
    DurationText, McpText, OAuthText, PROTOCOLS, RootsText, SamplingText, ToolEnvelopeText,
};

/// Reports a problem: the path below the table of the server, and a message.
pub(in super::super) type ReportFn<'a> = dyn FnMut(&[&str], &str) + 'a;

/// Headers that the client sets itself.
const RESERVED_HEADERS: [&str; 12] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// Validates an MCP server; `None` if the transport is invalid. Relative paths start at `folder`.
pub(in super::super) fn settings(
    mut text: McpText,
    folder: &Path,
    report: &mut ReportFn<'_>,
) -> Option<McpSettings> {
    let transport = transport(&mut text, folder, report);
    let protocol = text.protocol.filter(|version| {
        let is_known = PROTOCOLS.contains(&version.as_str());
        if !is_known {
            report(&["protocol"], &format!("expected one of `{}`", PROTOCOLS.join("`, `")));
        }
        is_known
    });
    let roots = roots(text.roots.as_ref(), report);
    for (key, duration) in [
        ("start_timeout", &text.start_timeout),
        ("max_timeout", &text.max_timeout),
        ("max_restart", &text.max_restart),
    ] {
        if duration.as_ref().is_some_and(|duration| duration.0.is_zero()) {
            report(&[key], "must be greater than zero");
        }
    }
    let mut settings = McpSettings::new(transport?);
    settings.protocol = protocol;
    settings.roots = roots;
    settings.sampling = match text.sampling {
        SamplingText::Reject => Sampling::Reject,
        SamplingText::Client => Sampling::Client,
    };
    settings.parse_json_text = text.parse_json_text;
    settings.tool_envelope = text.tool_envelope == ToolEnvelopeText::Auto;
    let set = |at: &mut _, text: Option<DurationText>| *at = text.map_or(*at, |text| text.0);
    set(&mut settings.start_timeout, text.start_timeout);
    set(&mut settings.max_timeout, text.max_timeout);
    set(&mut settings.restart.1, text.max_restart);
    if let Some(bytes) = text.message_bytes {
        settings.message_bytes = bytes.0;
    }
    if let Some(elicitation) = text.elicitation {
        settings.elicitation = elicitation.0;
    }
    Some(settings)
}

fn transport(text: &mut McpText, folder: &Path, report: &mut ReportFn<'_>) -> Option<McpTransport> {
    match (text.command.take(), text.url.take()) {
        (Some(command), None) => {
            let strays = [
                ("headers", !text.headers.is_empty()),
                ("bearer", text.bearer.is_some()),
                ("oauth", text.oauth.is_some()),
            ];
            reject_keys(strays, "this goes with `url`, not with `command`; remove it", report);
            Some(McpTransport::Stdio(stdio_settings(command, text, folder, report)))
        }
        (None, Some(url)) => {
            let strays = [
                ("args", !text.args.is_empty()),
                ("env", !text.env.is_empty()),
                ("cwd", text.cwd.is_some()),
            ];
            reject_keys(strays, "this goes with `command`, not with `url`; remove it", report);
            http_settings(&url, text, report).map(McpTransport::Http)
        }
        (None, None) => {
            report(&[], "an MCP server has a `command` or a `url`; add one of the two");
            None
        }
        (Some(_), Some(_)) => {
            report(&[], "an MCP server has a `command` or a `url`; remove one of the two");
            None
        }
    }
}

fn reject_keys(strays: [(&str, bool); 3], message: &str, report: &mut ReportFn<'_>) {
    for (key, _) in strays.into_iter().filter(|(_, is_there)| *is_there) {
        report(&[key], message);
    }
}

fn stdio_settings(
    command: String,
    text: &mut McpText,
    folder: &Path,
    report: &mut ReportFn<'_>,
) -> StdioSettings {
    if command.trim().is_empty() || command.contains('\0') {
        report(&["command"], "this is not the name of a program; write one");
    }
    if text.args.iter().any(|argument| argument.contains('\0')) {
        report(&["args"], "an argument has no NUL in it; remove it");
    }
    let mut settings = StdioSettings::new(command, std::mem::take(&mut text.args));
    for (name, value) in std::mem::take(&mut text.env) {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            report(&["env", &name], "a variable has a name without `=`, and no NUL; correct it");
        }
        settings.env.insert(name, Secret::new(value));
    }
    settings.cwd = text.cwd.take().map(|cwd| folder.join(cwd)).filter(|cwd| *cwd != *"");
    settings
}

fn http_settings(url: &str, text: &mut McpText, report: &mut ReportFn<'_>) -> Option<HttpSettings> {
    let url = match check_url(url) {
        Ok(url) => Some(url),
        Err(message) => {
            report(&["url"], message);
            None
        }
    };
    let headers = headers(std::mem::take(&mut text.headers), report);
    let bearer = text.bearer.take();
    if bearer
        .as_ref()
        .is_some_and(|bearer| bearer.is_empty() || HeaderValue::from_str(bearer).is_err())
    {
        report(
            &["bearer"],
            "a token is letters, digits and signs, without line breaks; correct it",
        );
    }
    let has_header = headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    match (&bearer, &text.oauth) {
        (Some(_), Some(_)) => {
            report(&["oauth"], "there is a `bearer` already; remove one of the two");
        }
        (Some(_), None) if has_header => {
            report(
                &["bearer"],
                "there is an `Authorization` header already; remove one of the two",
            );
        }
        _ => {}
    }
    let oauth = text.oauth.take().map(|oauth| oauth_settings(oauth, report)).unwrap_or_default();
    let mut settings = HttpSettings::new(url?);
    (settings.headers, settings.oauth) = (headers, oauth);
    settings.bearer = bearer.map(Secret::new);
    Some(settings)
}

/// Parses the URL of a server. A query is allowed; a user and a password are not, because URLs are
/// displayed.
fn check_url(url: &str) -> Result<Url, &'static str> {
    let url = Url::parse(url).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some_and(|host| !host.is_empty())
    });
    let url = url.ok_or("the address of an MCP server is https://HOST/… or http://HOST/…")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address has no user and password; use `headers`, `bearer` or `oauth`");
    }
    if url.fragment().is_some() {
        return Err("the address of a server has no `#`; remove what begins there");
    }
    Ok(url)
}

fn headers(raw: BTreeMap<String, String>, report: &mut ReportFn<'_>) -> BTreeMap<String, Secret> {
    let mut headers = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (name, value) in raw {
        let lower = name.to_ascii_lowercase();
        let wrong = if HeaderName::from_bytes(lower.as_bytes()).is_err() {
            Some("this is not the name of a header")
        } else if RESERVED_HEADERS.contains(&lower.as_str()) {
            Some("the protocol sets this header itself; remove it")
        } else if HeaderValue::from_str(&value).is_err() {
            Some("this cannot be the value of a header; it holds a line break or the like")
        } else if !seen.insert(lower) {
            Some("this header is there twice; remove one of the two")
        } else {
            None
        };
        match wrong {
            Some(message) => report(&["headers", &name], message),
            None => drop(headers.insert(name, Secret::new(value))),
        }
    }
    headers
}

fn oauth_settings(raw: OAuthText, report: &mut ReportFn<'_>) -> OAuthSettings {
    if raw.client_secret.is_some() && raw.client_id.is_none() {
        report(&["oauth", "client_secret"], "a secret belongs to a client; add its `client_id`");
    }
    if let Some(url) = &raw.client_metadata_url {
        let is_document =
            check_url(url).is_ok_and(|url| url.scheme() == "https" && url.path().len() > 1);
        if !is_document {
            let message = "the address of a client's document is https://HOST/PATH";
            report(&["oauth", "client_metadata_url"], message);
        }
    }
    let mut settings = OAuthSettings::default();
    settings.client_id = raw.client_id;
    settings.client_secret = raw.client_secret.map(Secret::new);
    settings.client_metadata_url = raw.client_metadata_url;
    settings.scopes = raw.scopes;
    settings
}

fn roots(raw: Option<&RootsText>, report: &mut ReportFn<'_>) -> Roots {
    let listed = match raw {
        None => return Roots::default(),
        Some(RootsText::Client) => return Roots::Client,
        Some(RootsText::Paths(listed)) => listed,
    };
    let uris: Option<Vec<_>> = listed.iter().map(|root| root_uri(root)).collect();
    if uris.is_none() {
        report(&["roots"], "a root is an absolute path or file:///…");
    }
    Roots::Static(uris.unwrap_or_default().into_iter().map(Root::new).collect())
}

fn root_uri(root: &str) -> Option<String> {
    if root.starts_with("file://") {
        return Url::parse(root).ok().map(|_| root.to_owned());
    }
    Url::from_file_path(PathBuf::from(root)).ok().map(String::from)
}
