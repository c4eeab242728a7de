//! Loads a document and its references in batches. The references in one batch form the next one.

use std::collections::HashSet;

use futures::StreamExt;
use url::Url;

use super::super::document::{DocumentFile, DocumentSet, NodeRef, redact_reference};
use super::super::schema::DocumentWarning;
use super::external_refs::{self, ExternalRef};
use super::fetch::{FetchError, FetchedFile, Fetcher};
use super::location::display_url;
use super::{LoadedDocument, reference_policy};

pub(super) struct DocumentLoader<'s> {
    fetcher: Fetcher<'s>,
    documents: DocumentSet,
    warnings: Vec<DocumentWarning>,
    /// URLs that were requested, whether they exist or not.
    requested: HashSet<Url>,
    /// References to a requested file by a URL other than its own.
    aliases: Vec<ExternalRef>,
    /// References that could not be loaded. A later file may still define their target.
    missing: Vec<(Url, DocumentWarning)>,
    is_file_limit_reached: bool,
}

impl<'s> DocumentLoader<'s> {
    pub(super) fn new(fetcher: Fetcher<'s>) -> Self {
        Self {
            fetcher,
            documents: DocumentSet::default(),
            warnings: Vec::new(),
            requested: HashSet::new(),
            aliases: Vec::new(),
            missing: Vec::new(),
            is_file_limit_reached: false,
        }
    }

    /// Adds a file, which may have been redirected from the requested URL.
    pub(super) fn add_file(&mut self, requested: Url, fetched: FetchedFile) -> NodeRef {
        self.requested.insert(requested.clone());
        let at = display_url(&fetched.url);
        let warning = |message| DocumentWarning { at: at.clone(), message };
        self.warnings.extend(fetched.parsed.warnings.into_iter().map(warning));
        let root = self.documents.add(DocumentFile { url: fetched.url, tree: fetched.parsed.tree });
        self.documents.add_alias(requested, root);
        root
    }

    /// Loads the files that a file refers to, including transitive references.
    pub(super) async fn load_references(&mut self, root: NodeRef) {
        let mut batch = self.next_references(&[root]);
        while !batch.is_empty() {
            let fetcher = &self.fetcher;
            let open = |reference: ExternalRef| async {
                (fetcher.fetch(&reference.fetch_url).await, reference)
            };
            let at_once = fetcher.settings.concurrency.max(1);
            let fetched: Vec<_> =
                futures::stream::iter(batch).map(open).buffered(at_once).collect().await;
            let roots: Vec<_> = fetched
                .into_iter()
                .filter_map(|(fetched, it)| self.handle_fetched(it, fetched))
                .collect();
            batch = self.next_references(&roots);
        }
    }

    fn handle_fetched(
        &mut self,
        reference: ExternalRef,
        fetched: Result<FetchedFile, FetchError>,
    ) -> Option<NodeRef> {
        match fetched {
            Ok(fetched) => {
                let root = self.add_file(reference.fetch_url, fetched);
                self.documents.add_alias(reference.target, root);
                Some(root)
            }
            Err(error) => {
                self.record_missing(reference, &format!("cannot be read: {error}"));
                None
            }
        }
    }

    fn record_missing(&mut self, reference: ExternalRef, reason: &str) {
        let message = format!("`{}` {reason}", redact_reference(&reference.reference));
        self.missing.push((reference.target, DocumentWarning { at: reference.referrer, message }));
    }

    /// Returns the references of these files that are allowed and not requested yet.
    fn next_references(&mut self, roots: &[NodeRef]) -> Vec<ExternalRef> {
        let mut queue = Vec::new();
        for root in roots {
            for reference in external_refs::external_refs(self.documents.node(*root)) {
                self.enqueue(reference, *root, &mut queue);
            }
        }
        queue
    }

    fn enqueue(&mut self, reference: ExternalRef, from: NodeRef, queue: &mut Vec<ExternalRef>) {
        if self.documents.contains(&reference.target) {
            return;
        }
        if self.requested.contains(&reference.fetch_url) {
            self.aliases.push(reference);
            return;
        }
        if self.requested.len() >= self.fetcher.settings.max_files {
            self.is_file_limit_reached = true;
            return;
        }
        self.requested.insert(reference.fetch_url.clone());
        let from = self.documents.node(from).file_url();
        match reference_policy::check_reference(
            from,
            &reference.fetch_url,
            &self.fetcher.settings.hosts,
        ) {
            Ok(()) => queue.push(reference),
            Err(rejection) => self.record_missing(reference, &rejection.to_string()),
        }
    }

    pub(super) fn finish(mut self) -> LoadedDocument {
        for reference in std::mem::take(&mut self.aliases) {
            self.documents.alias_existing_url(reference.target, &reference.fetch_url);
        }
        let Self { documents, mut warnings, missing, .. } = self;
        let missing = missing.into_iter().filter(|(target, _)| !documents.contains(target));
        warnings.extend(missing.map(|(_, warning)| warning));
        if self.is_file_limit_reached {
            let max = self.fetcher.settings.max_files;
            let message = format!("only {max} files were read; raise `max_files` to read more");
            warnings
                .push(DocumentWarning { at: display_url(documents.root().file_url()), message });
        }
        LoadedDocument { documents, warnings }
    }
}
