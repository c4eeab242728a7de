//! Starts server processes and describes why a start failed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use rustix::process::Pid;
use tokio::process::Command;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::child::ChildSupervisor;
use super::stderr_tail::StderrTail;
use super::{ProcessHandle, ServerProcess, stderr, watcher};
use crate::mcp::settings::StdioSettings;

/// Environment variable with the number of Toolpost processes above a server.
pub const DEPTH_VARIABLE: &str = "TOOLPOST_DEPTH";

fn depth() -> u32 {
    std::env::var(DEPTH_VARIABLE).ok().and_then(|depth| depth.parse().ok()).unwrap_or(0)
}

/// Variables that a server inherits. Others may contain secrets and must be configured.
const INHERITED_VARIABLES: [&str; 21] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "PWD",
    "SHELL",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Name prefixes of further inherited variables.
const INHERITED_PREFIXES: [&str; 8] =
    ["LC_", "XDG_", "NODE_EXTRA_CA_CERTS", "NVM_", "npm_config_", "NPM_CONFIG_", "PYTHON", "UV_"];

/// Search path if neither the settings nor the environment set `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Starts a server. `tracker` owns its async tasks, which end with the server and its group.
///
/// The server inherits part of the environment, see [`INHERITED_VARIABLES`]; variables of its
/// settings take precedence. Must be called in a Tokio runtime.
///
/// # Errors
///
/// Returns an error if the command, its working directory or the watcher is missing or cannot be
/// run. With a watcher, some errors are detected only later, such as a missing interpreter: the
/// server then exits with code 126 or 127 and writes the reason to standard error.
pub(crate) fn spawn(
    name: &str,
    settings: &StdioSettings,
    tracker: &TaskTracker,
) -> Result<ServerProcess, String> {
    preflight(settings)?;
    let failed = |error: io::Error| {
        let watcher = settings.watcher.first().map(|watcher| watcher.to_string_lossy());
        let program = watcher.as_deref().unwrap_or(&settings.command);
        format!("cannot start `{program}`: {error}")
    };
    let mut child = command(settings).spawn().map_err(failed)?;
    let parts = (child.stdin.take(), child.stdout.take(), child.stderr.take(), child.id());
    let (Some(stdin), Some(stdout), Some(output), Some(id)) = parts else {
        return Err(failed(io::Error::other("its standard streams are not piped")));
    };
    let leader = Pid::from_raw(id.cast_signed()).expect("process ids are positive");

    let tail = Arc::new(StderrTail::default());
    let source = name.to_owned();
    let reading = stderr::read_stderr(output, tail.clone(), move |line| {
        stderr::log_line(&source, &line);
    });
    let stopping = CancellationToken::new();
    let (sender, ended) = watch::channel(None);
    let supervisor = ChildSupervisor::new(child, leader, !settings.watcher.is_empty());
    tracker.spawn(supervisor.run(stopping.clone(), tracker.spawn(reading), sender));
    let stop = stopping.clone().drop_guard();
    let handle = ProcessHandle { stop, stopping, exit: ended, stderr_tail: tail };
    Ok(ServerProcess { stdin, stdout, handle })
}

pub(super) fn command(settings: &StdioSettings) -> Command {
    let mut line = settings.watcher.clone();
    if !line.is_empty() {
        line.extend(watcher::parent_arguments());
    }
    line.push(OsString::from(&settings.command));
    line.extend(settings.args.iter().map(OsString::from));
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]);
    command.env_clear();
    command.envs(std::env::vars_os().filter(|(name, _)| is_inherited(name)));
    command.env(DEPTH_VARIABLE, (depth() + 1).to_string());
    command.envs(settings.env.iter().map(|(name, value)| (name, value.reveal())));
    if let Some(folder) = &settings.cwd {
        command.current_dir(folder);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // `ChildSupervisor` terminates the process, also when it is dropped.
    command.process_group(0).kill_on_drop(false);
    command
}

