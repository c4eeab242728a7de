//! Rooms of the real gateway, including crash recovery.

mod fixture;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::journal::fixture::{Gateway, offline, random_in};
use super::{TempFolder, json as parsed, run_with_stdin, stderr, stdout};
use fixture::{FAMILIES, ROOM, RoomMember, TestIdentity};

/// Number of writers when the process is killed, in addition to the host that grants capabilities.
const WRITERS: usize = 8;

/// Journal modes of the rounds. Messages are delivered once they are written (`batch`) or synced
/// (`sync`).
const MODES: [&str; 3] = ["batch", "batch", "sync"];

/// Number of messages that a room keeps.
const HISTORY_LIMIT: usize = 1_000;

/// Each row: a name, how it is written in a path, and whether it is the name of a room in the
/// configuration, on the command line and in a request.
#[test]
fn room_name_has_one_rule_everywhere() {
    let folder = TempFolder::new("room-names");
    let gateway = Gateway::start(&folder);
    let url = gateway.url();
    let long = "x".repeat(65);
    for (name, path, is_valid) in [
        ("lobby", "lobby", true),
        ("a-b_c.9", "a-b_c.9", true),
        (&long[1..], &long[1..], true),
        (&long, &long, false),
        ("..", "%2E%2E", false),
        ("a b", "a%20b", false),
        ("a/b", "a%2Fb", false),
        ("é", "%C3%A9", false),
    ] {
        folder.write("named.toml", &format!("[room.\"{name}\"]\n"));
        let check = folder.toolpost(&["serve", "--check", "--config", "named.toml"]);
        let join = run_with_stdin(&["room", "join", name, "--as", "ann", "--url", &url], "/quit\n");
        for output in [&check, &join] {
            assert_eq!(output.status.success(), is_valid, "{name}: {}", stderr(output));
            assert_eq!(stderr(output).contains("invalid room name"), !is_valid, "{name}");
        }
        let (status, _) = gateway.get_with(&format!("/v0.1/topics/{path}/history"), &[]);
        assert_eq!(status == 400, !is_valid, "{name}: {status}");
    }
}

