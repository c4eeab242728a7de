//! What somebody without the key can do to files and folders, and what a start makes of it.

use std::collections::BTreeSet;

use super::super::*;
use super::{Hash, Key, Scratch, Seal, Segments, archive, fill, fill_files, small};

/// Does something to the text of every record, and makes every hash again.
pub(super) fn forge(segments: &Segments, gateway_id: &str, change: impl Fn(&str) -> String) {
    let mut hash = Hash::genesis(gateway_id);
    for first in segments.list().unwrap() {
        let mut out = Vec::new();
        for line in std::fs::read_to_string(segments.path(first)).unwrap().lines() {
            let content = change(&line[chain::PREFIX..]);
            hash = hash.next(content.as_bytes());
            hash.write_line(content.as_bytes(), &mut out);
        }
        std::fs::write(segments.path(first), out).unwrap();
    }
}

/// What somebody without the key can do to several files. A start signs none of it: the chain is left
/// alone, another is begun, and both before and after that it is told what was done.
#[tokio::test]
async fn no_start_signs_what_somebody_did_to_the_files() {
    type Harm = fn(&Places, &str);
    let rows: [(&str, Harm, Option<&str>); 10] = [
        ("nothing", |_, _| (), None),
        ("forged", |places, id| forged(&places.segments(id), id), Some("rewritten")),
        (
            "forged, and another file that is empty",
            |places, id| {
                let (segments, seals) = (places.segments(id), places.seal_files(id));
                forged(&segments, id);
                let next = Seal::read(&seals.head).unwrap().seq + 1;
                std::fs::write(segments.path(next), "").unwrap();
            },
            Some("rewritten"),
        ),
        (
            "an empty file far behind",
            |places, id| std::fs::write(places.segments(id).path(1_000_000), "").unwrap(),
            Some("missing"),
        ),
        ("the first file is gone", |places, id| remove(&places.segments(id), 0), Some("missing")),
        ("one between is gone", |places, id| remove(&places.segments(id), 1), Some("missing")),
        ("the last file is gone", |places, id| remove(&places.segments(id), 2), Some("cut")),
        (
            "all files are gone",
            |places, id| std::fs::remove_dir_all(places.segments(id).folder()).unwrap(),
            Some("cut"),
        ),
        (
            "two files have each other's names",
            |places, id| {
                let segments = places.segments(id);
                let list = segments.list().unwrap();
                let (one, two) = (segments.path(list[0]), segments.path(list[1]));
                let text = std::fs::read(&one).unwrap();
                std::fs::rename(&two, &one).unwrap();
                std::fs::write(two, text).unwrap();
            },
            Some("missing"),
        ),
        (
            "the head is empty",
            |places, id| std::fs::write(places.seal_files(id).head, "").unwrap(),
            Some("head"),
        ),
    ];
    for (name, harm, expected) in rows {
        let scratch = Scratch::new("journal-files");
        let places = Places::new(&scratch.0, &small());
        let journal = Journal::open(&scratch.0, &small()).unwrap();
        let gateway_id = journal.gateway_id().to_owned();
        fill_files(&journal, places.segments(&gateway_id).folder(), 3).await;
        drop(journal);
        harm(&places, &gateway_id);
        // Files before that of the head are for `verify` to look at.
        let goes_on = expected.is_none() || name == "the first file is gone";
        // A copy of a head is no journal.
        std::fs::write(places.seals.join("copy.head"), "").unwrap();
        for is_restarted in [false, true] {
            let verdicts = archive(&scratch).verify(None).unwrap();
            assert_eq!(verdicts.len(), 1 + usize::from(is_restarted && !goes_on), "{name}");
            let verdict = verdicts.iter().find(|one| one.gateway_id == gateway_id).unwrap();
            let kind = verdict.problem.as_ref().map(|problem| problem.kind.as_str());
            assert_eq!(kind, expected, "{name}, {is_restarted}: {verdict:?}");
            let journal = Journal::open(&scratch.0, &small()).unwrap();
            assert_eq!(journal.gateway_id() == gateway_id, goes_on, "{name}, {is_restarted}");
            // Every start tells it, and not only the one that found it.
            let damaged = journal.health()["damaged"].as_u64();
            assert_eq!(damaged, (!goes_on).then_some(1), "{name}, {is_restarted}");
        }
    }
}

fn forged(segments: &Segments, gateway_id: &str) {
    forge(segments, gateway_id, |content| content.replacen("\"text\":\"x", "\"text\":\"y", 1));
}

fn remove(segments: &Segments, at: usize) {
    std::fs::remove_file(segments.path(segments.list().unwrap()[at])).unwrap();
}

