//! The processes: the gateway, its MCP servers and the baseline.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::child::ChildProcess;
use super::echo_server::ProtocolGeneration;
use super::temp_dir::TempDir;
use super::{SERVE_HTTP, SERVE_MANY, SERVE_STDIO};

/// MCP servers and the gateway configuration that lists them.
pub(crate) struct Backends {
    temp_dir: TempDir,
    _servers: Vec<ChildProcess>,
}

impl Backends {
    /// Starts the sources `http_legacy`, `http_modern`, `stdio_legacy`, `stdio_modern` and `many`.
    pub(crate) fn start() -> Self {
        let temp_dir = TempDir::new("mcp-endpoint");
        let program = std::env::current_exe().unwrap();
        // `benches/journal.rs` measures the cost of the journal.
        let (mut servers, mut config) = (Vec::new(), "[journal]\nmode = \"off\"\n".to_owned());
        let many = ("many", vec![SERVE_MANY]);
        let generations =
            [ProtocolGeneration::Legacy, ProtocolGeneration::Modern].map(ProtocolGeneration::name);
        for generation in generations {
            let (server, address) = ChildProcess::start(respawn(&[SERVE_HTTP, generation]));
            servers.push(server);
            config += &format!(
                "[source.http_{generation}]\nmcp = {{ url = \"http://{address}/mcp\" }}\n"
            );
        }
        let stdio = [
            ("stdio_legacy", vec![SERVE_STDIO, generations[0]]),
            ("stdio_modern", vec![SERVE_STDIO, generations[1]]),
        ];
        for (name, arguments) in stdio.into_iter().chain([many]) {
            config += &format!(
                "[source.{name}]\nmcp = {{ command = {program:?}, args = {arguments:?} }}\n"
            );
        }
        temp_dir.file("toolpost.toml", &config);
        Self { temp_dir, _servers: servers }
    }

    /// Number of sources in the configuration.
    pub(crate) const SOURCES: usize = 5;

    pub(crate) fn config(&self) -> PathBuf {
        self.temp_dir.0.join("toolpost.toml")
    }

    /// Returns the `toolpost` command with a clean environment and new data folder.
    pub(crate) fn toolpost(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolpost"));
        command.env_remove("TOOLPOST_LOG").current_dir(Path::new("/"));
        command.env("XDG_DATA_HOME", self.temp_dir.0.join("data"));
        command
    }
}

/// A process that is called over HTTP.
pub(crate) struct Server {
    process: ChildProcess,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// This program with other arguments.
    pub(crate) fn respawned(arguments: &[&str]) -> Self {
        let (process, address) = ChildProcess::start(respawn(arguments));
        Self { process, address: address.parse().unwrap() }
    }

    /// A gateway with only the built-in operations.
    pub(crate) fn builtin_gateway(backends: &Backends) -> Self {
        let mut command = backends.toolpost();
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        Self::gateway(command)
    }

    /// A gateway with all its sources ready.
    pub(crate) async fn configured_gateway(backends: &Backends) -> Self {
        let log = backends.temp_dir.0.join("log");
        let mut command = backends.toolpost();
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(backends.config());
        command.stderr(std::fs::File::create(&log).unwrap());
        let gateway = Self::gateway(command);
        let ready = || std::fs::read_to_string(&log).unwrap().matches("source ready").count();
        for _ in 0..600 {
            if ready() == Backends::SOURCES {
                return gateway;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not all sources are ready:\n{}", std::fs::read_to_string(log).unwrap())
    }

    fn gateway(command: Command) -> Self {
        let (process, banner) = ChildProcess::start(command);
        let (_, address) = banner.rsplit_once("http://").unwrap();
        Self { process, address: address.parse().unwrap() }
    }

    pub(crate) fn process(&self) -> u32 {
        self.process.0.id()
    }
}

/// The command that starts this program with other arguments.
pub(crate) fn respawn(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments);
    command
}
