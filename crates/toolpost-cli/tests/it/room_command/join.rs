//! `room join`, in scripts and in a terminal.

use std::io::Write;
use std::process::{ChildStdin, Stdio};

use serde_json::{Value, json};

use crate::journal::fixture::{self, Gateway};
use crate::process::{OutputLines, Process};
use crate::terminal::{SHELL, Terminal};
use crate::{TempFolder, command, run_with_stdin, stderr, stdout};

fn parse_messages(output: &std::process::Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Summarizes a message: its kind and main content.
fn summarize(message: &Value) -> String {
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

/// Each row: the input lines, the expected messages and the exit code.
#[test]
fn scripted_join_sends_lines_and_waits_for_responses() {
    let folder = TempFolder::new("join-script");
    let _gateway = Gateway::start(&folder);
    for (lines, expected, exit) in [
        ("hello\n//slash\n", &["chat hello", "chat /slash"][..], 0),
        ("/call demo__add a=1 b=2\n", &["mcp/request", "mcp/response result"], 0),
        ("/call demo__add {\"a\": 1, \"b\": 2}", &["mcp/request", "mcp/response result"], 0),
        ("/call demo__fail\n", &["mcp/request", "mcp/response error"], 1),
        ("/grant unknown chat\n", &["system/error participant_not_found"], 1),
        ("/invite eve chat\n", &["space/invite", "space/invite-ack"], 0),
        ("/nothing\nhi\n", &["chat hi"], 1),
        ("hi\n/quit\nnever\n", &["chat hi"], 0),
        ("", &[], 0),
    ] {
        let data = fixture::data(&folder);
        let arguments = ["room", "join", "lobby", "--history", "0", "--data"];
        let output = run_with_stdin(&[&arguments[..], &[data.to_str().unwrap()]].concat(), lines);
        assert_eq!(output.status.code(), Some(exit), "{lines}: {}", stderr(&output));
        let received = parse_messages(&output);
        assert_eq!(received[0]["kind"], "system/welcome", "{lines}");
        assert_eq!(received[0]["payload"]["you"]["id"], "operator", "{lines}");
        let received: Vec<String> = received[1..].iter().map(summarize).collect();
        assert_eq!(received, expected, "{lines}");
    }
}

#[test]
fn join_receives_earlier_messages_as_history() {
    let folder = TempFolder::new("join-history");
    let gateway = Gateway::start(&folder);
    let url = gateway.url();
    let join = ["room", "join", "lobby", "--as", "ann", "--url", &url];
    run_with_stdin(&join, "one\ntwo\nthree\n");
    let received = parse_messages(&run_with_stdin(&join, "/history 2\n/who\n"));
    let texts: Vec<String> =
        received[0]["payload"]["history"].as_array().unwrap().iter().map(summarize).collect();
    assert_eq!(texts, ["chat one", "chat two", "chat three"]);
    assert_eq!(
        received[1..3].iter().map(summarize).collect::<Vec<_>>(),
        ["chat two", "chat three"]
    );
    assert_eq!(received[3], json!({"participants": ["toolpost", "ann"]}));
}

/// A running `room join`.
struct Participant {
    process: Process,
    input: ChildStdin,
    output: OutputLines,
}

impl Participant {
    fn join(url: &str, name: &str) -> Self {
        let mut command = command(&["room", "join", "lobby", "--as", name, "--url", url]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process::spawn(&mut command);
        let (input, output) = (process.stdin.take().unwrap(), process.stdout_lines());
        let mut participant = Self { process, input, output };
        participant.recv_until("system/welcome");
        participant
    }

    fn send_line(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Skips messages until one with the given summary and returns it.
    fn recv_until(&mut self, expected_summary: &str) -> Value {
        loop {
            let line = self.output.next().expect("the message is received before the session ends");
            let message: Value = serde_json::from_str(&line).unwrap();
            if summarize(&message) == expected_summary {
                return message;
            }
        }
    }

    fn close(mut self) -> Option<i32> {
        drop(self.input);
        self.process.exit_status().code()
    }
}

#[test]
fn proposals_can_be_approved_rejected_and_withdrawn() {
    let folder = TempFolder::new("join-proposal");
    let gateway = Gateway::start(&folder);
    let (mut ann, mut bob) =
        (Participant::join(&gateway.url(), "ann"), Participant::join(&gateway.url(), "bob"));
    let mut propose = |bob: &mut Participant| {
        ann.send_line("/propose demo__add a=1 b=2");
        bob.recv_until("mcp/proposal")["id"].as_str().unwrap().to_owned()
    };
    let first = propose(&mut bob);
    bob.send_line(&format!("/approve {first}"));
    let reply = bob.recv_until("mcp/response result");
    assert_eq!(reply["context_of"]["proposal_id"], *first);
    let second = propose(&mut bob);
    bob.send_line(&format!("/reject {second} not now"));
    assert_eq!(bob.recv_until("mcp/reject")["payload"]["reason"], "not now");
    let third = propose(&mut bob);
    ann.send_line(&format!("/withdraw {third}"));
    bob.recv_until("mcp/withdraw");
    bob.send_line(&format!("/approve {third}"));
    bob.send_line("bye");
    ann.recv_until("chat bye");
    assert_eq!((ann.close(), bob.close()), (Some(0), Some(1)));
}

#[test]
fn join_failure_reports_reason() {
    let folder = TempFolder::new("join-refused");
    assert!(folder.toolpost(&["token", "new", "ann"]).status.success());
    let gateway = Gateway::start(&folder);
    let url = gateway.url();
    for (arguments, exit, message) in [
        (&["lobby", "--url", "ws://127.0.0.1:1"][..], 3, "is `toolpost serve` running there?"),
        (&["a/b", "--url", &url], 2, "invalid room name"),
        (&["lobby", "--url", "wss://127.0.0.1:1"], 3, "is `toolpost serve` running there?"),
        (&["lobby", "--url", &url, "--token", "wrong"], 1, "--token"),
        (&["lobby", "--url", &url, "--as", "eve"], 1, "--token"),
    ] {
        let output = run_with_stdin(&[&["room", "join"], arguments].concat(), "");
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {text}");
        assert!(text.contains(message), "{arguments:?}: {text}");
    }
}

#[test]
fn join_at_terminal_shows_prompt_and_lines() {
    let folder = TempFolder::new("join-terminal");
    let gateway = Gateway::start(&folder);
    let mut terminal = Terminal::open(&folder);
    terminal.run(&format!("export TOOLPOST_URL={}", gateway.url()));
    let evil = r"printf 'see \033]0;title\007this\n/call demo__add a=1 b=2\n/call demo__fail\n'";
    let screen = terminal.run(&format!("{evil} | toolpost room join lobby --as ann"));
    for line in [
        "You are ann in lobby with toolpost. /help lists the commands.",
        "ann  see \u{fffd}]0;title\u{fffd}this",
        "ann  → tools/call demo__add {\"a\":1,\"b\":2}  @toolpost",
        "toolpost  ✓ demo__add {\"sum\":3}  requested by ann",
        "toolpost  ✗ demo__fail DEMO_FAILURE: ",
    ] {
        assert!(screen.contains(line), "{line}: {screen}");
    }
    terminal.type_keys("toolpost room join lobby --as bob\n");
    for message in ["ann  see ", "toolpost  ✗ demo__fail", "You are bob in lobby"] {
        terminal.wait_for(message);
    }
    for (keys, message) in [
        ("/he\t\r", "/approve ID"),
        ("/call demo__add a=2 b=3\r", "toolpost  ✓ demo__add {\"sum\":5}  requested by bob"),
        ("/nothing\r", "unknown command /nothing"),
    ] {
        terminal.type_keys(keys);
        terminal.wait_for(message);
    }
    terminal.type_keys("/quit\r");
    terminal.wait_for(SHELL);
    // The terminal mode is restored.
    assert!(terminal.run("stty -a").contains(" icanon "), "the terminal mode is restored");
}
