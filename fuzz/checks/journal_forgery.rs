//! Invariants that hold for any input; shared by the fuzz target, the corpus replay and the property
//! test.
//!
//! The input is a list of changes by an attacker who can write every file of a journal, and has
//! earlier copies of them, but cannot read the key.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toolpost::Pipeline;
use toolpost_gateway::builtin;
use toolpost_gateway::journal::{Anchor, Journal, JournalMode, JournalReader, JournalSettings};

/// Files of a data folder, by their path.
type Files = BTreeMap<String, Vec<u8>>;

/// Maximum number of changes of one input.
const MAX_CHANGES: usize = 8;
/// Length of the hash of a line, and of what precedes its content.
const HASH_LEN: usize = 64;
const PREFIX_LEN: usize = 98;
/// Maximum number of attempts to copy a journal between a record and its signature.
const MAX_COPIES: usize = 200;

/// The states of a data folder with two chains, oldest first.
struct Samples {
    states: Vec<Files>,
    /// Lines of each chain in the last state.
    lines: BTreeMap<String, Vec<Vec<u8>>>,
    /// Head of the first chain in the last state.
    anchor: Anchor,
    anchor_seq: usize,
}

static SAMPLES: LazyLock<Samples> = LazyLock::new(Samples::create);

/// A temporary folder, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("toolpost-forgery-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Samples {
    /// Writes two chains: running, with records that are not signed yet; after a clean stop; and
    /// running again.
    fn create() -> Self {
        let scratch = Scratch::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut states = Vec::new();
        runtime.block_on(async {
            let journals = [(); 2].map(|()| open(&scratch.0));
            for journal in &journals {
                // The long inputs fill the first segment.
                for length in [1, 9_000, 9_000, 9_000, 9_000, 9_000, 9_000, 9_000, 9_000, 1] {
                    call(journal, length).await;
                }
                states.push(copy_with_unsigned_tail(&scratch.0, journal).await);
            }
            drop(journals);
            states.push(read_files(&scratch.0));
            let journals = [(); 2].map(|()| open(&scratch.0));
            states.push(copy_with_unsigned_tail(&scratch.0, &journals[0]).await);
            drop(journals);
            states.push(read_files(&scratch.0));
        });
        let last = &states[states.len() - 1];
        let ids: Vec<&str> = last.keys().filter_map(|name| name.strip_suffix(".head")).collect();
        let lines = ids.iter().map(|id| ((*id).to_owned(), lines_of(last, id))).collect();
        let head: Value = serde_json::from_slice(&last[&format!("{}.head", ids[0])]).unwrap();
        let anchor_seq = usize::try_from(head["seq"].as_u64().unwrap()).unwrap();
        Self { lines, anchor: Anchor::parse(head).unwrap(), anchor_seq, states }
    }
}

fn open(data: &Path) -> Journal {
    let mut settings = JournalSettings::default();
    (settings.mode, settings.retain_size) = (JournalMode::Batch, Some(512 * 1024));
    Journal::open(data, &settings).unwrap()
}

async fn call(journal: &Journal, length: usize) {
    let registry = builtin::registry();
    let pipeline = Pipeline::builder(registry.clone()).audit(journal.sink(&registry)).build();
    let input = json!({"text": "x".repeat(length)});
    pipeline.call_trusted("demo.note", input).await.unwrap();
}

/// Copies the files while the last record of the chain is not signed.
async fn copy_with_unsigned_tail(data: &Path, journal: &Journal) -> Files {
    for _ in 0..MAX_COPIES {
        call(journal, 1).await;
        let files = read_files(data);
        let lines = lines_of(&files, journal.gateway_id());
        let last = String::from_utf8_lossy(&lines[lines.len() - 1]).into_owned();
        if last.contains("\"kind\":\"exit\"") {
            return files;
        }
    }
    panic!("every copy of the journal is signed")
}

/// Reads the files that an attacker changes; the heads before the records that they cover.
fn read_files(data: &Path) -> Files {
    let folder = data.join("journal");
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        match entry.path().is_dir() {
            true => names.extend(
                fs::read_dir(entry.path())
                    .unwrap()
                    .map(|file| format!("{name}/{}", file.unwrap().file_name().display())),
            ),
            false => names.push(name),
        }
    }
    names.retain(|name| [".head", ".key", ".log"].iter().any(|end| name.ends_with(end)));
    names.sort_by_key(|name| name.ends_with(".log"));
    names.into_iter().map(|name| (name.clone(), fs::read(folder.join(&name)).unwrap())).collect()
}

