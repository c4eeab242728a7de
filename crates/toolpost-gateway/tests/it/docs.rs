//! `/docs`: the page files, access to them, and the page in a real browser.

mod browser;

use reqwest::Method;
use toolpost::Identity;
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::{Gateway, GatewaySettings, builtin};

use super::{TestGateway, client};

/// Each row: method, path, `Accept`, expected status, and expected location or content type.
#[tokio::test]
async fn docs_serves_page_and_files_for_get_only() {
    let gateway = TestGateway::start().await;
    let (html, json) = ("text/html,application/xhtml+xml,*/*;q=0.8", "application/json");
    let problem = "application/problem+json";
    for (method, path, accept, status, message) in [
        ("GET", "/docs", html, 200, "text/html; charset=utf-8"),
        ("HEAD", "/docs", html, 200, "text/html; charset=utf-8"),
        ("GET", "/docs", "*/*", 200, "text/html; charset=utf-8"),
        ("GET", "/docs?any=thing", "*/*", 200, "text/html; charset=utf-8"),
        ("GET", "/docs/main.js", "*/*", 200, "text/javascript; charset=utf-8"),
        ("GET", "/docs/page.css", "*/*", 200, "text/css; charset=utf-8"),
        ("GET", "/docs/icon.svg", "*/*", 200, "image/svg+xml"),
        ("GET", "/docs/", html, 302, "../docs"),
        ("GET", "/docs/index.html", html, 404, problem),
        ("GET", "/docs/..%2fdocs.rs", html, 404, problem),
        ("GET", "/docs/a/b", html, 404, problem),
        ("POST", "/docs", html, 405, problem),
        ("PUT", "/docs/main.js", html, 405, problem),
        ("OPTIONS", "/docs", html, 405, problem),
        ("GET", "/", html, 302, "docs"),
        ("HEAD", "/", html, 302, "docs"),
        ("GET", "/", json, 404, problem),
        ("GET", "/", "*/*", 404, problem),
        ("POST", "/", html, 404, problem),
    ] {
        let verb = Method::from_bytes(method.as_bytes()).unwrap();
        let request = plain_client().request(verb, gateway.url(path)).header("accept", accept);
        let response = request.send().await.unwrap();
        let row = format!("{method} {path} {accept}");
        assert_eq!(response.status().as_u16(), status, "{row}");
        let name = if status == 302 { "location" } else { "content-type" };
        assert_eq!(response.headers()[name], message, "{row}");
        if status == 405 {
            assert_eq!(response.headers()["allow"], "GET, HEAD", "{row}");
        }
        let text = response.text().await.unwrap();
        assert_eq!(text.is_empty(), method == "HEAD" || status == 302, "{row}: {text}");
    }
    gateway.stop().await;
}

/// Returns a client that does not follow redirects.
fn plain_client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().no_proxy().no_gzip();
    builder.redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

