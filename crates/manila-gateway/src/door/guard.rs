//! Keeps web pages out of a gateway that trusts its machine.
//!
//! A page can make a browser send requests to loopback, directly or by pointing a name of its own
//! at 127.0.0.1. Both show in the headers: `Origin` names the page, `Host` the rebound name.

use axum::extract::Request;
use axum::http::{StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;

use super::problem::Problem;

pub(super) async fn same_machine(request: Request, next: Next) -> Response {
    for (name, what) in [(header::HOST, "Host"), (header::ORIGIN, "Origin")] {
        let Some(value) = request.headers().get(&name) else { continue };
        if !value.to_str().is_ok_and(is_loopback) {
            let message =
                format!("the {what} header does not name this machine's loopback address");
            return Problem::new(StatusCode::FORBIDDEN, message).into_response();
        }
    }
    next.run(request).await
}

/// Whether `host[:port]` or `scheme://host[:port]` is loopback.
fn is_loopback(value: &str) -> bool {
    let authority = value.split_once("://").map_or(value, |(_, authority)| authority);
    let Ok(uri) = authority.parse::<Uri>() else { return false };
    let Some(host) = uri.authority().map(axum::http::uri::Authority::host) else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_name =
        host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost");
    is_name || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_pass() {
        for (value, expected) in [
            ("localhost", true),
            ("LOCALHOST:7411", true),
            ("app.localhost:80", true),
            ("127.0.0.1:7411", true),
            ("127.8.9.1", true),
            ("[::1]:7411", true),
            ("http://localhost:3000", true),
            ("http://127.0.0.1:3000", true),
            ("http://[::1]:3000", true),
            ("evil.example", false),
            ("evil.example:7411", false),
            ("localhost.evil.example", false),
            ("notlocalhost", false),
            ("192.168.1.2:7411", false),
            ("https://evil.example", false),
            ("null", false),
            ("", false),
            ("http://", false),
        ] {
            assert_eq!(is_loopback(value), expected, "{value:?}");
        }
    }
}
