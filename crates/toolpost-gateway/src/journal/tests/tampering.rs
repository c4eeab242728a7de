//! Tampering with files and folders without the key, and how opening the journal handles it.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::chain::RecordLine;
use super::super::*;
use super::rooms::copy_as_crashed;
use super::{
    Hash, ProblemKind, RecordFilter, Segments, SignedPosition, SigningKey, TempDir, call,
    journal_reader, only_segment, pipeline, small_segments, write_sample_calls,
    write_until_segments,
};

/// Changes the text of every record and recomputes the hashes. With the key, also recomputes the
/// authentication codes and the signatures.
pub(super) fn rewrite_records(
    segments: &Segments,
    gateway_id: &str,
    key: Option<&SigningKey>,
    change: impl Fn(&str) -> String,
) {
    let mut hash = Hash::genesis(gateway_id);
    for first in segments.list().unwrap() {
        let mut out = Vec::new();
        for line in std::fs::read_to_string(segments.path(first)).unwrap().lines() {
            let line = RecordLine::parse(line.as_bytes()).unwrap();
            let mut content = change(std::str::from_utf8(line.content).unwrap());
            if let (Some(key), Some(about)) = (key, line.signs()) {
                let mut members: Value = serde_json::from_str(&content).unwrap();
                let time = members["time"].as_i64().unwrap();
                let signed = SignedPosition::sign(key, about, line.seq - 1, hash, time);
                members["signature"] = signed.signature.into();
                content = members.to_string();
            }
            hash = hash.next(content.as_bytes());
            let mac = key.map_or(line.mac, |key| key.mac(hash));
            hash.write_line(mac, content.as_bytes(), &mut out);
        }
        std::fs::write(segments.path(first), out).unwrap();
    }
}

/// Tampering with several segments without the key. Opening the journal does not sign the result:
/// the chain is not continued, a new one is created, and verification reports the problem before
/// and after.
#[tokio::test]
async fn open_does_not_sign_tampered_segments() {
    type Corruption = fn(&JournalLayout, &str);
    let rows: [(&str, Corruption, Option<ProblemKind>); 10] = [
        ("nothing", |_, _| (), None),
        (
            "forged",
            |layout, id| rewrite_sample(&layout.chain(id).segments, id),
            Some(ProblemKind::Forged),
        ),
        (
            "forged, with an empty file",
            |layout, id| {
                let (segments, chain) = (layout.chain(id).segments, layout.chain(id));
                rewrite_sample(&segments, id);
                let next = SignedPosition::read(&chain.head).unwrap().seq + 1;
                std::fs::write(segments.path(next), "").unwrap();
            },
            Some(ProblemKind::Forged),
        ),
        (
            "an empty file much later",
            |layout, id| std::fs::write(layout.chain(id).segments.path(1_000_000), "").unwrap(),
            Some(ProblemKind::Missing),
        ),
        (
            "the first file is missing",
            |layout, id| remove_segment(&layout.chain(id).segments, 0),
            Some(ProblemKind::Missing),
        ),
        (
            "a file in the middle is missing",
            |layout, id| remove_segment(&layout.chain(id).segments, 1),
            Some(ProblemKind::Missing),
        ),
        (
            "the last file is missing",
            |layout, id| remove_segment(&layout.chain(id).segments, 2),
            Some(ProblemKind::Cut),
        ),
        (
            "all files are missing",
            |layout, id| std::fs::remove_dir_all(layout.chain(id).segments.folder).unwrap(),
            Some(ProblemKind::Cut),
        ),
        (
            "two files are swapped",
            |layout, id| {
                let segments = layout.chain(id).segments;
                let list = segments.list().unwrap();
                let (one, two) = (segments.path(list[0]), segments.path(list[1]));
                let text = std::fs::read(&one).unwrap();
                std::fs::rename(&two, &one).unwrap();
                std::fs::write(two, text).unwrap();
            },
            Some(ProblemKind::Missing),
        ),
        (
            "the head is empty",
            |layout, id| std::fs::write(layout.chain(id).head, "").unwrap(),
            Some(ProblemKind::Head),
        ),
    ];
    for (name, tamper, expected) in rows {
        let scratch = TempDir::new("journal-files");
        let layout = JournalLayout::new(&scratch.0, &small_segments());
        let journal = Journal::open(&scratch.0, &small_segments()).unwrap();
        let gateway_id = journal.gateway_id().to_owned();
        write_until_segments(&journal, &layout.chain(&gateway_id).segments.folder, 3).await;
        drop(journal);
        tamper(&layout, &gateway_id);
        // Segments before that of the head are only checked by `verify`.
        let is_continued = expected.is_none() || name == "the first file is missing";
        // A copy of a head is not a journal.
        std::fs::write(layout.journal_dir.join("copy.head"), "").unwrap();
        for is_restarted in [false, true] {
            let reports = journal_reader(&scratch).verify(None).unwrap();
            assert_eq!(reports.len(), 1 + usize::from(is_restarted && !is_continued), "{name}");
            let report = reports.iter().find(|one| one.gateway_id == gateway_id).unwrap();
            let kind = report.problem.as_ref().map(|problem| problem.kind);
            assert_eq!(kind, expected, "{name}, {is_restarted}: {report:?}");
            let journal = Journal::open(&scratch.0, &small_segments()).unwrap();
            assert_eq!(journal.gateway_id() == gateway_id, is_continued, "{name}, {is_restarted}");
            // Every start reports the damage, not only the first.
            let damaged = journal.health()["damaged"].as_u64();
            assert_eq!(damaged, (!is_continued).then_some(1), "{name}, {is_restarted}");
        }
    }
}

