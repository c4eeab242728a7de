//! TLS: protocols, client certificates, certificate reload, and the limits of connections.

pub(crate) mod certificates;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use reqwest::{Certificate, Client, ClientBuilder, Identity, StatusCode, Version};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ProtocolVersion, RootCertStore};
use toolpost::{HandlerError, Operation};
use toolpost_gateway::auth::Token;
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, builtin};

use self::certificates::{Authority, CertificateFolder, Certified};
use super::TestGateway;
use super::hostile::RawClient;
use super::spokes::with_timeout;

const TLS: &str = "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";
const LARGE: usize = 8 * 1024 * 1024;

fn with_limits(limits: &str) -> String {
    format!("{TLS}[limits]\n{limits}\n")
}

fn load(folder: &CertificateFolder, text: &str) -> Config {
    folder.write("toolpost.toml", text);
    Config::load(&folder.file("toolpost.toml")).unwrap_or_else(|error| panic!("{error}"))
}

/// Starts a gateway with TLS and an operation with a large result.
async fn start(folder: &CertificateFolder, text: &str) -> TestGateway {
    let registry = builtin::registry();
    let large = async |_: Value| Ok::<_, HandlerError>("x".repeat(LARGE));
    registry.register(Operation::query("test.large", large).build().unwrap()).unwrap();
    let config = load(folder, text);
    TestGateway::serve(Gateway::builder(registry).config(config), "127.0.0.1:0").await
}

fn https(gateway: &TestGateway, path: &str) -> String {
    format!("https://localhost:{}{path}", gateway.address.port())
}

fn client(folder: &CertificateFolder) -> ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let ca = Certificate::from_pem(folder.authority.pem().as_bytes()).unwrap();
    let builder = Client::builder().no_proxy().no_gzip().tls_certs_only([ca]);
    builder.timeout(Duration::from_secs(60))
}

fn with_certificate(builder: ClientBuilder, certified: &Certified) -> Client {
    let pem = format!("{}{}", certified.certificate, certified.key);
    builder.identity(Identity::from_pem(pem.as_bytes()).unwrap()).build().unwrap()
}

async fn add(client: &Client, gateway: &TestGateway) -> reqwest::Result<Value> {
    let input = json!({"a": 1, "b": 2});
    let response = client.post(https(gateway, "/api/demo/add")).json(&input).send().await?;
    response.error_for_status()?.json().await
}

