//! Tests of the journal files: writing, reading, tampering, crash recovery and removal.

mod rooms;
mod tampering;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};
use toolpost::{
    Authority, CallRequest, Endpoint, HandlerError, Identity, Operation, Pipeline, Registry,
};

use super::chain::Hash;
use super::head::{PositionKind, SignedPosition};
use super::index::BlockMark;
use super::key::SigningKey;
use super::layout::Chain;
use super::search::{RecordFilter, Search};
use super::segment::Segments;
use super::verify::ProblemKind;
use super::*;
use crate::builtin;

/// A temporary folder, removed on drop.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("toolpost-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn pipeline(journal: &Journal) -> Pipeline {
    let registry: Registry = builtin::registry();
    Pipeline::builder(registry.clone()).audit(journal.sink(&registry)).build()
}

async fn call(pipeline: &Pipeline, identity: &str, operation: &str, input: Value) {
    let caller = Authority::untrusted(Some(Arc::new(Identity::new(identity))));
    let _ =
        pipeline.call(CallRequest::new(operation, input).endpoint(Endpoint::Http), caller).await;
}

/// Makes ten calls: additions by two callers, and failures by one.
async fn write_sample_calls(journal: &Journal) {
    let pipeline = pipeline(journal);
    for n in 0..4 {
        call(&pipeline, "ada", "demo.add", json!({"a": n, "b": 1})).await;
        call(&pipeline, "bob", "demo.add", json!({"a": n, "b": 2})).await;
    }
    call(&pipeline, "bob", "demo.fail", json!({})).await;
    call(&pipeline, "bob", "demo.none", json!({})).await;
}

fn journal_reader(scratch: &TempDir) -> JournalReader {
    JournalReader::new(&scratch.0, &JournalSettings::default())
}

fn only_segment(scratch: &TempDir, gateway_id: &str) -> PathBuf {
    let layout = JournalLayout::new(&scratch.0, &JournalSettings::default());
    layout.chain(gateway_id).segments.path(1)
}

fn matching(pattern: &str) -> Option<crate::glob::Glob> {
    Some(crate::glob::Glob::new(pattern))
}

#[tokio::test]
async fn calls_filter_works_with_and_without_index() {
    let scratch = TempDir::new("journal-found");
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    write_sample_calls(&journal).await;
    journal.close();
    let filter = |change: fn(&mut RecordFilter)| {
        let mut filter = RecordFilter::default();
        change(&mut filter);
        filter
    };
    let index = scratch.0.join("journal").join(journal.gateway_id()).join("index.sqlite");
    drop(journal);
    let restart = || drop(Journal::open(&scratch.0, &JournalSettings::default()).unwrap());
    // Without a valid index, searches read every record; opening the journal rebuilds the index.
    let states: [(&str, &dyn Fn()); 5] = [
        ("as closed", &|| ()),
        ("removed", &|| std::fs::remove_file(&index).unwrap()),
        ("rebuilt", &restart),
        ("broken", &|| std::fs::write(&index, "this is no database").unwrap()),
        ("damaged and rebuilt", &restart),
    ];
    for (state, change) in states {
        change();
        let is_index_valid = index::Index::open_read_only(&index)
            .and_then(|index| index.last())
            .is_ok_and(|last| last.is_some());
        assert_eq!(is_index_valid, !["removed", "broken"].contains(&state), "{state}");
        for (filter, expected) in [
            (filter(|_| ()), 10),
            (filter(|f| f.limit = 3), 3),
            (filter(|f| f.identity = Some("ada".to_owned())), 4),
            (filter(|f| f.identity = Some("eve".to_owned())), 0),
            (filter(|f| f.name = matching("demo.add")), 8),
            (filter(|f| f.name = matching("demo.*")), 10),
            (filter(|f| f.name = matching("*.fail")), 1),
            (filter(|f| f.marks = &[BlockMark::Failed]), 2),
            (filter(|f| (f.marks, f.identity) = (&[BlockMark::Failed], Some("ada".to_owned()))), 0),
            (filter(|f| f.before = 5), 2),
            (filter(|f| f.since = i64::MAX), 0),
            (filter(|f| f.gateway = Some("other".to_owned())), 0),
        ] {
            let found = journal_reader(&scratch).records(&filter).unwrap();
            assert_eq!(found.len(), expected, "{state} {filter:?}");
            assert!(found.iter().all(|call| call.get("outcome").is_some()), "{found:?}");
        }
    }
}

