//! `/docs`: the API reference page. It loads `/openapi.json` and sends calls through `/api`.

use std::sync::LazyLock;

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::Response;

use super::origin_guard;
use super::static_page::{CSS, PageFile, SCRIPT, SVG, StaticPage, is_get_or_head, redirect};
use crate::app::Gateway;

const HTML: &str = include_str!("docs/index.html");

const FILES: &[PageFile] = &[
    ("page.css", CSS, include_str!("docs/page.css")),
    ("icon.svg", SVG, include_str!("docs/icon.svg")),
    ("api_client.js", SCRIPT, include_str!("docs/api_client.js")),
    ("dom.js", SCRIPT, include_str!("docs/dom.js")),
    ("example.js", SCRIPT, include_str!("docs/example.js")),
    ("fields.js", SCRIPT, include_str!("docs/fields.js")),
    ("input.js", SCRIPT, include_str!("docs/input.js")),
    ("json.js", SCRIPT, include_str!("docs/json.js")),
    ("main.js", SCRIPT, include_str!("docs/main.js")),
    ("markdown.js", SCRIPT, include_str!("docs/markdown.js")),
    ("model.js", SCRIPT, include_str!("docs/model.js")),
    ("operation.js", SCRIPT, include_str!("docs/operation.js")),
    ("overview.js", SCRIPT, include_str!("docs/overview.js")),
    ("request.js", SCRIPT, include_str!("docs/request.js")),
    ("response.js", SCRIPT, include_str!("docs/response.js")),
    ("schema.js", SCRIPT, include_str!("docs/schema.js")),
    ("search.js", SCRIPT, include_str!("docs/search.js")),
    ("sidebar.js", SCRIPT, include_str!("docs/sidebar.js")),
    ("sse.js", SCRIPT, include_str!("docs/sse.js")),
    ("stream.js", SCRIPT, include_str!("docs/stream.js")),
    ("tryit.js", SCRIPT, include_str!("docs/tryit.js")),
];

static PAGE: LazyLock<StaticPage> = LazyLock::new(|| StaticPage::new("../docs", HTML, FILES));

/// Serves `/docs` and the files below it.
pub(super) async fn serve(State(gateway): State<Gateway>, request: Request) -> Response {
    PAGE.serve(&gateway, &request)
}

/// `/`: redirects browsers to `/docs`.
pub(super) async fn root(State(gateway): State<Gateway>, request: Request) -> Response {
    let accepts = request.headers().get_all(header::ACCEPT).iter();
    let is_browser =
        accepts.filter_map(|value| value.to_str().ok()).any(|a| a.contains("text/html"));
    match origin_guard::check_page_origin(&gateway, &request) {
        Err(problem) => problem.into_response(),
        Ok(()) if is_browser && is_get_or_head(request.method()) => redirect("docs"),
        Ok(()) => super::unknown_path().into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::static_page::tests::{
        assert_references_match_files, assert_self_contained,
    };

    #[test]
    fn docs_page_references_exactly_the_served_files() {
        assert_references_match_files("docs/", HTML, FILES, &[]);
    }

    #[test]
    fn docs_page_fetches_no_external_resources() {
        assert_self_contained(HTML, FILES);
    }
}
