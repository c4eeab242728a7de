//! The lists of all sources as one.

use std::collections::HashSet;

use futures::future::join_all;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolpost::mcp::server_error;
use toolpost::view::Era;
use toolpost::{CallError, Outcome};

use super::Fault;
use super::name::Form;
use super::object::{self, Hints, Object, Scope};
use super::offer::Offer;
use super::page::{Entry, Page};
use super::{MISSING_META, Passing};

/// How many entries of one source are listed.
const MOST_ENTRIES: usize = 10_000;
/// How many pages of one source are read.
const MOST_PAGES: usize = 100;
/// How much of one source's list is read; then no further page is asked for.
const MOST_BYTES: usize = 64 << 20;

/// A list that sources have.
#[derive(Debug)]
pub(super) struct List {
    pub(super) method: &'static str,
    /// The member of the result that is the list.
    member: &'static str,
    /// The member of an entry that is its name.
    key: &'static str,
    form: Form,
}

pub(super) const RESOURCES: List =
    List { method: "resources/list", member: "resources", key: "uri", form: Form::Address };
pub(super) const TEMPLATES: List = List {
    method: "resources/templates/list",
    member: "resourceTemplates",
    key: "uriTemplate",
    form: Form::Address,
};
const PROMPTS: List =
    List { method: "prompts/list", member: "prompts", key: "name", form: Form::Name };

/// What was read of a list whose end is not known yet.
#[derive(Default)]
struct Progress {
    entries: usize,
    pages: usize,
    bytes: usize,
    cursors: HashSet<String>,
}

impl List {
    pub(super) fn of(method: &str) -> Option<&'static Self> {
        [&RESOURCES, &TEMPLATES, &PROMPTS].into_iter().find(|list| list.method == method)
    }
}

impl Passing<'_> {
    /// The lists of all sources in one page, or a page of the only source as it is.
    pub(super) async fn list(
        &self,
        list: &'static List,
        params: Map<String, Value>,
    ) -> Result<Vec<u8>, Fault> {
        let mut offers = self.offers();
        offers.retain(|offer| offer.has(list.method));
        if let [only] = offers.as_slice()
            && only.label.is_empty()
        {
            return self.own_page(list, only, params).await.map_err(Fault::from);
        }
        if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
            return Err(Fault::invalid_params("the cursor is not one of this list"));
        }
        let lists = join_all(offers.iter().map(|offer| self.labeled(list, offer))).await;
        let (mut entries, mut missing) = (vec![b'['], Vec::new());
        for (offer, ended) in offers.iter().zip(lists) {
            match ended {
                Ok(json) if entries.len() > 1 && !json.is_empty() => {
                    entries.push(b',');
                    entries.extend_from_slice(&json);
                }
                Ok(json) => entries.extend_from_slice(&json),
                Err(error) => missing.push(absent(list, offer, &error)),
            }
        }
        entries.push(b']');
        Ok(self.merged(list, &entries, &missing))
    }

    fn merged(&self, list: &List, entries: &[u8], missing: &[Value]) -> Vec<u8> {
        let entries = std::str::from_utf8(entries).expect("texts with commas between them");
        let meta = json!({MISSING_META: missing}).to_string();
        let mut result = Object::default();
        result.set(list.member, entries);
        if !missing.is_empty() {
            result.set("_meta", &meta);
        }
        if self.era == Era::Modern {
            result.add_hints(Hints::Cached(Scope::Private));
        }
        result.written()
    }

    /// A page of a source under its own names, without what clients would choke on.
    async fn own_page(
        &self,
        list: &'static List,
        offer: &Offer,
        params: Map<String, Value>,
    ) -> Result<Vec<u8>, CallError> {
        let operation = offer.operation(list.method).expect("the offer was chosen by it");
        let outcome = self.call(operation, params, None).await?;
        let text = object::text(&outcome.envelope.data);
        let page = Page::read(&text, list.member)?;
        let (mut good, mut is_whole) = (vec![b'['], true);
        for entry in page.entries(list.key) {
            match entry {
                Ok(entry) => {
                    comma(&mut good, 1);
                    entry.write(&mut good);
                }
                Err(reason) => {
                    is_whole = false;
                    warn_odd(list, operation.id().namespace(), &reason);
                }
            }
        }
        let hints = Hints::Cached(self.scope(offer, list.method));
        if is_whole {
            return object::result(text, self.era, hints);
        }
        good.push(b']');
        let good = String::from_utf8(good).expect("texts with commas between them");
        let mut object = Object::read(&text).expect("it was read above");
        object.set(list.member, &good);
        let mended = String::from_utf8(object.written()).expect("texts are joined");
        object::result(mended.into(), self.era, hints)
    }

    /// All entries of a source under the names that clients use, with commas between them.
    async fn labeled(&self, list: &'static List, offer: &Offer) -> Result<Vec<u8>, CallError> {
        let mut out = Vec::new();
        let mut add = |entry: Entry<'_>| {
            comma(&mut out, 0);
            let name = list.form.outside(&offer.label, &entry.name);
            entry.write_as(&mut out, &name);
        };
        self.walk(list, offer, &mut add).await?;
        Ok(out)
    }

    /// Goes through a list of a source, page by page, while there is patience. One that is said to
    /// exist and does not is empty.
    pub(super) async fn walk(
        &self,
        list: &'static List,
        offer: &Offer,
        each: &mut (dyn FnMut(Entry<'_>) + Send),
    ) -> Result<(), CallError> {
        let Some(operation) = offer.operation(list.method) else { return Ok(()) };
        let end = Instant::now() + self.patience;
        let (mut progress, mut input) = (Progress::default(), Map::new());
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let outcome = match self.call(operation, input, Some(left)).await {
                Err(error) if is_unknown_method(&error) => return Ok(()),
                ended => ended?,
            };
            match progress.take(list, &offer.label, &outcome, each)? {
                Some(cursor) => input = Map::from_iter([("cursor".to_owned(), cursor.into())]),
                None => return Ok(()),
            }
        }
    }
}

