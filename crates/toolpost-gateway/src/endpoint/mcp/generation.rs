//! Detects the protocol generation of an HTTP request and checks that its headers match its body.

use axum::http::HeaderMap;
use serde_json::json;
use toolpost::json_rpc::RpcError;
use toolpost::view::ProtocolGeneration;
use toolpost::view::decode_header;

use crate::mcp_service::{LogLevel, RequestParams, VERSIONS};

pub(super) const VERSION_HEADER: &str = "mcp-protocol-version";
const METHOD_HEADER: &str = "mcp-method";
const NAME_HEADER: &str = "mcp-name";

/// Returns the protocol generation. A header and a body with a version must agree on a supported one.
///
/// Before 2026-07-28, clients may omit the version. The other headers have no meaning then, but some
/// clients send them.
pub(super) fn from_request(
    headers: &HeaderMap,
    method: &str,
    params: &RequestParams,
) -> Result<ProtocolGeneration, RpcError> {
    if method == "initialize" && params.version().is_none() {
        // The body negotiates the version.
        return Ok(ProtocolGeneration::Legacy);
    }
    let header_value = single_header(headers, VERSION_HEADER)?;
    let Some(version) = header_value.or(params.version()) else {
        return Ok(ProtocolGeneration::Legacy);
    };
    let generation = ProtocolGeneration::from_version(supported_version(version)?);
    if generation == ProtocolGeneration::Modern || header_value.is_some() {
        check_match("MCP-Protocol-Version", header_value, params.version().unwrap_or(version))?;
    }
    if generation == ProtocolGeneration::Modern {
        check_meta(params)?;
        check_routing_headers(headers, method, params)?;
    }
    Ok(generation)
}

/// Returns the protocol generation of a message by its header alone, such as for a notification.
pub(super) fn from_header(headers: &HeaderMap) -> Result<ProtocolGeneration, RpcError> {
    let version = single_header(headers, VERSION_HEADER)?.map(supported_version).transpose()?;
    Ok(version.map_or(ProtocolGeneration::Legacy, ProtocolGeneration::from_version))
}

/// Returns the version if it is supported, or an error that lists the supported ones.
pub(super) fn supported_version(version: &str) -> Result<&str, RpcError> {
    if VERSIONS.contains(&version) {
        return Ok(version);
    }
    let displayed = truncate(version);
    let mut rpc_error = RpcError::new(
        RpcError::UNSUPPORTED_VERSION,
        format!(
            "the protocol version `{displayed}` is not supported; supported versions: {}",
            VERSIONS.join(", ")
        ),
    );
    rpc_error.data = Some(json!({"supported": VERSIONS, "requested": displayed}));
    Err(rpc_error)
}

/// Checks the `_meta` members that are required from 2026-07-28 on.
pub(super) fn check_meta(params: &RequestParams) -> Result<(), RpcError> {
    let missing = |name: &str| {
        let message = format!("`params._meta` must have `io.modelcontextprotocol/{name}`");
        Err(RpcError::invalid_params(message))
    };
    if params.version().is_none() {
        return missing("protocolVersion");
    }
    if params.log_level().is_some_and(|level| LogLevel::from_name(level).is_none()) {
        let message = "`io.modelcontextprotocol/logLevel` must be one of";
        return Err(RpcError::invalid_params(format!("{message} {}", LogLevel::names())));
    }
    let capabilities = params.meta.as_ref().and_then(|meta| meta.capabilities.as_ref());
    match capabilities {
        Some(capabilities) if capabilities.get().starts_with('{') => Ok(()),
        _ => missing("clientCapabilities"),
    }
}

fn check_routing_headers(
    headers: &HeaderMap,
    method: &str,
    params: &RequestParams,
) -> Result<(), RpcError> {
    check_match("Mcp-Method", single_header(headers, METHOD_HEADER)?, method)?;
    let name = match method {
        "tools/call" | "prompts/get" => &params.name,
        "resources/read" => &params.uri,
        _ => return Ok(()),
    };
    // A missing name is reported when the request is handled.
    let Some(name) = name else { return Ok(()) };
    let header_value = single_header(headers, NAME_HEADER)?.map(|header_value| {
        let unreadable = || RpcError::header_mismatch("the header Mcp-Name cannot be decoded");
        decode_header(header_value).ok_or_else(unreadable)
    });
    check_match("Mcp-Name", header_value.transpose()?.as_deref(), name)
}

