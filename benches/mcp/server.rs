//! The servers that are called: two tools that give back their arguments, over a pipe or over HTTP.

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

/// Which protocol a server or a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub(crate) fn named(name: &str) -> Self {
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

/// A server of one era.
pub(crate) struct Echo {
    era: Era,
    /// The tools that it lists, as JSON.
    tools: String,
}

/// One message, as far as an echo must know it.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    name: Option<&'a str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl Echo {
    /// One with two tools: `data` answers in a structure, `text` in a text.
    pub(crate) fn new(era: Era) -> Self {
        Self::with(era, &json!([tool("data"), tool("text")]))
    }

    /// One that lists other tools.
    pub(crate) fn with(era: Era, tools: &Value) -> Self {
        Self { era, tools: tools.to_string() }
    }

    /// Answers line by line until its input ends.
    pub(crate) fn serve_stdio(&self) {
        let mut input = BufReader::with_capacity(128 * 1024, std::io::stdin().lock());
        let (mut output, mut line) = (std::io::stdout().lock(), String::new());
        while input.read_line(&mut line).unwrap() > 0 {
            if let Some(mut answer) = self.answer(&line) {
                answer.push('\n');
                output.write_all(answer.as_bytes()).unwrap();
                output.flush().unwrap();
            }
            line.clear();
        }
    }

    /// Answers on a port that it prints.
    pub(crate) async fn serve_http(self) {
        let this = Arc::new(self);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let this = Arc::clone(&this);
            let service = service_fn(move |request| respond(Arc::clone(&this), request));
            let serving = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(serving);
        }
    }

    /// The text of the answer; a notification has none.
    fn answer(&self, text: &str) -> Option<String> {
        let message: Message<'_> = serde_json::from_str(text).unwrap();
        let id = message.id?;
        let era = self.era;
        let result = match (message.method, era) {
            ("tools/call", _) => called(era, &message.params?),
            ("tools/list", _) => format!(r#"{{"tools":{}}}"#, self.tools),
            ("initialize", Era::Legacy) => {
                let info = json!({"name": "echo", "version": "1"});
                json!({"protocolVersion": era.version(), "capabilities": {"tools": {}}, "serverInfo": info})
                    .to_string()
            }
            ("server/discover", Era::Modern) => {
                let info = json!({"name": "echo", "version": "1"});
                json!({"supportedVersions": [era.version()], "capabilities": {"tools": {}},
                    "serverInfo": info, "resultType": "complete"})
                .to_string()
            }
            _ => {
                let error = json!({"code": -32601, "message": "there is no such method"});
                return Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
            }
        };
        Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
    }
}

async fn respond(
    echo: Arc<Echo>,
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
    let Some(answer) = echo.answer(std::str::from_utf8(&body).unwrap()) else {
        return empty(StatusCode::ACCEPTED);
    };
    let mut response = Response::new(Full::from(answer));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if echo.era == Era::Legacy {
        let session = HeaderName::from_static("mcp-session-id");
        headers.insert(session, HeaderValue::from_static("0123456789abcdef"));
    }
    Ok(response)
}

fn called(era: Era, params: &Params<'_>) -> String {
    let kind = if era == Era::Modern { r#""resultType":"complete","# } else { "" };
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
