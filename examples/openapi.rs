//! Exposes an HTTP service as operations: loads its OpenAPI document and calls its operations.
//!
//! Run it with `cargo run -p toolpost --features openapi --example openapi`.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use toolpost::openapi::{DocumentLocation, OpenApiSettings, from_openapi};
use toolpost::{Pipeline, Registry};

const DOCUMENT: &str = r#"
openapi: 3.1.0
info: {title: Pets, version: 1.0.0}
paths:
  /pets/{id}:
    get:
      operationId: readPet
      parameters:
        - {name: id, in: path, required: true, schema: {type: integer}}
      responses:
        "200":
          description: A pet.
          content:
            application/json:
              schema:
                type: object
                properties: {id: {type: integer}, name: {type: string}}
        "404": {description: There is none.}
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut settings = OpenApiSettings::new(DocumentLocation::from_path_or_url("pets.yaml"));
    // The document has no `servers` entry.
    settings.server.url = Some(format!("http://{}", listener.local_addr()?).parse()?);
    tokio::spawn(serve(listener));

    let registry = Registry::new();
    let found = from_openapi(&registry, "pets", DOCUMENT, settings)?;
    println!("{} {}: {} query", found.title, found.version, found.counts.queries);

    let pipeline = Pipeline::new(registry);
    let envelope = pipeline.call_trusted("pets.readPet", json!({"id": 1})).await?;
    println!("{} from {}", envelope.data, envelope.meta.source());
    if let Err(error) = pipeline.call_trusted("pets.readPet", json!({"id": 2})).await {
        println!("{error}");
    }
    if let Err(error) = pipeline.call_trusted("pets.readPet", json!({"id": "two"})).await {
        println!("{}", error.code());
    }
    Ok(())
}

/// A minimal HTTP service with one pet.
async fn serve(listener: TcpListener) -> std::io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut lines = BufReader::new(&mut stream).lines();
        let request_line = lines.next_line().await?.unwrap_or_default();
        while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
        let (status, body) = match request_line.starts_with("GET /pets/1 ") {
            true => ("200 OK", r#"{"id": 1, "name": "Rex", "etag": "x"}"#),
            false => ("404 Not Found", r#"{"message": "no such pet"}"#),
        };
        let response = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(response.as_bytes()).await?;
    }
}
