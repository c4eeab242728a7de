//! Documents on disk and on local servers.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::*;

/// A temporary folder that is removed on drop.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(files: &[(&str, &str)]) -> Self {
        let name = format!("toolpost-load-{}-{:x}", std::process::id(), rand());
        let folder = Self(std::env::temp_dir().join(name));
        for (name, text) in files {
            let path = folder.0.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn location(&self, name: &str) -> DocumentLocation {
        DocumentLocation::File(self.0.join(name))
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn rand() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0_u8)
}

/// A local server that returns a canned status, header and body for each path.
struct Server {
    origin: String,
    requested: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

type CannedResponses = HashMap<String, (u16, String, String)>;

impl Server {
    async fn start(
        responses: impl FnOnce(&str) -> Vec<(&'static str, u16, String, String)>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let rows = responses(&origin).into_iter();
        let responses: CannedResponses =
            rows.map(|(path, a, b, c)| (path.to_owned(), (a, b, c))).collect();
        let requested = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::new(responses), Arc::clone(&requested)));
        Self { origin, requested, _tasks: tasks }
    }

    fn location(&self, path: &str) -> DocumentLocation {
        DocumentLocation::from_path_or_url(&format!("{}{path}", self.origin))
    }

    fn requested(&self) -> Vec<String> {
        let mut requested = self.requested.lock().unwrap().clone();
        requested.sort();
        requested
    }
}

async fn accept(
    listener: TcpListener,
    responses: Arc<CannedResponses>,
    requested: Arc<Mutex<Vec<String>>>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&responses), Arc::clone(&requested)));
    }
}

async fn serve(
    mut stream: TcpStream,
    responses: Arc<CannedResponses>,
    requested: Arc<Mutex<Vec<String>>>,
) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.unwrap());
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap().to_owned();
    requested.lock().unwrap().push(path.clone());
    let missing = (404, "x: y".to_owned(), String::new());
    let (status, header, body) = responses.get(&path).unwrap_or(&missing);
    let response = format!(
        "HTTP/1.1 {status} x\r\n{header}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(response.as_bytes()).await;
}

fn ok_response(path: &'static str, body: &str) -> (&'static str, u16, String, String) {
    (path, 200, "x: y".to_owned(), body.to_owned())
}

fn redirect_response(path: &'static str, to: &str) -> (&'static str, u16, String, String) {
    (path, 302, format!("location: {to}"), String::new())
}

async fn load_document(
    location: DocumentLocation,
    settings: &LoadSettings,
) -> (LoadedDocument, Vec<String>) {
    let loaded = load(location, settings, None).await.unwrap();
    let messages = loaded.warnings.iter().map(|warning| warning.message.clone()).collect();
    (loaded, messages)
}

/// Resolves a member of the root document.
fn resolve_member(loaded: &LoadedDocument, name: &str) -> Result<Value, String> {
    let node = loaded.documents.root().get(name).unwrap();
    Ok(node.target().map_err(|error| error.to_string())?.to_value())
}

