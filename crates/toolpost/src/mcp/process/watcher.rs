//! The process between us and a server, which outlives us by a moment.
//!
//! Nobody can act on being killed by SIGKILL, so that somebody else has to end what we started. On
//! Linux the watcher is the subreaper of everything below it: a process whose parent is gone becomes
//! its child, also one that made a session of its own or forked twice, so that none gets away.
//! Elsewhere it ends the process group of the server.
//!
//! The server has the pipes itself; no byte of the protocol passes through the watcher.

mod descendants;
mod launch;
mod parent;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use rustix::process::Pid;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{process_group, timeouts};
use descendants::Descendants;
use parent::ParentProcess;

/// Before the id of the process whose end is watched for.
const PARENT_FLAG: &str = "--parent";
/// Before the id of the watcher, in the process that is about to become the server.
const WATCHER_FLAG: &str = "--watcher";
/// Before the command line of the server.
const COMMAND_SEPARATOR: &str = "--";

/// The exit code of a command line that is not understood.
const EXIT_USAGE: u8 = 2;
/// The exit code of a watcher that could not do its work.
const EXIT_INTERNAL_ERROR: u8 = 125;

/// What stands between the command line of a watcher and that of the server.
pub(super) fn parent_arguments() -> [OsString; 3] {
    [PARENT_FLAG.into(), std::process::id().to_string().into(), COMMAND_SEPARATOR.into()]
}

/// Runs a server, and ends it with everything below it when the process that wanted it is gone.
///
/// This is the whole `main` of a process whose command line is that of
/// [`StdioSettings::watcher`](crate::mcp::StdioSettings::watcher), which should begin with an absolute
/// path and be run without anything in between, such as `sudo`. The arguments are those that follow
/// it. Call it before anything else: a watcher is there for as long as its server, and should be small.
///
/// The watcher ends everything below it when the server ends, when its parent is gone, and on SIGTERM,
/// SIGINT and SIGHUP. If its parent is gone, the server may leave by itself first, since its standard
/// input was closed with it. Then every descendant gets SIGTERM, and a moment later SIGKILL. The exit
/// code is that of the server, or 128 and the number of the signal that killed it; 126 or 127 if it
/// cannot be run, with the reason on standard error. Nothing is ever written to standard output.
///
/// On Linux a server also gets SIGKILL if the watcher itself is killed; what is below the server is then
/// ended only as far as it is in the same process group and our own process is still there.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     let mut arguments = std::env::args_os().skip(1);
///     if arguments.next().is_some_and(|word| word == "watch-child") {
///         return toolpost::mcp::watch_child(arguments);
///     }
///     // What the program is for, with `[path of this program, "watch-child"]` as the watcher.
///     ExitCode::SUCCESS
/// }
/// ```
pub fn watch_child(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    ExitCode::from(run(&arguments))
}

pub(super) fn run(arguments: &[OsString]) -> u8 {
    match parse(arguments) {
        Some((PARENT_FLAG, id, line)) => run_watcher(id, arguments, line),
        Some((_, id, line)) => launch::exec_server(id, line),
        None => report_error(
            EXIT_USAGE,
            "this is run by a process that starts a server: --parent ID -- COMMAND",
        ),
    }
}

/// Which of the two this is, an id, and the command line of the server.
fn parse(arguments: &[OsString]) -> Option<(&'static str, Pid, &[OsString])> {
    let [role, id, dashes, line @ ..] = arguments else { return None };
    let role = [PARENT_FLAG, WATCHER_FLAG].into_iter().find(|known| role == known)?;
    let id = Pid::from_raw(id.to_str()?.parse().ok().filter(|id| *id > 0)?)?;
    (dashes == COMMAND_SEPARATOR && !line.is_empty()).then_some((role, id, line))
}

fn run_watcher(parent: Pid, arguments: &[OsString], line: &[OsString]) -> u8 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let watched = runtime.and_then(|runtime| runtime.block_on(supervise(parent, arguments, line)));
    watched.unwrap_or_else(|error| {
        report_error(EXIT_INTERNAL_ERROR, &format!("cannot watch the server: {error}"))
    })
}

async fn supervise(parent: Pid, arguments: &[OsString], line: &[OsString]) -> io::Result<u8> {
    // Whoever asks for the end from here on is heard.
    let mut stop = StopRequests::new()?;
    let mut child_signals = signal(SignalKind::child())?;
    let mut parent = ParentProcess::new(parent);
    if parent.has_exited() {
        return Ok(EXIT_INTERNAL_ERROR);
    }
    let mut descendants = match launch::start(arguments, line) {
        Ok(server) => Descendants::new(server),
        Err(error) => return Ok(launch::report_spawn_error(line, &error)),
    };
    launch::release_pipes()?;
    tokio::select! {
        () = descendants.wait_server_exit(&mut child_signals) => {}
        () = stop.next() => {}
        () = parent.wait_exit() => {
            let _ = tokio::time::timeout(timeouts::GRACEFUL_EXIT, descendants.wait_server_exit(&mut child_signals)).await;
        }
    }
    if !process_group::terminate(&mut descendants).await {
        report_error(EXIT_INTERNAL_ERROR, "failed to terminate server processes");
    }
    Ok(descendants.exit_code())
}

/// The signals that ask a process to end.
struct StopRequests([Signal; 3]);

impl StopRequests {
    fn new() -> io::Result<Self> {
        let [terminate, interrupt, hangup] =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
        Ok(Self([terminate?, interrupt?, hangup?]))
    }

    async fn next(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// Says what is wrong where the server would say it.
fn report_error(code: u8, message: &str) -> u8 {
    // Nobody may be left to hear it.
    let _ = writeln!(io::stderr(), "{message}");
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watcher_arguments_are_role_pid_and_command() {
        for (typed, expected) in [
            ("--parent 7 -- sh", Some("--parent 7 sh")),
            ("--parent 7 -- sh -- --parent", Some("--parent 7 sh -- --parent")),
            ("--watcher 7 -- sh -c x", Some("--watcher 7 sh -c x")),
            ("--parent 7 --", None),
            ("--parent 7 sh", None),
            ("--parent 0 -- sh", None),
            ("--parent -7 -- sh", None),
            ("--parent x -- sh", None),
            ("--child 7 -- sh", None),
            ("", None),
        ] {
            let arguments: Vec<OsString> = typed.split_whitespace().map(OsString::from).collect();
            let parsed = parse(&arguments).map(|(role, id, line)| {
                let line: Vec<&str> =
                    line.iter().filter_map(|argument| argument.to_str()).collect();
                format!("{role} {} {}", id.as_raw_pid(), line.join(" "))
            });
            assert_eq!(parsed.as_deref(), expected, "{typed}");
        }
        assert!(parse(&[&parent_arguments()[..], &["sh".into()]].concat()).is_some());
    }
}
