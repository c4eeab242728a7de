//! How a process exited, and its description for error messages.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::Signal;

/// How a process exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessExit {
    /// Exited with this code.
    Exited(i32),
    /// Killed by this signal.
    Killed(i32),
    /// The exit status could not be determined.
    Unknown,
}

/// Offset of a signal number in an exit code, as in shells; watchers use it too.
pub(super) const SIGNAL_BASE: i32 = 128;

impl ProcessExit {
    /// Converts the exit status of a child process.
    pub(super) fn from_status(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (_, Some(signal)) => Self::Killed(signal),
            _ => Self::Unknown,
        }
    }

    /// Converts the exit status of a watcher, whose exit code encodes the signal that killed the
    /// server.
    pub(super) fn from_watched_status(status: ExitStatus) -> Self {
        match Self::from_status(status) {
            Self::Exited(code) if signal_name(code - SIGNAL_BASE).is_some() => {
                Self::Killed(code - SIGNAL_BASE)
            }
            ended => ended,
        }
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Killed(signal) => match signal_name(signal) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {signal}"),
            },
            Self::Unknown => f.write_str("exited with an unknown status"),
        }
    }
}

/// Returns the name of a terminating signal by its number on this platform.
fn signal_name(number: i32) -> Option<&'static str> {
    const NAMES: [(Signal, &str); 19] = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::VTALARM, "SIGVTALRM"),
        (Signal::SYS, "SIGSYS"),
    ];
    NAMES.iter().find(|(signal, _)| signal.as_raw() == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_exit_display_names_code_or_signal() {
        // Each row: a raw wait(2) status (exit code in the second byte, signal in the first), and
        // the text without and with a watcher.
        for (raw, plain, watched) in [
            (0, "exited with code 0", "exited with code 0"),
            (3 << 8, "exited with code 3", "exited with code 3"),
            (11, "was killed by SIGSEGV", "was killed by SIGSEGV"),
            (40, "was killed by signal 40", "was killed by signal 40"),
            (139 << 8, "exited with code 139", "was killed by SIGSEGV"),
            (255 << 8, "exited with code 255", "exited with code 255"),
        ] {
            let status = ExitStatus::from_raw(raw);
            assert_eq!(ProcessExit::from_status(status).to_string(), plain, "{raw}");
            assert_eq!(ProcessExit::from_watched_status(status).to_string(), watched, "{raw}");
        }
        assert_eq!(ProcessExit::Unknown.to_string(), "exited with an unknown status");
    }
}
