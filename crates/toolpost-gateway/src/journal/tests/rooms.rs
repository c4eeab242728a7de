//! Messages of rooms: written beside calls, read again after whatever happened.

use super::super::messages::MessageFilter;
use super::super::room::StoredEntry;
use super::super::*;
use super::*;
use crate::config::Glob;

/// Writes down a message with this number; it is in the file when this returns.
async fn say(journal: &Journal, room: &str, who: &str, number: usize) {
    let message = format!(r#"{{"id":"m{number}","payload":{{"n":{number}}}}}"#);
    say_text(journal, room, who, &message).await;
}

async fn say_text(journal: &Journal, room: &str, who: &str, message: &str) {
    let entry = RoomEntry { room, who, id: "m", message, allowed_by: Some(r#"{"kind":"chat"}"#) };
    journal.message(&entry).unwrap().await.unwrap();
}

fn refuse(journal: &Journal, room: &str, who: &str) {
    journal.refusal(&RoomRefusal {
        room,
        who,
        attempted_kind: "mcp/request:tools/call:x",
        error: "capability_violation",
        reason: "no capability covers it",
        id: Some("r"),
    });
}

fn numbers(entries: &[StoredEntry]) -> Vec<u64> {
    let number = |entry: &StoredEntry| {
        let message: Value = serde_json::from_str(&entry.message).unwrap();
        message["payload"]["n"].as_u64().unwrap()
    };
    entries.iter().map(number).collect()
}

fn all(journal: &Journal, room: &str) -> Vec<u64> {
    numbers(&journal.messages(room, usize::MAX, usize::MAX).unwrap())
}

fn wanted(room: &str) -> MessageFilter {
    MessageFilter {
        gateway: None,
        room: Glob::new(room),
        who: None,
        since: i64::MIN,
        before: u64::MAX,
        errors: false,
        limit: 1_000,
    }
}

/// Copies everything as it stands at this moment, as a process leaves it that is killed.
fn copied(scratch: &Scratch, name: &str) -> Scratch {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            match from.is_dir() {
                true => copy(&from, &to),
                // The index may be half written, and is made again.
                false if entry.file_name().to_string_lossy().starts_with(INDEX) => {}
                false => drop(std::fs::copy(from, to).unwrap()),
            }
        }
    }
    let copied = Scratch::new(name);
    copy(&scratch.0, &copied.0);
    copied
}

/// Ten messages in two rooms, three refusals, and calls between them.
async fn talk(journal: &Journal) {
    let pipeline = pipeline(journal);
    for n in 0..5 {
        say(journal, "lobby", "ada", n).await;
        call(&pipeline, "ada", "demo.add", json!({"a": n, "b": 1})).await;
        say(journal, "cellar", "bob", 10 + n).await;
    }
    refuse(journal, "lobby", "bob");
    refuse(journal, "lobby", "bob");
    refuse(journal, "cellar", "ada");
    // The name of an operation is the caller's to choose.
    call(&pipeline, "bob", "lobby", json!({})).await;
}

#[tokio::test]
async fn messages_are_found_by_what_they_are_and_are_no_calls() {
    let scratch = Scratch::new("journal-talk");
    let journal = Journal::open(&scratch.0, &Settings::default()).unwrap();
    talk(&journal).await;
    let index = scratch.0.join("journal").join(journal.gateway_id()).join(INDEX);
    drop(journal);
    let restart = || drop(Journal::open(&scratch.0, &Settings::default()).unwrap());
    let states: [(&str, &dyn Fn()); 4] = [
        ("as it was closed", &|| ()),
        ("without an index", &|| std::fs::remove_file(&index).unwrap()),
        ("made again", &restart),
        ("broken", &|| std::fs::write(&index, "this is no database").unwrap()),
    ];
    let filter = |room: &str, change: fn(&mut MessageFilter)| {
        let mut filter = wanted(room);
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
            (filter("*", |f| f.errors = true), 3),
            (filter("lobby", |f| f.limit = 3), 3),
            (filter("lobby", |f| f.limit = 0), 0),
            (filter("lobby", |f| f.who = Some("ada".to_owned())), 5),
            (filter("lobby", |f| f.who = Some("bob".to_owned())), 2),
            (filter("lobby", |f| f.before = 6), 2),
            (filter("lobby", |f| f.since = i64::MAX), 0),
            (filter("lobby", |f| f.gateway = Some("other".to_owned())), 0),
        ] {
            let found = archive(&scratch).messages(&filter).unwrap();
            assert_eq!(found.len(), expected, "{state} {filter:?}");
            assert!(found.iter().all(|one| one["room"].is_string()), "{found:?}");
            assert!(found.iter().map(|one| one["seq"].as_u64()).rev().is_sorted());
        }
        let calls = archive(&scratch).calls(&Filter::default()).unwrap();
        assert_eq!(calls.len(), 6, "{state}");
        assert_eq!(calls[0]["code"], "OPERATION_NOT_FOUND", "{state}");
        for operation in ["lobby", "lob*"] {
            let operation = Some(Glob::new(operation));
            let named = Filter { operation, ..Filter::default() };
            assert_eq!(archive(&scratch).calls(&named).unwrap().len(), 1, "{state}");
        }
        for id in ["m", "r", "1"] {
            assert_eq!(archive(&scratch).call(id).unwrap(), None, "{state}: {id}");
        }
        assert!(archive(&scratch).verify(None).unwrap()[0].ok, "{state}");
    }
}