#[tokio::test]
async fn docs_responses_have_strict_security_headers() {
    let gateway = TestGateway::start().await;
    for path in ["/docs", "/docs/main.js", "/docs/page.css", "/docs/icon.svg"] {
        let response = client().get(gateway.url(path)).send().await.unwrap();
        let headers = response.headers();
        let policy = headers["content-security-policy"].to_str().unwrap();
        let begins = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
            img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none';";
        assert!(policy.starts_with(begins), "{path}: {policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["referrer-policy"], "no-referrer", "{path}");
        assert!(!headers.contains_key("access-control-allow-origin"), "{path}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn docs_file_with_matching_etag_returns_304() {
    let gateway = TestGateway::start().await;
    let url = gateway.url("/docs/main.js");
    let first = plain_client().get(&url).send().await.unwrap();
    let tag = first.headers()["etag"].clone();
    assert_eq!(first.headers()["cache-control"], "no-cache");
    let strong = tag.to_str().unwrap().trim_start_matches("W/").to_owned();
    for (known, status) in [
        (tag.to_str().unwrap().to_owned(), 304),
        (strong.clone(), 304),
        (format!("\"other\", {strong}"), 304),
        ("*".to_owned(), 304),
        ("\"other\"".to_owned(), 200),
    ] {
        let request = plain_client().get(&url).header("if-none-match", &known);
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{known}");
        assert_eq!(response.headers()["etag"], tag, "{known}");
        assert_eq!(response.text().await.unwrap().is_empty(), status == 304, "{known}");
    }
    let packed = plain_client().get(&url).header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    let unpacked = client().get(&url).send().await.unwrap().text().await.unwrap();
    assert_eq!(unpacked, first.text().await.unwrap());
    gateway.stop().await;
}

/// Each row: the origin of the request, as browser headers, and the expected status of the page,
/// the document and a call.
#[tokio::test]
async fn same_origin_page_can_call_and_cross_origin_cannot() {
    let open = TestGateway::start().await;
    let token = Token::generate().unwrap();
    let closed = Gateway::builder(builtin::registry())
        .authenticator(Authenticator::with_tokens([(token.hash(), Identity::new("ada"))]));
    let closed = TestGateway::serve(closed, "127.0.0.1:0").await;
    for (gateway, token) in [(&open, None), (&closed, Some(token.reveal()))] {
        let own = format!("http://{}", gateway.address);
        let rows: [(&[(&str, &str)], [u16; 3]); 8] = [
            (&[], [200, 200, 200]),
            (&[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")], [200, 200, 200]),
            (&[("sec-fetch-site", "same-origin"), ("origin", &own)], [200, 200, 200]),
            (&[("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")], [403; 3]),
            (&[("sec-fetch-site", "cross-site"), ("origin", "null")], [403; 3]),
            // An image, a script or a followed link has no `Origin`.
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], [200, 403, 403]),
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], [200, 403, 403]),
            (&[("origin", "https://evil.example")], [403; 3]),
        ];
        for (headers, expected) in rows {
            let paths = ["/docs", "/openapi.json", "/api/demo/add?a=2&b=3"];
            for (path, status) in paths.into_iter().zip(expected) {
                let mut request = client().get(gateway.url(path));
                if let Some(token) = token {
                    request = request.bearer_auth(token);
                }
                for (name, value) in headers {
                    request = request.header(*name, *value);
                }
                let response = request.send().await.unwrap();
                assert_eq!(response.status().as_u16(), status, "{path} {headers:?}");
            }
        }
    }
    let rebound = client().get(open.url("/docs")).header("host", "evil.example").send().await;
    assert_eq!(rebound.unwrap().status().as_u16(), 403);
    open.stop().await;
    closed.stop().await;
}

/// The page is public. The document and the calls require a token.
#[tokio::test]
async fn docs_page_is_public_and_api_requires_token() {
    let token = Token::generate().unwrap();
    let gateway = Gateway::builder(builtin::registry())
        .authenticator(Authenticator::with_tokens([(token.hash(), Identity::new("ada"))]));
    let gateway = TestGateway::serve(gateway, "127.0.0.1:0").await;
    for (path, status) in [
        ("/docs", 200),
        ("/docs/main.js", 200),
        ("/openapi.json", 401),
        ("/api/demo/add?a=2&b=3", 401),
    ] {
        let response = client().get(gateway.url(path)).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{path}");
    }
    let page = client().get(gateway.url("/docs")).send().await.unwrap().text().await.unwrap();
    assert!(page.contains(r#"<meta name="toolpost-token" content="needed">"#));
    gateway.stop().await;
}

/// Each row: the method, origin and path, the expected status, and whether CORS allows the page to
/// read the response.
#[tokio::test]
async fn cors_allows_only_configured_origins() {
    let (allowed_origin, other) = ("https://app.example", "https://app.example.evil");
    let mut settings = GatewaySettings::default();
    settings.http.cors_origins = vec![allowed_origin.to_owned()];
    let gateway = TestGateway::start_with([], settings).await;
    for (method, origin, path, status, may_read) in [
        ("OPTIONS", allowed_origin, "/api/demo/add", 204, true),
        ("OPTIONS", allowed_origin, "/mcp", 204, true),
        ("GET", allowed_origin, "/api/demo/add?a=1&b=2", 200, true),
        ("GET", allowed_origin, "/api/demo/none", 404, true),
        ("GET", allowed_origin, "/openapi.json", 200, true),
        ("GET", other, "/api/demo/add?a=1&b=2", 403, false),
        ("OPTIONS", other, "/api/demo/add", 403, false),
        ("GET", "http://localhost:1", "/api/demo/add?a=1&b=2", 403, false),
    ] {
        let request = client().request(method.parse().unwrap(), gateway.url(path));
        let site = if origin.starts_with("http:") { "same-site" } else { "cross-site" };
        let request = request.header("origin", origin).header("sec-fetch-site", site);
        let request = request.header("access-control-request-method", "POST");
        let request = request.header("access-control-request-headers", "authorization");
        let response = request.send().await.unwrap();
        let row = format!("{method} {path} of {origin}");
        assert_eq!(response.status().as_u16(), status, "{row}");
        let allowed = response.headers().get("access-control-allow-origin");
        assert_eq!(
            allowed.map(|it| it.to_str().unwrap()),
            may_read.then_some(allowed_origin),
            "{row}"
        );
        let mut varies = response.headers().get_all("vary").iter();
        assert!(varies.any(|by| by == "origin"), "{row}");
        assert!(!response.headers().contains_key("access-control-allow-credentials"), "{row}");
        if method == "OPTIONS" && may_read {
            assert_eq!(
                response.headers()["access-control-allow-headers"],
                "authorization",
                "{row}"
            );
        }
    }
    gateway.stop().await;
}