#[tokio::test]
async fn local_files_load_with_their_references() {
    let folder = TempFolder::new(&[
        (
            "api/main.yaml",
            "a: {$ref: 'more.json#/x'}\nb: {$ref: '../up.yaml'}\nc: {$ref: 'gone.yaml#/x'}\n\
             d: {$ref: 'broken.yaml'}\ne: {discriminator: {mapping: {cat: cat.yaml, dog: Dog}}}\n\
             f: {$ref: 'cat.yaml'}\ng: {example: {$ref: not-a-file.yaml}}\n\
             h: {$ref: 'with space.yaml'}\ni: {$ref: 'with%20space.yaml'}\n",
        ),
        ("api/more.json", r##"{"x": {"$ref": "#/y"}, "y": {"$ref": "main.yaml#/f"}}"##),
        ("up.yaml", "{$ref: api/deep/deepest.yaml}"),
        ("api/deep/deepest.yaml", "deepest"),
        ("api/broken.yaml", "a: [\n"),
        ("api/cat.yaml", "cat: 1\ncat: 2\n"),
        ("api/with space.yaml", "space"),
    ]);
    let (loaded, messages) =
        load_document(folder.location("api/main.yaml"), &LoadSettings::default()).await;
    let gone = Err("`gone.yaml#/x` is in a file that was not read".to_owned());
    let rows = [
        ("a", Ok(json!({"cat": 2}))),
        ("b", Ok(json!("deepest"))),
        ("c", gone),
        ("d", Err("`broken.yaml` is in a file that was not read".to_owned())),
        ("f", Ok(json!({"cat": 2}))),
        ("h", Ok(json!("space"))),
        ("i", Ok(json!("space"))),
    ];
    for (name, expected) in rows {
        assert_eq!(resolve_member(&loaded, name), expected, "{name}");
    }
    assert_eq!(
        messages,
        [
            "`cat` is a duplicate key at `#`; the last value is used",
            "`gone.yaml#/x` cannot be read: no such file",
            "`broken.yaml` cannot be read: invalid YAML: while parsing a node, did not find \
             expected node content (line 2, column 1)",
        ]
    );
    assert!(loaded.warnings[1].at.ends_with("/api/main.yaml"), "{:?}", loaded.warnings[1]);
}

#[tokio::test]
async fn missing_document_error_redacts_secrets() {
    let folder = TempFolder::new(&[("bad.json", "{\"a\" 1}"), ("empty.yaml", "")]);
    let server = Server::start(|_| vec![]).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let rows = [
        (folder.location("none.yaml"), "cannot be read: no such file"),
        (DocumentLocation::File(folder.0.clone()), "cannot be read: it is not a regular file"),
        (
            folder.location("bad.json"),
            "is not a valid document: invalid JSON: expected `:` (line 1, column 6)",
        ),
        (folder.location("empty.yaml"), "is not a valid document: it is empty"),
        (server.location("/a?key=secret"), "cannot be read: the server responded with status 404"),
        (
            DocumentLocation::from_path_or_url(&format!("http://me:secret@{closed}/a")),
            "cannot be read: Connection refused",
        ),
        (
            DocumentLocation::from_path_or_url("/dev/zero"),
            "cannot be read: it is not a regular file",
        ),
    ];
    for (location, expected) in rows {
        let error = load(location, &LoadSettings::default(), None).await.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn remote_documents_load_references_from_same_host_only() {
    let other =
        Server::start(|_| vec![ok_response("/x", "other"), ok_response("/x?key=secret", "other")])
            .await;
    let server = Server::start(|origin| {
        let main = format!(
            "a: {{$ref: more.yaml}}\nb: {{$ref: '{origin}/api/more.yaml'}}\n\
             c: {{$ref: '{}/x?key=secret'}}\nd: {{$ref: 'file:///etc/hostname'}}\n\
             e: {{$ref: away.yaml}}\nf: {{$ref: near.yaml}}\ng: {{$ref: round.yaml}}\n\
             h: {{$ref: out.yaml}}\n",
            other.origin
        );
        vec![
            ok_response("/api/main.yaml", &main),
            ok_response("/api/more.yaml", "more"),
            redirect_response("/api/away.yaml", &format!("{}/x", other.origin)),
            redirect_response("/api/near.yaml", "/api/deep/near.yaml"),
            ok_response("/api/deep/near.yaml", "$ref: beside.yaml"),
            ok_response("/api/deep/beside.yaml", "beside"),
            redirect_response("/api/round.yaml", "round.yaml"),
            redirect_response("/api/out.yaml", "file:///etc/hostname"),
        ]
    })
    .await;
    let (loaded, messages) =
        load_document(server.location("/api/main.yaml"), &LoadSettings::default()).await;
    for (name, expected) in [("a", "more"), ("b", "more"), ("f", "beside")] {
        assert_eq!(resolve_member(&loaded, name), Ok(json!(expected)), "{name}");
    }
    let host = other.origin.strip_prefix("http://").unwrap();
    let elsewhere = format!(
        "is not fetched: `{host}` is not the host of the document; add it to `hosts` to allow it"
    );
    let file = "is not fetched: a remote document cannot refer to local files";
    assert_eq!(
        messages,
        [
            format!("`{}/x` {elsewhere}", other.origin),
            format!("`file:///etc/hostname` {file}"),
            format!("`away.yaml` cannot be read: it redirects to an address that {elsewhere}"),
            "`round.yaml` cannot be read: too many redirects".to_owned(),
            format!("`out.yaml` cannot be read: it redirects to an address that {file}"),
        ]
    );
    assert!(other.requested().is_empty(), "no disallowed host was contacted");

    let mut settings = LoadSettings::default();
    settings.hosts.push(host.to_owned());
    let (loaded, _) = load_document(server.location("/api/main.yaml"), &settings).await;
    assert_eq!(resolve_member(&loaded, "c"), Ok(json!("other")));
    assert_eq!(resolve_member(&loaded, "e"), Ok(json!("other")));
}

#[tokio::test]
async fn local_documents_load_remote_references_if_allowed() {
    let server =
        Server::start(|_| vec![ok_response("/x", "$ref: y"), ok_response("/y", "there")]).await;
    let text = format!("a: {{$ref: '{}/x'}}", server.origin);
    let folder = TempFolder::new(&[("api.yaml", &text)]);
    let mut settings = LoadSettings::default();
    let (_, messages) = load_document(folder.location("api.yaml"), &settings).await;
    assert!(messages[0].contains("add it to `hosts` to allow it"), "{messages:?}");
    settings.hosts.push(server.origin.replace("http://", ""));
    let (loaded, _) = load_document(folder.location("api.yaml"), &settings).await;
    assert_eq!(resolve_member(&loaded, "a"), Ok(json!("there")));
    assert_eq!(server.requested(), ["/x", "/y"]);
}

#[tokio::test]
async fn self_url_document_loads_relative_references_from_disk() {
    let text = "openapi: 3.2.0\n$self: https://example.com/v1/api.yaml\na: {$ref: more.yaml#/b}\n\
                c: {$ref: 'https://example.com/v1/more.yaml#/b'}\n";
    let folder =
        TempFolder::new(&[("api.yaml", text), ("more.yaml", "b: {$ref: api.yaml#/openapi}")]);
    let (loaded, messages) =
        load_document(folder.location("api.yaml"), &LoadSettings::default()).await;
    assert_eq!(messages, [""; 0]);
    for name in ["a", "c"] {
        assert_eq!(resolve_member(&loaded, name), Ok(json!("3.2.0")), "{name}");
    }
}

#[tokio::test]
async fn load_limits_are_enforced_and_reported() {
    let folder = TempFolder::new(&[
        ("api.yaml", "a: {$ref: 1.yaml}\nb: {$ref: 2.yaml}\nc: {$ref: 3.yaml}\n"),
        ("1.yaml", "one"),
        ("2.yaml", &"x".repeat(200)),
        ("3.yaml", "three"),
    ]);
    // Files are loaded one at a time, so the file that exceeds the limit is deterministic.
    let defaults = || LoadSettings { concurrency: 1, ..LoadSettings::default() };
    let rows = [
        (
            LoadSettings { max_file_size: 100, ..defaults() },
            "`2.yaml` cannot be read: it is larger than 100 bytes; raise `max_file_size`",
        ),
        (
            LoadSettings { max_total_size: 100, ..defaults() },
            "`2.yaml` cannot be read: all files together are larger than 100 bytes; raise `max_total_size`",
        ),
        (
            LoadSettings { max_files: 3, ..defaults() },
            "only 3 files were read; raise `max_files` to read more",
        ),
    ];
    for (settings, expected) in rows {
        let (loaded, messages) = load_document(folder.location("api.yaml"), &settings).await;
        assert!(messages.iter().any(|message| message == expected), "{messages:?}");
        assert_eq!(resolve_member(&loaded, "a"), Ok(json!("one")));
    }
}

#[tokio::test]
async fn load_times_out_on_unresponsive_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let location =
        DocumentLocation::from_path_or_url(&format!("http://{}/a", listener.local_addr().unwrap()));
    let timeout = std::time::Duration::from_millis(50);
    let settings = LoadSettings { timeout, ..LoadSettings::default() };
    let error = load(location, &settings, None).await.unwrap_err().to_string();
    assert!(error.ends_with("it timed out after 50ms"), "{error}");
}

#[tokio::test]
async fn inline_text_resolves_references_from_its_base_url() {
    let folder = TempFolder::new(&[("more.yaml", "more")]);
    let base_url = url::Url::from_file_path(folder.0.join("stdin")).unwrap();
    let text = b"a: {$ref: more.yaml}".to_vec();
    let (loaded, _) =
        load_document(DocumentLocation::Text { text, base_url }, &LoadSettings::default()).await;
    assert_eq!(resolve_member(&loaded, "a"), Ok(json!("more")));
}
