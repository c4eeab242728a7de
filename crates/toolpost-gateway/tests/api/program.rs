//! Runs a third-party program with a timeout.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// Timeout of a program, generous enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Returns the package cache, which must contain these packages.
pub(super) fn package_cache(packages: &[&str]) -> PathBuf {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    let is_missing = |folder: &&&str| !cache.join(folder).join(".packages").exists();
    let missing: Vec<_> = packages.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no {missing:?} in .cache: run scripts/fetch-test-data");
    cache.canonicalize().unwrap()
}

pub(super) struct Program(Command);

impl Program {
    pub(super) fn new(path: impl Into<OsString>) -> Self {
        let mut command = Command::new(path.into());
        command.stdin(Stdio::null()).kill_on_drop(true);
        // Connect to the local gateway without a proxy.
        command
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env_remove("http_proxy")
            .env_remove("HTTP_PROXY")
            .env("NO_PROXY", "127.0.0.1");
        Self(command)
    }

    pub(super) fn current_dir(mut self, folder: &Path) -> Self {
        self.0.current_dir(folder);
        self
    }

    pub(super) fn env(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    pub(super) fn args<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.0.args(arguments);
        self
    }

    /// Runs the program and returns its standard output; on failure, its standard output and
    /// standard error.
    pub(super) async fn run(mut self) -> Result<String, String> {
        let ended = tokio::time::timeout(TIMEOUT, self.0.output()).await;
        let ended = ended.map_err(|_| format!("it takes longer than {TIMEOUT:?}"))?;
        let ended = ended.map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match ended.status.success() {
            true => Ok(text(&ended.stdout)),
            false => Err(format!("{}{}", text(&ended.stdout), text(&ended.stderr))),
        }
    }
}
