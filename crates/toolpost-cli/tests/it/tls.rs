//! TLS between processes: `curl`, commands with a custom CA, and credentials over plain connections.

#[path = "../../../toolpost-gateway/tests/it/tls/certificates.rs"]
mod certificates;

use std::process::{Command, Stdio};

use serde_json::json;
use toolpost::connection::{Client, Connection, ConnectionSettings, IncomingRequests};
use toolpost::hub::Spoke;
use toolpost::protocol::Secret;
use toolpost::transport::{Connector, WsConnector, WsSettings};
use toolpost::{ClientTls, HandlerError, Operation};

use self::certificates::CertificateFolder;
use super::process::{Process, run, wait_until, wait_until_async};
use super::{command, json as parsed, stderr, stdout};

const TLS: &str = "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";

struct Gateway {
    _process: Process,
    port: String,
}

impl Gateway {
    fn start(folder: &CertificateFolder, config: &str) -> Self {
        folder.write("toolpost.toml", config);
        let mut command = command(&["serve", "--listen", "127.0.0.1:0", "--data", "data"]);
        let log = std::fs::File::create(folder.file("log")).unwrap();
        let mut process =
            Process::spawn(command.current_dir(&folder.path).stdout(Stdio::piped()).stderr(log));
        let first = process.stdout_lines().next().expect("the gateway prints its address");
        let address = first.trim().rsplit_once("https://").unwrap_or_else(|| panic!("{first}")).1;
        let port = address.rsplit_once(':').unwrap().1.to_owned();
        Self { _process: process, port }
    }

    fn url(&self, scheme: &str, path: &str) -> String {
        format!("{scheme}://localhost:{}{path}", self.port)
    }
}

/// Runs `curl` with the CA of the folder and returns its exit code and output.
fn curl(folder: &CertificateFolder, arguments: &[&str]) -> (Option<i32>, String) {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "60"]);
    curl.arg("--cacert").arg(folder.file("ca.pem")).current_dir(&folder.path).args(arguments);
    let output = run(&mut curl);
    (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
}

#[test]
fn curl_calls_over_tls13_and_http2() {
    let folder = CertificateFolder::new("curl");
    let gateway = Gateway::start(&folder, TLS);
    let url = gateway.url("https", "/api/demo/add?a=1&b=2");
    let written = ["--write-out", " %{http_version} %{http_code}"];
    for (protocol, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let (code, output) =
            curl(&folder, &[&["--tlsv1.3", protocol, &url], &written[..]].concat());
        assert_eq!((code, output.as_str()), (Some(0), &*format!("{{\"sum\":3}} {version} 200")));
    }
    // Without the CA, the certificate is not trusted.
    let output = run(Command::new("curl").args(["--silent", "--noproxy", "*", &url]));
    assert_eq!(output.status.code(), Some(60), "{}", stderr(&output));
}

#[test]
fn curl_without_required_certificate_is_rejected() {
    let folder = CertificateFolder::new("curl-client");
    let client = folder.authority.sign(&["ci.example"]);
    folder.write("client.pem", &client.certificate);
    folder.write("client.key", &client.key);
    let identity = "client_ca = \"ca.pem\"\n[identity.ci]\ncertificate = \"FINGERPRINT\"\n";
    let identity = identity.replace("FINGERPRINT", &client.fingerprint);
    let gateway = Gateway::start(&folder, &format!("{TLS}{identity}"));
    let url = gateway.url("https", "/api/demo/add?a=1&b=2");
    // The rejection arrives while curl sends the request, or afterwards.
    let (code, output) = curl(&folder, &[&url]);
    assert!(matches!(code, Some(55 | 56)), "{code:?}: {output}");
    let with = ["--cert", "client.pem", "--key", "client.key", &url];
    assert_eq!(curl(&folder, &with), (Some(0), "{\"sum\":3}".to_owned()));
}

#[test]
fn commands_trust_the_given_ca_only() {
    let folder = CertificateFolder::new("commands");
    let gateway = Gateway::start(&folder, TLS);
    let url = gateway.url("wss", "");
    let call = |options: &[&str]| {
        let call =
            [&["call", "demo.add", "{\"a\":1,\"b\":2}", "--url", &url][..], options].concat();
        run(command(&call).current_dir(&folder.path))
    };
    let trusted = call(&["--ca", "ca.pem"]);
    assert_eq!(trusted.status.code(), Some(0), "{}", stderr(&trusted));
    assert_eq!(parsed(&trusted)["data"]["sum"], 3);
    let untrusted = call(&[]);
    assert_eq!(untrusted.status.code(), Some(3));
    assert!(stderr(&untrusted).contains("invalid peer certificate"), "{}", stderr(&untrusted));
    assert_eq!(call(&["--ca", "missing.pem"]).status.code(), Some(2));
}

