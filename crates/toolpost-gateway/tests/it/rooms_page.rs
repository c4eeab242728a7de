//! `/rooms`: the files of the page, access to them, and the page in a real browser.

mod browser;

use reqwest::Method;
use toolpost::Identity;
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::{Gateway, builtin};

use super::{TestGateway, client};

/// A gateway that requires tokens.
async fn gateway_with_tokens() -> TestGateway {
    let token = Token::generate().unwrap();
    let gateway = Gateway::builder(builtin::registry());
    let authenticator = Authenticator::with_tokens([(token.hash(), Identity::new("ada"))]);
    TestGateway::serve(gateway.authenticator(authenticator), "127.0.0.1:0").await
}

/// Each row: method, path, and the expected status and content type.
#[tokio::test]
async fn rooms_page_serves_only_its_own_files() {
    let (open, closed) = (TestGateway::start().await, gateway_with_tokens().await);
    let (html, problem) = ("text/html; charset=utf-8", "application/problem+json");
    for (method, path, status, content_type) in [
        ("GET", "/rooms", 200, html),
        ("HEAD", "/rooms", 200, html),
        ("GET", "/rooms?any=thing", 200, html),
        ("GET", "/rooms/main.js", 200, "text/javascript; charset=utf-8"),
        ("GET", "/rooms/rooms.css", 200, "text/css; charset=utf-8"),
        ("GET", "/rooms/index.html", 404, problem),
        ("GET", "/rooms/page.css", 404, problem),
        ("GET", "/rooms/..%2frooms.rs", 404, problem),
        ("GET", "/rooms/a/b", 404, problem),
        ("GET", "/roomsmain.js", 404, problem),
        ("POST", "/rooms", 405, problem),
        ("OPTIONS", "/rooms/main.js", 405, problem),
    ] {
        for gateway in [&open, &closed] {
            let verb = Method::from_bytes(method.as_bytes()).unwrap();
            let response = client().request(verb, gateway.url(path)).send().await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{method} {path}");
            assert_eq!(response.headers()["content-type"], content_type, "{method} {path}");
        }
    }
    for (gateway, content) in [(&open, "unneeded"), (&closed, "needed")] {
        let page = client().get(gateway.url("/rooms")).send().await.unwrap().text().await.unwrap();
        assert!(page.contains(&format!(r#"<meta name="toolpost-token" content="{content}">"#)));
    }
    open.stop().await;
    closed.stop().await;
}

#[tokio::test]
async fn rooms_page_sends_security_headers() {
    let gateway = TestGateway::start().await;
    let docs_response = client().get(gateway.url("/docs")).send().await.unwrap();
    for path in ["/rooms", "/rooms/main.js", "/rooms/rooms.css"] {
        let response = client().get(gateway.url(path)).send().await.unwrap();
        let headers = response.headers();
        for name in ["content-security-policy", "x-content-type-options", "referrer-policy"] {
            assert_eq!(headers[name], docs_response.headers()[name], "{path}");
        }
        assert!(!headers.contains_key("access-control-allow-origin"), "{path}");
    }
    gateway.stop().await;
}

/// Each row: browser headers that indicate the origin, and the status for the page, the rooms and a
/// WebSocket handshake.
#[tokio::test]
async fn cross_origin_requests_are_rejected() {
    let gateway = TestGateway::start().await;
    let own = format!("http://{}", gateway.address);
    let evil = "https://evil.example";
    let rows: [(&[(&str, &str)], [u16; 3]); 5] = [
        (&[], [200, 200, 101]),
        (&[("sec-fetch-site", "same-origin"), ("origin", &own)], [200, 200, 101]),
        (&[("sec-fetch-site", "cross-site"), ("origin", evil)], [403; 3]),
        (&[("origin", evil)], [403; 3]),
        (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], [200, 403, 403]),
    ];
    for (headers, expected) in rows {
        for (path, status) in
            ["/rooms", "/v0.1/topics", "/ws?space=lobby"].into_iter().zip(expected)
        {
            let mut request = client().get(gateway.url(path));
            if path.starts_with("/ws") {
                request = request.header("connection", "upgrade").header("upgrade", "websocket");
                request = request.header("sec-websocket-version", "13");
                request = request.header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==");
            }
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let response = request.send().await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{path} {headers:?}");
        }
    }
    gateway.stop().await;
}
