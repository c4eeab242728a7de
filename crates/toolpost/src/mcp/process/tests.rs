//! Servers without a watcher, and what the keeper does with one. What a watcher itself does is tested
//! with the real command.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_util::task::TaskTracker;

use super::{Child, Ended, patience, spawn, watcher};
use crate::mcp::settings::StdioSettings;
use crate::protocol::Secret;

/// What is asserted never takes so long, even on a machine with too much to do.
const LONG: Duration = Duration::from_secs(60);

fn start(script: &str, tracker: &TaskTracker) -> Child {
    spawn("test", &StdioSettings::new("sh", ["-c", script]), tracker).unwrap()
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("it takes too long")
}

async fn drained(tracker: &TaskTracker) {
    tracker.close();
    within(tracker.wait()).await;
}

/// The first line that a server writes, with `count` ids of processes in it.
async fn ids(child: &mut Child, count: usize) -> Vec<i32> {
    let mut lines = BufReader::new(&mut child.stdout).lines();
    loop {
        let line = within(lines.next_line()).await.unwrap().expect("a line with ids");
        // A watcher that is a test has other lines before.
        let ids: Result<Vec<i32>, _> = line.split_whitespace().map(str::parse).collect();
        if let Some(ids) = ids.ok().filter(|ids| ids.len() == count) {
            return ids;
        }
    }
}

