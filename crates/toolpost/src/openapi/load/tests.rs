//! Documents on disk and behind real servers.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::*;

/// A folder that is gone when the test is.
struct Folder(PathBuf);

impl Folder {
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

    fn location(&self, name: &str) -> Location {
        Location::File(self.0.join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn rand() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0_u8)
}

/// A server on this machine that answers each path with a status, a header and a text.
struct Server {
    origin: String,
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

type Answers = HashMap<String, (u16, String, String)>;

impl Server {
    async fn start(answers: impl FnOnce(&str) -> Vec<(&'static str, u16, String, String)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let rows = answers(&origin).into_iter();
        let answers: Answers = rows.map(|(path, a, b, c)| (path.to_owned(), (a, b, c))).collect();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::new(answers), Arc::clone(&asked)));
        Self { origin, asked, _tasks: tasks }
    }

    fn location(&self, path: &str) -> Location {
        Location::of(&format!("{}{path}", self.origin))
    }

    fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.sort();
        asked
    }
}

async fn accept(listener: TcpListener, answers: Arc<Answers>, asked: Arc<Mutex<Vec<String>>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(answer(stream, Arc::clone(&answers), Arc::clone(&asked)));
    }
}

async fn answer(mut stream: TcpStream, answers: Arc<Answers>, asked: Arc<Mutex<Vec<String>>>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.unwrap());
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap().to_owned();
    asked.lock().unwrap().push(path.clone());
    let missing = (404, "x: y".to_owned(), String::new());
    let (status, header, body) = answers.get(&path).unwrap_or(&missing);
    let answer = format!(
        "HTTP/1.1 {status} x\r\n{header}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
}

fn ok(path: &'static str, body: &str) -> (&'static str, u16, String, String) {
    (path, 200, "x: y".to_owned(), body.to_owned())
}

fn moved(path: &'static str, to: &str) -> (&'static str, u16, String, String) {
    (path, 302, format!("location: {to}"), String::new())
}

async fn read(location: Location, settings: &LoadSettings) -> (Loaded, Vec<String>) {
    let loaded = load(location, settings).await.unwrap();
    let messages = loaded.warnings.iter().map(|warning| warning.message.clone()).collect();
    (loaded, messages)
}

/// What a member of the document leads to.
fn found(loaded: &Loaded, name: &str) -> Result<Value, String> {
    let library = &loaded.library;
    let place = library.get(library.root(), name).unwrap();
    let place = library.follow(place).map_err(|error| error.to_string())?;
    Ok(library.node(place).to_value())
}

