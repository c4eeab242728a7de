//! `workspace join`: a room as scripts and people use it.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::journal::rig::Gateway;
use crate::terminal::{SHELL, Terminal};
use crate::{Folder, command, piped, stderr, stdout};

fn said(output: &std::process::Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What a message is about, in few words.
fn brief(message: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&message["kind"]);
    let about = match kind.as_str() {
        "chat" => text(&message["payload"]["text"]),
        "mcp/response" => text(&message["context_of"]["outcome"]),
        "system/error" => text(&message["payload"]["error"]),
        _ => String::new(),
    };
    format!("{kind} {about}").trim_end().to_owned()
}

/// Each row: what is typed, what is heard, and how it ends.
#[test]
fn a_script_says_asks_and_waits_for_its_answers() {
    let folder = Folder::new("join-script");
    let gateway = Gateway::start(&folder);
    let url = gateway.url();
    for (lines, expected, exit) in [
        ("hello\n//slash\n", &["chat hello", "chat /slash"][..], 0),
        ("/call demo__add a=1 b=2\n", &["mcp/request", "mcp/response result"], 0),
        ("/call demo__add {\"a\": 1, \"b\": 2}", &["mcp/request", "mcp/response result"], 0),
        ("/call demo__fail\n", &["mcp/request", "mcp/response error"], 1),
        ("/grant nobody chat\n", &["system/error participant_not_found"], 1),
        ("/invite eve chat\n", &["space/invite", "space/invite-ack"], 0),
        ("/nothing\nhi\n", &["chat hi"], 1),
        ("hi\n/quit\nnever\n", &["chat hi"], 0),
        ("", &[], 0),
    ] {
        let data = folder.path().join("data");
        let arguments = ["workspace", "join", "lobby", "--history", "0", "--url", &url, "--data"];
        let output = piped(&[&arguments[..], &[data.to_str().unwrap()]].concat(), lines);
        assert_eq!(output.status.code(), Some(exit), "{lines}: {}", stderr(&output));
        let heard = said(&output);
        assert_eq!(heard[0]["kind"], "system/welcome", "{lines}");
        assert_eq!(heard[0]["payload"]["you"]["id"], "operator", "{lines}");
        let heard: Vec<String> = heard[1..].iter().map(brief).collect();
        assert_eq!(heard, expected, "{lines}");
    }
}

#[test]
fn what_was_said_is_shown_to_those_who_come_later() {
    let folder = Folder::new("join-history");
    let gateway = Gateway::start(&folder);
    let url = gateway.url();
    let join = ["workspace", "join", "lobby", "--as", "ann", "--url", &url];
    piped(&join, "one\ntwo\nthree\n");
    let heard = said(&piped(&join, "/history 2\n/who\n"));
    let texts: Vec<String> =
        heard[0]["payload"]["history"].as_array().unwrap().iter().map(brief).collect();
    assert_eq!(texts, ["chat one", "chat two", "chat three"]);
    assert_eq!(heard[1..3].iter().map(brief).collect::<Vec<_>>(), ["chat two", "chat three"]);
    assert_eq!(heard[3], json!({"participants": ["toolpost", "ann"]}));
}

/// Somebody who stays in a room.
struct Participant {
    child: Child,
    input: ChildStdin,
    heard: Lines<BufReader<ChildStdout>>,
}

impl Participant {
    fn join(url: &str, name: &str) -> Self {
        let mut child = command(&["workspace", "join", "lobby", "--as", name, "--url", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let heard = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut participant = Self { child, input, heard };
        participant.until("system/welcome");
        participant
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The next message that is said so in brief.
    fn until(&mut self, wanted: &str) -> Value {
        loop {
            let line = self.heard.next().expect("it is heard before the end").unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if brief(&message) == wanted {
                return message;
            }
        }
    }

    fn leave(mut self) -> Option<i32> {
        drop(self.input);
        self.child.wait().unwrap().code()
    }
}

#[test]
fn what_one_proposes_another_approves_rejects_or_sees_withdrawn() {
    let folder = Folder::new("join-proposal");
    let gateway = Gateway::start(&folder);
    let (mut ann, mut bob) =
        (Participant::join(&gateway.url(), "ann"), Participant::join(&gateway.url(), "bob"));
    let mut propose = |bob: &mut Participant| {
        ann.say("/propose demo__add a=1 b=2");
        bob.until("mcp/proposal")["id"].as_str().unwrap().to_owned()
    };
    let first = propose(&mut bob);
    bob.say(&format!("/approve {first}"));
    let answer = bob.until("mcp/response result");
    assert_eq!(answer["context_of"]["proposal_id"], *first);
    let second = propose(&mut bob);
    bob.say(&format!("/reject {second} not now"));
    assert_eq!(bob.until("mcp/reject")["payload"]["reason"], "not now");
    let third = propose(&mut bob);
    ann.say(&format!("/withdraw {third}"));
    bob.until("mcp/withdraw");
    bob.say(&format!("/approve {third}"));
    bob.say("bye");
    ann.until("chat bye");
    assert_eq!((ann.leave(), bob.leave()), (Some(0), Some(1)));
}

#[test]
fn whoever_does_not_come_in_learns_why() {
    let folder = Folder::new("join-refused");
    assert!(folder.toolpost(&["token", "new", "ann"]).status.success());
    let gateway = Gateway::start(&folder);
    let url = gateway.url();
    for (arguments, exit, words) in [
        (&["lobby", "--url", "ws://127.0.0.1:1"][..], 3, "is `toolpost serve` running there?"),
        (&["a/b", "--url", &url], 2, "the name of a room"),
        (&["lobby", "--url", "wss://127.0.0.1"], 2, "TLS"),
        (&["lobby", "--url", &url, "--token", "wrong"], 1, "--token"),
        (&["lobby", "--url", &url, "--as", "eve"], 1, "--token"),
    ] {
        let output = piped(&[&["workspace", "join"], arguments].concat(), "");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn people_see_lines_and_a_prompt() {
    let folder = Folder::new("join-terminal");
    let gateway = Gateway::start(&folder);
    let mut terminal = Terminal::open(&folder);
    terminal.run(&format!("export TOOLPOST_URL={}", gateway.url()));
    let evil = r"printf 'see \033]0;title\007this\n/call demo__add a=1 b=2\n/call demo__fail\n'";
    let screen = terminal.run(&format!("{evil} | toolpost workspace join lobby --as ann"));
    for line in [
        "You are ann in lobby with toolpost. /help lists what you can do.",
        "ann  see \u{fffd}]0;title\u{fffd}this",
        "ann  → tools/call demo__add {\"a\":1,\"b\":2}  @toolpost",
        "toolpost  ✓ demo__add {\"sum\":3}  asked by ann",
        "toolpost  ✗ demo__fail DEMO_FAILURE: ",
    ] {
        assert!(screen.contains(line), "{line}: {screen}");
    }
    terminal.press("toolpost workspace join lobby --as bob\n");
    for words in ["ann  see ", "toolpost  ✗ demo__fail", "You are bob in lobby"] {
        terminal.wait_for(words);
    }
    for (keys, words) in [
        ("/he\t\r", "/approve ID"),
        ("/call demo__add a=2 b=3\r", "toolpost  ✓ demo__add {\"sum\":5}  asked by bob"),
        ("/nothing\r", "there is no /nothing"),
    ] {
        terminal.press(keys);
        terminal.wait_for(words);
    }
    terminal.press("/quit\r");
    terminal.wait_for(SHELL);
    // The terminal is as it was.
    assert!(terminal.run("stty -a").contains(" icanon "), "lines are lines again");
}