#[tokio::test]
async fn a_record_says_who_said_what_where_and_why_he_may() {
    let scratch = Scratch::new("journal-said");
    let journal = Journal::open(&scratch.0, &Settings::default()).unwrap();
    let token = format!("tpt_{}", "A".repeat(43));
    let message = format!("{{\n\"id\":\"m\",\n\"text\":\"{token}\"}}");
    say_text(&journal, "lobby", "ada", &message).await;
    refuse(&journal, "lobby", "bob");
    let own = journal.messages("lobby", 9, 999).unwrap();
    let hidden = format!("{{ \"id\":\"m\", \"text\":\"tpt_{}\"}}", "*".repeat(43));
    assert_eq!((own.len(), own[0].seq, &own[0].message), (1, 1, &hidden));
    journal.close();
    let found = archive(&scratch).messages(&wanted("lobby")).unwrap();
    let mut expected = [
        json!({"seq": 2, "kind": "refusal", "id": "r", "room": "lobby", "who": "bob",
            "attemptedKind": "mcp/request:tools/call:x", "error": "capability_violation",
            "reason": "no capability covers it"}),
        json!({"seq": 1, "kind": "message", "id": "m", "room": "lobby", "who": "ada",
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
async fn a_room_reads_its_newest_messages_and_no_more_than_it_wants() {
    let scratch = Scratch::new("journal-newest");
    let journal = Journal::open(&scratch.0, &Settings::default()).unwrap();
    talk(&journal).await;
    let bytes = r#"{"id":"m0","payload":{"n":0}}"#.len();
    for (most, most_bytes, expected) in [
        (usize::MAX, usize::MAX, &[0, 1, 2, 3, 4][..]),
        (2, usize::MAX, &[3, 4]),
        (0, usize::MAX, &[]),
        (usize::MAX, 3 * bytes, &[2, 3, 4]),
        (usize::MAX, 3 * bytes - 1, &[3, 4]),
        (usize::MAX, 0, &[]),
    ] {
        let found = journal.messages("lobby", most, most_bytes).unwrap();
        assert_eq!(numbers(&found), expected, "{most} {most_bytes}");
    }
}

/// Whatever somebody was told of is there after a crash, and nothing had to be closed for that.
#[tokio::test]
async fn what_was_told_outlives_the_process_in_every_mode() {
    for mode in [Mode::Batch, Mode::Sync] {
        let scratch = Scratch::new("journal-told");
        let settings = Settings { mode, ..Settings::default() };
        let journal = Journal::open(&scratch.0, &settings).unwrap();
        let pipeline = pipeline(&journal);
        for n in 0..20 {
            call(&pipeline, "ada", "demo.add", json!({"a": n, "b": 1})).await;
            say(&journal, "lobby", "ada", n).await;
            let killed = copied(&scratch, "journal-told-copy");
            assert!(archive(&killed).verify(None).unwrap()[0].ok, "{mode:?} {n}");
            let again = Journal::open(&killed.0, &settings).unwrap();
            assert_eq!(again.gateway_id(), journal.gateway_id());
            let expected: Vec<u64> = (0..=n as u64).collect();
            assert_eq!(all(&again, "lobby"), expected, "{mode:?}");
            drop(again);
            assert!(archive(&killed).verify(None).unwrap()[0].ok, "{mode:?} {n}");
        }
    }
}

#[tokio::test]
async fn a_message_that_was_edited_is_told_and_so_is_an_index_that_hides_one() {
    let scratch = Scratch::new("journal-edited");
    let journal = Journal::open(&scratch.0, &Settings::default()).unwrap();
    talk(&journal).await;
    journal.close();
    let problem = || archive(&scratch).verify(None).unwrap().swap_remove(0).problem;
    assert_eq!(problem(), None);
    let index = scratch.0.join("journal").join(journal.gateway_id()).join(INDEX);
    let kept = std::fs::read(&index).unwrap();
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
        assert_eq!(problem().map(|problem| problem.kind).as_deref(), Some("index"), "{change}");
        std::fs::write(&index, &kept).unwrap();
    }
    let file = only_segment(&scratch, journal.gateway_id());
    let whole = std::fs::read_to_string(&file).unwrap();
    for (old, new) in [(r#""n":3}"#, r#""n":7}"#), ("no capability covers it", "a mistake")] {
        std::fs::write(&file, whole.replacen(old, new, 1)).unwrap();
        assert_eq!(problem().map(|problem| problem.kind).as_deref(), Some("edited"), "{old}");
    }
}

/// Whoever follows calls is shown no messages.
#[tokio::test]
async fn followers_see_calls_alone() {
    let scratch = Scratch::new("journal-follow-talk");
    let journal = Journal::open(&scratch.0, &Settings::default()).unwrap();
    let archive = archive(&scratch).with_live(&journal);
    let wanted = following::Wanted { operation: None, who: None, errors: false };
    let mut following = following::Following::new(&journal, archive.live().unwrap().1, wanted);
    talk(&journal).await;
    journal.close();
    let mut found = Vec::new();
    while found.len() < 6 {
        let calls;
        (calls, following) = following.next().await.unwrap();
        found.extend(calls.into_iter().map(Result::unwrap));
    }
    assert!(found.iter().all(|call| call["operation"].is_string()), "{found:?}");
}

#[tokio::test]
async fn old_messages_go_as_calls_do_and_the_rest_is_found() {
    let scratch = Scratch::new("journal-talk-old");
    let settings = Settings { retain_size: Some(256 * 1024), ..Settings::default() };
    let journal = Journal::open(&scratch.0, &settings).unwrap();
    let filler = "x".repeat(4_000);
    for n in 0..200 {
        let message = json!({"payload": {"n": n, "filler": filler}}).to_string();
        say_text(&journal, "lobby", "ada", &message).await;
    }
    journal.close();
    drop(journal);
    let verdict = archive(&scratch).verify(None).unwrap().swap_remove(0);
    assert!(verdict.ok && verdict.first > 1, "{verdict:?}");
    let journal = Journal::open(&scratch.0, &settings).unwrap();
    let found = all(&journal, "lobby");
    assert!((20..100).contains(&found.len()), "{}", found.len());
    assert!(found.is_sorted() && found.last() == Some(&199));
}

/// A chain that cannot be gone on with still has what was said, and so has one that somebody else
/// writes now; what he writes from now on is his.
#[tokio::test]
async fn a_room_remembers_what_is_in_other_chains() {
    let scratch = Scratch::new("journal-chains");
    let first = Journal::open(&scratch.0, &Settings::default()).unwrap();
    say(&first, "lobby", "ada", 0).await;
    let gateway_id = first.gateway_id().to_owned();
    drop(first);
    let head = Places::new(&scratch.0, &Settings::default()).seal_files(&gateway_id).head;
    std::fs::remove_file(head).unwrap();
    let second = Journal::open(&scratch.0, &Settings::default()).unwrap();
    assert_ne!(second.gateway_id(), gateway_id);
    say(&second, "lobby", "ada", 1).await;
    assert_eq!(all(&second, "lobby"), [0, 1]);
    // The clock goes on, so that what follows is later.
    let now = epoch_ms();
    while epoch_ms() == now {
        std::thread::yield_now();
    }
    let third = Journal::open(&scratch.0, &Settings::default()).unwrap();
    while epoch_ms() <= third.0.opened {
        std::thread::yield_now();
    }
    say(&second, "lobby", "ada", 2).await;
    say(&third, "lobby", "ada", 3).await;
    assert_eq!(all(&third, "lobby"), [0, 1, 3]);
    assert_eq!(all(&second, "lobby"), [0, 1, 2]);
    assert_eq!(numbers(&third.messages("lobby", 2, usize::MAX).unwrap()), [1, 3]);
}

#[tokio::test]
async fn a_journal_that_takes_nothing_refuses() {
    let scratch = Scratch::new("journal-refuses");
    let journal = Journal::open(&scratch.0, &Settings::default()).unwrap();
    let entry = RoomEntry { room: "lobby", who: "ada", id: "m", message: "{}", allowed_by: None };
    journal.0.shared.queue.set_trouble(Some("no room".into()));
    assert!(journal.message(&entry).is_none());
    journal.0.shared.queue.set_trouble(None);
    assert!(journal.message(&entry).unwrap().await.is_ok());
    journal.close();
    assert!(journal.message(&entry).is_none());
    refuse(&journal, "lobby", "ada");
    assert_eq!(journal.health()["lost"], 1);
}

/// Each page asks for what is before the one before it; one of long messages is short, and none is the
/// end.
#[tokio::test]
async fn a_room_is_read_page_by_page() {
    let scratch = Scratch::new("journal-pages");
    let journal = Journal::open(&scratch.0, &Settings::default()).unwrap();
    let filler = "x".repeat(1024 * 1024);
    for n in 0..10 {
        let message = json!({"payload": {"n": n, "filler": filler}}).to_string();
        say_text(&journal, "lobby", "ada", &message).await;
    }
    for n in 10..20 {
        say(&journal, "lobby", "ada", n).await;
    }
    let registry = builtin::registry();
    let archive = archive(&scratch).with_live(&journal);
    let changes = operations(&archive, &registry).into_iter().map(toolpost::Change::Replace);
    registry.apply(changes).unwrap();
    let pipeline = Pipeline::new(registry);
    let ask = async |input: Value| {
        let operator = Authority::outside(Some(crate::admin::operator().into()));
        let answer = pipeline.call(CallRequest::new("gateway.journal", input), operator).await;
        answer.map(|outcome| outcome.envelope.data.into_value().unwrap())
    };
    let mut input = json!({"room": "lobby", "limit": 12});
    for expected in [12, 7, 1, 0] {
        let answer = ask(input.clone()).await.unwrap();
        let page = answer["messages"].as_array().unwrap();
        assert_eq!((page.len(), &answer["calls"]), (expected, &json!([])));
        assert!(page.iter().map(|one| one["seq"].as_u64()).rev().is_sorted());
        input["before"] = page.last().map_or(Value::Null, |last| last["seq"].clone());
    }
    assert!(ask(json!({"limit": 1})).await.unwrap().get("messages").is_none());
    let error = ask(json!({"room": "lobby", "op": "*"})).await.unwrap_err();
    assert!(error.message().contains("do not go together"), "{error}");
}
