//! Tests with a server that requires a client certificate.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::super::{CredentialStore, Credentials};
use super::fixture::http_client;
use crate::openapi::plan::{SchemeRequirement, SecurityScheme};
use crate::protocol::Secret;
use crate::tls::ClientTls;

/// Server that responds with the common name of the client certificate and drops connections
/// without one.
const SERVER: &str = r#"
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.verify_mode = ssl.CERT_REQUIRED
context.load_verify_locations(sys.argv[1])
context.load_cert_chain(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    try:
        with context.wrap_socket(connection, server_side=True) as stream:
            stream.recv(65536)
            name = dict(pair for part in stream.getpeercert()["subject"] for pair in part)["commonName"]
            stream.sendall(f"HTTP/1.1 200 OK\r\ncontent-length: {len(name)}\r\n\r\n{name}".encode())
    except ssl.SSLError:
        pass
"#;

/// A certificate with its key, and the server that uses it and requires it. Dropping it removes
/// both.
struct MutualTlsServer {
    folder: PathBuf,
    server: Child,
    address: String,
}

impl MutualTlsServer {
    fn start() -> Self {
        let folder =
            std::env::temp_dir().join(format!("toolpost-certificate-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let pem = folder.join("both.pem");
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-nodes", "-days", "1", "-subj", "/CN=a client of toolpost"])
            .args(["-addext", "subjectAltName=IP:127.0.0.1"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(&pem)
            .arg("-out")
            .arg(folder.join("certificate.pem"))
            .output()
            .expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let key = std::fs::read_to_string(&pem).unwrap();
        let certificate = std::fs::read_to_string(folder.join("certificate.pem")).unwrap();
        std::fs::write(&pem, key + &certificate).unwrap();
        let mut server = Command::new("python3");
        let mut server =
            server.args(["-c", SERVER]).arg(&pem).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { folder, server, address: format!("https://127.0.0.1:{}/", port.trim()) }
    }

    fn pem(&self) -> String {
        std::fs::read_to_string(self.folder.join("both.pem")).unwrap()
    }

    /// Returns a client that trusts the certificate of this server.
    fn client(&self, credentials: &Credentials) -> reqwest::Client {
        let trusted = reqwest::Certificate::from_pem(self.pem().as_bytes()).unwrap();
        let mut builder = reqwest::Client::builder().tls_certs_only([trusted]).no_proxy();
        if let Some(identity) = credentials.client_identity().unwrap() {
            builder = builder.identity(identity);
        }
        builder.build().unwrap()
    }
}

impl Drop for MutualTlsServer {
    fn drop(&mut self) {
        let _ = self.server.kill().and_then(|()| self.server.wait());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test]
async fn client_certificate_is_sent_to_mtls_service() {
    let guarded = MutualTlsServer::start();
    let scheme = Arc::new(SecurityScheme::MutualTls);
    let security = [vec![SchemeRequirement { name: "tls".to_owned(), scheme, scopes: Vec::new() }]];
    let client_certificate = Some(Secret::new(guarded.pem()));
    let credentials = Credentials { client_certificate, ..Credentials::default() };
    let credential_store =
        CredentialStore::new(credentials.clone(), http_client(), ClientTls::default()).unwrap();
    credential_store.for_operation(&security).unwrap();
    let response = guarded.client(&credentials).get(&guarded.address).send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), "a client of toolpost");
    assert!(!format!("{credential_store:?}").contains("PRIVATE"));

    let empty_store =
        CredentialStore::new(Credentials::default(), http_client(), ClientTls::default()).unwrap();
    assert!(empty_store.for_operation(&security).is_err());
    assert!(guarded.client(&Credentials::default()).get(&guarded.address).send().await.is_err());
}
