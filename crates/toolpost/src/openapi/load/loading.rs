//! The library as it fills, wave by wave: what the files of one wave refer to is the next.

use std::collections::HashSet;

use futures::StreamExt;
use url::Url;

use super::super::document::{File, Library, Place, shown};
use super::fetch::{FetchError, Fetcher, Opened};
use super::location::name;
use super::outward::{self, Outward};
use super::{Loaded, Warning, rules};

pub(super) struct Loading<'s> {
    fetcher: Fetcher<'s>,
    library: Library,
    warnings: Vec<Warning>,
    /// What was asked for, whether it was there or not.
    asked: HashSet<Url>,
    /// What is also known by an address that is not where it is.
    elsewhere: Vec<Outward>,
    /// What leads nowhere, unless a file that is read later says that it is there.
    missing: Vec<(Url, Warning)>,
    is_full: bool,
}

impl<'s> Loading<'s> {
    pub(super) fn new(fetcher: Fetcher<'s>) -> Self {
        Self {
            fetcher,
            library: Library::new(Vec::new()),
            warnings: Vec::new(),
            asked: HashSet::new(),
            elsewhere: Vec::new(),
            missing: Vec::new(),
            is_full: false,
        }
    }

    /// Adds the document itself.
    pub(super) fn begin(&mut self, asked: Url, opened: Opened) -> Place {
        self.asked.insert(asked.clone());
        self.add(asked, opened)
    }

    /// Adds a file that was asked for at one address, and may have been found at another.
    fn add(&mut self, asked: Url, opened: Opened) -> Place {
        let at = name(&opened.address);
        let warning = |message| Warning { at: at.clone(), message };
        self.warnings.extend(opened.reading.warnings.into_iter().map(warning));
        let root = self.library.add(File { address: opened.address, tree: opened.reading.tree });
        self.library.alias(asked, root);
        root
    }

    /// Reads what a file refers to, what that refers to, and so on.
    pub(super) async fn follow(&mut self, root: Place) {
        let mut wave = self.wanted(&[root]);
        while !wave.is_empty() {
            let fetcher = &self.fetcher;
            let open = |outward: Outward| async { (fetcher.open(&outward.place).await, outward) };
            let at_once = fetcher.settings.concurrency.max(1);
            let opened: Vec<_> =
                futures::stream::iter(wave).map(open).buffered(at_once).collect().await;
            let roots: Vec<_> =
                opened.into_iter().filter_map(|(opened, it)| self.take(it, opened)).collect();
            wave = self.wanted(&roots);
        }
    }

    fn take(&mut self, outward: Outward, opened: Result<Opened, FetchError>) -> Option<Place> {
        match opened {
            Ok(opened) => {
                let root = self.add(outward.place, opened);
                self.library.alias(outward.meant, root);
                Some(root)
            }
            Err(error) => {
                self.miss(outward, &format!("cannot be read: {error}"));
                None
            }
        }
    }

    fn miss(&mut self, outward: Outward, why: &str) {
        let message = format!("`{}` {why}", shown(&outward.reference));
        self.missing.push((outward.meant, Warning { at: outward.from, message }));
    }

    /// What these files refer to that was not asked for yet, and may be.
    fn wanted(&mut self, roots: &[Place]) -> Vec<Outward> {
        let mut wanted = Vec::new();
        for root in roots {
            for outward in outward::references(&self.library, *root) {
                self.want(outward, *root, &mut wanted);
            }
        }
        wanted
    }

    fn want(&mut self, outward: Outward, from: Place, wanted: &mut Vec<Outward>) {
        if self.library.knows(&outward.meant) {
            return;
        }
        if self.asked.contains(&outward.place) {
            self.elsewhere.push(outward);
            return;
        }
        if self.asked.len() >= self.fetcher.settings.max_files {
            self.is_full = true;
            return;
        }
        self.asked.insert(outward.place.clone());
        let from = &self.library.file(from).address;
        match rules::may_refer(from, &outward.place, &self.fetcher.settings.hosts) {
            Ok(()) => wanted.push(outward),
            Err(refused) => self.miss(outward, &refused.to_string()),
        }
    }

    pub(super) fn finish(mut self) -> Loaded {
        for outward in std::mem::take(&mut self.elsewhere) {
            self.library.alias_of(outward.meant, &outward.place);
        }
        let Self { library, mut warnings, missing, .. } = self;
        let missing = missing.into_iter().filter(|(meant, _)| !library.knows(meant));
        warnings.extend(missing.map(|(_, warning)| warning));
        if self.is_full {
            let most = self.fetcher.settings.max_files;
            let message = format!("only {most} files were read; `max_files` says how many");
            warnings.push(Warning { at: name(&library.file(library.root()).address), message });
        }
        Loaded { library, warnings }
    }
}