/// A long-running call, whose two records are in different segments.
#[tokio::test]
async fn call_spanning_segments_is_found_complete() {
    let scratch = TempDir::new("journal-far");
    let journal = Journal::open(&scratch.0, &small_segments()).unwrap();
    let folder = JournalLayout::new(&scratch.0, &small_segments())
        .chain(journal.gateway_id())
        .segments
        .folder;
    let (release, held) = tokio::sync::oneshot::channel::<()>();
    let held = Arc::new(Mutex::new(Some(held)));
    let wait = move |_: Value| {
        let held = held.lock().take();
        async move {
            held.unwrap().await.unwrap();
            Err::<Value, _>(HandlerError::from(toolpost::CallError::execution("at last")))
        }
    };
    let registry: Registry = builtin::registry();
    registry.register(Operation::query("test.wait", wait).build().unwrap()).unwrap();
    let pipeline = Pipeline::builder(registry.clone()).audit(journal.sink(&registry)).build();
    let files = async {
        write_until_segments(&journal, &folder, 3).await;
        release.send(()).unwrap();
    };
    tokio::join!(call(&pipeline, "bob", "test.wait", json!({})), files);
    let mut filter = RecordFilter { marks: &[BlockMark::Failed], ..RecordFilter::default() };
    for state in ["open", "closed", "without an index"] {
        for operation in [None, Some("test.wait"), Some("*")] {
            filter.name = operation.and_then(matching);
            let found = journal_reader(&scratch).records(&filter).unwrap();
            assert_eq!(found.len(), 1, "{state} {filter:?}");
            assert_eq!((&found[0]["seq"], &found[0]["message"]), (&json!(1), &json!("at last")));
        }
        assert_eq!(
            journal_reader(&scratch).calls_with_id("1").unwrap()[0]["outcome"],
            "error",
            "{state}"
        );
        match state {
            "open" => journal.close(),
            _ => std::fs::remove_file(folder.join("index.sqlite")).unwrap_or_default(),
        }
    }
}

/// A search during writes finds each call once.
#[tokio::test]
async fn block_closed_during_search_yields_no_duplicates() {
    let scratch = TempDir::new("journal-meanwhile");
    let settings = JournalSettings { mode: JournalMode::Sync, ..JournalSettings::default() };
    let journal = Journal::open(&scratch.0, &settings).unwrap();
    write_sample_calls(&journal).await;
    let reader = journal_reader(&scratch);
    let (chain, filter) = (&reader.chains().unwrap()[0], RecordFilter::default());
    let index = index::Index::open_read_only(&chain.index_file()).unwrap();
    let mut search = Search::new(chain, &filter, index).unwrap();
    search.scan_unindexed().unwrap();
    journal.close();
    search.scan_indexed().unwrap();
    let numbers: Vec<u64> = search.found.iter().map(|call| call.seq).collect();
    assert_eq!(numbers.len(), 10, "{numbers:?}");
}

/// A slow follower receives every call, across several segments and in chunks.
#[tokio::test]
async fn slow_tail_receives_every_call_in_chunks() {
    const CALLS: usize = 600;
    let scratch = TempDir::new("journal-slow");
    let settings =
        JournalSettings { retain_size: Some(16 * 1024 * 1024), ..JournalSettings::default() };
    let journal = Journal::open(&scratch.0, &settings).unwrap();
    let reader = JournalReader::new(&scratch.0, &settings).with_live(&journal);
    let (_, chain) = reader.live().unwrap();
    let mut tail = tail::Tail::new(&journal, chain.clone(), RecordFilter::default());
    let (pipeline, text) = (pipeline(&journal), "x".repeat(4_000));
    for _ in 0..CALLS {
        call(&pipeline, "ada", "demo.note", json!({"text": text})).await;
    }
    journal.close();
    assert!(chain.segments.list().unwrap().len() > 1);
    let mut numbers = Vec::new();
    while numbers.len() < CALLS {
        let calls;
        (calls, tail) = tail.next().await.unwrap();
        assert!(calls.len() < CALLS / 2, "{}", calls.len());
        numbers.extend(calls.into_iter().map(|call| call.unwrap()["seq"].as_u64().unwrap()));
    }
    assert!(numbers.is_sorted());
}

