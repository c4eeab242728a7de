//! The process between this process and a server, which outlives this process.
//!
//! A process cannot handle SIGKILL, so another process has to terminate its children. On Linux,
//! the watcher is the subreaper of its descendants: orphaned processes become its children, even
//! after `setsid` or a double fork, so it can terminate all of them. On other systems, it
//! terminates the process group of the server.
//!
//! The server inherits the pipes directly; no protocol data passes through the watcher.

mod descendants;
mod launch;
mod parent;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use rustix::process::Pid;
use tokio::signal::unix::{SignalKind, signal};

use super::{process_group, timeouts};
use descendants::Descendants;
use parent::ParentProcess;

/// Flag before the id of the process to watch.
const PARENT_FLAG: &str = "--parent";
/// Flag before the process id of the watcher, for the process that becomes the server.
const WATCHER_FLAG: &str = "--watcher";
/// Separator before the command line of the server.
const COMMAND_SEPARATOR: &str = "--";

/// Exit code for an invalid command line.
const EXIT_USAGE: u8 = 2;
/// Exit code for an internal error of the watcher.
const EXIT_INTERNAL_ERROR: u8 = 125;

/// Arguments between the command line of the watcher and that of the server.
pub(super) fn parent_arguments() -> [OsString; 3] {
    [PARENT_FLAG.into(), std::process::id().to_string().into(), COMMAND_SEPARATOR.into()]
}

/// Runs a server, and terminates it and its descendants when the parent process exits.
///
/// This is the entire `main` of a process whose command line is
/// [`StdioSettings::watcher`](crate::mcp::StdioSettings::watcher), which should start with an
/// absolute path and run directly, without a wrapper such as `sudo`. `arguments` are the arguments
/// after that command line. Call it before any other initialization, because the watcher runs as
/// long as its server and should use little memory.
///
/// The watcher terminates all descendants when the server exits, when its parent exits, and on
/// SIGTERM, SIGINT and SIGHUP. If the parent exits, the standard input of the server is closed, and
/// the server has time to exit gracefully. Then the watcher sends SIGTERM to all descendants, and
/// shortly after SIGKILL. The exit code is that of the server, or 128 plus the number of the signal
/// that killed it. If the server cannot be run, the exit code is 126 or 127, and the reason is
/// written to standard error. Nothing is written to standard output.
///
/// On Linux the server also gets SIGKILL if the watcher itself is killed. The descendants of the
/// server are then terminated only if they are in the same process group and the parent process is
/// still running.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     let mut arguments = std::env::args_os().skip(1);
///     if arguments.next().is_some_and(|word| word == "watch-child") {
///         return toolpost::mcp::watch_child(arguments);
///     }
///     // The actual program, with `[path of this program, "watch-child"]` as the watcher.
///     ExitCode::SUCCESS
/// }
/// ```
pub fn watch_child(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    ExitCode::from(run(&arguments))
}

pub(super) fn run(arguments: &[OsString]) -> u8 {
    match parse(arguments) {
        Some((PARENT_FLAG, id, line)) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let watched = runtime.and_then(|it| it.block_on(supervise(id, arguments, line)));
            watched.unwrap_or_else(|error| {
                report_error(EXIT_INTERNAL_ERROR, &format!("cannot watch the server: {error}"))
            })
        }
        Some((_, id, line)) => launch::exec_server(id, line),
        None => {
            report_error(EXIT_USAGE, "internal command; usage: watch-child --parent ID -- COMMAND")
        }
    }
}

/// Parses the role flag, the process id and the command line of the server.
fn parse(arguments: &[OsString]) -> Option<(&'static str, Pid, &[OsString])> {
    let [role, id, dashes, line @ ..] = arguments else { return None };
    let role = [PARENT_FLAG, WATCHER_FLAG].into_iter().find(|known| role == known)?;
    let id = Pid::from_raw(id.to_str()?.parse().ok().filter(|id| *id > 0)?)?;
    (dashes == COMMAND_SEPARATOR && !line.is_empty()).then_some((role, id, line))
}

async fn supervise(parent: Pid, arguments: &[OsString], line: &[OsString]) -> io::Result<u8> {
    let stop = stop_requested()?;
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
        () = stop => {}
        () = parent.wait_exit() => {
            let _ = tokio::time::timeout(timeouts::GRACEFUL_EXIT, descendants.wait_server_exit(&mut child_signals)).await;
        }
    }
    if !process_group::terminate(&mut descendants).await {
        report_error(EXIT_INTERNAL_ERROR, "failed to terminate server processes");
    }
    Ok(descendants.exit_code())
}

/// Handles signals from now on; the future resolves when one requests termination.
fn stop_requested() -> io::Result<impl Future<Output = ()>> {
    let [terminate, interrupt, hangup] =
        [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let (mut terminate, mut interrupt, mut hangup) = (terminate?, interrupt?, hangup?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

/// Writes an error to standard error, which the server shares, and returns the exit code.
fn report_error(code: u8, message: &str) -> u8 {
    // The reader may have closed the pipe.
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
