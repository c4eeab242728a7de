//! `/rooms`: the page on which people talk in rooms and decide about what is proposed there. It is a
//! participant like any other: it comes in at `/ws`, and says nothing that its caller may not.

use std::sync::LazyLock;

use axum::extract::{Request, State};
use axum::response::Response;

use super::page::{CSS, Named, Page, SCRIPT};
use crate::app::Gateway;

const HTML: &str = include_str!("rooms/index.html");

/// Beside these it uses some of the files of `/docs`.
const FILES: &[Named] = &[
    ("rooms.css", CSS, include_str!("rooms/rooms.css")),
    ("address.js", SCRIPT, include_str!("rooms/address.js")),
    ("approvals.js", SCRIPT, include_str!("rooms/approvals.js")),
    ("caller.js", SCRIPT, include_str!("rooms/caller.js")),
    ("calling.js", SCRIPT, include_str!("rooms/calling.js")),
    ("capability.js", SCRIPT, include_str!("rooms/capability.js")),
    ("card.js", SCRIPT, include_str!("rooms/card.js")),
    ("connection.js", SCRIPT, include_str!("rooms/connection.js")),
    ("history.js", SCRIPT, include_str!("rooms/history.js")),
    ("log.js", SCRIPT, include_str!("rooms/log.js")),
    ("main.js", SCRIPT, include_str!("rooms/main.js")),
    ("message.js", SCRIPT, include_str!("rooms/message.js")),
    ("pending.js", SCRIPT, include_str!("rooms/pending.js")),
    ("people.js", SCRIPT, include_str!("rooms/people.js")),
    ("proposals.js", SCRIPT, include_str!("rooms/proposals.js")),
    ("room.js", SCRIPT, include_str!("rooms/room.js")),
    ("signin.js", SCRIPT, include_str!("rooms/signin.js")),
    ("talk.js", SCRIPT, include_str!("rooms/talk.js")),
    ("text.js", SCRIPT, include_str!("rooms/text.js")),
];

static PAGE: LazyLock<Page> = LazyLock::new(|| Page::new("../rooms", HTML, FILES));

/// `/rooms` and what lies below it.
pub(super) async fn serve(State(gateway): State<Gateway>, request: Request) -> Response {
    PAGE.serve(&gateway, &request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::page::tests::{check_names, check_texts};

    #[test]
    fn every_file_that_is_named_is_there_and_every_file_is_named() {
        let others = [
            "docs/dom.js",
            "docs/example.js",
            "docs/icon.svg",
            "docs/json.js",
            "docs/model.js",
            "docs/page.css",
        ];
        check_names("rooms/", HTML, FILES, &others);
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere() {
        check_texts(HTML, FILES);
    }
}
