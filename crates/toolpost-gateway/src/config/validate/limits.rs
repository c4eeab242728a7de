//! Validation of `[limits]` and of the limits of sources.

use std::collections::BTreeMap;

use toolpost::openapi::Namespaces;

use super::super::document::TomlDocument;
use super::super::file::{BreakerText, LimitsConfig, LimitsText, SourceText};
use super::super::source::{SourceConfig, SourceKind};

/// The limits of a source, copied before the source is converted.
pub(super) struct SourceLimitOverrides {
    name: String,
    concurrency: Option<usize>,
    queue: Option<usize>,
    breaker: Option<BreakerText>,
}

impl SourceLimitOverrides {
    /// Reports limits on a source with `namespaces = "keep"`. Permits are counted per namespace,
    /// and the operations of such a source are in other namespaces.
    fn reject_with_kept_namespaces(&self, document: &TomlDocument<'_>, namespaces: Namespaces) {
        if namespaces != Namespaces::Keep {
            return;
        }
        let overrides = [("concurrency", self.concurrency), ("queue", self.queue)];
        for (key, _) in overrides.into_iter().filter(|(_, number)| number.is_some()) {
            let message = "it is counted by namespace, and these operations keep the namespaces that \
                           they have there; leave it out, or leave out namespaces = \"keep\"";
            document.report(&["source", &self.name, key], message);
        }
    }
}

pub(super) fn source_limit_overrides(
    sources: &BTreeMap<String, SourceText>,
) -> Vec<SourceLimitOverrides> {
    let overrides = sources.iter().map(|(name, text)| SourceLimitOverrides {
        name: name.clone(),
        concurrency: text.concurrency.map(Into::into),
        queue: text.queue,
        breaker: text.breaker.clone(),
    });
    overrides.collect()
}

pub(super) fn limits(
    document: &TomlDocument<'_>,
    text: LimitsText,
    overrides: Vec<SourceLimitOverrides>,
    sources: &mut [SourceConfig],
) -> LimitsConfig {
    for (key, time) in text.timeouts() {
        if time.is_zero() {
            document.report(&["limits", key], "must be greater than zero");
        }
    }
    if text.calls_per_minute == Some(0) {
        let message = "must be greater than zero; leave it out for no limit";
        document.report(&["limits", "calls_per_minute"], message);
    }
    let mut config = text.settings();
    if config.calls.json_depth > 127 {
        let message = "what is deeper than 127 levels is not read at all; write 127 or less";
        document.report(&["limits", "json_depth"], message);
    }
    for own in overrides {
        let mut limits = config.calls.source.clone();
        limits.concurrency = own.concurrency.unwrap_or(limits.concurrency);
        limits.queue = own.queue.unwrap_or(limits.queue);
        let source = sources.iter_mut().find(|source| source.name == own.name);
        match source.map(|source| &mut source.kind) {
            // Each host of a service has its own circuit breaker.
            Some(SourceKind::OpenApi(settings)) => {
                own.reject_with_kept_namespaces(document, settings.namespaces);
                let usual = limits.breaker.take();
                let effective = own.breaker.map_or(usual, |breaker| breaker.to_limits());
                let host = &mut settings.client.breaker;
                host.failures = effective.map_or(0, |effective| effective.failures);
                host.open_for = effective.map_or(host.open_for, |effective| effective.open_for);
            }
            _ => {
                limits.breaker = own.breaker.map_or(limits.breaker, |breaker| breaker.to_limits());
            }
        }
        config.calls.sources.insert(own.name, limits);
    }
    config
}
