//! The README's transcripts are run word for word.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::command;

#[test]
fn every_transcript_of_the_readme_is_true() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let server = Server::start();
    let _spoke = Spoke::start(&server);
    let mut commands = 0;
    for block in readme.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for (typed, expected) in transcript(block) {
            let printed = run(&typed.replace("127.0.0.1:7411", &server.address));
            assert_eq!(blur(&printed), blur(&expected), "$ {typed}");
            commands += 1;
        }
    }
    assert!(commands >= 8, "the README shows commands at all: {commands}");
}

/// Each command with what the README says it prints.
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

/// As a shell runs it, both outputs in one, as a person sees it.
fn run(typed: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_manila")).parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("bash")
        .args(["-c", &format!("{typed} 2>&1")])
        .env("PATH", format!("{}:{path}", binary.display()))
        .env_remove("MANILA_LOG")
        .current_dir(root())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Times and request ids are different every time; everything else is not.
fn blur(text: &str) -> String {
    let mut blurred = String::new();
    let mut word = String::new();
    for character in text.chars().chain(['\n']) {
        if character.is_ascii_alphanumeric() {
            word.push(character);
            continue;
        }
        let is_time = word.len() == 13 && word.bytes().all(|b| b.is_ascii_digit());
        let is_id = matches!(word.len(), 24 | 32) && word.bytes().all(|b| b.is_ascii_hexdigit());
        blurred.push_str(if is_time || is_id { "…" } else { &word });
        blurred.push(character);
        word.clear();
    }
    let is_elapsed = |line: &&str| !line.contains("elapsedMs");
    blurred.trim_end().lines().filter(is_elapsed).collect::<Vec<_>>().join("\n")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The example that the README runs beside the gateway, registered.
struct Spoke(Child);

impl Spoke {
    fn start(server: &Server) -> Self {
        let mut child = Command::new(example())
            .arg(format!("ws://{}", server.address))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let spoke = Self(child);
        assert!(said.take(50).any(|line| line.contains("registered")), "the spoke registers");
        spoke
    }
}

impl Drop for Spoke {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The example as it was built. A run of the whole workspace has built it; a run of this crate alone
/// has not.
fn example() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_manila")).parent().unwrap().to_owned();
    let example = folder.join("examples/spoke");
    if !example.exists() {
        let arguments =
            ["build", "--quiet", "-p", "manila", "--features", "ws", "--example", "spoke"];
        let built = Command::new(env!("CARGO")).current_dir(root()).args(arguments).status();
        assert!(built.unwrap().success(), "the example does not build");
    }
    example
}

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start() -> Self {
        let mut child = command(&["serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once("http://").unwrap().1.to_owned();
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