fn rewrite_sample(segments: &Segments, gateway_id: &str) {
    rewrite_records(segments, gateway_id, None, |content| {
        content.replacen("\"text\":\"x", "\"text\":\"y", 1)
    });
}

fn remove_segment(segments: &Segments, at: usize) {
    std::fs::remove_file(segments.path(segments.list().unwrap()[at])).unwrap();
}

/// Makes calls until the last record of a copy, as left by a killed process, is not signed.
async fn copy_with_unsigned_end(scratch: &TempDir, journal: &Journal) -> TempDir {
    loop {
        call(&pipeline(journal), "ada", "demo.add", json!({"a": 1, "b": 1})).await;
        let copied = copy_as_crashed(scratch, "journal-end-copy");
        let text = std::fs::read_to_string(only_segment(&copied, journal.gateway_id())).unwrap();
        if text.lines().last().unwrap().contains("\"kind\":\"exit\"") {
            return copied;
        }
    }
}

/// Recomputes the hash of a line that follows another one, which needs no key.
fn rehash(previous: &str, line: &str) -> String {
    let previous = RecordLine::parse(previous.as_bytes()).unwrap();
    let line = RecordLine::parse(line.as_bytes()).unwrap();
    let mut out = Vec::new();
    previous.hash.next(line.content).write_line(line.mac, line.content, &mut out);
    String::from_utf8(out).unwrap().trim_end().to_owned()
}