fn check_match(header: &str, header_value: Option<&str>, body: &str) -> Result<(), RpcError> {
    match header_value {
        Some(header_value) if header_value == body => Ok(()),
        Some(header_value) => Err(RpcError::header_mismatch(format!(
            "the header {header} is `{}`, but the body has `{}`",
            truncate(header_value),
            truncate(body)
        ))),
        None => Err(RpcError::header_mismatch(format!("the header {header} is missing"))),
    }
}

/// Returns the value of a header that must appear at most once. An empty one counts as missing.
fn single_header<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let value = value.to_str().ok().filter(|_| values.next().is_none());
    let unreadable =
        || RpcError::header_mismatch(format!("the header {name} must appear exactly once"));
    Ok(Some(value.ok_or_else(unreadable)?).filter(|value| !value.is_empty()))
}

fn truncate(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;

    fn generation_of(
        headers: &[(&str, &str)],
        method: &str,
        params: &Value,
    ) -> Result<ProtocolGeneration, i64> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap());
        }
        let raw = RawValue::from_string(params.to_string()).unwrap();
        let params = RequestParams::parse(Some(&raw)).unwrap();
        from_request(&map, method, &params).map_err(|rpc_error| rpc_error.code)
    }

    #[test]
    fn generation_requires_matching_headers_and_body() {
        const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");
        const METHOD: (&str, &str) = ("mcp-method", "tools/call");
        let meta = |version: &str| {
            json!({"name": "a", "_meta": {"io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {}}})
        };
        let modern = meta("2026-07-28");
        let without_meta = json!({"name": "a"});
        let without = json!({"name": "a", "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
        let odd = json!({"name": "世", "_meta": modern["_meta"]});
        for (headers, params, expected) in [
            (&[][..], &without_meta, Ok(ProtocolGeneration::Legacy)),
            (
                &[("mcp-protocol-version", "2025-06-18")],
                &without_meta,
                Ok(ProtocolGeneration::Legacy),
            ),
            (&[("mcp-protocol-version", "1900-01-01")], &without_meta, Err(-32_022)),
            (&[VERSION, METHOD, ("mcp-name", "a")], &modern, Ok(ProtocolGeneration::Modern)),
            (
                &[VERSION, METHOD, ("mcp-name", "=?base64?YQ==?=")],
                &modern,
                Ok(ProtocolGeneration::Modern),
            ),
            (
                &[VERSION, METHOD, ("mcp-name", "=?base64?5LiW?=")],
                &odd,
                Ok(ProtocolGeneration::Modern),
            ),
            (&[VERSION, METHOD, ("mcp-name", "=?base64?.?=")], &odd, Err(-32_020)),
            (&[VERSION, METHOD, ("mcp-name", "b")], &modern, Err(-32_020)),
            (&[VERSION, METHOD, ("mcp-name", "A")], &modern, Err(-32_020)),
            (&[VERSION, METHOD], &modern, Err(-32_020)),
            (&[VERSION, METHOD, ("mcp-name", "a"), ("mcp-name", "a")], &modern, Err(-32_020)),
            (&[VERSION, ("mcp-name", "a")], &modern, Err(-32_020)),
            (&[VERSION, ("mcp-method", "Tools/Call"), ("mcp-name", "a")], &modern, Err(-32_020)),
            (&[METHOD, ("mcp-name", "a")], &modern, Err(-32_020)),
            (&[METHOD], &without_meta, Ok(ProtocolGeneration::Legacy)),
            (&[VERSION, VERSION, METHOD, ("mcp-name", "a")], &modern, Err(-32_020)),
            (&[VERSION, METHOD, ("mcp-name", "a")], &without_meta, Err(-32_602)),
            (&[VERSION, METHOD, ("mcp-name", "a")], &without, Err(-32_602)),
            (&[VERSION, METHOD, ("mcp-name", "a")], &meta("v999"), Err(-32_020)),
            (&[("mcp-protocol-version", "v999"), METHOD], &meta("v999"), Err(-32_022)),
            (
                &[("mcp-protocol-version", "2025-11-25")],
                &meta("2025-11-25"),
                Ok(ProtocolGeneration::Legacy),
            ),
        ] {
            assert_eq!(
                generation_of(headers, "tools/call", params),
                expected,
                "{headers:?} {params}"
            );
        }
    }
}