/// Inputs that a handler may accept but JSON readers of the journal cannot parse.
#[tokio::test]
async fn calls_with_unparseable_input_are_listed_as_text() {
    let scratch = TempDir::new("journal-strange");
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    let pipeline = pipeline(&journal);
    let nested = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let inputs = [nested, "[1e999]".to_owned(), r#"{"a":"\ud800"}"#.to_owned()];
    for input in &inputs {
        let payload = toolpost::Payload::from_json(input.clone()).unwrap();
        let request = CallRequest::new("demo.add", payload).endpoint(Endpoint::Hub);
        let caller = Authority::untrusted(Some(Arc::new(Identity::new("ada"))));
        pipeline.call(request, caller).await.unwrap_err();
    }
    journal.close();
    let calls = journal_reader(&scratch).records(&RecordFilter::default()).unwrap();
    let input_texts: Vec<&Value> = calls.iter().rev().map(|call| &call["inputText"]).collect();
    assert_eq!(input_texts, inputs.iter().collect::<Vec<_>>());
    assert!(calls.iter().all(|call| call["outcome"] == "error"), "{calls:?}");
}

#[tokio::test]
async fn call_is_recorded_as_enter_and_exit() {
    let scratch = TempDir::new("journal-records");
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    write_sample_calls(&journal).await;
    journal.close();
    let calls = journal_reader(&scratch).records(&RecordFilter::default()).unwrap();
    let (newest, oldest) = (&calls[0], &calls[9]);
    assert_eq!(oldest["input"], json!({"a": 0, "b": 1}));
    assert_eq!(oldest["output"]["data"], json!({"sum": 1}));
    assert_eq!((&oldest["endpoint"], &oldest["identity"]), (&json!("http"), &json!("ada")));
    assert_eq!((&oldest["seq"], &oldest["endSeq"]), (&json!(1), &json!(2)));
    assert_eq!(newest["code"], "OPERATION_NOT_FOUND");
    assert_eq!(calls[1]["details"], json!({"remedy": "call another operation"}));
    for id in [oldest["id"].as_str().unwrap(), "1"] {
        assert_eq!(
            journal_reader(&scratch).calls_with_id(id).unwrap(),
            std::slice::from_ref(oldest)
        );
    }
    for id in ["unknown", "2", "999"] {
        assert_eq!(journal_reader(&scratch).calls_with_id(id).unwrap(), [Value::Null; 0], "{id}");
    }
}

/// Newest first: a subscription ended by its caller, an aborted call, a call dropped by its caller,
/// and a panicked handler.
#[tokio::test]
async fn aborted_and_panicked_calls_have_exit_records() {
    let scratch = TempDir::new("journal-abandoned");
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    let registry = builtin::registry();
    let panics =
        async |input: Value| Ok::<Value, HandlerError>(input.get("absent").cloned().unwrap());
    registry.register(Operation::query("t.panics", panics).build().unwrap()).unwrap();
    let pipeline = Pipeline::builder(registry.clone()).audit(journal.sink(&registry)).build();
    call(&pipeline, "ada", "t.panics", json!({})).await;
    let begin = || {
        let request = CallRequest::new("demo.slow", json!({"ms": 60_000})).endpoint(Endpoint::Http);
        let mut call = pipeline.call(request, Authority::untrusted(None));
        assert!((&mut call).now_or_never().is_none());
        call
    };
    drop(begin());
    let given_up = begin();
    given_up.abort_handle().abort("enough");
    assert!(given_up.await.is_err());
    let request = CallRequest::new("demo.clock", json!({"count": 9}));
    let mut subscription = pipeline.start_subscription(request, Authority::untrusted(None));
    assert!(subscription.next().await.unwrap().is_ok());
    drop(subscription);
    assert!(pipeline.drain(Duration::from_secs(30)).await);
    journal.close();
    let calls = journal_reader(&scratch).records(&RecordFilter::default()).unwrap();
    let found: Vec<_> = calls.iter().map(|call| (&call["operation"], &call["code"])).collect();
    let (slow, aborted) = (&json!("demo.slow"), &json!("ABORTED"));
    let panicked = (&json!("t.panics"), &json!("EXECUTION_ERROR"));
    assert_eq!(found[1..], [(slow, aborted), (slow, aborted), panicked]);
    assert_eq!(
        (&calls[0]["operation"], &calls[0]["outcome"]),
        (&json!("demo.clock"), &json!("canceled"))
    );
    let failed = RecordFilter { marks: &[BlockMark::Failed], ..RecordFilter::default() };
    assert_eq!(
        journal_reader(&scratch).records(&failed).unwrap().len(),
        3,
        "a canceled subscription is not a failure"
    );
}

#[tokio::test]
async fn verify_locates_tampered_records() {
    type Tamper = fn(&mut Vec<String>);
    type Expected = Option<(ProblemKind, u64)>;
    let rows: [(&str, Tamper, Expected); 10] = [
        ("nothing", |_| (), None),
        (
            "edit",
            |lines| lines[4] = lines[4].replace("\"kind\":\"e", "\"kind\":\"x"),
            Some((ProblemKind::Edited, 5)),
        ),
        (
            "edit the authentication code",
            |lines| {
                let other = lines[5][65..97].to_owned();
                lines[4].replace_range(65..97, &other);
            },
            Some((ProblemKind::Forged, 5)),
        ),
        ("delete", |lines| drop(lines.remove(4)), Some((ProblemKind::Missing, 5))),
        ("delete two", |lines| drop(lines.drain(4..6)), Some((ProblemKind::Missing, 5))),
        ("reorder", |lines| lines.swap(4, 5), Some((ProblemKind::Order, 5))),
        ("repeat", |lines| lines.insert(5, lines[4].clone()), Some((ProblemKind::Order, 5))),
        ("truncate", |lines| lines.truncate(10), Some((ProblemKind::Cut, 11))),
        ("garbage", |lines| lines[4] = "nothing".to_owned(), Some((ProblemKind::Damaged, 5))),
        ("the first", |lines| drop(lines.remove(0)), Some((ProblemKind::Missing, 1))),
    ];
    let scratch = TempDir::new("journal-tampered");
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    write_sample_calls(&journal).await;
    journal.close();
    let file = only_segment(&scratch, journal.gateway_id());
    let original = std::fs::read_to_string(&file).unwrap();
    for (name, tamper, expected) in rows {
        let mut lines: Vec<String> = original.lines().map(String::from).collect();
        tamper(&mut lines);
        std::fs::write(&file, lines.join("\n") + "\n").unwrap();
        let report = &journal_reader(&scratch).verify(None).unwrap()[0];
        let found = report.problem.as_ref().map(|problem| (problem.kind, problem.seq));
        assert_eq!(found, expected, "{name}: {report:?}");
        assert_eq!(report.ok, expected.is_none(), "{name}");
    }
}

/// The head reveals an edit with all later hashes recomputed, and an anchor reveals the restore of
/// an older journal.
#[tokio::test]
async fn verify_detects_rewrite_and_rollback_by_head() {
    let scratch = TempDir::new("journal-heads");
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    write_sample_calls(&journal).await;
    journal.close();
    let layout = JournalLayout::new(&scratch.0, &JournalSettings::default());
    let chain = layout.chain(journal.gateway_id());
    let file = only_segment(&scratch, journal.gateway_id());
    let (records, head) = (std::fs::read(&file).unwrap(), std::fs::read(&chain.head).unwrap());
    let gateway_id = journal.gateway_id().to_owned();
    drop(journal);

    let kind = |anchor: Option<&Anchor>| {
        let report = journal_reader(&scratch).verify(anchor).unwrap().swap_remove(0);
        report.problem.map(|problem| problem.kind)
    };
    let edit = |content: &str| content.replace("\"a\":2", "\"a\":3");
    tampering::rewrite_records(&layout.chain(&gateway_id).segments, &gateway_id, None, edit);
    assert_eq!(kind(None), Some(ProblemKind::Forged));
    // Without the key, the records do not match the next signature.
    let (key_file, stored) = (layout.key_file(&gateway_id), scratch.0.join("key"));
    std::fs::rename(&key_file, &stored).unwrap();
    assert_eq!(kind(None), Some(ProblemKind::Rewritten));
    std::fs::rename(&stored, &key_file).unwrap();
    std::fs::write(&file, &records).unwrap();

    // The journal continues, then an older copy is restored, including its head.
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    write_sample_calls(&journal).await;
    journal.close();
    drop(journal);
    let anchor =
        Anchor::parse(serde_json::from_slice(&std::fs::read(&chain.head).unwrap()).unwrap());
    let anchor = anchor.unwrap();
    assert_eq!(kind(Some(&anchor)), None);
    let (newer, newer_head) = (std::fs::read(&file).unwrap(), std::fs::read(&chain.head).unwrap());
    std::fs::write(&file, &records).unwrap();
    assert_eq!(kind(None), Some(ProblemKind::Cut));
    std::fs::write(&chain.head, &head).unwrap();
    assert_eq!(kind(None), Some(ProblemKind::Index), "the index contains later records");
    std::fs::remove_file(file.parent().unwrap().join("index.sqlite")).unwrap();
    assert_eq!(kind(None), None, "without a stored head, an older state cannot be detected");
    assert_eq!(kind(Some(&anchor)), Some(ProblemKind::Anchor));

    // An older head with newer records is the state after a crash, and is valid.
    std::fs::write(&file, &newer).unwrap();
    assert_eq!(kind(Some(&anchor)), None);

    // A modified head, a head of another gateway, and a missing head.
    let mut touched: Value = serde_json::from_slice(&newer_head).unwrap();
    touched["seq"] = json!(1);
    std::fs::write(&chain.head, touched.to_string()).unwrap();
    assert_eq!(kind(None), Some(ProblemKind::Head));
    assert!(Anchor::parse(touched).unwrap_err().contains("signature"));
    let (other, _) = SigningKey::generate().unwrap();
    let other = SignedPosition::sign(&other, PositionKind::Head, 1, Hash::genesis("x"), 0);
    std::fs::write(&chain.head, serde_json::to_vec(&other).unwrap()).unwrap();
    assert_eq!(kind(None), Some(ProblemKind::Head));
    let elsewhere = Anchor::parse(serde_json::to_value(&other).unwrap()).unwrap();
    assert_eq!(journal_reader(&scratch).verify(Some(&elsewhere)).unwrap().len(), 2);
    std::fs::remove_file(&chain.head).unwrap();
    assert_eq!(kind(None), Some(ProblemKind::Head));
}

#[tokio::test]
async fn open_repairs_crash_but_not_tampering() {
    type Corruption = fn(&Path, &Chain, &[u8]);
    let rows: [(&str, Corruption, bool); 6] = [
        ("nothing", |_, _, _| (), true),
        (
            "a partial record",
            |file, _, original| std::fs::write(file, [original, b"0123"].concat()).unwrap(),
            true,
        ),
        (
            "zeros",
            |file, _, original| std::fs::write(file, [original, &[0; 512]].concat()).unwrap(),
            true,
        ),
        (
            "a shorter file",
            |file, _, original| std::fs::write(file, &original[..original.len() - 9]).unwrap(),
            false,
        ),
        ("no head", |_, chain, _| std::fs::remove_file(&chain.head).unwrap(), false),
        ("no file", |file, _, _| std::fs::remove_file(file).unwrap(), false),
    ];
    for (name, damage, is_continued) in rows {
        let scratch = TempDir::new("journal-crashed");
        let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
        write_sample_calls(&journal).await;
        let gateway_id = journal.gateway_id().to_owned();
        drop(journal);
        let layout = JournalLayout::new(&scratch.0, &JournalSettings::default());
        let file = only_segment(&scratch, &gateway_id);
        let original = std::fs::read(&file).unwrap();
        damage(&file, &layout.chain(&gateway_id), &original);

        let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
        assert_eq!(journal.gateway_id() == gateway_id, is_continued, "{name}");
        write_sample_calls(&journal).await;
        drop(journal);
        let reports = journal_reader(&scratch).verify(None).unwrap();
        assert_eq!(reports.iter().all(|report| report.ok), is_continued, "{name}: {reports:?}");
        let filter = RecordFilter::default();
        let intact = reports.iter().filter(|one| one.ok).map(|one| {
            let filter = RecordFilter { gateway: Some(one.gateway_id.clone()), ..filter.clone() };
            journal_reader(&scratch).records(&filter).unwrap().len()
        });
        assert_eq!(intact.sum::<usize>(), if is_continued { 20 } else { 10 }, "{name}");
    }
}

/// Settings with small segments, so that there are several.
fn small_segments() -> JournalSettings {
    JournalSettings {
        mode: JournalMode::Sync,
        retain_size: Some(512 * 1024),
        ..JournalSettings::default()
    }
}

/// Makes calls until there are `count` segments and the last one has records.
async fn write_until_segments(journal: &Journal, folder: &Path, count: usize) {
    let pipeline = pipeline(journal);
    let text = "x".repeat(4_000);
    let segments = Segments { folder: folder.to_owned() };
    while segments.list().unwrap().len() < count {
        call(&pipeline, "ada", "demo.note", json!({"text": text})).await;
    }
    call(&pipeline, "ada", "demo.note", json!({"text": text})).await;
}

#[tokio::test]
async fn concurrent_writers_use_separate_chains() {
    let scratch = TempDir::new("journal-two");
    let one = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    let two = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    assert_ne!(one.gateway_id(), two.gateway_id());
    write_sample_calls(&one).await;
    write_sample_calls(&two).await;
    one.close();
    two.close();
    assert_eq!(journal_reader(&scratch).records(&RecordFilter::default()).unwrap().len(), 20);
    assert!(journal_reader(&scratch).verify(None).unwrap().iter().all(|report| report.ok));
}

/// Backdates everything in a chain.
fn backdate(layout: &JournalLayout, gateway_id: &str, by: Duration) {
    let chain = layout.chain(gateway_id);
    let segments = &chain.segments;
    let then = i128::from(epoch_ms()) - by.as_millis().cast_signed();
    let key = SigningKey::read(&layout.key_file(gateway_id)).unwrap();
    tampering::rewrite_records(segments, gateway_id, Some(&key), |content| {
        let (before, rest) = content.split_once("\"time\":").unwrap();
        let (_, after) = rest.split_once(',').unwrap();
        format!("{before}\"time\":{then},{after}")
    });
    let list = segments.list().unwrap();
    for &first in &list {
        let file = File::options().write(true).open(segments.path(first)).unwrap();
        file.set_modified(std::time::SystemTime::now() - by).unwrap();
    }
    let (seq, hash) = segments.last_record(&key, *list.last().unwrap()).unwrap();
    SignedPosition::sign(&key, PositionKind::Head, seq, hash, epoch_ms())
        .write_durably(&chain.head)
        .unwrap();
}

/// Retention by age also applies to a chain without a writer, without full segments and without
/// calls.
#[tokio::test]
async fn retention_by_age_removes_idle_chain_segments() {
    const DAY: Duration = Duration::from_secs(86_400);
    for (old, remaining) in [(29 * DAY, 10), (31 * DAY, 0)] {
        let scratch = TempDir::new("journal-old");
        let settings = JournalSettings { retain_for: Some(30 * DAY), ..JournalSettings::default() };
        let journals = [(); 2].map(|()| Journal::open(&scratch.0, &settings).unwrap());
        let ids = [0, 1].map(|n| journals[n].gateway_id().to_owned());
        for journal in journals {
            write_sample_calls(&journal).await;
        }
        let layout = JournalLayout::new(&scratch.0, &settings);
        ids.iter().for_each(|id| backdate(&layout, id, old));
        drop(Journal::open(&scratch.0, &settings).unwrap());
        for id in &ids {
            let filter = RecordFilter { gateway: Some(id.clone()), ..RecordFilter::default() };
            assert_eq!(
                journal_reader(&scratch).records(&filter).unwrap().len(),
                remaining,
                "{old:?}"
            );
        }
        let reports = journal_reader(&scratch).verify(None).unwrap();
        assert!(reports.iter().all(|report| report.ok), "{reports:?}");
    }
}

#[tokio::test]
async fn retention_by_size_keeps_chain_verifiable() {
    let scratch = TempDir::new("journal-retention");
    let mut settings = JournalSettings::default();
    (settings.retain_size, settings.mode) = (Some(256 * 1024), JournalMode::Sync);
    for _ in 0..2 {
        let journal = Journal::open(&scratch.0, &settings).unwrap();
        let pipeline = pipeline(&journal);
        let text = "x".repeat(4_000);
        for _ in 0..100 {
            call(&pipeline, "ada", "demo.note", json!({"text": text})).await;
        }
        journal.close();
        let report = journal_reader(&scratch).verify(None).unwrap().swap_remove(0);
        assert!(report.ok && report.first > 1, "{report:?}");
        let folder = scratch.0.join("journal").join(journal.gateway_id());
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let logs = files.filter(|entry| entry.path().extension().is_some_and(|e| e == "log"));
        let size: u64 = logs.map(|entry| entry.metadata().unwrap().len()).sum();
        assert!(size < 450 * 1024, "{size}");
        let calls = journal_reader(&scratch).records(&RecordFilter::default()).unwrap();
        assert!((20..50).contains(&calls.len()), "{}", calls.len());
    }
    // An anchor older than the checkpoint cannot be compared with the remaining records.
    let layout = JournalLayout::new(&scratch.0, &JournalSettings::default());
    let gateway_id = journal_reader(&scratch).verify(None).unwrap().swap_remove(0).gateway_id;
    let (key, chain) =
        (SigningKey::read(&layout.key_file(&gateway_id)).unwrap(), layout.chain(&gateway_id));
    let old = SignedPosition::sign(&key, PositionKind::Head, 1, Hash::genesis("x"), 0);
    let anchor = Anchor::parse(serde_json::to_value(&old).unwrap()).unwrap();
    let report = journal_reader(&scratch).verify(Some(&anchor)).unwrap().swap_remove(0);
    let problem = report.problem.unwrap();
    assert_eq!((problem.kind, problem.seq), (ProblemKind::Anchor, 1));
    assert!(problem.message.contains("too old"), "{}", problem.message);
    let head = std::fs::read(&chain.head).unwrap();
    old.write_durably(&chain.head).unwrap();
    let report = journal_reader(&scratch).verify(None).unwrap().swap_remove(0);
    assert_eq!(report.problem.unwrap().kind, ProblemKind::Head);
    assert_ne!(Journal::open(&scratch.0, &settings).unwrap().gateway_id(), gateway_id);
    std::fs::write(&chain.head, head).unwrap();
    // A modified checkpoint is invalid.
    let text = std::fs::read_to_string(&chain.checkpoint).unwrap();
    std::fs::write(&chain.checkpoint, text.replace("\"seq\":", "\"seq\":1")).unwrap();
    let reports = journal_reader(&scratch).verify(None).unwrap();
    let report = reports.into_iter().find(|report| report.gateway_id == gateway_id).unwrap();
    assert_eq!(report.problem.unwrap().kind, ProblemKind::Head);
}
