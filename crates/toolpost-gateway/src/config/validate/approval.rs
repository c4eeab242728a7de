//! Validation of `[approval]`.

use std::num::NonZeroUsize;

use super::super::document::TomlDocument;
use super::super::file::{ApprovalRuleText, ApprovalText};
use super::super::source::ApprovalRule;
use super::globs;
use crate::approval::ApprovalSettings;
use crate::glob::Glob;

pub(super) fn settings(document: &TomlDocument<'_>, text: &ApprovalText) -> ApprovalSettings {
    let mut settings = ApprovalSettings::default();
    if text.operations.iter().any(String::is_empty) {
        let message = "an empty pattern fits no operation; `*` fits every one";
        document.report(&["approval", "operations"], message);
    }
    settings.operations = text.operations.iter().map(Glob::new).collect();
    if let Some(expires) = &text.expires {
        if expires.0.is_zero() {
            document.report(&["approval", "expires"], "must be greater than zero");
        }
        settings.expires = expires.0;
    }
    settings.max_pending = text.max_pending.map_or(settings.max_pending, NonZeroUsize::get);
    settings.max_pending_per_caller =
        text.max_pending_per_caller.map_or(settings.max_pending_per_caller, NonZeroUsize::get);
    settings
}

pub(super) fn approval_rule(
    document: &TomlDocument<'_>,
    source: &str,
    text: &ApprovalRuleText,
) -> ApprovalRule {
    match text {
        ApprovalRuleText::Always(always) => ApprovalRule::Always(*always),
        ApprovalRuleText::Patterns(patterns) => {
            ApprovalRule::Patterns(globs(document, [source, "approval"], patterns))
        }
    }
}
