//! Tests for servers without a watcher, and for `ChildSupervisor` with one. The watcher itself is
//! tested with the real command.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_util::task::TaskTracker;

use super::{ProcessExit, ServerProcess, spawn, timeouts, watcher};
use crate::mcp::settings::StdioSettings;
use crate::protocol::Secret;

/// Upper bound for every wait, sufficient even on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn start(script: &str, tracker: &TaskTracker) -> ServerProcess {
    spawn("test", &StdioSettings::new("sh", ["-c", script]), tracker).unwrap()
}

async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, future).await.expect("timed out")
}

async fn wait_drained(tracker: &TaskTracker) {
    tracker.close();
    with_timeout(tracker.wait()).await;
}

/// Reads lines until one consists of `count` process ids.
async fn read_pids(child: &mut ServerProcess, count: usize) -> Vec<i32> {
    let mut lines = BufReader::new(&mut child.stdout).lines();
    loop {
        let line = with_timeout(lines.next_line()).await.unwrap().expect("a line with ids");
        // A watcher that runs in the test harness prints other lines first.
        let ids: Result<Vec<i32>, _> = line.split_whitespace().map(str::parse).collect();
        if let Some(ids) = ids.ok().filter(|ids| ids.len() == count) {
            return ids;
        }
    }
}

