//! `/docs`: the reference page. What it shows it fetches from `/openapi.json`, and what it tries goes
//! through `/api` like any other call.

use std::sync::LazyLock;

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::Response;

use super::guard;
use super::page::{CSS, Named, Page, SCRIPT, SVG, is_reading, moved};
use crate::app::Gateway;

const HTML: &str = include_str!("docs/index.html");

const FILES: &[Named] = &[
    ("page.css", CSS, include_str!("docs/page.css")),
    ("icon.svg", SVG, include_str!("docs/icon.svg")),
    ("answer.js", SCRIPT, include_str!("docs/answer.js")),
    ("dom.js", SCRIPT, include_str!("docs/dom.js")),
    ("events.js", SCRIPT, include_str!("docs/events.js")),
    ("example.js", SCRIPT, include_str!("docs/example.js")),
    ("fields.js", SCRIPT, include_str!("docs/fields.js")),
    ("input.js", SCRIPT, include_str!("docs/input.js")),
    ("json.js", SCRIPT, include_str!("docs/json.js")),
    ("main.js", SCRIPT, include_str!("docs/main.js")),
    ("model.js", SCRIPT, include_str!("docs/model.js")),
    ("operation.js", SCRIPT, include_str!("docs/operation.js")),
    ("overview.js", SCRIPT, include_str!("docs/overview.js")),
    ("request.js", SCRIPT, include_str!("docs/request.js")),
    ("schema.js", SCRIPT, include_str!("docs/schema.js")),
    ("search.js", SCRIPT, include_str!("docs/search.js")),
    ("session.js", SCRIPT, include_str!("docs/session.js")),
    ("side.js", SCRIPT, include_str!("docs/side.js")),
    ("stream.js", SCRIPT, include_str!("docs/stream.js")),
    ("tryit.js", SCRIPT, include_str!("docs/tryit.js")),
    ("words.js", SCRIPT, include_str!("docs/words.js")),
];

static PAGE: LazyLock<Page> = LazyLock::new(|| Page::new("../docs", HTML, FILES));

/// `/docs` and what lies below it.
pub(super) async fn serve(State(gateway): State<Gateway>, request: Request) -> Response {
    PAGE.serve(&gateway, &request)
}

/// `/`, for those who came with a browser.
pub(super) async fn root(State(gateway): State<Gateway>, request: Request) -> Response {
    let accepts = request.headers().get_all(header::ACCEPT).iter();
    let is_browser =
        accepts.filter_map(|value| value.to_str().ok()).any(|a| a.contains("text/html"));
    match guard::check_page(&gateway, &request) {
        Err(problem) => problem.into_response(),
        Ok(()) if is_browser && is_reading(request.method()) => moved("docs"),
        Ok(()) => super::nothing_here().into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::page::tests::{check_names, check_texts};

    #[test]
    fn every_file_that_is_named_is_there_and_every_file_is_named() {
        check_names("docs/", HTML, FILES, &[]);
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere() {
        check_texts(HTML, FILES);
    }
}