/// Every message delivered to any participant, including its sender, is in the history in delivery
/// order after the process is killed. So are the granted capabilities.
#[test]
fn delivered_room_messages_survive_sigkill() {
    let rounds =
        std::env::var("TOOLPOST_CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let folder = TempFolder::new("rooms-crash");
    let host = TestIdentity::new("host", r#"["*"]"#);
    let writers: Vec<TestIdentity> =
        (0..WRITERS).map(|n| TestIdentity::new(&format!("writer-{n}"), r#"["chat"]"#)).collect();
    let identities: String = writers.iter().chain([&host]).map(TestIdentity::to_config).collect();
    // The messages delivered to each connection, in order.
    let delivered = Mutex::new(Vec::new());
    for round in 0..rounds {
        let journal = format!("[journal]\nmode = \"{}\"\n", MODES[round % MODES.len()]);
        folder.write("toolpost.toml", &format!("{journal}{identities}"));
        let mut gateway = Gateway::start(&folder);
        check_history(&gateway, &host, &delivered.lock().unwrap());
        write_until_killed(&mut gateway, &host, &writers, round, &delivered);
        let verdict = offline(&folder, &["log", "verify", "--json"]);
        assert_eq!(verdict.status.code(), Some(0), "{}{}", stdout(&verdict), stderr(&verdict));
        assert_eq!(parsed(&verdict)["journals"].as_array().unwrap().len(), 1);
    }
    let gateway = Gateway::start(&folder);
    let delivered = delivered.into_inner().unwrap();
    let history = check_history(&gateway, &host, &delivered);
    let recorded = stdout(&gateway.log(&["export", "--room", ROOM]));
    let recorded = recorded.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let recorded: Vec<String> = recorded.map(|one| id_of(&one["message"])).collect();
    let newest: Vec<_> = recorded.iter().take(HISTORY_LIMIT).rev().cloned().collect();
    assert_eq!(history, newest);
    let times: usize = delivered.iter().map(Vec::len).sum();
    eprintln!("{rounds} crashes: {} messages written, shown {times} times", recorded.len());
    for writer in &writers {
        assert_granted(&gateway, writer, rounds);
    }
}

/// Grants a capability to each writer, then kills the process while all of them send.
fn write_until_killed(
    gateway: &mut Gateway,
    host: &TestIdentity,
    writers: &[TestIdentity],
    round: usize,
    delivered: &Mutex<Vec<Vec<String>>>,
) {
    let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let address = gateway.address.clone();
    let meeting = RoomLoad {
        address: &address,
        round,
        is_over: &is_over,
        count: &count,
        received: delivered,
    };
    let members: Vec<RoomMember> =
        writers.iter().enumerate().map(|(n, writer)| meeting.join(n, writer)).collect();
    // The grants complete before the process is killed at a random moment.
    meeting.grant(host, writers);
    std::thread::scope(|scope| {
        for (member, writer) in members.into_iter().zip(writers) {
            let meeting = &meeting;
            scope.spawn(move || meeting.write(member, &writer.name));
        }
        let enough = random_in(500..1_500);
        while count.load(Ordering::Relaxed) < enough {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        gateway.kill();
    });
}

/// State shared by the participants.
struct RoomLoad<'a> {
    address: &'a str,
    round: usize,
    is_over: &'a AtomicBool,
    count: &'a AtomicUsize,
    received: &'a Mutex<Vec<Vec<String>>>,
}

impl RoomLoad<'_> {
    /// Joins the room, and checks that all earlier grants are in effect.
    fn join(&self, number: usize, writer: &TestIdentity) -> RoomMember {
        let family = FAMILIES[(self.round + number) % FAMILIES.len()];
        let member = RoomMember::join(self.address, family, writer).unwrap();
        assert_eq!(member.tool_capability_count(), self.round, "{}", member.welcome);
        member
    }

    /// Sends messages until the process is killed, each after the previous one is echoed.
    fn write(&self, mut member: RoomMember, name: &str) {
        let mut seen = Vec::new();
        for n in 0.. {
            let id = format!("{name}-{}-{n}", self.round);
            let message = json!({"id": id, "kind": "chat", "payload": {"text": id}});
            if member.send(message).is_none() || !self.read_up_to(&mut member, &id, &mut seen) {
                assert!(self.is_over.load(Ordering::Relaxed), "the connection of {id} has ended");
                break;
            }
        }
        self.received.lock().unwrap().push(seen);
    }

    /// Grants each writer one more capability.
    fn grant(&self, host: &TestIdentity, writers: &[TestIdentity]) {
        let mut member = RoomMember::join(self.address, FAMILIES[0], host).unwrap();
        let mut seen = Vec::new();
        for writer in writers {
            let id = format!("grant-{}-{}", self.round, writer.name);
            let tool = format!("tool-{}", self.round);
            let capability = json!({"kind": "mcp/request", "payload": {
                "method": "tools/call", "params": {"name": tool}}});
            let payload = json!({"recipient": writer.name, "capabilities": [capability]});
            let to = [&writer.name];
            let message =
                json!({"id": id, "kind": "capability/grant", "to": to, "payload": payload});
            member.send(message).unwrap();
            assert!(self.read_up_to(&mut member, &id, &mut seen));
        }
        self.received.lock().unwrap().push(seen);
    }

    /// Records the received messages up to the given one. Returns whether it arrived.
    fn read_up_to(&self, member: &mut RoomMember, id: &str, seen: &mut Vec<String>) -> bool {
        while let Some(message) = member.recv() {
            let kind = message["kind"].as_str().unwrap().to_owned();
            assert_ne!(kind, "system/error", "{message}");
            if kind.starts_with("system/") {
                continue;
            }
            seen.push(id_of(&message));
            self.count.fetch_add(1, Ordering::Relaxed);
            if message["id"] == id {
                return true;
            }
        }
        false
    }
}

/// Returns the history after checking that the messages of each connection are contiguous in it, as
/// far as they are retained.
fn check_history(gateway: &Gateway, host: &TestIdentity, delivered: &[Vec<String>]) -> Vec<String> {
    let history: Vec<String> = fixture::history(gateway, host).iter().map(id_of).collect();
    let is_full = history.len() == HISTORY_LIMIT;
    let place_of = |id: &String| history.iter().position(|there| there == id);
    for (connection, seen) in delivered.iter().enumerate() {
        // A room retains more messages than one round sends.
        let is_last_round = connection + WRITERS + 1 >= delivered.len();
        let known = seen.iter().enumerate().find_map(|(n, id)| Some((n, place_of(id)?)));
        // Only messages older than the retained history may be missing.
        let (first, begin) = match known {
            Some((0, begin)) => (0, begin),
            Some((first, begin)) => {
                assert!(is_full && begin == 0, "{} is at {begin}", seen[first]);
                (first, begin)
            }
            None => {
                let is_forgotten = is_full && !is_last_round;
                assert!(is_forgotten || seen.is_empty(), "delivered but not recorded: {seen:?}");
                continue;
            }
        };
        let there = &history[begin..history.len().min(begin + seen.len() - first)];
        let differs = seen[first..].iter().zip(there).position(|(seen, there)| seen != there);
        let lengths = (seen.len() - first, there.len());
        assert!(differs.is_none() && lengths.0 == lengths.1, "{lengths:?}, {differs:?}");
    }
    history
}

fn assert_granted(gateway: &Gateway, writer: &TestIdentity, rounds: usize) {
    for family in FAMILIES {
        let member = RoomMember::join(&gateway.address, family, writer).unwrap();
        assert_eq!(member.tool_capability_count(), rounds, "{}", member.welcome);
    }
}

fn id_of(message: &Value) -> String {
    message["id"].as_str().unwrap_or_else(|| panic!("{message}")).to_owned()
}

#[test]
fn room_messages_and_rejections_are_logged() {
    let folder = TempFolder::new("rooms-log");
    let writer = TestIdentity::new("ada", r#"["chat"]"#);
    folder.write("toolpost.toml", &writer.to_config());
    let mut gateway = Gateway::start(&folder);
    let mut member = RoomMember::join(&gateway.address, FAMILIES[0], &writer).unwrap();
    let call = json!({"method": "tools/call", "params": {"name": "demo.add"}});
    for (id, kind, payload, expected) in [
        ("m-1", "chat", json!({"text": "hello"}), "chat"),
        ("m-2", "mcp/request", call, "system/error"),
        ("m-3", "chat", json!({"text": "good bye"}), "chat"),
    ] {
        let message = json!({"id": id, "kind": kind, "to": ["toolpost"], "payload": payload});
        member.send(message).unwrap();
        assert_eq!(member.recv().unwrap()["kind"], expected, "{id}");
    }
    let bearer = format!("authorization: Bearer {}", writer.token());
    let sum = json!({"a": 1, "b": 1});
    assert_eq!(gateway.post_with("/api/demo/add", &sum, &[&bearer]).0, 200);
    gateway.stop();
    let rows: [(&[&str], &[&str]); 12] = [
        (&["--room", "lobby", "--kind", "chat"], &["message m-1", "message m-3"]),
        (&["--room", "lobby", "--kind", "mcp/request:tools/call:demo*"], &["rejection m-2"]),
        (&["--room", "lobby", "--kind", "mcp/response", "--kind", "chat/*"], &[]),
        (&["export", "--room", "*", "--kind", "chat"], &["message m-3", "message m-1"]),
        (&["--room", "lobby"], &["message m-1", "rejection m-2", "message m-3"]),
        (&["--room", "lob*", "--limit", "2"], &["rejection m-2", "message m-3"]),
        (&["--room", "lobby", "--errors"], &["rejection m-2"]),
        (&["--room", "lobby", "--identity", "bob"], &[]),
        (&["--room", "cellar"], &[]),
        (&["export"], &["call demo.add", "message m-3", "rejection m-2", "message m-1"]),
        (&["export", "--op", "demo.add"], &["call demo.add"]),
        (&["export", "--room", "lobby"], &["message m-3", "rejection m-2", "message m-1"]),
    ];
    for (arguments, expected) in rows {
        let output = offline(&folder, &[&["log"], arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        let output = stdout(&output);
        let records = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let summaries = records.map(|one| match one["kind"].as_str() {
            Some(kind) => format!("{kind} {}", id_of(&one)),
            None => format!("call {}", one["operation"].as_str().unwrap()),
        });
        assert_eq!(summaries.collect::<Vec<_>>(), expected, "{arguments:?}");
    }
    for arguments in [
        &["--room", "lobby", "--op", "x"][..],
        &["--room", "lobby", "--follow"],
        &["--kind", "chat"],
    ] {
        let rejected = offline(&folder, &[&["log"], arguments].concat());
        assert_eq!(rejected.status.code(), Some(2), "{arguments:?}");
    }
}
