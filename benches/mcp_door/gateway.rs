//! The programs: the gateway, the servers behind it, and what it is measured beside.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::child::Program;
use super::server::Era;
use super::{SERVE_HTTP, SERVE_MANY, SERVE_STDIO};

/// Servers that wait for a gateway, and the configuration that names them.
pub(crate) struct Backends {
    folder: PathBuf,
    _servers: Vec<Program>,
}

impl Backends {
    /// The sources `http_legacy`, `http_modern`, `stdio_legacy`, `stdio_modern` and `many`.
    pub(crate) fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("toolpost-mcp-door-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let this = std::env::current_exe().unwrap();
        // What the journal costs is what `benches/journal.rs` is about.
        let (mut servers, mut config) = (Vec::new(), "[journal]\nmode = \"off\"\n".to_owned());
        let many = ("many", vec![SERVE_MANY]);
        let eras = [Era::Legacy, Era::Modern].map(Era::name);
        for era in eras {
            let (server, address) = Program::start(again(&[SERVE_HTTP, era]));
            servers.push(server);
            config += &format!("[source.http_{era}]\nmcp = {{ url = \"http://{address}/mcp\" }}\n");
        }
        let stdio = [
            ("stdio_legacy", vec![SERVE_STDIO, eras[0]]),
            ("stdio_modern", vec![SERVE_STDIO, eras[1]]),
        ];
        for (name, arguments) in stdio.into_iter().chain([many]) {
            config +=
                &format!("[source.{name}]\nmcp = {{ command = {this:?}, args = {arguments:?} }}\n");
        }
        std::fs::write(folder.join("toolpost.toml"), config).unwrap();
        Self { folder, _servers: servers }
    }

    /// How many sources the configuration has.
    pub(crate) const SOURCES: usize = 5;

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.join("toolpost.toml")
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
        // What is left in a folder for such things is no reason to fail.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Something that is called over HTTP.
pub(crate) struct Server {
    program: Program,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// This program as something else.
    pub(crate) fn this(arguments: &[&str]) -> Self {
        let (program, address) = Program::start(again(arguments));
        Self { program, address: address.parse().unwrap() }
    }

    /// A gateway with nothing but what is built in.
    pub(crate) fn embedded() -> Self {
        let mut command = toolpost();
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        Self::gateway(command)
    }

    /// A gateway with all its sources there.
    pub(crate) async fn configured(backends: &Backends) -> Self {
        let log = backends.folder.join("log");
        let mut command = toolpost();
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
        let (program, said) = Program::start(command);
        let (_, address) = said.rsplit_once("http://").unwrap();
        Self { program, address: address.parse().unwrap() }
    }

    pub(crate) fn process(&self) -> u32 {
        self.program.0.id()
    }
}

/// The command, with nothing from outside that changes it.
pub(crate) fn toolpost() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolpost"));
    command.env_remove("TOOLPOST_LOG").current_dir(Path::new("/"));
    command.env("XDG_DATA_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/bench-mcp-door"));
    command
}

/// This program again, as something else.
pub(crate) fn again(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments);
    command
}