fn write_files(data: &Path, files: &Files) {
    for (name, content) in files {
        let file = data.join("journal").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
}

/// Returns the complete lines of a chain, without line feeds.
fn lines_of(files: &Files, gateway_id: &str) -> Vec<Vec<u8>> {
    let prefix = format!("{gateway_id}/");
    let segments = files.iter().filter(|(name, _)| name.starts_with(&prefix));
    segments.flat_map(|(_, text)| split_lines(text).0).collect()
}

/// Splits text into its complete lines and the rest.
fn split_lines(text: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut lines: Vec<Vec<u8>> = text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let rest = lines.pop().unwrap_or_default();
    (lines, rest)
}

/// The unread rest of the input. Reading past its end yields zeros.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> usize {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first.into()
    }

    /// Returns a number below `count`, or 0.
    fn below(&mut self, count: usize) -> usize {
        (256 * self.byte() + self.byte()) % count.max(1)
    }
}

/// Applies the changes of `bytes` to a state of the journal, verifies it, and continues it.
pub(crate) fn check(bytes: &[u8]) {
    let samples = &*SAMPLES;
    let mut input = Input(bytes);
    let mut files = samples.states[input.below(samples.states.len())].clone();
    let options = input.byte();
    if options & 1 != 0 {
        files.retain(|name, _| !name.ends_with(".key"));
    }
    for _ in 0..MAX_CHANGES {
        if input.0.is_empty() {
            break;
        }
        change(samples, &mut files, &mut input);
    }
    let scratch = Scratch::new();
    write_files(&scratch.0, &files);
    check_verified(samples, &scratch.0, &files);
    if options & 2 != 0 {
        check_continued(samples, &scratch.0, &files);
    }
}

/// Makes one change. The key can be removed and replaced, but not read.
fn change(samples: &Samples, files: &mut Files, input: &mut Input<'_>) {
    let kind = input.byte() % 16;
    let names: Vec<String> = files.keys().cloned().collect();
    if names.is_empty() {
        return;
    }
    let name = names[input.below(names.len())].clone();
    let state = &samples.states[input.below(samples.states.len())];
    let sources: Vec<&String> = state.keys().filter(|name| !name.ends_with(".key")).collect();
    let source = sources[input.below(sources.len())];
    let text = files.get_mut(&name).unwrap();
    match kind {
        0 if !text.is_empty() => {
            let at = input.below(text.len());
            text[at] ^= u8::try_from(input.byte().max(1)).unwrap();
        }
        1 => {
            let length = input.below(text.len() + 1);
            text.truncate(length);
        }
        2 => text.extend_from_slice(&vec![0; input.byte()]),
        3 => drop(files.remove(&name)),
        // The file of another chain, of an earlier or later state, or another segment.
        4 => *text = state[source].clone(),
        5 => drop(files.insert(source.clone(), state[source].clone())),
        6 => {
            let folder = source.split('/').next().unwrap_or_default().trim_end_matches(".head");
            let copy = format!("{folder}/{:020}.log", 1 + input.below(63));
            drop(files.insert(copy, state[source].clone()));
        }
        _ if name.ends_with(".log") => change_lines(kind, text, &state[source], input),
        _ => {}
    }
}

