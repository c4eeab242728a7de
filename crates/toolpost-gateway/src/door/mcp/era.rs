//! Which era a request over HTTP belongs to, and whether its headers say what its body says.

use axum::http::HeaderMap;
use serde_json::json;
use toolpost::mcp::decode_header;
use toolpost::view::Era;

use super::ask::VERSIONS;
use super::level::Level;
use super::message::Fault;
use super::params::Params;

pub(super) const VERSION_HEADER: &str = "mcp-protocol-version";
const METHOD_HEADER: &str = "mcp-method";
const NAME_HEADER: &str = "mcp-name";

/// The era of a request.
///
/// # Errors
///
/// Headers and body say different things, or a version that is not spoken.
pub(super) fn of_request(headers: &HeaderMap, method: &str, params: &Params) -> Result<Era, Fault> {
    let said = one(headers, VERSION_HEADER)?;
    let era = match (said, params.version()) {
        // Before 2025-06-18 there was no such header.
        (None, None) if !headers.contains_key(METHOD_HEADER) => Era::Legacy,
        (None, _) => {
            return Err(Fault::header_mismatch("the header MCP-Protocol-Version is missing"));
        }
        (Some(said), version) => of_version(said, version)?,
    };
    if era == Era::Modern {
        check_meta(params)?;
        check_names(headers, method, params)?;
    }
    Ok(era)
}

/// The era of a message without a body to speak of, such as a notification.
pub(super) fn of_header(headers: &HeaderMap) -> Result<Era, Fault> {
    let said = one(headers, VERSION_HEADER)?;
    said.map_or(Ok(Era::Legacy), |said| spoken(said).map(Era::of_version))
}

fn of_version(said: &str, version: Option<&str>) -> Result<Era, Fault> {
    match version {
        Some(version) if version != said => Err(Fault::header_mismatch(format!(
            "the header MCP-Protocol-Version says `{}` and the body says `{}`",
            short(said),
            short(version)
        ))),
        _ => spoken(said).map(Era::of_version),
    }
}

/// The version, if it is spoken here.
///
/// # Errors
///
/// Which ones are.
pub(super) fn spoken(version: &str) -> Result<&str, Fault> {
    if VERSIONS.contains(&version) {
        return Ok(version);
    }
    let shown = short(version);
    let mut fault = Fault::new(
        Fault::UNSUPPORTED_VERSION,
        format!("the protocol version `{shown}` is not spoken here; {} are", VERSIONS.join(", ")),
    );
    fault.data = Some(json!({"supported": VERSIONS, "requested": shown}));
    Err(fault)
}

/// What every request says about itself from 2026-07-28 on.
pub(super) fn check_meta(params: &Params) -> Result<(), Fault> {
    let missing = |name: &str| {
        let words = format!("`params._meta` must have `io.modelcontextprotocol/{name}`");
        Err(Fault::invalid_params(words))
    };
    if params.version().is_none() {
        return missing("protocolVersion");
    }
    if params.log_level().is_some_and(|level| Level::of(level).is_none()) {
        let words = "`io.modelcontextprotocol/logLevel` must be one of";
        return Err(Fault::invalid_params(format!("{words} {}", Level::names())));
    }
    let capabilities = params.meta.as_ref().and_then(|meta| meta.capabilities.as_ref());
    match capabilities {
        Some(capabilities) if capabilities.get().starts_with('{') => Ok(()),
        _ => missing("clientCapabilities"),
    }
}

fn check_names(headers: &HeaderMap, method: &str, params: &Params) -> Result<(), Fault> {
    agree("Mcp-Method", one(headers, METHOD_HEADER)?, method)?;
    let name = match method {
        "tools/call" | "prompts/get" => &params.name,
        "resources/read" => &params.uri,
        _ => return Ok(()),
    };
    // What the body lacks is missed where it is needed.
    let Some(name) = name else { return Ok(()) };
    let said = one(headers, NAME_HEADER)?.map(|said| {
        let unreadable = || Fault::header_mismatch("the header Mcp-Name cannot be read");
        decode_header(said).ok_or_else(unreadable)
    });
    agree("Mcp-Name", said.transpose()?.as_deref(), name)
}

