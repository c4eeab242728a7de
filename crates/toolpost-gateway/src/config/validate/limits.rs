//! `[limits]`, and what sources say about theirs.

use std::collections::BTreeMap;

use toolpost::openapi::Namespaces;

use super::super::document::Document;
use super::super::file::{BreakerText, LimitsConfig, LimitsText, SourceText};
use super::super::source::{SourceConfig, SourceKind};

/// What the sources say, taken before they become something else.
pub(super) struct Said {
    name: String,
    concurrency: Option<usize>,
    queue: Option<usize>,
    breaker: Option<BreakerText>,
}

impl Said {
    /// Places belong to a namespace, and operations that keep theirs are in those of others.
    fn refuse_beside_kept_namespaces(&self, document: &Document<'_>, namespaces: Namespaces) {
        if namespaces != Namespaces::Keep {
            return;
        }
        let said = [("concurrency", self.concurrency), ("queue", self.queue)];
        for (key, _) in said.into_iter().filter(|(_, number)| number.is_some()) {
            let message = "it is counted by namespace, and these operations keep the namespaces that \
                           they have there; leave it out, or leave out namespaces = \"keep\"";
            document.report(&["source", &self.name, key], message);
        }
    }
}

pub(super) fn said(sources: &BTreeMap<String, SourceText>) -> Vec<Said> {
    let said = sources.iter().map(|(name, text)| Said {
        name: name.clone(),
        concurrency: text.concurrency.map(Into::into),
        queue: text.queue,
        breaker: text.breaker.clone(),
    });
    said.collect()
}

pub(super) fn limits(
    document: &Document<'_>,
    text: LimitsText,
    said: Vec<Said>,
    sources: &mut [SourceConfig],
) -> LimitsConfig {
    for (key, time) in text.times() {
        if time.is_zero() {
            document.report(&["limits", key], "nothing is done in no time; write more");
        }
    }
    if text.calls_per_minute == Some(0) {
        let message = "nobody could call; leave it out if callers may call as often as they like";
        document.report(&["limits", "calls_per_minute"], message);
    }
    let mut config = text.settings();
    if config.calls.json_depth > 127 {
        let message = "what is deeper than 127 levels is not read at all; write 127 or less";
        document.report(&["limits", "json_depth"], message);
    }
    for own in said {
        let mut limits = config.calls.source.clone();
        limits.concurrency = own.concurrency.unwrap_or(limits.concurrency);
        limits.queue = own.queue.unwrap_or(limits.queue);
        let source = sources.iter_mut().find(|source| source.name == own.name);
        match source.map(|source| &mut source.kind) {
            // The hosts of a service are told apart, and left alone one by one.
            Some(SourceKind::OpenApi(settings)) => {
                own.refuse_beside_kept_namespaces(document, settings.namespaces);
                let usual = limits.breaker.take();
                let wanted = own.breaker.map_or(usual, |breaker| breaker.limits());
                let host = &mut settings.client.breaker;
                host.failures = wanted.map_or(0, |wanted| wanted.failures);
                host.open_for = wanted.map_or(host.open_for, |wanted| wanted.open_for);
            }
            _ => {
                limits.breaker = own.breaker.map_or(limits.breaker, |breaker| breaker.limits());
            }
        }
        config.calls.sources.insert(own.name, limits);
    }
    config
}
