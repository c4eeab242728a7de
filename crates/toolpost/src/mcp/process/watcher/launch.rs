//! Starts the server of a watcher.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Pid;

use super::{EXIT_INTERNAL_ERROR, report_error};

/// Exit code for a command that was not found, by shell convention.
const EXIT_NOT_FOUND: u8 = 127;
/// Exit code for a command that cannot be executed, by shell convention.
const EXIT_NOT_EXECUTABLE: u8 = 126;

/// Starts the server with the pipes of this process.
pub(super) fn start(arguments: &[OsString], command_line: &[OsString]) -> io::Result<Pid> {
    let child = platform::start(arguments, command_line)?;
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok(id.expect("process ids are positive"))
}

/// Closes the watcher's copies of the pipes, so that each side notices when the other closes one.
/// Standard error stays open for messages of the watcher.
pub(super) fn release_pipes() -> io::Result<()> {
    let dev_null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&dev_null)?;
    rustix::stdio::dup2_stdout(&dev_null)?;
    Ok(())
}

/// Runs in the child: replaces this process with the server, which on Linux is killed if the
/// watcher dies. Returns an exit code if that fails.
pub(super) fn exec_server(watcher: Pid, command_line: &[OsString]) -> u8 {
    if !platform::set_parent_death_signal(watcher) {
        return EXIT_INTERNAL_ERROR;
    }
    report_spawn_error(
        command_line,
        &Command::new(&command_line[0]).args(&command_line[1..]).exec(),
    )
}

/// Reports why the server cannot be started, and returns the exit code.
pub(super) fn report_spawn_error(command_line: &[OsString], error: &io::Error) -> u8 {
    let code =
        if error.kind() == io::ErrorKind::NotFound { EXIT_NOT_FOUND } else { EXIT_NOT_EXECUTABLE };
    report_error(code, &format!("cannot start `{}`: {error}", command_line[0].to_string_lossy()))
}

#[cfg(target_os = "linux")]
mod platform {
    use std::process::Child;

    use rustix::process::{
        Signal, getpid, getppid, set_child_subreaper, set_parent_process_death_signal,
    };

    use super::super::{COMMAND_SEPARATOR, WATCHER_FLAG};
    use super::*;

    /// Starts the server through a second instance of this program. A process can set the parent
    /// death signal only for itself, so the instance sets it and then executes the server.
    pub(super) fn start(arguments: &[OsString], command_line: &[OsString]) -> io::Result<Child> {
        set_child_subreaper(Some(getpid()))?;
        let all: Vec<OsString> = std::env::args_os().collect();
        let Some([name, prefix_arguments @ ..]) = all.strip_suffix(arguments) else {
            return spawn_plain(command_line);
        };
        let watcher = getpid().as_raw_pid().to_string();
        // The file at the path of this program may have been replaced by a new version.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(name)
            .args(prefix_arguments)
            .args([WATCHER_FLAG, &watcher, COMMAND_SEPARATOR])
            .args(command_line);
        command.spawn().or_else(|_| spawn_plain(command_line))
    }

    fn spawn_plain(command_line: &[OsString]) -> io::Result<Child> {
        Command::new(&command_line[0]).args(&command_line[1..]).spawn()
    }

    /// Requests SIGKILL when the watcher exits. Returns whether the watcher is still the parent.
    pub(super) fn set_parent_death_signal(watcher: Pid) -> bool {
        set_parent_process_death_signal(Some(Signal::KILL)).is_ok() && getppid() == Some(watcher)
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::process::Child;

    use super::*;

    /// Starts the server in its own process group, which is the target of signals.
    pub(super) fn start(_: &[OsString], line: &[OsString]) -> io::Result<Child> {
        Command::new(&line[0]).args(&line[1..]).process_group(0).spawn()
    }

    pub(super) fn set_parent_death_signal(_: Pid) -> bool {
        true
    }
}