/// Opens a TLS connection with these protocols.
async fn connect(
    folder: &CertificateFolder,
    gateway: &TestGateway,
    protocols: &[&str],
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(folder.authority.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    with_timeout("the handshake", connecting).await.unwrap()
}

/// Returns the number of open connections, without that of the request.
async fn open_connections(client: &Client, gateway: &TestGateway) -> usize {
    let metrics =
        client.get(https(gateway, "/metrics")).send().await.unwrap().text().await.unwrap();
    let line = "toolpost_connections{endpoint=\"http\"} ";
    let count = metrics.lines().find_map(|metric| metric.strip_prefix(line)).unwrap();
    count.parse::<usize>().unwrap() - 1
}

async fn wait_for_no_connections(client: &Client, gateway: &TestGateway) {
    let none = async {
        while open_connections(client, gateway).await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    with_timeout("the end of the connection", none).await;
}

#[tokio::test]
async fn tls_serves_http2_and_http11() {
    let folder = CertificateFolder::new("protocols");
    let gateway = start(&folder, TLS).await;
    for (builder, version) in
        [(client(&folder), Version::HTTP_2), (client(&folder).http1_only(), Version::HTTP_11)]
    {
        let client = builder.build().unwrap();
        let response = client.get(https(&gateway, "/health")).send().await.unwrap();
        assert_eq!((response.status(), response.version()), (StatusCode::OK, version));
        let calls = join_all((0..50).map(|_| add(&client, &gateway))).await;
        for called in calls {
            assert_eq!(called.unwrap()["sum"], 3);
        }
        let large = client.post(https(&gateway, "/api/test/large")).send().await.unwrap();
        assert!(large.bytes().await.unwrap().len() > LARGE);
    }
    let stream = connect(&folder, &gateway, &["h2"]).await;
    assert_eq!(stream.get_ref().1.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    let mut plain = RawClient::connect(gateway.address).await;
    plain.send("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(plain.recv_response().await.is_none(), "plain HTTP is not served");
    gateway.stop().await;
}

#[tokio::test]
async fn client_certificate_is_required_and_identifies() {
    let folder = CertificateFolder::new("clients");
    let [ci, named, unknown] =
        [&["any"][..], &["deploy.example"], &["other"]].map(|names| folder.authority.sign(names));
    let foreign = Authority::new().sign(&["deploy.example"]);
    let token = Token::from("tpt_ada".to_owned());
    let config = format!(
        "{TLS}client_ca = \"ca.pem\"\n\
         [identity.ada]\ntoken_hash = \"{}\"\n\
         [identity.ci]\ncertificate = \"{}\"\nscopes = [\"toolpost:read\"]\n\
         [identity.deploy]\ncertificate = \"deploy.example\"\n",
        token.hash(),
        ci.fingerprint
    );
    let gateway = start(&folder, &config).await;
    let without = client(&folder).build().unwrap();
    assert!(without.get(https(&gateway, "/health")).send().await.is_err());
    let foreign = with_certificate(client(&folder), &foreign);
    assert!(foreign.get(https(&gateway, "/health")).send().await.is_err());
    // Each row: the certificate, the token, the statuses of a call and of `/metrics`, which requires
    // a scope.
    let rows = [
        (&ci, None, 200, 200),
        (&named, None, 200, 403),
        (&unknown, None, 401, 401),
        (&unknown, Some(&token), 200, 403),
        // The token takes precedence.
        (&ci, Some(&token), 200, 403),
    ];
    for (certified, token, call, metrics) in rows {
        let client = with_certificate(client(&folder), certified);
        let authorized = |request: reqwest::RequestBuilder| match token {
            Some(token) => request.bearer_auth(token.reveal()),
            None => request,
        };
        let called = client.post(https(&gateway, "/api/demo/add")).json(&json!({"a": 1, "b": 2}));
        let called = authorized(called).send().await.unwrap();
        assert_eq!(called.status(), call);
        let read = authorized(client.get(https(&gateway, "/metrics"))).send().await.unwrap();
        assert_eq!(read.status(), metrics);
    }
    // With other authorities, the certificate of an open connection identifies no caller.
    let client = with_certificate(client(&folder), &ci);
    add(&client, &gateway).await.unwrap();
    folder.write("ca2.pem", &Authority::new().pem());
    let config = load(&folder, &config.replace("ca.pem", "ca2.pem"));
    gateway.gateway.apply_config(config).await.unwrap();
    let rejected = add(&client, &gateway).await.unwrap_err();
    assert_eq!(rejected.status(), Some(StatusCode::UNAUTHORIZED), "{rejected}");
    gateway.stop().await;
}

#[tokio::test]
async fn certificate_reload_under_load_fails_no_call() {
    let folder = CertificateFolder::new("reload");
    let gateway = start(&folder, TLS).await;
    let (stop, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    let caller = async |is_pooled: bool, is_http1: bool| {
        let build = || {
            let builder = if is_http1 { client(&folder).http1_only() } else { client(&folder) };
            builder.build().unwrap()
        };
        let mut client = build();
        while !stop.load(Ordering::Relaxed) {
            if !is_pooled {
                client = build();
            }
            assert_eq!(add(&client, &gateway).await.unwrap()["sum"], 3);
            calls.fetch_add(1, Ordering::Relaxed);
        }
    };
    let reloader = async {
        for _ in 0..10 {
            let before = calls.load(Ordering::Relaxed);
            let renewed = folder.renew();
            let config = Config::load(&folder.file("toolpost.toml")).unwrap();
            let report = gateway.gateway.apply_config(config).await.unwrap();
            assert_eq!(report.notes, ["[tls] applies to new connections"]);
            let stream = connect(&folder, &gateway, &["http/1.1"]).await;
            let served = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
            let expected = CertificateDer::from_pem_slice(renewed.certificate.as_bytes()).unwrap();
            assert_eq!(served, expected);
            let called = async {
                while calls.load(Ordering::Relaxed) < before + 20 {
                    tokio::task::yield_now().await;
                }
            };
            with_timeout("calls between two reloads", called).await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(
        reloader,
        caller(true, true),
        caller(true, false),
        caller(false, true),
        caller(false, false)
    );
    // An invalid file keeps the previous certificate.
    folder.write("key.pem", "nothing");
    let error = Config::load(&folder.file("toolpost.toml")).unwrap_err().to_string();
    assert!(error.contains("tls.key: not a PEM file with a private key"), "{error}");
    gateway.stop().await;
}

#[tokio::test]
async fn silent_tls_connections_are_closed() {
    let folder = CertificateFolder::new("silent");
    let gateway = start(&folder, &with_limits("header_timeout = \"100ms\"")).await;
    let mut without_handshake = TcpStream::connect(gateway.address).await.unwrap();
    let mut without_request = connect(&folder, &gateway, &["http/1.1"]).await;
    let mut without_preface = connect(&folder, &gateway, &["h2"]).await;
    let mut slow_head = connect(&folder, &gateway, &["h2"]).await;
    // A HEADERS frame without END_HEADERS, whose continuation never arrives.
    let head = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &[0, 0, 0, 4, 0, 0, 0, 0, 0],
        &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82],
    ]
    .concat();
    slow_head.write_all(&head).await.unwrap();
    let mut scratch = Vec::new();
    let _ = with_timeout("no handshake", without_handshake.read_to_end(&mut scratch)).await;
    let _ = with_timeout("no request", without_request.read_to_end(&mut scratch)).await;
    let _ = with_timeout("no preface", without_preface.read_to_end(&mut scratch)).await;
    let _ = with_timeout("a slow head", slow_head.read_to_end(&mut scratch)).await;
    gateway.stop().await;
}

#[tokio::test]
async fn idle_tls_connections_are_evicted_at_the_limit() {
    let folder = CertificateFolder::new("evicted");
    let gateway = start(&folder, &with_limits("connections = 4")).await;
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(TcpStream::connect(gateway.address).await.unwrap());
        silent.push(connect(&folder, &gateway, &["h2"]).await.into_inner().0);
    }
    let client = client(&folder).build().unwrap();
    assert_eq!(add(&client, &gateway).await.unwrap()["sum"], 3);
    gateway.stop().await;
}

#[tokio::test]
async fn http2_client_that_does_not_read_is_disconnected() {
    let folder = CertificateFolder::new("unread");
    let gateway = start(&folder, &with_limits("write_timeout = \"200ms\"")).await;
    let slow = client(&folder).http2_initial_stream_window_size(65_535).build().unwrap();
    let mut unread = slow.post(https(&gateway, "/api/test/large")).send().await.unwrap();
    assert_eq!(unread.version(), Version::HTTP_2);
    let other = client(&folder).build().unwrap();
    wait_for_no_connections(&other, &gateway).await;
    let rest = async {
        while unread.chunk().await?.is_some() {}
        Ok::<_, reqwest::Error>(())
    };
    assert!(with_timeout("the rest", rest).await.is_err());
    gateway.stop().await;
}

#[tokio::test]
async fn http2_bodies_and_heads_have_the_limits_of_http11() {
    let folder = CertificateFolder::new("limits");
    let gateway = start(
        &folder,
        &with_limits(
            "body_timeout = \"200ms\"
body_bytes = 4096",
        ),
    )
    .await;
    let client = client(&folder).build().unwrap();
    let post = || client.post(https(&gateway, "/api/demo/add"));
    let unsized_body = |parts: usize| {
        let parts = (0..parts).map(|_| Ok::<_, std::io::Error>(vec![b' '; 100]));
        reqwest::Body::wrap_stream(futures::stream::iter(parts))
    };
    let slow_body =
        reqwest::Body::wrap_stream(futures::stream::pending::<std::io::Result<Vec<u8>>>());
    let rows = [
        (post().body(vec![b' '; 8_000]), Some(413)),
        (post().body(unsized_body(80)), Some(413)),
        (post().body(slow_body), Some(408)),
        (post().header("x-long", "x".repeat(100_000)), None),
        (post().json(&json!({"a": 1, "b": 2})), Some(200)),
    ];
    for (row, (request, expected)) in rows.into_iter().enumerate() {
        let response = request.send().await;
        let status = response.ok().map(|response| response.status().as_u16());
        // hyper rejects a head that is too long with 431, or by closing the stream.
        assert!(
            status == expected || expected.is_none() && status == Some(431),
            "{row}: {status:?}"
        );
    }
    gateway.stop().await;
}
