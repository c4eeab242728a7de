//! The MCP servers that are called: two tools that echo their arguments, over stdio or HTTP.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The protocol generation of a server or a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtocolGeneration {
    Legacy,
    Modern,
}

impl ProtocolGeneration {
    pub(crate) fn from_name(name: &str) -> Self {
        if name == "legacy" { Self::Legacy } else { Self::Modern }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

/// An MCP server of one protocol generation.
pub(crate) struct EchoServer {
    generation: ProtocolGeneration,
    /// The listed tools, as JSON.
    tools: String,
}

/// The fields of a message that the echo needs.
#[derive(Deserialize)]
struct EchoMessage<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow)]
    params: Option<CallParams<'a>>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    name: Option<&'a str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl EchoServer {
    /// A server with two tools: `data` returns structured content, `text` returns text content.
    pub(crate) fn new(generation: ProtocolGeneration) -> Self {
        Self::with_tools(generation, &json!([tool("data"), tool("text")]))
    }

    /// A server that lists other tools.
    pub(crate) fn with_tools(generation: ProtocolGeneration, tools: &Value) -> Self {
        Self { generation, tools: tools.to_string() }
    }

    /// Serves line by line until standard input ends.
    pub(crate) fn serve_stdio(&self) {
        let mut input = BufReader::with_capacity(128 * 1024, std::io::stdin().lock());
        let (mut output, mut line) = (std::io::stdout().lock(), String::new());
        while input.read_line(&mut line).unwrap() > 0 {
            if let Some(mut reply) = self.handle(&line) {
                reply.push('\n');
                output.write_all(reply.as_bytes()).unwrap();
                output.flush().unwrap();
            }
            line.clear();
        }
    }

    /// Serves on a port that it prints.
    pub(crate) async fn serve_http(self) {
        let server = Arc::new(self);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let server = Arc::clone(&server);
            let service = service_fn(move |request| respond(Arc::clone(&server), request));
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    }

    /// Returns the response as JSON, or `None` for a notification.
    fn handle(&self, text: &str) -> Option<String> {
        let message: EchoMessage<'_> = serde_json::from_str(text).unwrap();
        let id = message.id?;
        let generation = self.generation;
        let result = match (message.method, generation) {
            ("tools/call", _) => call_result(generation, &message.params?),
            ("tools/list", _) => format!(r#"{{"tools":{}}}"#, self.tools),
            ("initialize", ProtocolGeneration::Legacy) => {
                let info = json!({"name": "echo", "version": "1"});
                json!({"protocolVersion": generation.version(), "capabilities": {"tools": {}}, "serverInfo": info})
                    .to_string()
            }
            ("server/discover", ProtocolGeneration::Modern) => {
                let info = json!({"name": "echo", "version": "1"});
                json!({"supportedVersions": [generation.version()], "capabilities": {"tools": {}},
                    "serverInfo": info, "resultType": "complete"})
                .to_string()
            }
            _ => {
                let error = json!({"code": -32601, "message": "method not found"});
                return Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
            }
        };
        Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
    }
}

async fn respond(
    server: Arc<EchoServer>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let empty = |status| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = status;
        Ok(response)
    };
    if request.method() != Method::POST {
        return empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let Some(reply) = server.handle(std::str::from_utf8(&body).unwrap()) else {
        return empty(StatusCode::ACCEPTED);
    };
    let mut response = Response::new(Full::from(reply));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if server.generation == ProtocolGeneration::Legacy {
        let session = HeaderName::from_static("mcp-session-id");
        headers.insert(session, HeaderValue::from_static("0123456789abcdef"));
    }
    Ok(response)
}

fn call_result(generation: ProtocolGeneration, params: &CallParams<'_>) -> String {
    let kind =
        if generation == ProtocolGeneration::Modern { r#""resultType":"complete","# } else { "" };
    let arguments = params.arguments.unwrap().get();
    match params.name.unwrap() {
        "data" => format!(r#"{{{kind}"content":[],"structuredContent":{arguments}}}"#),
        _ => {
            let text = serde_json::to_string(arguments).unwrap();
            format!(r#"{{{kind}"content":[{{"type":"text","text":{text}}}]}}"#)
        }
    }
}

fn tool(name: &str) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"type": "object"}},
            "text": {"type": "string"},
        },
    });
    let mut tool = json!({
        "name": name,
        "description": "Gives back what it is given",
        "annotations": {"readOnlyHint": true},
        "inputSchema": schema,
    });
    if name == "data" {
        tool["outputSchema"] = schema;
    }
    tool
}
