//! Output on a terminal, as opposed to a pipe.

use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};

use super::journal::fixture::Gateway;
use super::process::{Process, TIMEOUT, wait_until};
use super::{TempFolder, stdout};

/// Each row: a command and whether its output is colored.
#[test]
fn color_depends_on_terminal_and_no_color() {
    let folder = TempFolder::new("colors");
    let mut terminal = Terminal::open(&folder);
    for (typed, colored) in [
        ("toolpost call demo.add --a 2 --b 3", true),
        ("toolpost call demo.add --a 2 --b 3 --json", false),
        ("toolpost call demo.add --a 2 --b 3 | cat", false),
        ("NO_COLOR=1 toolpost call demo.add --a 2 --b 3", false),
        ("toolpost call demo.ad", true),
        ("toolpost call demo.ad 2>&1 | cat", false),
        ("NO_COLOR=1 toolpost call demo.ad", false),
        ("TOOLPOST_LOG=debug toolpost call demo.fail > /dev/null", true),
        ("NO_COLOR=1 TOOLPOST_LOG=debug toolpost call demo.fail > /dev/null", false),
        ("TOOLPOST_LOG=debug toolpost call demo.fail 2>&1 > /dev/null | cat", false),
    ] {
        let written = terminal.run_raw(typed);
        assert!(!written.trim().is_empty(), "{typed}");
        assert_eq!(has_color(&written), colored, "{typed}: {written:?}");
    }
}

/// Whether the text contains an escape sequence that sets a color; a progress bar has others.
fn has_color(written: &str) -> bool {
    let mut sequences = written.split("\u{1b}[").skip(1);
    sequences
        .any(|rest| rest.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).starts_with('m'))
}

/// The text that a service returns cannot reorder what the terminal shows.
#[test]
fn bidirectional_characters_are_escaped_on_terminals() {
    let folder = TempFolder::new("bidirectional");
    let mut terminal = Terminal::open(&folder);
    let text = r#""$(printf 'a\342\200\256b\342\201\246c')""#;
    for options in ["", "--output table", "--output envelope"] {
        let written = terminal.run_raw(&format!("toolpost call demo.note --text {text} {options}"));
        assert!(written.contains(r"a\u202eb\u2066c"), "{options}: {written:?}");
        assert!(!written.contains(['\u{202e}', '\u{2066}']), "{options}: {written:?}");
    }
    let error = terminal.run_raw(&format!("toolpost call demo.fail --message {text}"));
    assert!(error.contains(r"a\u202eb"), "{error:?}");
    let piped = terminal.run_raw(&format!("toolpost call demo.note --text {text} | cat"));
    assert!(piped.contains('\u{202e}'), "programs get the data unchanged: {piped:?}");
}

/// A replay of a call that requires approval shows that it is pending, and its timeout.
#[test]
fn replay_shows_pending_approval() {
    let folder = TempFolder::new("replay-waits");
    folder.write("toolpost.toml", "[approval]\noperations = [\"demo.note\"]\n");
    let gateway = Gateway::start(&folder);
    gateway.post("/api/demo/note?timeout=50ms", &json!({"text": "once"}));
    gateway.wait_for_calls("demo.note", 1);
    let calls = stdout(&gateway.log(&["--op", "demo.note"]));
    let seq = serde_json::from_str::<Value>(&calls).unwrap()["seq"].to_string();
    let mut terminal = Terminal::open(&folder);
    let written = terminal.run_raw(&format!("toolpost replay {seq} --run --timeout 2s"));
    assert!(written.contains("pending approval, expires in"), "{written:?}");
    assert!(!written.contains("0 waiting"), "the time is not a count: {written:?}");
    assert!(written.contains("TIMEOUT"), "{written:?}");
    let written = terminal.run_raw("toolpost log --errors --op demo.note");
    assert!(written.starts_with("Using the running gateway."), "{written:?}");
    assert!(written.contains("\n      ID  TIME "), "{written:?}");
    assert!(written.contains("\u{1b}[31mTIMEOUT: "), "{written:?}");
}

/// A source with 210 operations is listed as one row, unless it is named.
#[test]
fn long_list_shows_namespaces_with_counts() {
    let folder = TempFolder::new("long-list");
    let operation = json!({"get": {"responses": {"200": {"description": "read"}}}});
    let paths: serde_json::Map<_, _> =
        (0..210).map(|n| (format!("/item{n}"), operation.clone())).collect();
    let document = json!({"openapi": "3.1.0", "info": {"title": "Items", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}], "paths": paths});
    folder.write("items.json", &document.to_string());
    folder.write("toolpost.toml", "[source.items]\nopenapi = \"items.json\"\n");
    let mut terminal = Terminal::open(&folder);
    let listed = terminal.run("toolpost list");
    let rows: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[..2], [vec!["NAMESPACE", "OPERATIONS"], vec!["demo", "6"]], "{listed}");
    assert!(rows.contains(&vec!["items", "210"]) && !listed.contains("item7"), "{listed}");
    assert!(
        listed.contains("220 operations; list one namespace with `toolpost list --namespace NAME`"),
        "{listed}"
    );
    for typed in ["toolpost list --namespace items", "toolpost list --output table"] {
        assert!(terminal.run(typed).contains("items.get_item209"), "{typed}");
    }
    assert_eq!(terminal.run("toolpost list | tr ',' '\\n' | grep -c '\"id\"'").trim(), "220");
}