/// The address is reserved for documentation, so no host has it.
#[test]
fn token_is_not_sent_to_another_machine_in_plain_text() {
    for url in ["ws://192.0.2.1:1", "http://gateway.example"] {
        let output = run(&mut command(&["list", "--url", url, "--token", "tpt_secret"]));
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let message = "without encryption; use wss://";
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
    let folder = CertificateFolder::new("plain");
    let secrets = "[source.a]\nmcp = { url = \"http://tools.example/mcp\", bearer = \"hush\" }\n\
                   [source.b]\nhub = { url = \"ws://hub.example/hub\", token = \"hush\" }\n\
                   [source.c]\nopenapi = { document = \"a.json\", server = \"http://api.example\" }\n\
                   auth = { bearer = \"hush\" }\n";
    let check = |config: &str| {
        folder.write("toolpost.toml", config);
        run(command(&["serve", "--check"]).current_dir(&folder.path))
    };
    let rejected = check(secrets);
    assert_eq!(rejected.status.code(), Some(2), "{}", stdout(&rejected));
    for key in ["source.a.mcp.url", "source.b.hub.url", "source.c.openapi.server"] {
        let message = format!("{key}: credentials would be sent to");
        assert!(stderr(&rejected).contains(&message), "{}", stderr(&rejected));
    }
    let encrypted = secrets.replace("http://", "https://").replace("ws://", "wss://");
    let allowed = secrets.replace("[source.", "\n[source.").replace("]\n", "]\ninsecure = true\n");
    for config in [&encrypted, &allowed] {
        let accepted = check(config);
        assert_eq!(accepted.status.code(), Some(0), "{}", stderr(&accepted));
        let is_noted =
            stdout(&accepted).contains("source `b`: credentials are sent to another machine");
        assert_eq!(is_noted, config == &allowed, "{}", stdout(&accepted));
    }
}

async fn connect(gateway: &Gateway, token: Option<Secret>, tls: &ClientTls) -> Client {
    let url = gateway.url("wss", "");
    let connector = WsConnector::with_tls(&url, token, WsSettings::default(), tls).unwrap();
    let channel = connector.connect().await.unwrap();
    let settings = ConnectionSettings::default();
    let (client, connection) = Connection::new(channel, IncomingRequests::Reject, settings);
    tokio::spawn(connection.run());
    client
}

#[tokio::test]
async fn spokes_and_hubs_connect_over_wss_with_a_custom_ca() {
    let folder = CertificateFolder::new("wss");
    let gateway = Gateway::start(&folder, TLS);
    let mut tls = ClientTls::default();
    tls.ca_certificates = Some(folder.authority.pem());
    let double = async |number: i64| Ok::<_, HandlerError>(2 * number);
    let operation = Operation::query("math.double", double).build().unwrap();
    let url = gateway.url("wss", "/hub");
    let connector = WsConnector::with_tls(&url, None, WsSettings::default(), &tls).unwrap();
    let session = Spoke::new("box").operation(operation).unwrap().connect(connector);
    session.ready().await.unwrap();
    let client = connect(&gateway, None, &tls).await;
    assert_eq!(client.call_json("box.math.double", json!(4)).await.unwrap().data, 8);
    // Another gateway imports the operations of this one.
    let other = CertificateFolder::new("wss-other");
    other.write("upstream.pem", &folder.authority.pem());
    let source =
        format!("{TLS}[source.first]\nhub = {{ url = \"{url}\" }}\nca = \"upstream.pem\"\n");
    let second = Gateway::start(&other, &source);
    tls.ca_certificates = Some(other.authority.pem());
    let client = connect(&second, None, &tls).await;
    let input = json!({"a": 1, "b": 2});
    wait_until_async("the upstream is imported", async || {
        client.call_json("first.demo.add", input.clone()).await.is_ok()
    })
    .await;
    session.close().await;
}

#[test]
fn room_command_joins_over_wss() {
    let folder = CertificateFolder::new("room");
    let gateway = Gateway::start(&folder, TLS);
    let url = gateway.url("wss", "");
    let join = ["room", "join", "lobby", "--as", "ada", "--url", &url, "--ca", "ca.pem"];
    let mut child = Process::spawn(
        command(&join).current_dir(&folder.path).stdin(Stdio::piped()).stdout(Stdio::piped()),
    );
    let mut lines = child.stdout_lines();
    assert!(lines.any(|line| line.contains("ada")), "the participant joins");
    drop(child.stdin.take());
    wait_until("the command ends", || child.try_wait().unwrap().is_some());
}