/// Changes the lines of a segment.
fn change_lines(kind: usize, text: &mut Vec<u8>, source: &[u8], input: &mut Input<'_>) {
    let (mut lines, rest) = split_lines(text);
    if lines.is_empty() {
        return;
    }
    let at = input.below(lines.len());
    let other = input.below(lines.len());
    match kind {
        7 => drop(lines.remove(at)),
        8 => lines.truncate(at),
        9 => lines.swap(at, other),
        10 => lines.insert(at, lines[other].clone()),
        // A line of another state or chain.
        11 | 12 => {
            let (foreign, _) = split_lines(source);
            if !foreign.is_empty() {
                let line = foreign[input.below(foreign.len())].clone();
                if kind == 11 { lines.insert(at, line) } else { lines[at] = line }
            }
        }
        // A forged record, with the authentication code of another line.
        13 | 14 => {
            let content = format!(r#"{{"seq":{},"kind":"exit","time":0}}"#, at + 1);
            let prefix = lines[other].get(..PREFIX_LEN).unwrap_or_default();
            let line = [prefix, content.as_bytes()].concat();
            if kind == 13 {
                lines.insert(at, line);
            } else {
                lines.push(line);
            }
            rehash(&mut lines, at);
        }
        // An edited record.
        _ => {
            let line = &mut lines[at];
            if line.len() > PREFIX_LEN {
                let edited = PREFIX_LEN + input.below(line.len() - PREFIX_LEN);
                line[edited] = b'0' + u8::try_from(input.below(10)).unwrap();
            }
            rehash(&mut lines, at);
        }
    }
    *text = lines.iter().flat_map(|line| [line, &b"\n"[..]].concat()).chain(rest).collect();
}

/// Recomputes the hashes of a segment from a line on, which needs no key.
fn rehash(lines: &mut [Vec<u8>], from: usize) {
    for at in from.max(1)..lines.len() {
        let previous = lines[at - 1].get(..HASH_LEN).and_then(|hash| HEXLOWER.decode(hash).ok());
        let (Some(previous), true) = (previous, lines[at].len() > PREFIX_LEN) else { return };
        let hash = Sha256::new().chain_update(previous).chain_update(&lines[at][PREFIX_LEN..]);
        let hash = HEXLOWER.encode(&hash.finalize());
        lines[at][..HASH_LEN].copy_from_slice(hash.as_bytes());
    }
}

/// A chain that verifies consists of the records that the gateway wrote, from the first on. The head
/// is one that the gateway signed, and the chain extends at least to it.
fn check_verified(samples: &Samples, data: &Path, files: &Files) {
    let reader = JournalReader::new(data, &JournalSettings::default());
    for report in reader.verify(None).unwrap().iter().filter(|report| report.ok) {
        let id = &report.gateway_id;
        let lines = lines_of(files, id);
        let accepted = lines.len() - usize::try_from(report.unsigned).unwrap();
        let written = &samples.lines[id];
        assert!(written.starts_with(&lines[..accepted]), "{report:?}");
        assert!(!report.has_key || report.unsigned == 0, "{report:?}");
        let head: Value = serde_json::from_slice(&files[&format!("{id}.head")]).unwrap();
        assert!(accepted as u64 >= head["seq"].as_u64().unwrap(), "{report:?}");
        let is_known = samples.states.iter().filter_map(|state| state.get(&format!("{id}.head")));
        let mut is_known = is_known.map(|known| serde_json::from_slice::<Value>(known).unwrap());
        assert!(is_known.any(|known| known["signature"] == head["signature"]), "{report:?}");
    }
    // A rollback is found by a head that was stored elsewhere.
    let anchor = &samples.anchor;
    for report in reader.verify(Some(anchor)).unwrap().iter().filter(|report| report.ok) {
        let lines = lines_of(files, &report.gateway_id).len();
        let id = samples.lines.keys().next().unwrap();
        assert!(report.gateway_id != *id || lines >= samples.anchor_seq, "{report:?}");
    }
}

/// A gateway that starts with these files signs only records that it wrote.
fn check_continued(samples: &Samples, data: &Path, files: &Files) {
    drop(open(data));
    let continued = read_files(data);
    let reader = JournalReader::new(data, &JournalSettings::default());
    for report in reader.verify(None).unwrap().iter().filter(|report| report.ok) {
        let Some(written) = samples.lines.get(&report.gateway_id) else { continue };
        let lines = lines_of(&continued, &report.gateway_id);
        let given = lines_of(files, &report.gateway_id);
        let is_same = |(line, written): &(&Vec<u8>, &Vec<u8>)| line == written;
        let same = lines.iter().zip(written).take_while(is_same).count();
        let accepted = lines.len() - usize::try_from(report.unsigned).unwrap();
        for line in lines[..accepted].iter().skip(same) {
            let text = String::from_utf8_lossy(line);
            let is_new = !given.contains(line);
            let signs =
                text.contains("\"kind\":\"signature\"") || text.contains("\"kind\":\"close\"");
            assert!(is_new && signs, "{text}");
        }
    }
}
