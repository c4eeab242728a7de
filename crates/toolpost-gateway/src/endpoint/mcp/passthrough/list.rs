//! The lists of all sources as one.

use std::collections::HashSet;

use futures::future::join_all;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolpost::mcp::server_error;
use toolpost::view::ProtocolGeneration;
use toolpost::{CallError, Outcome};

use super::JsonRpcError;
use super::list_page::{ListEntry, ListPage};
use super::qualified_name::NameForm;
use super::raw_object::{self, CacheVisibility, RawObject, ResultHints};
use super::source_methods::SourceMethods;
use super::{MISSING_META, Passthrough};

/// How many entries of one source are listed.
const MAX_ENTRIES: usize = 10_000;
/// How many pages of one source are read.
const MAX_PAGES: usize = 100;
/// How much of one source's list is read; then no further page is asked for.
const MAX_BYTES: usize = 64 << 20;

/// A list that sources have.
#[derive(Debug)]
pub(super) struct ListMethod {
    pub(super) method: &'static str,
    /// The member of the result that is the list.
    member: &'static str,
    /// The member of an entry that is its name.
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

/// What was read of a list whose end is not known yet.
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
    /// The lists of all sources in one page, or a page of the only source as it is.
    pub(super) async fn list(
        &self,
        list: &'static ListMethod,
        params: Map<String, Value>,
    ) -> Result<Vec<u8>, JsonRpcError> {
        let mut sources = self.source_methods();
        sources.retain(|source| source.supports(list.method));
        if let [only] = sources.as_slice()
            && only.label.is_empty()
        {
            return self.single_source_page(list, only, params).await.map_err(JsonRpcError::from);
        }
        if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
            return Err(JsonRpcError::invalid_params("the cursor is not one of this list"));
        }
        let lists =
            join_all(sources.iter().map(|source| self.qualified_entries(list, source))).await;
        let (mut entries, mut missing) = (vec![b'['], Vec::new());
        for (source, ended) in sources.iter().zip(lists) {
            match ended {
                Ok(json) if entries.len() > 1 && !json.is_empty() => {
                    entries.push(b',');
                    entries.extend_from_slice(&json);
                }
                Ok(json) => entries.extend_from_slice(&json),
                Err(error) => missing.push(report_missing_source(list, source, &error)),
            }
        }
        entries.push(b']');
        Ok(self.merge_lists(list, &entries, &missing))
    }

    fn merge_lists(&self, list: &ListMethod, entries: &[u8], missing: &[Value]) -> Vec<u8> {
        let entries = std::str::from_utf8(entries).expect("texts with commas between them");
        let meta = json!({MISSING_META: missing}).to_string();
        let mut result = RawObject::default();
        result.set(list.member, entries);
        if !missing.is_empty() {
            result.set("_meta", &meta);
        }
        if self.generation == ProtocolGeneration::Modern {
            result.add_hints(ResultHints::Cached(CacheVisibility::Private));
        }
        result.to_vec()
    }

    /// A page of a source under its own names, without what clients would choke on.
    async fn single_source_page(
        &self,
        list: &'static ListMethod,
        source: &SourceMethods,
        params: Map<String, Value>,
    ) -> Result<Vec<u8>, CallError> {
        let operation = source.operation(list.method).expect("the offer was chosen by it");
        let outcome = self.call(operation, params, None).await?;
        let text = raw_object::payload_json(&outcome.envelope.data);
        let page = ListPage::parse(&text, list.member)?;
        let (mut good, mut is_complete) = (vec![b'['], true);
        for entry in page.entries(list.key) {
            match entry {
                Ok(entry) => {
                    push_comma(&mut good, 1);
                    entry.write(&mut good);
                }
                Err(reason) => {
                    is_complete = false;
                    warn_skipped(list, operation.id().namespace(), &reason);
                }
            }
        }
        let hints = ResultHints::Cached(self.cache_visibility(source, list.method));
        if is_complete {
            return raw_object::adapt_result(text, self.generation, hints);
        }
        good.push(b']');
        let good = String::from_utf8(good).expect("texts with commas between them");
        let mut object = RawObject::parse(&text).expect("it was read above");
        object.set(list.member, &good);
        let mended = String::from_utf8(object.to_vec()).expect("texts are joined");
        raw_object::adapt_result(mended.into(), self.generation, hints)
    }

    /// All entries of a source under the names that clients use, with commas between them.
    async fn qualified_entries(
        &self,
        list: &'static ListMethod,
        source: &SourceMethods,
    ) -> Result<Vec<u8>, CallError> {
        let mut out = Vec::new();
        let mut add = |entry: ListEntry<'_>| {
            push_comma(&mut out, 0);
            let name = list.form.qualify(&source.label, &entry.name);
            entry.write_renamed(&mut out, &name);
        };
        self.for_each_entry(list, source, &mut add).await?;
        Ok(out)
    }

    /// Goes through a list of a source, page by page, while there is patience. One that is said to
    /// exist and does not is empty.
    pub(super) async fn for_each_entry(
        &self,
        list: &'static ListMethod,
        source: &SourceMethods,
        each: &mut (dyn FnMut(ListEntry<'_>) + Send),
    ) -> Result<(), CallError> {
        let Some(operation) = source.operation(list.method) else { return Ok(()) };
        let end = Instant::now() + self.source_timeout;
        let (mut progress, mut input) = (ListProgress::default(), Map::new());
        loop {
            let remaining = end.saturating_duration_since(Instant::now());
            let outcome = match self.call(operation, input, Some(remaining)).await {
                Err(error) if is_unknown_method(&error) => return Ok(()),
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
    /// Takes the entries of a page, and says which page is next.
    fn add_page(
        &mut self,
        list: &ListMethod,
        label: &str,
        page: &Outcome,
        each: &mut (dyn FnMut(ListEntry<'_>) + Send),
    ) -> Result<Option<String>, CallError> {
        let text = raw_object::payload_json(&page.envelope.data);
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

fn push_comma(list: &mut Vec<u8>, start: usize) {
    if list.len() > start {
        list.push(b',');
    }
}

/// Some servers have resources and no templates, and say nothing else about it.
fn is_unknown_method(error: &CallError) -> bool {
    server_error(error).is_some_and(|error| error.code == -32601)
}

/// A source that could not be asked, for the client; and for the log.
fn report_missing_source(
    list: &ListMethod,
    source_methods: &SourceMethods,
    error: &CallError,
) -> Value {
    tracing::warn!(source = source_methods.label, method = list.method, %error, "source missing from list");
    source_methods.missing_entry(error)
}

fn warn_skipped(list: &ListMethod, source: &str, reason: &str) {
    tracing::warn!(source, method = list.method, reason, "list entry skipped");
}

fn warn_truncated(list: &ListMethod, source: &str, reason: &str) {
    tracing::warn!(source, method = list.method, reason, "list truncated");
}