#[tokio::test]
async fn files_are_read_with_what_they_refer_to() {
    let folder = Folder::new(&[
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
    let (loaded, messages) = read(folder.location("api/main.yaml"), &LoadSettings::default()).await;
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
        assert_eq!(found(&loaded, name), expected, "{name}");
    }
    assert_eq!(
        messages,
        [
            "`cat` is said twice at `#`; the last one counts",
            "`gone.yaml#/x` cannot be read: there is no such file",
            "`broken.yaml` cannot be read: it is no YAML: while parsing a node, did not find \
             expected node content (line 2, column 1)",
        ]
    );
    assert!(loaded.warnings[1].at.ends_with("/api/main.yaml"), "{:?}", loaded.warnings[1]);
}

#[tokio::test]
async fn a_document_that_is_not_there_is_an_error_without_secrets() {
    let folder = Folder::new(&[("bad.json", "{\"a\" 1}"), ("empty.yaml", "")]);
    let server = Server::start(|_| vec![]).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let rows = [
        (folder.location("none.yaml"), "cannot be read: there is no such file"),
        (Location::File(folder.0.clone()), "cannot be read: it is no file"),
        (
            folder.location("bad.json"),
            "is no document: it is no JSON: expected `:` (line 1, column 6)",
        ),
        (folder.location("empty.yaml"), "is no document: there is nothing in it"),
        (server.location("/a?key=secret"), "cannot be read: the server answered with status 404"),
        (
            Location::of(&format!("http://me:secret@{closed}/a")),
            "cannot be read: Connection refused",
        ),
        (Location::of("/dev/zero"), "cannot be read: it is no file"),
    ];
    for (location, expected) in rows {
        let error = load(location, &LoadSettings::default()).await.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn documents_of_the_network_lead_only_to_where_they_come_from() {
    let other = Server::start(|_| vec![ok("/x", "other"), ok("/x?key=secret", "other")]).await;
    let server = Server::start(|origin| {
        let main = format!(
            "a: {{$ref: more.yaml}}\nb: {{$ref: '{origin}/api/more.yaml'}}\n\
             c: {{$ref: '{}/x?key=secret'}}\nd: {{$ref: 'file:///etc/hostname'}}\n\
             e: {{$ref: away.yaml}}\nf: {{$ref: near.yaml}}\ng: {{$ref: round.yaml}}\n\
             h: {{$ref: out.yaml}}\n",
            other.origin
        );
        vec![
            ok("/api/main.yaml", &main),
            ok("/api/more.yaml", "more"),
            moved("/api/away.yaml", &format!("{}/x", other.origin)),
            moved("/api/near.yaml", "/api/deep/near.yaml"),
            ok("/api/deep/near.yaml", "$ref: beside.yaml"),
            ok("/api/deep/beside.yaml", "beside"),
            moved("/api/round.yaml", "round.yaml"),
            moved("/api/out.yaml", "file:///etc/hostname"),
        ]
    })
    .await;
    let (loaded, messages) =
        read(server.location("/api/main.yaml"), &LoadSettings::default()).await;
    for (name, expected) in [("a", "more"), ("b", "more"), ("f", "beside")] {
        assert_eq!(found(&loaded, name), Ok(json!(expected)), "{name}");
    }
    let host = other.origin.strip_prefix("http://").unwrap();
    let elsewhere = format!(
        "is not asked for: `{host}` is not where the document comes from; `hosts` may allow it"
    );
    let file =
        "is not asked for: a document from the network may not refer to files of this machine";
    assert_eq!(
        messages,
        [
            format!("`{}/x` {elsewhere}", other.origin),
            format!("`file:///etc/hostname` {file}"),
            format!("`away.yaml` cannot be read: it leads to an address that {elsewhere}"),
            "`round.yaml` cannot be read: it leads from one address to the next without end"
                .to_owned(),
            format!("`out.yaml` cannot be read: it leads to an address that {file}"),
        ]
    );
    assert!(other.asked().is_empty(), "nobody was asked who may not be");

    let mut settings = LoadSettings::default();
    settings.hosts.push(host.to_owned());
    let (loaded, _) = read(server.location("/api/main.yaml"), &settings).await;
    assert_eq!(found(&loaded, "c"), Ok(json!("other")));
    assert_eq!(found(&loaded, "e"), Ok(json!("other")));
}

#[tokio::test]
async fn local_documents_ask_the_network_only_where_they_may() {
    let server = Server::start(|_| vec![ok("/x", "$ref: y"), ok("/y", "there")]).await;
    let text = format!("a: {{$ref: '{}/x'}}", server.origin);
    let folder = Folder::new(&[("api.yaml", &text)]);
    let mut settings = LoadSettings::default();
    let (_, messages) = read(folder.location("api.yaml"), &settings).await;
    assert!(messages[0].contains("`hosts` may allow it"), "{messages:?}");
    settings.hosts.push(server.origin.replace("http://", ""));
    let (loaded, _) = read(folder.location("api.yaml"), &settings).await;
    assert_eq!(found(&loaded, "a"), Ok(json!("there")));
    assert_eq!(server.asked(), ["/x", "/y"]);
}

#[tokio::test]
async fn a_document_that_says_where_it_is_has_its_neighbors_beside_it() {
    let text = "openapi: 3.2.0\n$self: https://example.com/v1/api.yaml\na: {$ref: more.yaml#/b}\n\
                c: {$ref: 'https://example.com/v1/more.yaml#/b'}\n";
    let folder = Folder::new(&[("api.yaml", text), ("more.yaml", "b: {$ref: api.yaml#/openapi}")]);
    let (loaded, messages) = read(folder.location("api.yaml"), &LoadSettings::default()).await;
    assert_eq!(messages, [""; 0]);
    for name in ["a", "c"] {
        assert_eq!(found(&loaded, name), Ok(json!("3.2.0")), "{name}");
    }
}

#[tokio::test]
async fn limits_are_kept_and_named() {
    let folder = Folder::new(&[
        ("api.yaml", "a: {$ref: 1.yaml}\nb: {$ref: 2.yaml}\nc: {$ref: 3.yaml}\n"),
        ("1.yaml", "one"),
        ("2.yaml", &"x".repeat(200)),
        ("3.yaml", "three"),
    ]);
    // One after the other, so that it is known which file is one too many.
    let defaults = || LoadSettings { concurrency: 1, ..LoadSettings::default() };
    let rows = [
        (
            LoadSettings { max_file_size: 100, ..defaults() },
            "`2.yaml` cannot be read: it is larger than 100 bytes, which is what `max_file_size` allows",
        ),
        (
            LoadSettings { max_total_size: 100, ..defaults() },
            "`2.yaml` cannot be read: all files together are larger than 100 bytes, which is what `max_total_size` allows",
        ),
        (
            LoadSettings { max_files: 3, ..defaults() },
            "only 3 files were read; `max_files` says how many",
        ),
    ];
    for (settings, expected) in rows {
        let (loaded, messages) = read(folder.location("api.yaml"), &settings).await;
        assert!(messages.iter().any(|message| message == expected), "{messages:?}");
        assert_eq!(found(&loaded, "a"), Ok(json!("one")));
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let location = Location::of(&format!("http://{}/a", listener.local_addr().unwrap()));
    let timeout = std::time::Duration::from_millis(50);
    let settings = LoadSettings { timeout, ..LoadSettings::default() };
    let error = load(location, &settings).await.unwrap_err().to_string();
    assert!(error.ends_with("it did not arrive within 50ms"), "{error}");
}

#[tokio::test]
async fn a_text_that_is_here_is_read_as_if_it_were_where_it_says() {
    let folder = Folder::new(&[("more.yaml", "more")]);
    let address = url::Url::from_file_path(folder.0.join("stdin")).unwrap();
    let text = b"a: {$ref: more.yaml}".to_vec();
    let (loaded, _) = read(Location::Text { text, address }, &LoadSettings::default()).await;
    assert_eq!(found(&loaded, "a"), Ok(json!("more")));
}
