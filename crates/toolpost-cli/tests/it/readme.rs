//! Runs the commands of the README and of `docs/get-started.md` in a terminal and compares the
//! output.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::process::Process;
use super::terminal::Terminal;
use super::{TempFolder, command};

/// If set, the tests write the command output to the pages instead of comparing it.
const WRITE_VARIABLE: &str = "TOOLPOST_WRITE_README";

#[test]
fn readme_transcripts_match_output() {
    let commands = run_transcripts("README.md", "tour");
    assert!(commands >= 8, "the README contains commands: {commands}");
}

#[test]
fn get_started_transcripts_match_output() {
    assert_eq!(run_transcripts("docs/get-started.md", "get-started"), 2);
}

/// Runs the transcripts of a page in a temporary folder and returns the number of commands.
fn run_transcripts(page: &str, folder: &str) -> usize {
    let file = root().join(page);
    let text = std::fs::read_to_string(&file).unwrap();
    let mut tour = ReadmeSession::start(folder);
    let (mut written, mut commands) = (String::new(), 0);
    for (position, part) in text.split("```").enumerate() {
        let fence = if position == 0 { "" } else { "```" };
        written.push_str(fence);
        let Some(block) = part.strip_prefix("console\n") else {
            written.push_str(part);
            continue;
        };
        written.push_str("console\n");
        for (typed, expected) in transcript(block) {
            let printed = tour.run_until(&typed, &expected);
            if std::env::var_os(WRITE_VARIABLE).is_none() {
                assert_eq!(
                    normalize_transcript(&printed),
                    normalize_transcript(&expected),
                    "$ {typed}"
                );
            }
            let printed = printed.trim_end();
            let end = if printed.is_empty() { "" } else { "\n" };
            written.push_str(&format!("$ {typed}\n{printed}{end}"));
            commands += 1;
        }
    }
    if std::env::var_os(WRITE_VARIABLE).is_some() {
        std::fs::write(file, written).unwrap();
    }
    commands
}

#[test]
fn operation_of_example_spoke_is_callable() {
    let folder = TempFolder::new("example-spoke");
    let server = Server::start(&folder);
    let _spoke = Spoke::start(&server);
    let url = format!("ws://{}", server.address);
    let arguments =
        ["call", "box.math.add", "--a", "2", "--b", "3", "--output", "data", "--url", &url];
    let output = command(&arguments).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "5", "{output:?}");
}

/// Splits a block into commands and their expected output.
fn transcript(block: &str) -> Vec<(String, String)> {
    let mut steps: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(typed) => steps.push((typed.to_owned(), String::new())),
            None => {
                let (_, output) = steps.last_mut().expect("a transcript begins with a command");
                output.push_str(line);
                output.push('\n');
            }
        }
    }
    steps
}

/// A terminal and a gateway for running the README.
struct ReadmeSession {
    gateway: Server,
    terminal: Terminal,
    /// Id of the call that `toolpost approvals` listed last.
    pending_id: String,
    /// Removed on drop; last, because the other fields use it.
    folder: TempFolder,
}

impl ReadmeSession {
    /// Starts a gateway and a terminal in a folder with the files that the README refers to.
    fn start(folder: &str) -> Self {
        let folder = TempFolder::new(folder);
        std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples"))
            .unwrap();
        folder.write(".mcp.json", MCP_JSON);
        install_npx(&folder);
        let gateway = Server::start(&folder);
        let mut terminal = Terminal::open(&folder);
        terminal.run(&format!("PATH={}:$PATH", folder.path().join("bin").display()));
        Self { gateway, terminal, pending_id: String::new(), folder }
    }