/// Where the records are is known without the settings of whoever wrote them, and a chain that is
/// elsewhere is no damage.
#[tokio::test]
async fn records_are_found_wherever_they_were_written() {
    let scratch = Scratch::new("journal-place");
    let settings = |folder: Option<&str>| Settings {
        path: folder.map(|folder| scratch.0.join(folder)),
        ..Settings::default()
    };
    let mut chains = BTreeSet::new();
    // The last one comes back to where it was.
    for (folder, count) in [(Some("one"), 1), (Some("two"), 2), (None, 3), (Some("one"), 3)] {
        let journal = Journal::open(&scratch.0, &settings(folder)).unwrap();
        assert!(journal.health().get("damaged").is_none(), "{folder:?}");
        fill(&journal).await;
        chains.insert(journal.gateway_id().to_owned());
        drop(journal);
        assert_eq!(chains.len(), count, "{folder:?}");
        for reader in [None, Some("one"), Some("two")] {
            let archive = Archive::new(&scratch.0, &settings(reader));
            let verdicts = archive.verify(None).unwrap();
            assert!(verdicts.iter().all(|verdict| verdict.ok), "{reader:?}: {verdicts:?}");
            assert_eq!(verdicts.len(), count, "{reader:?}");
        }
    }
    assert_eq!(archive(&scratch).calls(&Filter::default()).unwrap().len(), 40);
}

/// Whoever changes the index hides calls from searches, and is told of.
#[tokio::test]
async fn an_index_that_hides_calls_is_told() {
    let scratch = Scratch::new("journal-index");
    let places = Places::new(&scratch.0, &small());
    let journal = Journal::open(&scratch.0, &small()).unwrap();
    let segments = places.segments(journal.gateway_id());
    fill(&journal).await;
    fill_files(&journal, segments.folder(), 3).await;
    fill(&journal).await;
    let problem = || archive(&scratch).verify(None).unwrap().swap_remove(0).problem;
    assert_eq!(problem(), None, "while it is written");
    drop(journal);
    let (file, kept) = (segments.folder().join(INDEX), scratch.0.join("kept"));
    std::fs::copy(&file, &kept).unwrap();
    for (change, is_told) in [
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
        std::fs::copy(&kept, &file).unwrap();
        let index = rusqlite::Connection::open(&file).unwrap();
        index.execute_batch(change).unwrap();
        drop(index);
        let found = problem();
        assert_eq!(found.is_some(), is_told, "{change}: {found:?}");
        assert!(found.is_none_or(|problem| problem.kind == "index"), "{change}");
    }
    // What helps is what is said.
    std::fs::remove_file(&file).unwrap();
    assert_eq!(problem(), None, "absent");
    drop(Journal::open(&scratch.0, &small()).unwrap());
    assert!(file.exists());
    assert_eq!(problem(), None, "made again");
}

/// Whatever is left of a chain is enough to miss the rest.
#[tokio::test]
async fn no_chain_disappears_with_a_part_of_it() {
    let rows: [(&[&str], Option<&str>); 5] = [
        (&["key"], None),
        (&["head"], Some("head")),
        (&["key", "head"], Some("head")),
        (&["key", "records"], Some("cut")),
        (&["head", "records"], Some("head")),
    ];
    for (parts, expected) in rows {
        let scratch = Scratch::new("journal-parts");
        let places = Places::new(&scratch.0, &Settings::default());
        let journal = Journal::open(&scratch.0, &Settings::default()).unwrap();
        let gateway_id = journal.gateway_id().to_owned();
        fill(&journal).await;
        drop(journal);
        for part in parts {
            match *part {
                "key" => std::fs::remove_file(places.key_file(&gateway_id)).unwrap(),
                "head" => std::fs::remove_file(places.seal_files(&gateway_id).head).unwrap(),
                _ => std::fs::remove_dir_all(places.segments(&gateway_id).folder()).unwrap(),
            }
        }
        // Another one is begun, and is looked at as well.
        let journal = Journal::open(&scratch.0, &Settings::default()).unwrap();
        assert_ne!(journal.gateway_id(), gateway_id, "{parts:?}");
        let verdicts = archive(&scratch).verify(None).unwrap();
        let find = |id: &str| verdicts.iter().find(|one| one.gateway_id == id).unwrap();
        let kind = find(&gateway_id).problem.as_ref().map(|problem| problem.kind.as_str());
        assert_eq!(kind, expected, "{parts:?}");
        assert!(find(journal.gateway_id()).ok, "{parts:?}: {verdicts:?}");
    }
}

/// A process that is killed while it begins a chain leaves nothing that has to be looked at, and a key
/// that is half written stops nobody.
#[test]
fn a_chain_that_was_not_begun_is_no_damage_and_a_broken_key_stops_nobody() {
    let scratch = Scratch::new("journal-unbegun");
    let places = Places::new(&scratch.0, &Settings::default());
    let journal = Journal::open(&scratch.0, &Settings::default()).unwrap();
    let gateway_id = journal.gateway_id().to_owned();
    drop(journal);
    let (key, other) = (Key::generate().unwrap().1, places.key_file(&gateway_id));
    for broken in [Vec::new(), key[..20].to_vec(), key] {
        std::fs::write(&other, broken).unwrap();
        let journal = Journal::open(&scratch.0, &Settings::default()).unwrap();
        assert_ne!(journal.gateway_id(), gateway_id);
    }
    std::fs::remove_file(other).unwrap();
    assert!(archive(&scratch).verify(None).unwrap().iter().all(|verdict| verdict.ok));
}
