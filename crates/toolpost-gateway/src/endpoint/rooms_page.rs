//! `/rooms`: the page to chat in rooms and to decide on proposals. It is a regular participant: it
//! connects to `/ws` and has the capabilities of its caller.

use std::sync::LazyLock;

use axum::extract::{Request, State};
use axum::response::Response;

use super::static_page::{CSS, PageFile, SCRIPT, StaticPage};
use crate::app::Gateway;

const HTML: &str = include_str!("rooms_page/index.html");

/// Files of the page. It also uses some files of `/docs`.
const FILES: &[PageFile] = &[
    ("rooms.css", CSS, include_str!("rooms_page/rooms.css")),
    ("approvals.js", SCRIPT, include_str!("rooms_page/approvals.js")),
    ("call_form.js", SCRIPT, include_str!("rooms_page/call_form.js")),
    ("caller.js", SCRIPT, include_str!("rooms_page/caller.js")),
    ("capability.js", SCRIPT, include_str!("rooms_page/capability.js")),
    ("card.js", SCRIPT, include_str!("rooms_page/card.js")),
    ("chat_form.js", SCRIPT, include_str!("rooms_page/chat_form.js")),
    ("connection.js", SCRIPT, include_str!("rooms_page/connection.js")),
    ("history.js", SCRIPT, include_str!("rooms_page/history.js")),
    ("join_form.js", SCRIPT, include_str!("rooms_page/join_form.js")),
    ("log.js", SCRIPT, include_str!("rooms_page/log.js")),
    ("main.js", SCRIPT, include_str!("rooms_page/main.js")),
    ("message.js", SCRIPT, include_str!("rooms_page/message.js")),
    ("participants.js", SCRIPT, include_str!("rooms_page/participants.js")),
    ("pending_requests.js", SCRIPT, include_str!("rooms_page/pending_requests.js")),
    ("proposals.js", SCRIPT, include_str!("rooms_page/proposals.js")),
    ("room.js", SCRIPT, include_str!("rooms_page/room.js")),
    ("text.js", SCRIPT, include_str!("rooms_page/text.js")),
    ("url.js", SCRIPT, include_str!("rooms_page/url.js")),
];

static PAGE: LazyLock<StaticPage> = LazyLock::new(|| StaticPage::new("../rooms", HTML, FILES));

/// Serves `/rooms` and the files below it.
pub(super) async fn serve(State(gateway): State<Gateway>, request: Request) -> Response {
    PAGE.serve(&gateway, &request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::static_page::tests::{
        assert_references_match_files, assert_self_contained,
    };

    #[test]
    fn rooms_page_references_exactly_the_served_files() {
        let others = [
            "docs/dom.js",
            "docs/example.js",
            "docs/icon.svg",
            "docs/json.js",
            "docs/model.js",
            "docs/page.css",
        ];
        assert_references_match_files("rooms/", HTML, FILES, &others);
    }

    #[test]
    fn rooms_page_fetches_no_external_resources() {
        assert_self_contained(HTML, FILES);
    }
}