/// Changes of the last record without the key. Verification detects them after a crash and after a
/// clean stop, and a start does not sign them. Only records that were never signed can be removed,
/// which restores an earlier state.
#[tokio::test]
async fn changed_end_is_detected_in_every_state() {
    type Change = fn(&mut Vec<String>);
    type Expected = Option<ProblemKind>;
    let rows: [(&str, Change, Expected, Expected); 7] = [
        ("nothing", |_| (), None, None),
        (
            "forge a record",
            |lines| {
                let last = lines.last().unwrap();
                let seq = format!("{{\"seq\":{},", lines.len());
                let next = format!("{{\"seq\":{},", lines.len() + 1);
                lines.push(rehash(last, &last.replace(&seq, &next)));
            },
            Some(ProblemKind::Forged),
            Some(ProblemKind::Forged),
        ),
        (
            "rewrite the last record",
            |lines| {
                let last = lines.pop().unwrap().replace("\"time\":1", "\"time\":2");
                lines.push(rehash(&lines[lines.len() - 1], &last));
            },
            Some(ProblemKind::Forged),
            Some(ProblemKind::Forged),
        ),
        (
            "edit the last record",
            |lines| {
                let last = lines.pop().unwrap();
                lines.push(last.replace("\"time\":1", "\"time\":2"));
            },
            Some(ProblemKind::Edited),
            Some(ProblemKind::Edited),
        ),
        (
            "repeat the last record",
            |lines| lines.push(lines[lines.len() - 1].clone()),
            Some(ProblemKind::Order),
            Some(ProblemKind::Order),
        ),
        (
            "repeat an earlier record",
            |lines| lines.push(lines[0].clone()),
            Some(ProblemKind::Order),
            Some(ProblemKind::Order),
        ),
        ("remove the last record", |lines| drop(lines.pop()), None, Some(ProblemKind::Cut)),
    ];
    for (name, change, unsigned, closed) in rows {
        let scratch = TempDir::new("journal-end");
        let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
        let file = only_segment(&scratch, journal.gateway_id());
        let tamper = |file: &Path| {
            let text = std::fs::read_to_string(file).unwrap();
            let mut lines: Vec<String> = text.lines().map(String::from).collect();
            change(&mut lines);
            std::fs::write(file, lines.join("\n") + "\n").unwrap();
        };
        let verify = |folder: &TempDir| {
            let mut reports = journal_reader(folder).verify(None).unwrap();
            reports.retain(|report| report.gateway_id == journal.gateway_id());
            (reports[0].closed, reports[0].problem.as_ref().map(|problem| problem.kind))
        };
        let reopen = |folder: &TempDir, expected: Expected, state: &str| {
            let again = Journal::open(&folder.0, &JournalSettings::default()).unwrap();
            let is_continued = again.gateway_id() == journal.gateway_id();
            assert_eq!(is_continued, expected.is_none(), "{name}, {state}");
            drop(again);
            assert_eq!(verify(folder).1, expected, "{name}, {state}, reopened");
        };
        let crashed = copy_with_unsigned_end(&scratch, &journal).await;
        tamper(&only_segment(&crashed, journal.gateway_id()));
        assert_eq!(verify(&crashed), (false, unsigned), "{name}, crashed");
        reopen(&crashed, unsigned, "crashed");
        journal.close();
        assert_eq!(verify(&scratch), (true, None), "{name}, stopped");
        tamper(&file);
        assert_eq!(verify(&scratch).1, closed, "{name}, stopped");
        reopen(&scratch, closed, "stopped");
    }
}

/// The location of the records is known without the settings of their writer, and a chain in
/// another folder is not damaged.
#[tokio::test]
async fn records_in_other_folders_are_found() {
    let scratch = TempDir::new("journal-place");
    let settings = |folder: Option<&str>| JournalSettings {
        path: folder.map(|folder| scratch.0.join(folder)),
        ..JournalSettings::default()
    };
    let mut chains = BTreeSet::new();
    // The last row returns to an earlier folder and continues its chain.
    for (folder, count) in [(Some("one"), 1), (Some("two"), 2), (None, 3), (Some("one"), 3)] {
        let journal = Journal::open(&scratch.0, &settings(folder)).unwrap();
        assert!(journal.health().get("damaged").is_none(), "{folder:?}");
        write_sample_calls(&journal).await;
        chains.insert(journal.gateway_id().to_owned());
        drop(journal);
        assert_eq!(chains.len(), count, "{folder:?}");
        for reader in [None, Some("one"), Some("two")] {
            let archive = JournalReader::new(&scratch.0, &settings(reader));
            let reports = archive.verify(None).unwrap();
            assert!(reports.iter().all(|report| report.ok), "{reader:?}: {reports:?}");
            assert_eq!(reports.len(), count, "{reader:?}");
        }
    }
    assert_eq!(journal_reader(&scratch).records(&RecordFilter::default()).unwrap().len(), 40);
}

