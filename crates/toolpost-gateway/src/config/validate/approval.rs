//! Which calls wait, from what was typed to what holds.

use std::num::NonZeroUsize;

use super::super::document::Document;
use super::super::file::{ApprovalText, AskedText};
use super::super::glob::Glob;
use super::super::source::Asked;
use super::globs;
use crate::approval::ApprovalSettings;

pub(super) fn settings(document: &Document<'_>, text: &ApprovalText) -> ApprovalSettings {
    let mut settings = ApprovalSettings::default();
    if text.operations.iter().any(String::is_empty) {
        let message = "an empty pattern fits no operation; `*` fits every one";
        document.report(&["approval", "operations"], message);
    }
    settings.operations = text.operations.iter().map(Glob::new).collect();
    if let Some(expires) = &text.expires {
        if expires.0.is_zero() {
            document.report(&["approval", "expires"], "nobody decides in no time; write more");
        }
        settings.expires = expires.0;
    }
    settings.most = text.most.map_or(settings.most, NonZeroUsize::get);
    settings.most_per_caller =
        text.most_per_caller.map_or(settings.most_per_caller, NonZeroUsize::get);
    settings
}

pub(super) fn asked(document: &Document<'_>, source: &str, text: &AskedText) -> Asked {
    match text {
        AskedText::Always(always) => Asked::Always(*always),
        AskedText::Named(patterns) => Asked::Named(globs(document, [source, "approval"], patterns)),
    }
}