    /// Runs a command. A command that reads the journal is repeated for up to ten seconds until its
    /// output matches, because a call is readable only some milliseconds after its response.
    fn run_until(&mut self, typed: &str, expected: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let printed = self.run(typed);
            let is_final = !typed.starts_with("toolpost log")
                || normalize_transcript(&printed) == normalize_transcript(expected)
                || std::env::var_os(WRITE_VARIABLE).is_some();
            if is_final || Instant::now() > deadline {
                return printed;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the terminal output of a command.
    fn run(&mut self, typed: &str) -> String {
        if typed == "toolpost serve" {
            let data = self.folder.path().join("data").display().to_string();
            return self
                .gateway
                .banner
                .replace(&self.gateway.address, DEFAULT_ADDRESS)
                .replace(&data, DATA_HOME);
        }
        // The page shows the id of another call.
        let typed = match typed.starts_with("toolpost approve ") {
            true => format!("toolpost approve {}", self.pending_id),
            false => typed.replace(DEFAULT_ADDRESS, &self.gateway.address),
        };
        let printed = self.terminal.run(&typed).replace(&self.gateway.address, DEFAULT_ADDRESS);
        if let Some(row) = printed.lines().find(|line| line.contains(" demo.note ")) {
            self.pending_id = row.split_whitespace().next().unwrap().to_owned();
        }
        printed
    }
}

/// The configuration of another MCP client, as the README shows it.
const MCP_JSON: &str = r#"{"mcpServers": {"everything": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"]}}}
"#;

/// Puts an `npx` into the folder that starts the server from the cache of the tests.
fn install_npx(folder: &TempFolder) {
    use std::os::unix::fs::PermissionsExt;

    let modules = root().join(".cache/npm/node_modules").canonicalize().unwrap();
    let (node, modules) = (modules.join(".bin/node"), modules.display());
    let script = format!("#!/bin/sh\nexec {} {modules}/$2/dist/index.js\n", node.display());
    let npx = folder.path().join("bin/npx");
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::fs::write(&npx, script).unwrap();
    std::fs::set_permissions(npx, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Data folder shown in the README.
const DATA_HOME: &str = "/home/ada/.local/share";

/// Gateway address shown in the README.
const DEFAULT_ADDRESS: &str = "127.0.0.1:7411";

/// Normalizes times, record numbers, ids and column widths, which differ in every run.
fn normalize_transcript(text: &str) -> String {
    let is_elapsed = |line: &&str| !line.contains("elapsedMs");
    let lines = text.trim_end().lines().filter(is_elapsed);
    lines.map(normalize_line).collect::<Vec<_>>().join("\n")
}

fn normalize_line(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let message: Vec<&str> = line.split_whitespace().collect();
    let is_record = line.contains(" records, ") || message.get(1).is_some_and(|word| is_time(word));
    let waits = message.get(1) == Some(&"demo.note");
    let blurred = message.iter().enumerate().map(|(position, word)| {
        let next = message.get(position + 1).copied().unwrap_or_default();
        let is_first = position == 0 && (waits || is_record);
        let is_number = word.trim_end_matches(',').parse::<f64>().is_ok();
        // A shell prints the id of a process that it starts in the background.
        let is_counted =
            is_number && (is_record || message[0] == "[1]" || matches!(next, "µs" | "ms" | "s"));
        if is_first || is_time(word) || is_counted || is_remaining_time(word) {
            "…".to_owned()
        } else {
            normalize_ids(word)
        }
    });
    let units = ["µs", "ms", "s"];
    let retained: Vec<String> = blurred.filter(|word| !units.contains(&word.as_str())).collect();
    let indent = if is_record || waits { 0 } else { indent };
    format!("{}{}", " ".repeat(indent), retained.join(" "))
}

/// Whether a word is a time, such as `20:26:07.758Z` or `20:26:07`.
fn is_time(word: &str) -> bool {
    let is_long = word.len() == 13 && word.ends_with('Z');
    let is_short = word.len() == 8 && word.bytes().all(|b| b == b':' || b.is_ascii_digit());
    (is_long || is_short) && word.matches(':').count() == 2
}

/// Whether a word is a remaining time, such as `9m` or `58s`.
fn is_remaining_time(word: &str) -> bool {
    let number = word.strip_suffix(['m', 's']).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn normalize_ids(text: &str) -> String {
    let mut blurred = String::new();
    let mut word = String::new();
    for character in text.chars().chain([' ']) {
        if character.is_ascii_alphanumeric() {
            word.push(character);
            continue;
        }
        let is_time = word.len() == 13 && word.bytes().all(|b| b.is_ascii_digit());
        let is_id =
            matches!(word.len(), 11 | 16 | 24 | 32) && word.bytes().all(|b| b.is_ascii_hexdigit());
        blurred.push_str(if is_time || is_id { "…" } else { &word });
        blurred.push(character);
        word.clear();
    }
    blurred.trim_end().to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The example spoke, registered at the gateway.
struct Spoke {
    _process: Process,
}

impl Spoke {
    fn start(server: &Server) -> Self {
        let mut command = Command::new(example());
        command.arg(format!("ws://{}", server.address)).stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command);
        let mut lines = process.stdout_lines();
        assert!(lines.any(|line| line.contains("registered")), "the spoke registers");
        Self { _process: process }
    }
}

/// Path of the compiled example. A build of the whole workspace includes it; a build of this crate
/// alone does not.
fn example() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_toolpost")).parent().unwrap().to_owned();
    let example = folder.join("examples/spoke");
    if !example.exists() {
        let arguments =
            ["build", "--quiet", "-p", "toolpost", "--features", "ws", "--example", "spoke"];
        let mut cargo = Command::new(env!("CARGO"));
        // Another value of this variable would build every dependency again.
        cargo.current_dir(root()).args(arguments).env_remove("RUSTC_BOOTSTRAP");
        assert!(cargo.status().unwrap().success(), "the example does not build");
    }
    example
}

struct Server {
    _process: Process,
    address: String,
    /// Startup banner of the gateway.
    banner: String,
}

impl Server {
    fn start(folder: &TempFolder) -> Self {
        // Without the watcher, only `toolpost reload` applies a change, so its output is the same in
        // every run.
        let mut command = command(&["serve", "--listen", "127.0.0.1:0", "--no-watch"]);
        command.env("XDG_DATA_HOME", folder.path().join("data")).current_dir(folder.path());
        command.env("PATH", path_with(folder));
        let (process, address, lines) = Process::serve(command.stderr(Stdio::null()));
        let mut banner = format!("Toolpost {} on http://{address}\n", env!("CARGO_PKG_VERSION"));
        for line in lines {
            banner.push_str(&format!("{line}\n"));
            if line.contains("curl") {
                break;
            }
        }
        let server = Self { _process: process, address, banner };
        server.wait_until_ready();
        server
    }

    /// Waits until the sources are connected.
    fn wait_until_ready(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.ready_response().starts_with("HTTP/1.1 200") {
            assert!(Instant::now() < deadline, "the gateway is not ready after a minute");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn ready_response(&self) -> String {
        let mut response = String::new();
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let request =
            format!("GET /ready HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address);
        connection.write_all(request.as_bytes()).unwrap();
        connection.read_to_string(&mut response).unwrap();
        response
    }
}

/// `PATH` with the programs of the folder first.
fn path_with(folder: &TempFolder) -> String {
    format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap())
}
