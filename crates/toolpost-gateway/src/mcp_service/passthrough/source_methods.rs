//! The MCP methods of each source that the caller may use.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolpost::mcp::method_of;
use toolpost::{CallError, ResolvedOperation};

use super::qualified_name::NameForm;
use super::result_hints::CacheVisibility;
use crate::mcp_service::client::ClientContext;

/// The MCP methods of one source, other than tools.
#[derive(Debug)]
pub(super) struct SourceMethods {
    /// Label in the qualified names of its prompts and resources, or empty.
    pub(super) label: String,
    methods: Vec<(&'static str, ResolvedOperation)>,
}

impl SourceMethods {
    pub(super) fn supports(&self, method: &str) -> bool {
        self.operation(method).is_some()
    }

    pub(super) fn operation(&self, method: &str) -> Option<&ResolvedOperation> {
        self.methods.iter().find(|(name, _)| *name == method).map(|(_, operation)| operation)
    }

    /// Returns the entry for a source that could not be queried.
    pub(super) fn missing_entry(&self, error: &CallError) -> Value {
        json!({"source": self.label, "reason": error.to_string()})
    }

    /// Returns the cache visibility of a method's result. The result of a method with access
    /// control is private, regardless of what the server declares.
    pub(super) fn cache_visibility(&self, method: &str) -> CacheVisibility {
        let control = self.operation(method).map(|operation| &operation.spec().access_control);
        match control {
            Some(control) if control.is_open() => CacheVisibility::FromSource,
            _ => CacheVisibility::Private,
        }
    }
}

/// Returns the methods that the client can access, by source label. If the client selected a source,
/// only that source is included, and the sources behind it if it is another hub.
pub(super) fn source_methods(client: &ClientContext) -> Vec<SourceMethods> {
    let (catalog, source) =
        (client.service.pipeline.registry().catalog(), client.view.source.as_deref());
    let mut by_label = BTreeMap::<&str, SourceMethods>::new();
    for operation in catalog.list() {
        let Some(method) = method_of(operation.spec()) else { continue };
        let Some(label) = source_label(operation.id().as_str(), method, source) else { continue };
        if client.can_call(operation) {
            let new = || SourceMethods { label: label.to_owned(), methods: Vec::new() };
            let source_methods = by_label.entry(label).or_insert_with(new);
            source_methods.methods.push((method, catalog.resolved(operation)));
        }
    }
    by_label.into_values().collect()
}

/// Returns the part of the id before the method: the source, preceded by the hubs on the path to
/// it. The prefix `source` is removed.
fn source_label<'i>(id: &'i str, method: &str, source: Option<&str>) -> Option<&'i str> {
    let path = id.strip_suffix(method)?.strip_suffix('.')?;
    match source {
        None => Some(path),
        Some(source) => match path.strip_prefix(source)? {
            "" => Some(""),
            behind => behind.strip_prefix('.'),
        },
    }
}

/// Returns the source of a qualified name and the name within that source. The longest matching
/// label wins, since one label may be a prefix of another.
pub(super) fn route<'o, 'n>(
    sources: impl Iterator<Item = &'o SourceMethods>,
    form: NameForm,
    name: &'n str,
) -> Option<(&'o SourceMethods, &'n str)> {
    let matching =
        sources.filter_map(|source| Some((source, form.strip_label(&source.label, name)?)));
    matching.max_by_key(|(source, _)| source.label.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_label_is_the_id_prefix_before_the_method() {
        for (id, source, expected) in [
            ("box.prompts/get", None, Some("box")),
            ("far.box.prompts/get", None, Some("far.box")),
            ("box.prompts/get", Some("box"), Some("")),
            ("far.box.prompts/get", Some("far"), Some("box")),
            ("far.box.prompts/get", Some("far.box"), Some("")),
            ("boxes.prompts/get", Some("box"), None),
            ("far.box.prompts/get", Some("box"), None),
            ("box.prompts/list", None, None),
        ] {
            assert_eq!(source_label(id, "prompts/get", source), expected, "{id} {source:?}");
        }
    }

    #[test]
    fn route_selects_longest_matching_label() {
        let source = |label: &str| SourceMethods { label: label.to_owned(), methods: Vec::new() };
        let sources = ["a", "a-b", "far.b", "far.b__c"].map(source);
        for (given, expected) in [
            ("a__p", Some(("a", "p"))),
            ("a-b__p", Some(("a-b", "p"))),
            ("far.b__p", Some(("far.b", "p"))),
            ("far.b__c__p", Some(("far.b__c", "p"))),
            ("far.b__c_p", Some(("far.b", "c_p"))),
            ("b__p", None),
            ("p", None),
        ] {
            let found = route(sources.iter(), NameForm::Name, given);
            assert_eq!(found.map(|(source, own)| (&*source.label, own)), expected, "{given}");
        }
        let own = [source("")];
        let found = route(own.iter(), NameForm::Uri, "toolpost:a:b:c");
        assert_eq!(found.map(|(_, own)| own), Some("toolpost:a:b:c"));
    }
}
