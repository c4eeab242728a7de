//! An HTTP service with given responses that records its requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request: method and target, and the body, with one character for each byte.
pub(super) type Received = (String, String);

/// The status line and headers of a response, and its body, with one character for each byte.
pub(super) type Response = (&'static str, &'static str);

/// The service, which runs until the tests end.
pub(super) struct Upstream {
    port: u16,
    requests: Arc<Mutex<Vec<Received>>>,
}

impl Upstream {
    /// Starts the service. `respond` gets the method and target of each request.
    pub(super) fn start(respond: fn(&str) -> Response) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = Arc::clone(&log);
                std::thread::spawn(move || while serve(&stream, respond, &log).is_some() {});
            }
        });
        Self { port, requests }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn last_request(&self) -> Received {
        self.requests.lock().unwrap().last().cloned().unwrap()
    }
}

fn serve(
    mut stream: &TcpStream,
    respond: fn(&str) -> Response,
    log: &Mutex<Vec<Received>>,
) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim().to_ascii_lowercase().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let first = first.trim().trim_end_matches(" HTTP/1.1").to_owned();
    let (head, response) = respond(&first);
    log.lock().unwrap().push((first, body.into_iter().map(char::from).collect()));
    let body: Vec<u8> = response.chars().map(|byte| u8::try_from(byte).unwrap()).collect();
    write!(stream, "HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len()).ok()?;
    stream.write_all(&body).ok()
}