impl Progress {
    /// Takes the entries of a page, and says which page is next.
    fn take(
        &mut self,
        list: &List,
        label: &str,
        page: &Outcome,
        each: &mut (dyn FnMut(Entry<'_>) + Send),
    ) -> Result<Option<String>, CallError> {
        let text = object::text(&page.envelope.data);
        let page = Page::read(&text, list.member)?;
        self.pages += 1;
        self.bytes += text.len();
        for entry in page.entries(list.key) {
            match entry {
                Ok(_) if self.entries == MOST_ENTRIES => {
                    warn_cut(list, label, "it has too many entries");
                    return Ok(None);
                }
                Ok(entry) => {
                    self.entries += 1;
                    each(entry);
                }
                Err(reason) => warn_odd(list, label, &reason),
            }
        }
        let Some(next) = page.next else { return Ok(None) };
        let reason = match () {
            () if self.pages == MOST_PAGES => "it has too many pages",
            () if self.bytes > MOST_BYTES => "it is too large",
            () if !self.cursors.insert(next.clone()) => "it repeats itself",
            () => return Ok(Some(next)),
        };
        warn_cut(list, label, reason);
        Ok(None)
    }
}

fn comma(list: &mut Vec<u8>, begin: usize) {
    if list.len() > begin {
        list.push(b',');
    }
}

/// Some servers have resources and no templates, and say nothing else about it.
fn is_unknown_method(error: &CallError) -> bool {
    server_error(error).is_some_and(|error| error.code == -32601)
}

/// A source that could not be asked, for the client; and for the log.
fn absent(list: &List, offer: &Offer, error: &CallError) -> Value {
    tracing::warn!(source = offer.label, method = list.method, %error, "a source is missing in a list");
    offer.missing(error)
}

fn warn_odd(list: &List, source: &str, reason: &str) {
    tracing::warn!(source, method = list.method, reason, "an entry of a list is left out");
}

fn warn_cut(list: &List, source: &str, reason: &str) {
    tracing::warn!(source, method = list.method, reason, "the rest of a list is left out");
}
