//! Merges the lists of all sources.

use std::borrow::Borrow;
use std::collections::HashSet;

use futures::future::join_all;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolpost::json::RawObject;
use toolpost::mcp::server_error;
use toolpost::view::ProtocolGeneration;
use toolpost::{CallError, Outcome};

use super::list_page::{ListEntry, ListPage};
use super::qualified_name::NameForm;
use super::result_hints::{self, CacheVisibility, ResultHints, add_hints};
use super::source_methods::{SourceMethods, source_methods};
use super::{MISSING_META, Passthrough};
use toolpost::json_rpc::RpcError;

/// Maximum number of entries listed per source.
const MAX_ENTRIES: usize = 10_000;
/// Maximum number of pages read per source.
const MAX_PAGES: usize = 100;
/// Maximum size of one source's list in bytes. Beyond it, no further page is requested.
const MAX_BYTES: usize = 64 << 20;

/// A list method of MCP servers.
#[derive(Debug)]
pub(super) struct ListMethod {
    pub(super) method: &'static str,
    /// Name of the result member that contains the list.
    member: &'static str,
    /// Name of the entry member that identifies it.
    key: &'static str,
    form: NameForm,
}

pub(super) const RESOURCES: ListMethod =
    ListMethod { method: "resources/list", member: "resources", key: "uri", form: NameForm::Uri };
pub(super) const TEMPLATES: ListMethod = ListMethod {
    method: "resources/templates/list",
    member: "resourceTemplates",
    key: "uriTemplate",
    form: NameForm::Uri,
};
const PROMPTS: ListMethod =
    ListMethod { method: "prompts/list", member: "prompts", key: "name", form: NameForm::Name };

/// Progress of reading a list page by page.
#[derive(Default)]
struct ListProgress {
    entries: usize,
    pages: usize,
    bytes: usize,
    cursors: HashSet<String>,
}

impl ListMethod {
    pub(super) fn from_method(method: &str) -> Option<&'static Self> {
        [&RESOURCES, &TEMPLATES, &PROMPTS].into_iter().find(|list| list.method == method)
    }
}