fn agree(header: &str, said: Option<&str>, body: &str) -> Result<(), Fault> {
    match said {
        Some(said) if said == body => Ok(()),
        Some(said) => Err(Fault::header_mismatch(format!(
            "the header {header} says `{}` and the body says `{}`",
            short(said),
            short(body)
        ))),
        None => Err(Fault::header_mismatch(format!("the header {header} is missing"))),
    }
}

/// The value of a header that must not be there twice.
fn one<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Fault> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let value = value.to_str().ok().filter(|_| values.next().is_none());
    let unreadable = || Fault::header_mismatch(format!("the header {name} must be there once"));
    value.map(Some).ok_or_else(unreadable)
}

fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;

    fn decide(headers: &[(&str, &str)], method: &str, params: &Value) -> Result<Era, i64> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap());
        }
        let raw = RawValue::from_string(params.to_string()).unwrap();
        let params = Params::read(Some(&raw)).unwrap();
        of_request(&map, method, &params).map_err(|fault| fault.code)
    }

    #[test]
    fn an_era_is_what_headers_and_body_agree_on() {
        const V: (&str, &str) = ("mcp-protocol-version", "2026-07-28");
        const M: (&str, &str) = ("mcp-method", "tools/call");
        let meta = |version: &str| {
            json!({"name": "a", "_meta": {"io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {}}})
        };
        let modern = meta("2026-07-28");
        let bare = json!({"name": "a"});
        let without = json!({"name": "a", "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
        let odd = json!({"name": "世", "_meta": modern["_meta"]});
        for (headers, params, expected) in [
            (&[][..], &bare, Ok(Era::Legacy)),
            (&[("mcp-protocol-version", "2025-06-18")], &bare, Ok(Era::Legacy)),
            (&[("mcp-protocol-version", "1900-01-01")], &bare, Err(-32_022)),
            (&[V, M, ("mcp-name", "a")], &modern, Ok(Era::Modern)),
            (&[V, M, ("mcp-name", "=?base64?YQ==?=")], &modern, Ok(Era::Modern)),
            (&[V, M, ("mcp-name", "=?base64?5LiW?=")], &odd, Ok(Era::Modern)),
            (&[V, M, ("mcp-name", "=?base64?.?=")], &odd, Err(-32_020)),
            (&[V, M, ("mcp-name", "b")], &modern, Err(-32_020)),
            (&[V, M, ("mcp-name", "A")], &modern, Err(-32_020)),
            (&[V, M], &modern, Err(-32_020)),
            (&[V, M, ("mcp-name", "a"), ("mcp-name", "a")], &modern, Err(-32_020)),
            (&[V, ("mcp-name", "a")], &modern, Err(-32_020)),
            (&[V, ("mcp-method", "Tools/Call"), ("mcp-name", "a")], &modern, Err(-32_020)),
            (&[M, ("mcp-name", "a")], &modern, Err(-32_020)),
            (&[M], &bare, Err(-32_020)),
            (&[V, V, M, ("mcp-name", "a")], &modern, Err(-32_020)),
            (&[V, M, ("mcp-name", "a")], &bare, Err(-32_602)),
            (&[V, M, ("mcp-name", "a")], &without, Err(-32_602)),
            (&[V, M, ("mcp-name", "a")], &meta("v999"), Err(-32_020)),
            (&[("mcp-protocol-version", "v999"), M], &meta("v999"), Err(-32_022)),
            (&[("mcp-protocol-version", "2025-11-25")], &meta("2025-11-25"), Ok(Era::Legacy)),
        ] {
            assert_eq!(decide(headers, "tools/call", params), expected, "{headers:?} {params}");
        }
    }
}