/// An ended process may be there until its parent asks about it, which is not our affair.
async fn all_gone(ids: &[i32]) {
    let runs = |id: &i32| {
        let stat = std::fs::read_to_string(Path::new("/proc").join(id.to_string()).join("stat"));
        stat.is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with('Z'))
    };
    within(async {
        while ids.iter().any(runs) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_end_is_told_with_the_last_words() {
    for (script, ended, words) in [
        ("exit 0", "it exited with code 0", ""),
        ("echo no key >&2; exit 3", "it exited with code 3", "no key"),
        ("printf 'a\\n\\nb' >&2; kill -SEGV $$", "it was killed by SIGSEGV", "a\nb"),
        ("(while :; do sleep 1; done) & echo left >&2; exit 1", "it exited with code 1", "left"),
    ] {
        let tracker = TaskTracker::new();
        let child = start(script, &tracker);
        for _ in 0..2 {
            assert_eq!(within(child.process.ended()).await.to_string(), ended, "{script}");
        }
        assert_eq!(child.process.last_words(), words, "{script}");
        assert_eq!(within(child.process.end()).await.to_string(), ended, "{script}");
        drained(&tracker).await;
    }
}

#[tokio::test]
async fn bytes_go_in_and_come_out() {
    let tracker = TaskTracker::new();
    let Child { mut stdin, mut stdout, process } = start("exec cat", &tracker);
    let message = vec![b'x'; 1 << 20];
    let writing = async {
        stdin.write_all(&message).await.unwrap();
        // Closing is asking to leave.
        drop(stdin);
    };
    let mut answer = Vec::new();
    let (_, read) = within(async { tokio::join!(writing, stdout.read_to_end(&mut answer)) }).await;
    assert_eq!(read.unwrap(), message.len());
    assert_eq!(within(process.ended()).await, Ended::Exited(0));
    drained(&tracker).await;
}

#[tokio::test]
async fn the_environment_is_what_programs_need_and_what_is_given() {
    let tracker = TaskTracker::new();
    let mut settings =
        StdioSettings::new("sh", ["-c", "echo \"$HOME,${TOOLPOST_TOKEN-unset},$KEY,$PWD\""]);
    settings.env.insert("KEY".to_owned(), Secret::new("value"));
    settings.cwd = Some("/".into());
    let mut said = String::new();
    let mut child = spawn("test", &settings, &tracker).unwrap();
    within(child.stdout.read_to_string(&mut said)).await.unwrap();
    let home = std::env::var("HOME").unwrap_or_default();
    assert_eq!(said, format!("{home},unset,value,/\n"));
    drop(child);
    drained(&tracker).await;
    // Inheritance cannot be tried here, because the environment of a test is everybody's; what is
    // asked of the system can.
    let command = spawn::command(&settings);
    let given: Vec<_> = command.as_std().get_envs().map(|(name, _)| name.to_owned()).collect();
    let has = |name: &str| given.iter().any(|given| given == name);
    assert!(has("KEY") && has("PATH"), "{given:?}");
    // Cargo sets these for every test.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && !has("CARGO_MANIFEST_DIR"));
}

#[tokio::test]
async fn whoever_is_asked_to_end_ends_with_its_children_however_stubborn() {
    let polite = "cat >/dev/null; exit 5";
    let deaf = "while :; do sleep 1; done";
    let stubborn = "trap '' TERM; while :; do sleep 1; done";
    for (script, ended, least) in [
        (polite, Ended::Exited(5), Duration::ZERO),
        (deaf, Ended::Killed(15), patience::LEAVE),
        (stubborn, Ended::Killed(9), patience::LEAVE + patience::TERMINATE),
    ] {
        let tracker = TaskTracker::new();
        let mut child = start(&format!("sleep 1000 & echo $$ $!; {script}"), &tracker);
        let ids = ids(&mut child, 2).await;
        let Child { stdin, stdout, process } = child;
        let stopping = process.stopping();
        let writer = tokio::spawn(async move {
            stopping.cancelled().await;
            drop(stdin);
        });
        let begun = tokio::time::Instant::now();
        assert_eq!(within(process.end()).await, ended, "{script}");
        assert!(begun.elapsed() >= least, "{script}: {:?}", begun.elapsed());
        all_gone(&ids).await;
        writer.await.unwrap();
        drop(stdout);
        drained(&tracker).await;
    }
}

#[tokio::test]
async fn dropping_the_handle_ends_it_in_a_task_that_is_owned() {
    let tracker = TaskTracker::new();
    let mut child = start("trap '' TERM; sleep 1000 & echo $$ $!; wait", &tracker);
    let ids = ids(&mut child, 2).await;
    drop(child);
    drained(&tracker).await;
    all_gone(&ids).await;
}

#[test]
fn a_runtime_that_is_dropped_leaves_nothing_behind() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (child, ids) = first.block_on(async {
        let mut child = start("trap '' TERM; sleep 1000 & echo $$ $!; wait", &TaskTracker::new());
        let ids = ids(&mut child, 2).await;
        (child, ids)
    });
    drop(first);
    runtime().block_on(async {
        assert_eq!(within(child.process.ended()).await, Ended::Unknown);
        all_gone(&ids).await;
    });
}

#[tokio::test]
async fn words_without_end_do_not_stop_the_server_or_its_end() {
    let tracker = TaskTracker::new();
    let mut child = start("yes words >&2 & echo $$ $!; wait", &tracker);
    let ids = ids(&mut child, 2).await;
    within(async {
        while child.process.last_words().lines().count() < 20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    drop(child);
    drained(&tracker).await;
    all_gone(&ids).await;
}

const WATCHED: &str = "TOOLPOST_TEST_WATCHED";

/// Not a test, but the watcher of the tests below: this program run once more, by a shell that puts
/// the arguments where the test harness does not read them.
#[test]
fn as_watcher() {
    if let Ok(words) = std::env::var(WATCHED) {
        let arguments: Vec<OsString> = words.split_terminator('\n').map(OsString::from).collect();
        std::process::exit(watcher::run(&arguments).into());
    }
}

fn start_watched(script: &str, tracker: &TaskTracker) -> Child {
    let us = std::env::current_exe().unwrap();
    let name = "mcp::process::tests::as_watcher";
    let again = format!(
        r#"{WATCHED}="$(printf '%s\n' "$@")" exec {} --exact {name} --nocapture"#,
        us.display()
    );
    let mut settings = StdioSettings::new("sh", ["-c", script]);
    settings.watcher = ["sh", "-c", &again, "watcher"].map(OsString::from).to_vec();
    spawn("test", &settings, tracker).unwrap()
}

#[tokio::test]
async fn behind_a_watcher_ends_have_the_same_words() {
    for (script, ended, words) in [
        ("echo no key >&2; exit 3", "it exited with code 3", "no key"),
        ("kill -SEGV $$", "it was killed by SIGSEGV", ""),
        ("exec /no/such/program 2>/dev/null", "it exited with code 127", ""),
    ] {
        let tracker = TaskTracker::new();
        let child = start_watched(script, &tracker);
        assert_eq!(within(child.process.ended()).await.to_string(), ended, "{script}");
        assert_eq!(child.process.last_words(), words, "{script}");
        drop(child);
        drained(&tracker).await;
    }
}

#[tokio::test]
async fn behind_a_watcher_even_a_session_of_its_own_is_ended() {
    let stubborn = "trap '' TERM; setsid sleep 1000 & echo $$ $! $PPID; wait";
    for dropped in [false, true] {
        let tracker = TaskTracker::new();
        let mut child = start_watched(stubborn, &tracker);
        let ids = ids(&mut child, 3).await;
        if dropped {
            drop(child);
        } else {
            assert_eq!(within(child.process.end()).await, Ended::Killed(9));
        }
        drained(&tracker).await;
        all_gone(&ids).await;
    }
}

#[tokio::test]
async fn a_watcher_that_is_killed_or_hangs_takes_the_group_with_it() {
    for signal in ["KILL", "STOP"] {
        let tracker = TaskTracker::new();
        let mut child =
            start_watched("trap '' TERM; sleep 1000 & echo $$ $! $PPID; wait", &tracker);
        let ids = ids(&mut child, 3).await;
        let watcher = ids[2].to_string();
        let sent =
            std::process::Command::new("kill").args([&format!("-{signal}"), &watcher]).status();
        assert!(sent.unwrap().success());
        if signal == "KILL" {
            assert_eq!(within(child.process.ended()).await, Ended::Killed(9));
        }
        within(child.process.end()).await;
        drained(&tracker).await;
        all_gone(&ids).await;
    }
}
