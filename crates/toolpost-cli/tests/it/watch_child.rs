//! `watch-child`: no process of a server remains, however its parent ends.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::process::{OutputLines, Process, run, wait_until};
use super::{command, stderr, stdout, toolpost};

/// Prints its parent's and its own process id, then those of its descendants: a child, a grandchild
/// in a session of its own, and a daemon that forked twice. Then acts as its argument specifies.
const SERVER: &str = r#"
import os, signal, sys, time
mode = sys.argv[1]
if mode == "stubborn":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
inside, outside = os.pipe()
def live():
    os.write(outside, b"%d\n" % os.getpid())
    while True:
        time.sleep(1000)
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        live()
    live()
middle = os.fork()
if middle == 0:
    os.setsid()
    if os.fork() == 0:
        live()
    os._exit(0)
os.waitpid(middle, 0)
said = b""
while said.count(b"\n") < 3:
    said += os.read(inside, 100)
print("kin", os.getppid(), os.getpid(), *said.decode().split(), flush=True)
if mode == "leaves":
    os._exit(7)
if mode == "polite":
    sys.stdin.read()
    os._exit(0)
while True:
    time.sleep(1000)
"#;

/// Starts the watcher as the gateway does, and holds the write end of the server's standard input.
const PARENT: &str = r#"
import os, subprocess, sys
line = [sys.argv[1], "watch-child", "--parent", str(os.getpid()), "--", *sys.argv[2:]]
sys.exit(subprocess.Popen(line, stdin=subprocess.PIPE).wait())
"#;

/// A parent, a watcher and a server process, all killed on drop.
struct Tree {
    parent: Process,
    stdout: OutputLines,
    /// Process ids of the watcher, the server and its three descendants.
    ids: Vec<String>,
}

impl Tree {
    fn start(mode: &str) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", PARENT, env!("CARGO_BIN_EXE_toolpost"), "python3"]);
        command.args(["-c", SERVER, mode]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut parent = Process::spawn(&mut command);
        let mut stdout = parent.stdout_lines();
        let line = stdout.next().unwrap();
        let ids: Vec<String> = line.split_whitespace().skip(1).map(str::to_owned).collect();
        assert_eq!(ids.len(), 5, "{line}");
        Self { parent, stdout, ids }
    }

    fn signal(&self, signal: &str, id: &str) {
        assert!(Command::new("kill").args([signal, id]).status().unwrap().success());
    }

    /// Waits until none of the processes runs and returns how long that took.
    fn wait_until_gone(&self, ids: &[String], message: &str) -> Duration {
        let begun = Instant::now();
        wait_until(message, || !ids.iter().any(|id| is_running(id)));
        begun.elapsed()
    }

    /// Asserts that every writer of standard output is gone and that there is no further output.
    fn assert_stdout_closed(&mut self) {
        assert_eq!(self.stdout.next(), None);
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for id in self.ids.iter().filter(|id| is_running(id)) {
            let _ = Command::new("kill").args(["-KILL", id]).status();
        }
    }
}

/// Whether a process runs. A zombie does not.
fn is_running(id: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(id).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']))
}

#[test]
fn killed_parent_terminates_process_tree() {
    for mode in ["polite", "deaf", "stubborn"] {
        let mut tree = Tree::start(mode);
        tree.signal("-KILL", &tree.parent.id().to_string());
        let took = tree.wait_until_gone(&tree.ids, mode);
        eprintln!("{mode}: gone after {took:?}");
        tree.assert_stdout_closed();
    }
}

#[test]
fn terminated_watcher_ends_process_tree() {
    for (signal, mode, code) in [
        ("-TERM", "deaf", 143),
        ("-INT", "deaf", 143),
        ("-HUP", "deaf", 143),
        ("-TERM", "stubborn", 137),
    ] {
        let mut tree = Tree::start(mode);
        tree.signal(signal, &tree.ids[0]);
        assert_eq!(tree.parent.exit_status().code(), Some(code), "{signal} {mode}");
        // The watcher exits only after all processes have ended.
        assert!(!tree.ids.iter().any(|id| is_running(id)), "{signal} {mode}");
        tree.assert_stdout_closed();
    }
}

#[test]
fn orphaned_server_children_are_terminated() {
    let mut tree = Tree::start("leaves");
    assert_eq!(tree.parent.exit_status().code(), Some(7));
    assert!(!tree.ids.iter().any(|id| is_running(id)));
    tree.assert_stdout_closed();
}

#[test]
fn killed_watcher_terminates_server() {
    let tree = Tree::start("stubborn");
    tree.signal("-KILL", &tree.ids[0]);
    tree.wait_until_gone(&tree.ids[..2], "the server");
}

#[test]
fn exit_codes_are_forwarded_without_output() {
    for (line, code, out, err) in [
        (&["sh", "-c", "echo out; exit 0"][..], 0, "out\n", ""),
        (&["sh", "-c", "echo err >&2; exit 3"], 3, "", "err\n"),
        (&["sh", "-c", "exit 255"], 255, "", ""),
        (&["sh", "-c", "kill -SEGV $$"], 139, "", ""),
        (&["cat"], 0, "", ""),
        (&["/no/such/program"], 127, "", "cannot start `/no/such/program`: No such file"),
        (&["/"], 126, "", "cannot start `/`: Permission denied"),
    ] {
        let parent = std::process::id().to_string();
        let output = run(command(&["watch-child", "--parent", &parent, "--"]).args(line));
        assert_eq!(output.status.code(), Some(code), "{line:?} {}", stderr(&output));
        assert_eq!(stdout(&output), out, "{line:?}");
        assert!(stderr(&output).starts_with(err), "{line:?} {}", stderr(&output));
        assert!(stderr(&output).lines().count() <= 1, "{line:?} {}", stderr(&output));
    }
}

#[test]
fn missing_parent_terminates_watcher() {
    // Process 1 is not the parent.
    let output = toolpost(&["watch-child", "--parent", "1", "--", "sh", "-c", "echo started"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(125), ""));
}

#[test]
fn watch_child_is_hidden_from_help() {
    let output = toolpost(&["watch-child", "--help"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--parent ID -- COMMAND"), "{}", stderr(&output));
    assert!(!stdout(&toolpost(&["--help"])).contains("watch-child"));
}
