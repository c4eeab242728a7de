//! The pages of the console: `/docs`, the API reference, and `/rooms`, to chat in rooms and to
//! decide on proposals.
//!
//! `/docs` loads `/openapi.json` and sends calls through `/api`. `/rooms` is a regular participant:
//! it connects to `/ws` and has the capabilities of its caller.

use std::sync::LazyLock;

use axum::extract::{OriginalUri, Request, State};
use axum::http::header;
use axum::response::Response;

use super::origin_guard::OriginGuard;
use super::problem::ProblemDetails;
use super::static_page::{PageFile, StaticPage, is_get_or_head, redirect};
use crate::auth::Authenticator;

const DOCS_HTML: &str = include_str!("docs/index.html");

const DOCS_FILES: &[PageFile] = &[
    ("page.css", include_str!("docs/page.css")),
    ("icon.svg", include_str!("docs/icon.svg")),
    ("api_client.js", include_str!("docs/api_client.js")),
    ("dom.js", include_str!("docs/dom.js")),
    ("example.js", include_str!("docs/example.js")),
    ("fields.js", include_str!("docs/fields.js")),
    ("input.js", include_str!("docs/input.js")),
    ("json.js", include_str!("docs/json.js")),
    ("main.js", include_str!("docs/main.js")),
    ("markdown.js", include_str!("docs/markdown.js")),
    ("model.js", include_str!("docs/model.js")),
    ("operation.js", include_str!("docs/operation.js")),
    ("overview.js", include_str!("docs/overview.js")),
    ("request.js", include_str!("docs/request.js")),
    ("response.js", include_str!("docs/response.js")),
    ("schema.js", include_str!("docs/schema.js")),
    ("search.js", include_str!("docs/search.js")),
    ("sidebar.js", include_str!("docs/sidebar.js")),
    ("sse.js", include_str!("docs/sse.js")),
    ("stream.js", include_str!("docs/stream.js")),
    ("tryit.js", include_str!("docs/tryit.js")),
];

const ROOMS_HTML: &str = include_str!("rooms_page/index.html");

/// Files of the page at `/rooms`. It also uses some files of `/docs`.
const ROOMS_FILES: &[PageFile] = &[
    ("rooms.css", include_str!("rooms_page/rooms.css")),
    ("approvals.js", include_str!("rooms_page/approvals.js")),
    ("call_form.js", include_str!("rooms_page/call_form.js")),
    ("caller.js", include_str!("rooms_page/caller.js")),
    ("capability.js", include_str!("rooms_page/capability.js")),
    ("card.js", include_str!("rooms_page/card.js")),
    ("chat_form.js", include_str!("rooms_page/chat_form.js")),
    ("command.js", include_str!("rooms_page/command.js")),
    ("connection.js", include_str!("rooms_page/connection.js")),
    ("history.js", include_str!("rooms_page/history.js")),
    ("join_form.js", include_str!("rooms_page/join_form.js")),
    ("log.js", include_str!("rooms_page/log.js")),
    ("main.js", include_str!("rooms_page/main.js")),
    ("message.js", include_str!("rooms_page/message.js")),
    ("participants.js", include_str!("rooms_page/participants.js")),
    ("pending_requests.js", include_str!("rooms_page/pending_requests.js")),
    ("proposals.js", include_str!("rooms_page/proposals.js")),
    ("room.js", include_str!("rooms_page/room.js")),
    ("text.js", include_str!("rooms_page/text.js")),
    ("url.js", include_str!("rooms_page/url.js")),
];

static DOCS: LazyLock<StaticPage> =
    LazyLock::new(|| StaticPage::new("../docs", DOCS_HTML, DOCS_FILES));
static ROOMS: LazyLock<StaticPage> =
    LazyLock::new(|| StaticPage::new("../rooms", ROOMS_HTML, ROOMS_FILES));

/// State of the pages.
#[derive(Debug, Clone)]
pub(crate) struct ConsoleEndpoint {
    authenticator: Authenticator,
    guard: OriginGuard,
}

impl ConsoleEndpoint {
    pub(crate) fn new(authenticator: Authenticator, guard: OriginGuard) -> Self {
        Self { authenticator, guard }
    }

    fn serve(&self, page: &StaticPage, request: &Request) -> Response {
        let checked = self.guard.check_page(request);
        let needs_token = !self.authenticator.allows_anonymous();
        let served = checked.and_then(|()| page.serve(needs_token, request));
        served.unwrap_or_else(ProblemDetails::into_response)
    }
}

/// Serves `/docs` and the files below it.
pub(crate) async fn docs(State(console): State<ConsoleEndpoint>, request: Request) -> Response {
    console.serve(&DOCS, &request)
}

/// Serves `/rooms` and the files below it.
pub(crate) async fn rooms(State(console): State<ConsoleEndpoint>, request: Request) -> Response {
    console.serve(&ROOMS, &request)
}

/// Redirects browsers from `/` to `/docs`. `None` for other clients.
pub(crate) fn root(
    console: &ConsoleEndpoint,
    OriginalUri(original): &OriginalUri,
    request: &Request,
) -> Result<Option<Response>, ProblemDetails> {
    console.guard.check_page(request)?;
    let accepts = request.headers().get_all(header::ACCEPT).iter();
    let is_browser =
        accepts.filter_map(|value| value.to_str().ok()).any(|a| a.contains("text/html"));
    // The location is relative, so that it works below a path prefix, with or without a slash.
    let directory = original.path().rsplit('/').next().unwrap_or_default();
    let location = match directory {
        "" => "docs".to_owned(),
        name => format!("{name}/docs"),
    };
    Ok((is_browser && is_get_or_head(request.method())).then(|| redirect(&location)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::static_page::tests::{
        assert_references_match_files, assert_self_contained,
    };

    #[test]
    fn pages_reference_exactly_the_served_files() {
        assert_references_match_files("docs/", DOCS_HTML, DOCS_FILES, &[]);
        let others = [
            "docs/dom.js",
            "docs/example.js",
            "docs/icon.svg",
            "docs/json.js",
            "docs/model.js",
            "docs/page.css",
        ];
        assert_references_match_files("rooms/", ROOMS_HTML, ROOMS_FILES, &others);
    }

    #[test]
    fn pages_fetch_no_external_resources() {
        assert_self_contained(DOCS_HTML, DOCS_FILES);
        assert_self_contained(ROOMS_HTML, ROOMS_FILES);
    }
}