/// Waits until all processes have exited. A zombie counts as exited, because reaping is up to its
/// parent.
async fn wait_all_exited(ids: &[i32]) {
    let runs = |id: &i32| {
        let stat = std::fs::read_to_string(Path::new("/proc").join(id.to_string()).join("stat"));
        stat.is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with('Z'))
    };
    with_timeout(async {
        while ids.iter().any(runs) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn process_exit_reports_status_and_stderr_tail() {
    for (script, ended, message) in [
        ("exit 0", "exited with code 0", ""),
        ("echo no key >&2; exit 3", "exited with code 3", "no key"),
        ("printf 'a\\n\\nb' >&2; kill -SEGV $$", "was killed by SIGSEGV", "a\nb"),
        ("(while :; do sleep 1; done) & echo left >&2; exit 1", "exited with code 1", "left"),
    ] {
        let tracker = TaskTracker::new();
        let child = start(script, &tracker);
        for _ in 0..2 {
            assert_eq!(with_timeout(child.handle.exited()).await.to_string(), ended, "{script}");
        }
        assert_eq!(child.handle.stderr_tail().text(), message, "{script}");
        assert_eq!(with_timeout(child.handle.terminate()).await.to_string(), ended, "{script}");
        wait_drained(&tracker).await;
    }
}

#[tokio::test]
async fn process_pipes_carry_stdin_to_stdout() {
    let tracker = TaskTracker::new();
    let ServerProcess { mut stdin, mut stdout, handle } = start("exec cat", &tracker);
    let message = vec![b'x'; 1 << 20];
    let writing = async {
        stdin.write_all(&message).await.unwrap();
        // Closing the input requests the exit.
        drop(stdin);
    };
    let mut response = Vec::new();
    let (_, read) =
        with_timeout(async { tokio::join!(writing, stdout.read_to_end(&mut response)) }).await;
    assert_eq!(read.unwrap(), message.len());
    assert_eq!(with_timeout(handle.exited()).await, ProcessExit::Exited(0));
    wait_drained(&tracker).await;
}

#[tokio::test]
async fn process_environment_is_allowlist_plus_settings() {
    let tracker = TaskTracker::new();
    let mut settings =
        StdioSettings::new("sh", ["-c", "echo \"$HOME,${TOOLPOST_TOKEN-unset},$KEY,$PWD\""]);
    settings.env.insert("KEY".to_owned(), Secret::new("value"));
    settings.cwd = Some("/".into());
    let mut message = String::new();
    let mut child = spawn("test", &settings, &tracker).unwrap();
    with_timeout(child.stdout.read_to_string(&mut message)).await.unwrap();
    let home = std::env::var("HOME").unwrap_or_default();
    assert_eq!(message, format!("{home},unset,value,/\n"));
    drop(child);
    wait_drained(&tracker).await;
    // All tests share one environment, so inheritance is checked on the command instead.
    let command = spawn::command(&settings);
    let given: Vec<_> = command.as_std().get_envs().map(|(name, _)| name.to_owned()).collect();
    let has = |name: &str| given.iter().any(|given| given == name);
    assert!(has("KEY") && has("PATH"), "{given:?}");
    // Cargo sets this variable for every test.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && !has("CARGO_MANIFEST_DIR"));
}

#[tokio::test]
async fn terminate_escalates_and_kills_child_processes() {
    let exits_on_stdin_close = "cat >/dev/null; exit 5";
    let ignores_stdin = "while :; do sleep 1; done";
    let ignores_sigterm = "trap '' TERM; while :; do sleep 1; done";
    for (script, ended, min_elapsed) in [
        (exits_on_stdin_close, ProcessExit::Exited(5), Duration::ZERO),
        (ignores_stdin, ProcessExit::Killed(15), timeouts::GRACEFUL_EXIT),
        (ignores_sigterm, ProcessExit::Killed(9), timeouts::GRACEFUL_EXIT + timeouts::TERMINATE),
    ] {
        let tracker = TaskTracker::new();
        let mut child = start(&format!("sleep 1000 & echo $$ $!; {script}"), &tracker);
        let ids = read_pids(&mut child, 2).await;
        let ServerProcess { stdin, stdout, handle } = child;
        let stopping = handle.stopping();
        let writer = tokio::spawn(async move {
            stopping.cancelled().await;
            drop(stdin);
        });
        let begun = tokio::time::Instant::now();
        assert_eq!(with_timeout(handle.terminate()).await, ended, "{script}");
        assert!(begun.elapsed() >= min_elapsed, "{script}: {:?}", begun.elapsed());
        wait_all_exited(&ids).await;
        writer.await.unwrap();
        drop(stdout);
        wait_drained(&tracker).await;
    }
}

#[tokio::test]
async fn dropping_handle_terminates_process_in_tracked_task() {
    let tracker = TaskTracker::new();
    let mut child = start("trap '' TERM; sleep 1000 & echo $$ $!; wait", &tracker);
    let ids = read_pids(&mut child, 2).await;
    drop(child);
    wait_drained(&tracker).await;
    wait_all_exited(&ids).await;
}

#[test]
fn dropping_runtime_kills_process_group() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (child, ids) = first.block_on(async {
        let mut child = start("trap '' TERM; sleep 1000 & echo $$ $!; wait", &TaskTracker::new());
        let ids = read_pids(&mut child, 2).await;
        (child, ids)
    });
    drop(first);
    runtime().block_on(async {
        assert_eq!(with_timeout(child.handle.exited()).await, ProcessExit::Unknown);
        wait_all_exited(&ids).await;
    });
}

#[tokio::test]
async fn endless_stderr_does_not_block_termination() {
    let tracker = TaskTracker::new();
    let mut child = start("yes words >&2 & echo $$ $!; wait", &tracker);
    let ids = read_pids(&mut child, 2).await;
    with_timeout(async {
        while child.handle.stderr_tail().text().lines().count() < 20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    drop(child);
    wait_drained(&tracker).await;
    wait_all_exited(&ids).await;
}

const WATCHER_ARGUMENTS: &str = "TOOLPOST_TEST_WATCHED";

/// Entry point of the watcher in the tests below, not a test itself. A shell runs this program
/// again and passes the arguments in an environment variable, which the test harness does not
/// parse.
#[test]
fn watcher_entry_point() {
    if let Ok(message) = std::env::var(WATCHER_ARGUMENTS) {
        let arguments: Vec<OsString> = message.split_terminator('\n').map(OsString::from).collect();
        std::process::exit(watcher::run(&arguments).into());
    }
}

fn start_watched(script: &str, tracker: &TaskTracker) -> ServerProcess {
    let us = std::env::current_exe().unwrap();
    let name = "mcp::process::tests::watcher_entry_point";
    let again = format!(
        r#"{WATCHER_ARGUMENTS}="$(printf '%s\n' "$@")" exec {} --exact {name} --nocapture"#,
        us.display()
    );
    let mut settings = StdioSettings::new("sh", ["-c", script]);
    settings.watcher = ["sh", "-c", &again, "watcher"].map(OsString::from).to_vec();
    spawn("test", &settings, tracker).unwrap()
}

#[tokio::test]
async fn watched_process_exit_matches_unwatched() {
    for (script, ended, message) in [
        ("echo no key >&2; exit 3", "exited with code 3", "no key"),
        ("kill -SEGV $$", "was killed by SIGSEGV", ""),
        ("exec /no/such/program 2>/dev/null", "exited with code 127", ""),
    ] {
        let tracker = TaskTracker::new();
        let child = start_watched(script, &tracker);
        assert_eq!(with_timeout(child.handle.exited()).await.to_string(), ended, "{script}");
        assert_eq!(child.handle.stderr_tail().text(), message, "{script}");
        drop(child);
        wait_drained(&tracker).await;
    }
}

#[tokio::test]
async fn watcher_terminates_descendant_in_own_session() {
    let ignores_sigterm = "trap '' TERM; setsid sleep 1000 & echo $$ $! $PPID; wait";
    for dropped in [false, true] {
        let tracker = TaskTracker::new();
        let mut child = start_watched(ignores_sigterm, &tracker);
        let ids = read_pids(&mut child, 3).await;
        if dropped {
            drop(child);
        } else {
            assert_eq!(with_timeout(child.handle.terminate()).await, ProcessExit::Killed(9));
        }
        wait_drained(&tracker).await;
        wait_all_exited(&ids).await;
    }
}

#[tokio::test]
async fn killed_or_stopped_watcher_terminates_process_group() {
    for signal in ["KILL", "STOP"] {
        let tracker = TaskTracker::new();
        let mut child =
            start_watched("trap '' TERM; sleep 1000 & echo $$ $! $PPID; wait", &tracker);
        let ids = read_pids(&mut child, 3).await;
        let watcher = ids[2].to_string();
        let sent =
            std::process::Command::new("kill").args([&format!("-{signal}"), &watcher]).status();
        assert!(sent.unwrap().success());
        if signal == "KILL" {
            assert_eq!(with_timeout(child.handle.exited()).await, ProcessExit::Killed(9));
        }
        with_timeout(child.handle.terminate()).await;
        wait_drained(&tracker).await;
        wait_all_exited(&ids).await;
    }
}
