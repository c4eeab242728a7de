//! How a process ended, in words.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::Signal;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessExit {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// Nobody was there to see it.
    Unknown,
}

/// What a shell adds to the number of a signal to make an exit code of it; so does a watcher.
pub(super) const SIGNAL_BASE: i32 = 128;

impl ProcessExit {
    /// The end of a process of ours.
    pub(super) fn from_status(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (_, Some(signal)) => Self::Killed(signal),
            _ => Self::Unknown,
        }
    }

    /// The end of the server behind a watcher, which tells a signal by its exit code.
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
            Self::Exited(code) => write!(f, "it exited with code {code}"),
            Self::Killed(signal) => match signal_name(signal) {
                Some(name) => write!(f, "it was killed by {name}"),
                None => write!(f, "it was killed by signal {signal}"),
            },
            Self::Unknown => f.write_str("its exit status is unknown"),
        }
    }
}

/// The signals that end processes, by the numbers they have here.
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
        // The raw form is that of wait(2): a code in the second byte, a signal in the first.
        for (raw, plain, watched) in [
            (0, "it exited with code 0", "it exited with code 0"),
            (3 << 8, "it exited with code 3", "it exited with code 3"),
            (11, "it was killed by SIGSEGV", "it was killed by SIGSEGV"),
            (40, "it was killed by signal 40", "it was killed by signal 40"),
            (139 << 8, "it exited with code 139", "it was killed by SIGSEGV"),
            (255 << 8, "it exited with code 255", "it exited with code 255"),
        ] {
            let status = ExitStatus::from_raw(raw);
            assert_eq!(ProcessExit::from_status(status).to_string(), plain, "{raw}");
            assert_eq!(ProcessExit::from_watched_status(status).to_string(), watched, "{raw}");
        }
        assert_eq!(ProcessExit::Unknown.to_string(), "its exit status is unknown");
    }
}