/// A process, killed on drop.
struct ProcessId(String);

impl Drop for ProcessId {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", &self.0]).stderr(Stdio::null()).status();
    }
}

#[test]
fn closed_terminal_ends_serve_but_sighup_reloads() {
    let folder = TempFolder::new("serve-hangup");
    folder.write("toolpost.toml", "");
    let socket = folder.path().join("data/toolpost/gateway.sock");
    let mut terminal = Terminal::open(&folder);
    let serve = "echo pid $$ > id; exec toolpost serve --no-watch --listen 127.0.0.1:0";
    terminal.type_keys(&format!("sh -c '{serve}'\n"));
    terminal.wait_for("curl http://");
    let id = ProcessId(folder.read("id").trim().trim_start_matches("pid ").to_owned());
    assert!(Command::new("kill").args(["-HUP", &id.0]).status().unwrap().success());
    terminal.wait_for("configuration unchanged");
    assert!(socket.exists());
    drop(terminal);
    wait_until("the gateway ends", || !Path::new("/proc").join(&id.0).exists());
    assert!(!socket.exists(), "the gateway was drained");
}

/// Prompt of the shell, a byte that no program prints.
const PROMPT: u8 = 2;
/// `PROMPT` as a string to wait for.
pub(super) const SHELL: &str = "\u{2}";

/// A shell in a pseudo-terminal.
pub(super) struct Terminal {
    _process: Process,
    keyboard: ChildStdin,
    /// The bytes written to the terminal.
    screen: mpsc::Receiver<u8>,
}

impl Terminal {
    pub(super) fn open(folder: &TempFolder) -> Self {
        let binary = Path::new(env!("CARGO_BIN_EXE_toolpost")).parent().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("script");
        command
            .args(["--quiet", "--command", "bash --norc --noprofile --noediting -i", "/dev/null"])
            .env("PATH", format!("{}:{path}", binary.display()))
            .env("TERM", "xterm-256color")
            .env("XDG_DATA_HOME", folder.path().join("data"))
            .env_remove("TOOLPOST_LOG")
            .env_remove("TOOLPOST_TOKEN")
            .env_remove("TOOLPOST_URL")
            .env_remove("NO_COLOR")
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = Process::spawn(&mut command);
        let (keyboard, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, screen) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(output)
                .bytes()
                .map_while(Result::ok)
                .try_for_each(|byte| sender.send(byte))
        });
        let mut terminal = Self { _process: child, keyboard, screen };
        terminal.run("stty -echo cols 110 rows 40; set +m; PS1=$'\\x02' PS2=; bind() { :; }");
        terminal
    }

    /// Runs a command and returns the screen contents without colors.
    pub(super) fn run(&mut self, typed: &str) -> String {
        on_screen(&self.run_raw(typed))
    }

    /// Sends keystrokes to the running program.
    pub(super) fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits until the screen contains this text, ignoring colors.
    pub(super) fn wait_for(&mut self, message: &str) {
        let mut written = Vec::new();
        while !on_screen(&String::from_utf8_lossy(&written)).contains(message) {
            written.push(self.next_byte(message));
        }
    }

    /// Runs a command and returns everything written to the terminal.
    fn run_raw(&mut self, typed: &str) -> String {
        writeln!(self.keyboard, "{typed}").unwrap();
        let mut written = Vec::new();
        loop {
            match self.next_byte(typed) {
                PROMPT => return String::from_utf8(written).unwrap(),
                byte => written.push(byte),
            }
        }
    }

    fn next_byte(&self, what: &str) -> u8 {
        self.screen.recv_timeout(TIMEOUT).unwrap_or_else(|error| panic!("{what}: {error}"))
    }
}

/// Returns the visible lines of the output, without overwritten text and colors.
fn on_screen(written: &str) -> String {
    let mut screen = String::new();
    for line in written.split_terminator('\n') {
        let line = without_escapes(line.trim_end_matches('\r'));
        let line = line.rsplit('\r').next().unwrap_or_default();
        screen.push_str(line.trim_end());
        screen.push('\n');
    }
    screen
}

/// Removes escape sequences.
fn without_escapes(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.strip_prefix('[').unwrap_or(part);
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).map_or(rest.len(), |end| end + 1);
        text.push_str(&rest[end..]);
    }
    text
}