/// Verification detects changes of the index that hide calls from searches.
#[tokio::test]
async fn verify_detects_index_that_hides_calls() {
    let scratch = TempDir::new("journal-index");
    let layout = JournalLayout::new(&scratch.0, &small_segments());
    let journal = Journal::open(&scratch.0, &small_segments()).unwrap();
    let segments = layout.chain(journal.gateway_id()).segments;
    write_sample_calls(&journal).await;
    write_until_segments(&journal, &segments.folder, 3).await;
    write_sample_calls(&journal).await;
    let problem = || journal_reader(&scratch).verify(None).unwrap().swap_remove(0).problem;
    assert_eq!(problem(), None, "while the journal is written");
    drop(journal);
    let (file, backup) = (segments.folder.join("index.sqlite"), scratch.0.join("kept"));
    std::fs::copy(&file, &backup).unwrap();
    for (change, is_detected) in [
        ("UPDATE name SET text = text", false),
        ("DELETE FROM block", false),
        ("DELETE FROM mark WHERE block = 2", true),
        ("DELETE FROM mark WHERE failed = 1", true),
        ("UPDATE name SET text = 'demo.other' WHERE text = 'demo.fail'", true),
        ("UPDATE block SET last_time = 0 WHERE id = 1", true),
        ("UPDATE block SET first_seq = first_seq + 1 WHERE id = 2", true),
        ("UPDATE block SET last_seq = last_seq - 1 WHERE id = 2", true),
        ("UPDATE block SET bytes = bytes + 1 WHERE id = 2", true),
        ("UPDATE block SET id = 1000 WHERE id = 1", true),
        ("DELETE FROM block WHERE id = 1", true),
        ("INSERT INTO block VALUES (1000, 1000000, 0, 9, 1000000, 1000001, 0)", true),
    ] {
        std::fs::copy(&backup, &file).unwrap();
        let index = rusqlite::Connection::open(&file).unwrap();
        index.execute_batch(change).unwrap();
        drop(index);
        let found = problem();
        assert_eq!(found.is_some(), is_detected, "{change}: {found:?}");
        assert!(found.is_none_or(|problem| problem.kind == ProblemKind::Index), "{change}");
    }
    // The suggested fix works: deleting the index rebuilds it.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(problem(), None, "absent");
    drop(Journal::open(&scratch.0, &small_segments()).unwrap());
    assert!(file.exists());
    assert_eq!(problem(), None, "rebuilt");
}

/// Any remaining file of a chain is enough to detect the missing ones.
#[tokio::test]
async fn verify_reports_chain_with_missing_files() {
    let rows: [(&[&str], Option<ProblemKind>); 5] = [
        (&["key"], None),
        (&["head"], Some(ProblemKind::Head)),
        (&["key", "head"], Some(ProblemKind::Head)),
        (&["key", "records"], Some(ProblemKind::Cut)),
        (&["head", "records"], Some(ProblemKind::Head)),
    ];
    for (parts, expected) in rows {
        let scratch = TempDir::new("journal-parts");
        let layout = JournalLayout::new(&scratch.0, &JournalSettings::default());
        let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
        let gateway_id = journal.gateway_id().to_owned();
        write_sample_calls(&journal).await;
        drop(journal);
        for part in parts {
            match *part {
                "key" => std::fs::remove_file(layout.key_file(&gateway_id)).unwrap(),
                "head" => std::fs::remove_file(layout.chain(&gateway_id).head).unwrap(),
                _ => std::fs::remove_dir_all(layout.chain(&gateway_id).segments.folder).unwrap(),
            }
        }
        // A new chain is started, and is verified too.
        let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
        assert_ne!(journal.gateway_id(), gateway_id, "{parts:?}");
        let reports = journal_reader(&scratch).verify(None).unwrap();
        let find = |id: &str| reports.iter().find(|one| one.gateway_id == id).unwrap();
        let kind = find(&gateway_id).problem.as_ref().map(|problem| problem.kind);
        assert_eq!(kind, expected, "{parts:?}");
        assert!(find(journal.gateway_id()).ok, "{parts:?}: {reports:?}");
    }
}

/// A chain whose creation was interrupted is not reported as damaged, and a partly written key does
/// not prevent opening the journal.
#[test]
fn open_ignores_uninitialized_chain_and_broken_key() {
    let scratch = TempDir::new("journal-unbegun");
    let layout = JournalLayout::new(&scratch.0, &JournalSettings::default());
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    let gateway_id = journal.gateway_id().to_owned();
    drop(journal);
    let (key, other) = (SigningKey::generate().unwrap().1, layout.key_file(&gateway_id));
    for broken in [Vec::new(), key[..20].to_vec(), key] {
        std::fs::write(&other, broken).unwrap();
        let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
        assert_ne!(journal.gateway_id(), gateway_id);
    }
    std::fs::remove_file(other).unwrap();
    assert!(journal_reader(&scratch).verify(None).unwrap().iter().all(|report| report.ok));
}
