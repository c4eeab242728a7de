//! Room messages: recorded next to calls and read again, including after a crash.

use super::super::room_records::StoredMessage;
use super::super::*;
use super::*;

/// Records a message with this number, and waits until it is written to the file.
async fn record_numbered(journal: &Journal, room: &str, identity: &str, number: usize) {
    let message = format!(r#"{{"id":"m{number}","payload":{{"n":{number}}}}}"#);
    record_text(journal, room, identity, &message).await;
}

async fn record_text(journal: &Journal, room: &str, identity: &str, message: &str) {
    let entry = RoomMessageRecord {
        room,
        identity,
        id: "m",
        message,
        allowed_by: Some(r#"{"kind":"chat"}"#),
    };
    journal.record_message(&entry).unwrap().await.unwrap();
}

fn reject(journal: &Journal, room: &str, identity: &str) {
    journal.record_rejection(&RoomRejectionRecord {
        room,
        identity,
        attempted_kind: "mcp/request:tools/call:x",
        error: "capability_violation",
        reason: "no capability covers it",
        id: Some("r"),
    });
}

fn numbers(entries: &[StoredMessage]) -> Vec<u64> {
    let number = |entry: &StoredMessage| {
        let message: Value = serde_json::from_str(&entry.message).unwrap();
        message["payload"]["n"].as_u64().unwrap()
    };
    entries.iter().map(number).collect()
}

fn all_numbers(journal: &Journal, room: &str) -> Vec<u64> {
    numbers(&journal.recent_messages(room, usize::MAX, usize::MAX).unwrap())
}

fn message_filter(room: &str) -> RecordFilter {
    let marks = &[BlockMark::Message, BlockMark::Rejection];
    RecordFilter { marks, name: matching(room), limit: 1_000, ..RecordFilter::default() }
}

/// Copies the files in their current state, as left by a killed process. The head is copied before
/// the records that it covers.
pub(super) fn copy_as_crashed(scratch: &TempDir, name: &str) -> TempDir {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        let mut entries: Vec<_> = std::fs::read_dir(from).unwrap().map(Result::unwrap).collect();
        entries.sort_by_key(|entry| entry.path().is_dir());
        for entry in entries {
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            match from.is_dir() {
                true => copy(&from, &to),
                // The index may be incomplete, and is rebuilt.
                false if entry.file_name().to_string_lossy().starts_with("index.sqlite") => {}
                false => drop(std::fs::copy(from, to).unwrap()),
            }
        }
    }
    let copied = TempDir::new(name);
    copy(&scratch.0, &copied.0);
    copied
}

/// Writes ten messages in two rooms, three rejections, and calls between them.
async fn write_sample_messages(journal: &Journal) {
    let pipeline = pipeline(journal);
    for n in 0..5 {
        record_numbered(journal, "lobby", "ada", n).await;
        call(&pipeline, "ada", "demo.add", json!({"a": n, "b": 1})).await;
        record_numbered(journal, "cellar", "bob", 10 + n).await;
    }
    reject(journal, "lobby", "bob");
    reject(journal, "lobby", "bob");
    reject(journal, "cellar", "ada");
    // A caller can choose any operation name, including that of a room.
    call(&pipeline, "bob", "lobby", json!({})).await;
}

#[tokio::test]
async fn messages_filter_works_and_excludes_calls() {
    let scratch = TempDir::new("journal-talk");
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    write_sample_messages(&journal).await;
    let index = scratch.0.join("journal").join(journal.gateway_id()).join("index.sqlite");
    drop(journal);
    let restart = || drop(Journal::open(&scratch.0, &JournalSettings::default()).unwrap());
    let states: [(&str, &dyn Fn()); 4] = [
        ("as closed", &|| ()),
        ("without an index", &|| std::fs::remove_file(&index).unwrap()),
        ("rebuilt", &restart),
        ("broken", &|| std::fs::write(&index, "this is no database").unwrap()),
    ];
    let filter = |room: &str, change: fn(&mut RecordFilter)| {
        let mut filter = message_filter(room);
        change(&mut filter);
        filter
    };
    for (state, change) in states {
        change();
        for (filter, expected) in [
            (filter("lobby", |_| ()), 7),
            (filter("cellar", |_| ()), 6),
            (filter("attic", |_| ()), 0),
            (filter("*", |_| ()), 13),
            (filter("*", |f| f.marks = &[BlockMark::Rejection]), 3),
            (filter("lobby", |f| f.limit = 3), 3),
            (filter("lobby", |f| f.limit = 0), 0),
            (filter("lobby", |f| f.identity = Some("ada".to_owned())), 5),
            (filter("lobby", |f| f.identity = Some("bob".to_owned())), 2),
            (filter("lobby", |f| f.before = 6), 2),
            (filter("lobby", |f| f.since = i64::MAX), 0),
            (filter("lobby", |f| f.gateway = Some("other".to_owned())), 0),
        ] {
            let found = journal_reader(&scratch).records(&filter).unwrap();
            assert_eq!(found.len(), expected, "{state} {filter:?}");
            assert!(found.iter().all(|one| one["room"].is_string()), "{found:?}");
            assert!(found.iter().map(|one| one["seq"].as_u64()).rev().is_sorted());
        }
        let calls = journal_reader(&scratch).records(&RecordFilter::default()).unwrap();
        assert_eq!(calls.len(), 6, "{state}");
        assert_eq!(calls[0]["code"], "OPERATION_NOT_FOUND", "{state}");
        for operation in ["lobby", "lob*"] {
            let operation_filter =
                RecordFilter { name: matching(operation), ..RecordFilter::default() };
            assert_eq!(
                journal_reader(&scratch).records(&operation_filter).unwrap().len(),
                1,
                "{state}"
            );
        }
        for id in ["m", "r", "1"] {
            assert_eq!(
                journal_reader(&scratch).calls_with_id(id).unwrap(),
                [Value::Null; 0],
                "{state}: {id}"
            );
        }
        assert!(journal_reader(&scratch).verify(None).unwrap()[0].ok, "{state}");
    }
}

#[tokio::test]
async fn message_record_has_identity_room_and_capability() {
    let scratch = TempDir::new("journal-said");
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    let token = format!("tpt_{}", "A".repeat(43));
    let message = format!("{{\n\"id\":\"m\",\n\"text\":\"{token}\"}}");
    record_text(&journal, "lobby", "ada", &message).await;
    reject(&journal, "lobby", "bob");
    let own = journal.recent_messages("lobby", 9, 999).unwrap();
    let hidden = format!("{{ \"id\":\"m\", \"text\":\"tpt_{}\"}}", "*".repeat(43));
    assert_eq!((own.len(), own[0].seq, &own[0].message), (1, 1, &hidden));
    journal.close();
    let found = journal_reader(&scratch).records(&message_filter("lobby")).unwrap();
    let mut expected = [
        json!({"seq": 2, "kind": "rejection", "id": "r", "room": "lobby", "identity": "bob",
            "attemptedKind": "mcp/request:tools/call:x", "error": "capability_violation",
            "reason": "no capability covers it"}),
        json!({"seq": 1, "kind": "message", "id": "m", "room": "lobby", "identity": "ada",
            "allowedBy": {"kind": "chat"},
            "message": serde_json::from_str::<Value>(&hidden).unwrap()}),
    ];
    for (found, expected) in found.iter().zip(&mut expected) {
        expected["time"] = found["time"].clone();
        expected["gatewayId"] = journal.gateway_id().into();
    }
    assert_eq!(found, expected);
}

#[tokio::test]
async fn recent_messages_respects_count_and_byte_limits() {
    let scratch = TempDir::new("journal-newest");
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    write_sample_messages(&journal).await;
    let bytes = r#"{"id":"m0","payload":{"n":0}}"#.len();
    for (most, max_bytes, expected) in [
        (usize::MAX, usize::MAX, &[0, 1, 2, 3, 4][..]),
        (2, usize::MAX, &[3, 4]),
        (0, usize::MAX, &[]),
        (usize::MAX, 3 * bytes, &[2, 3, 4]),
        (usize::MAX, 3 * bytes - 1, &[3, 4]),
        (usize::MAX, 0, &[]),
    ] {
        let found = journal.recent_messages("lobby", most, max_bytes).unwrap();
        assert_eq!(numbers(&found), expected, "{most} {max_bytes}");
    }
}

/// Every acknowledged message survives a crash without closing the journal.
#[tokio::test]
async fn acknowledged_messages_survive_crash_in_every_mode() {
    for mode in [JournalMode::Batch, JournalMode::Sync] {
        let scratch = TempDir::new("journal-notified");
        let settings = JournalSettings { mode, ..JournalSettings::default() };
        let journal = Journal::open(&scratch.0, &settings).unwrap();
        let pipeline = pipeline(&journal);
        for n in 0..20 {
            call(&pipeline, "ada", "demo.add", json!({"a": n, "b": 1})).await;
            record_numbered(&journal, "lobby", "ada", n).await;
            let killed = copy_as_crashed(&scratch, "journal-notified-copy");
            assert!(journal_reader(&killed).verify(None).unwrap()[0].ok, "{mode:?} {n}");
            let again = Journal::open(&killed.0, &settings).unwrap();
            assert_eq!(again.gateway_id(), journal.gateway_id());
            let expected: Vec<u64> = (0..=n as u64).collect();
            assert_eq!(all_numbers(&again, "lobby"), expected, "{mode:?}");
            drop(again);
            assert!(journal_reader(&killed).verify(None).unwrap()[0].ok, "{mode:?} {n}");
        }
    }
}

#[tokio::test]
async fn verify_detects_edited_message_and_hidden_index_mark() {
    let scratch = TempDir::new("journal-edited");
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    write_sample_messages(&journal).await;
    journal.close();
    let problem = || journal_reader(&scratch).verify(None).unwrap().swap_remove(0).problem;
    assert_eq!(problem(), None);
    let index = scratch.0.join("journal").join(journal.gateway_id()).join("index.sqlite");
    let index_backup = std::fs::read(&index).unwrap();
    for change in [
        "DELETE FROM mark WHERE failed = 2",
        "DELETE FROM mark WHERE failed = 3",
        "UPDATE mark SET failed = 0 WHERE failed = 2",
        "UPDATE OR IGNORE mark SET failed = 1000 WHERE failed > 1",
        "UPDATE name SET text = 'attic' WHERE text = 'lobby'",
    ] {
        let database = rusqlite::Connection::open(&index).unwrap();
        database.execute_batch(change).unwrap();
        drop(database);
        assert_eq!(problem().map(|problem| problem.kind), Some(ProblemKind::Index), "{change}");
        std::fs::write(&index, &index_backup).unwrap();
    }
    let file = only_segment(&scratch, journal.gateway_id());
    let original = std::fs::read_to_string(&file).unwrap();
    for (old, new) in [(r#""n":3}"#, r#""n":7}"#), ("no capability covers it", "a mistake")] {
        std::fs::write(&file, original.replacen(old, new, 1)).unwrap();
        assert_eq!(problem().map(|problem| problem.kind), Some(ProblemKind::Edited), "{old}");
    }
}

/// Following calls yields no messages.
#[tokio::test]
async fn tail_excludes_room_messages() {
    let scratch = TempDir::new("journal-follow-talk");
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    let reader = journal_reader(&scratch).with_live(&journal);
    let mut tail = tail::Tail::new(&journal, reader.live().unwrap().1, RecordFilter::default());
    write_sample_messages(&journal).await;
    journal.close();
    let mut found = Vec::new();
    while found.len() < 6 {
        let calls;
        (calls, tail) = tail.next().await.unwrap();
        found.extend(calls.into_iter().map(Result::unwrap));
    }
    assert!(found.iter().all(|call| call["operation"].is_string()), "{found:?}");
}

#[tokio::test]
async fn retention_removes_old_messages_and_keeps_rest() {
    let scratch = TempDir::new("journal-talk-old");
    let settings = JournalSettings { retain_size: Some(256 * 1024), ..JournalSettings::default() };
    let journal = Journal::open(&scratch.0, &settings).unwrap();
    let filler = "x".repeat(4_000);
    for n in 0..200 {
        let message = json!({"payload": {"n": n, "filler": filler}}).to_string();
        record_text(&journal, "lobby", "ada", &message).await;
    }
    journal.close();
    drop(journal);
    let report = journal_reader(&scratch).verify(None).unwrap().swap_remove(0);
    assert!(report.ok && report.first > 1, "{report:?}");
    let journal = Journal::open(&scratch.0, &settings).unwrap();
    let found = all_numbers(&journal, "lobby");
    assert!((20..100).contains(&found.len()), "{}", found.len());
    assert!(found.is_sorted() && found.last() == Some(&199));
}

/// Messages of a damaged chain are still read, and so are those of a chain with another writer, up
/// to the time this chain was opened.
#[tokio::test]
async fn recent_messages_include_other_chains() {
    let scratch = TempDir::new("journal-chains");
    let first = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    record_numbered(&first, "lobby", "ada", 0).await;
    let gateway_id = first.gateway_id().to_owned();
    drop(first);
    let head = JournalLayout::new(&scratch.0, &JournalSettings::default()).chain(&gateway_id).head;
    std::fs::remove_file(head).unwrap();
    let second = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    assert_ne!(second.gateway_id(), gateway_id);
    record_numbered(&second, "lobby", "ada", 1).await;
    assert_eq!(all_numbers(&second, "lobby"), [0, 1]);
    // Waits for the next millisecond, so that later records have a later time.
    let now = epoch_ms();
    while epoch_ms() == now {
        std::thread::yield_now();
    }
    let third = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    while epoch_ms() <= third.0.opened_at {
        std::thread::yield_now();
    }
    record_numbered(&second, "lobby", "ada", 2).await;
    record_numbered(&third, "lobby", "ada", 3).await;
    assert_eq!(all_numbers(&third, "lobby"), [0, 1, 3]);
    assert_eq!(all_numbers(&second, "lobby"), [0, 1, 2]);
    assert_eq!(numbers(&third.recent_messages("lobby", 2, usize::MAX).unwrap()), [1, 3]);
}

#[tokio::test]
async fn failing_journal_rejects_messages() {
    let scratch = TempDir::new("journal-refuses");
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    let entry = RoomMessageRecord {
        room: "lobby",
        identity: "ada",
        id: "m",
        message: "{}",
        allowed_by: None,
    };
    journal.0.shared.fail_waiters(&"no room".into());
    assert!(journal.record_message(&entry).is_none());
    journal.0.shared.queue.clear_write_error();
    assert!(journal.record_message(&entry).unwrap().await.is_ok());
    journal.close();
    assert!(journal.record_message(&entry).is_none());
    reject(&journal, "lobby", "ada");
    assert_eq!(journal.health()["lost"], 1);
}

/// Each page requests the messages before the previous page. A page of long messages is shorter,
/// and an empty page is the last.
#[tokio::test]
async fn messages_are_paged_by_size_until_empty() {
    let scratch = TempDir::new("journal-pages");
    let journal = Journal::open(&scratch.0, &JournalSettings::default()).unwrap();
    let filler = "x".repeat(1024 * 1024);
    for n in 0..10 {
        let message = json!({"payload": {"n": n, "filler": filler}}).to_string();
        record_text(&journal, "lobby", "ada", &message).await;
    }
    for n in 10..20 {
        record_numbered(&journal, "lobby", "ada", n).await;
    }
    let registry = builtin::registry();
    let reader = journal_reader(&scratch).with_live(&journal);
    let changes = operations(&reader, &registry).into_iter().map(toolpost::Change::Replace);
    registry.apply(changes).unwrap();
    let pipeline = Pipeline::new(registry);
    let ask = async |input: Value| {
        let operator = Authority::untrusted(Some(crate::admin::operator().into()));
        let response = pipeline.call(CallRequest::new("gateway.journal", input), operator).await;
        response.map(|outcome| outcome.envelope.data.into_value().unwrap())
    };
    let mut input = json!({"room": "lobby", "limit": 12});
    for expected in [12, 7, 1, 0] {
        let response = ask(input.clone()).await.unwrap();
        let page = response["messages"].as_array().unwrap();
        assert_eq!((page.len(), &response["calls"]), (expected, &json!([])));
        assert!(page.iter().map(|one| one["seq"].as_u64()).rev().is_sorted());
        input["before"] = page.last().map_or(Value::Null, |last| last["seq"].clone());
    }
    assert!(ask(json!({"limit": 1})).await.unwrap().get("messages").is_none());
    let error = ask(json!({"room": "lobby", "op": "*"})).await.unwrap_err();
    assert!(error.message().contains("cannot be combined"), "{error}");
}