fn is_inherited(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    INHERITED_VARIABLES.contains(&name)
        || INHERITED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Checks the command and its working directory before spawning, because the error of the operating
/// system does not name the missing path, and a watcher reports it only later.
fn preflight(settings: &StdioSettings) -> Result<(), String> {
    let program = &settings.command;
    let not_executable = || Err(format!("`{program}` cannot be run: it is not an executable file"));
    if let Some(folder) = settings.cwd.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(format!(
            "`{program}` cannot be run: the working directory `{}` does not exist",
            folder.display()
        ));
    }
    let here = settings.cwd.as_deref().unwrap_or(Path::new(""));
    if program.contains('/') {
        return match ProgramFile::at(&here.join(program)) {
            ProgramFile::Executable => Ok(()),
            ProgramFile::Other => not_executable(),
            ProgramFile::Missing => {
                Err(format!("`{program}` does not exist; check the path of the command"))
            }
        };
    }
    let own_path = settings.env.get("PATH").map(|path| path.reveal().into());
    let path = own_path.or_else(|| std::env::var_os("PATH")).unwrap_or_else(|| DEFAULT_PATH.into());
    let found = std::env::split_paths(&path)
        .map(|folder| ProgramFile::at(&here.join(folder).join(program)));
    match found.max().unwrap_or(ProgramFile::Missing) {
        ProgramFile::Executable => Ok(()),
        ProgramFile::Other if !program.is_empty() => not_executable(),
        _ => Err(format!("`{program}` was not found in PATH; install it or use its full path")),
    }
}

/// Kind of file at a path, in ascending order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ProgramFile {
    Missing,
    Other,
    Executable,
}

impl ProgramFile {
    fn at(path: &Path) -> Self {
        match fs::metadata(path) {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => {
                Self::Executable
            }
            Ok(_) => Self::Other,
            Err(_) => Self::Missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::protocol::Secret;

    #[test]
    #[expect(clippy::type_complexity, reason = "a row is a tuple")]
    fn preflight_error_names_the_problem_and_the_fix() {
        let at = |command: &str, cwd: Option<&str>, path: Option<&str>| {
            let mut settings = StdioSettings::new(command, ["x"]);
            settings.cwd = cwd.map(PathBuf::from);
            settings.env.extend(path.map(|path| ("PATH".to_owned(), Secret::new(path))));
            preflight(&settings).err()
        };
        let not_found = "`sh` was not found in PATH; install it or use its full path";
        let rows: [(&str, Option<&str>, Option<&str>, Option<&str>); 11] = [
            ("sh", None, None, None),
            ("/bin/sh", None, None, None),
            ("bin/sh", Some("/"), None, None),
            ("sh", Some("/"), Some("bin"), None),
            ("sh", None, Some("/nowhere"), Some(not_found)),
            ("sh", None, Some(""), Some(not_found)),
            ("", None, None, Some("`` was not found in PATH; install it or use its full path")),
            ("./sh", Some("/"), None, Some("`./sh` does not exist; check the path of the command")),
            ("/etc", None, None, Some("`/etc` cannot be run: it is not an executable file")),
            (
                "passwd",
                None,
                Some("/etc"),
                Some("`passwd` cannot be run: it is not an executable file"),
            ),
            (
                "sh",
                Some("/no"),
                None,
                Some("`sh` cannot be run: the working directory `/no` does not exist"),
            ),
        ];
        for (command, cwd, path, expected) in rows {
            assert_eq!(at(command, cwd, path).as_deref(), expected, "{command} {cwd:?} {path:?}");
        }
    }

    #[tokio::test]
    async fn spawn_error_includes_os_error() {
        let mut settings = StdioSettings::new("sh", ["nul\0byte"]);
        let spawn_failure =
            |settings: &StdioSettings| spawn("test", settings, &TaskTracker::new()).unwrap_err();
        assert!(
            spawn_failure(&settings).starts_with("cannot start `sh`: "),
            "{}",
            spawn_failure(&settings)
        );
        settings.args.clear();
        settings.watcher = vec!["/no/watcher".into()];
        let expected = "cannot start `/no/watcher`: ";
        assert!(spawn_failure(&settings).starts_with(expected), "{}", spawn_failure(&settings));
    }
}