impl Passthrough<'_> {
    /// Returns the lists of all sources as one page. If the only source has no label, returns its
    /// page with its own names and cursors.
    pub(super) async fn list(
        &self,
        list: &'static ListMethod,
        params: Map<String, Value>,
    ) -> Result<Vec<u8>, RpcError> {
        let mut sources = source_methods(self.client);
        sources.retain(|source| source.supports(list.method));
        if let [only] = sources.as_slice()
            && only.label.is_empty()
        {
            return self.single_source_page(list, only, params).await.map_err(RpcError::from);
        }
        if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
            return Err(RpcError::invalid_params("the cursor does not belong to this list"));
        }
        let lists =
            join_all(sources.iter().map(|source| self.qualified_entries(list, source))).await;
        let (mut entries, mut missing) = (Vec::new(), Vec::new());
        for (source, ended) in sources.iter().zip(lists) {
            match ended {
                Ok(listed) => entries.extend(listed),
                Err(error) => {
                    tracing::warn!(source = source.label, method = list.method, %error, "source omitted from list");
                    missing.push(source.missing_entry(&error));
                }
            }
        }
        Ok(self.merge_lists(list, &entries, &missing))
    }

    fn merge_lists(&self, list: &ListMethod, entries: &[String], missing: &[Value]) -> Vec<u8> {
        let entries = join_entries(entries);
        let meta = to_raw_value(&json!({MISSING_META: missing})).expect("a value is JSON");
        let mut result = RawObject::default();
        result.set(list.member, &entries);
        if !missing.is_empty() {
            result.set("_meta", &meta);
        }
        if self.client.generation == ProtocolGeneration::Modern {
            add_hints(&mut result, ResultHints::Cached(CacheVisibility::Private));
        }
        serde_json::to_vec(&result).expect("texts are joined")
    }

    /// Returns a page of a source with its own names, without invalid entries.
    async fn single_source_page(
        &self,
        list: &'static ListMethod,
        source: &SourceMethods,
        params: Map<String, Value>,
    ) -> Result<Vec<u8>, CallError> {
        let operation =
            source.operation(list.method).expect("the source was selected by this method");
        let outcome = self.call(operation, params, None).await?;
        let mut text = result_hints::payload_json(&outcome.envelope.data);
        let (mut valid, mut is_complete) = (Vec::new(), true);
        for entry in ListPage::parse(&text, list.member)?.entries(list.key) {
            match entry {
                Ok(entry) => valid.push(entry.text),
                Err(reason) => {
                    is_complete = false;
                    warn_skipped(list, operation.id().namespace(), &reason);
                }
            }
        }
        if !is_complete {
            let valid = join_entries(&valid);
            let mut object = RawObject::parse(&text).expect("it was read above");
            object.set(list.member, &valid);
            text = serde_json::to_string(&object).expect("texts are joined").into();
        }
        let hints = ResultHints::Cached(self.cache_visibility(source, list.method));
        result_hints::adapt_result(text, self.client.generation, hints)
    }

    /// Returns all entries of a source with qualified names.
    async fn qualified_entries(
        &self,
        list: &'static ListMethod,
        source: &SourceMethods,
    ) -> Result<Vec<String>, CallError> {
        let mut entries = Vec::new();
        let mut add = |entry: ListEntry<'_>| {
            let name = list.form.qualify(&source.label, &entry.name);
            entries.push(entry.renamed(&name));
        };
        self.for_each_entry(list, source, &mut add).await?;
        Ok(entries)
    }

    /// Reads a list of a source page by page, within the source timeout. A list method that the
    /// server does not implement yields an empty list.
    pub(super) async fn for_each_entry(
        &self,
        list: &'static ListMethod,
        source: &SourceMethods,
        each: &mut (dyn FnMut(ListEntry<'_>) + Send),
    ) -> Result<(), CallError> {
        let Some(operation) = source.operation(list.method) else { return Ok(()) };
        let end = Instant::now() + self.source_timeout();
        let (mut progress, mut input) = (ListProgress::default(), Map::new());
        loop {
            let remaining = end.saturating_duration_since(Instant::now());
            let outcome = match self.call(operation, input, Some(remaining)).await {
                // Some servers support resources but not templates, and do not declare that.
                Err(error) if server_error(&error).is_some_and(|error| error.code == -32601) => {
                    return Ok(());
                }
                ended => ended?,
            };
            match progress.add_page(list, &source.label, &outcome, each)? {
                Some(cursor) => input = Map::from_iter([("cursor".to_owned(), cursor.into())]),
                None => return Ok(()),
            }
        }
    }
}

impl ListProgress {
    /// Passes the entries of a page to `each` and returns the cursor of the next page.
    fn add_page(
        &mut self,
        list: &ListMethod,
        label: &str,
        page: &Outcome,
        each: &mut (dyn FnMut(ListEntry<'_>) + Send),
    ) -> Result<Option<String>, CallError> {
        let text = result_hints::payload_json(&page.envelope.data);
        let page = ListPage::parse(&text, list.member)?;
        self.pages += 1;
        self.bytes += text.len();
        for entry in page.entries(list.key) {
            match entry {
                Ok(_) if self.entries == MAX_ENTRIES => {
                    warn_truncated(list, label, "too many entries");
                    return Ok(None);
                }
                Ok(entry) => {
                    self.entries += 1;
                    each(entry);
                }
                Err(reason) => warn_skipped(list, label, &reason),
            }
        }
        let Some(next) = page.next_cursor else { return Ok(None) };
        let reason = match () {
            () if self.pages == MAX_PAGES => "too many pages",
            () if self.bytes > MAX_BYTES => "list too large",
            () if !self.cursors.insert(next.clone()) => "repeated cursor",
            () => return Ok(Some(next)),
        };
        warn_truncated(list, label, reason);
        Ok(None)
    }
}

fn join_entries(entries: &[impl Borrow<str>]) -> Box<RawValue> {
    RawValue::from_string(format!("[{}]", entries.join(","))).expect("JSON between commas")
}

fn warn_skipped(list: &ListMethod, source: &str, reason: &str) {
    tracing::warn!(source, method = list.method, reason, "list entry skipped");
}

fn warn_truncated(list: &ListMethod, source: &str, reason: &str) {
    tracing::warn!(source, method = list.method, reason, "list truncated");
}
