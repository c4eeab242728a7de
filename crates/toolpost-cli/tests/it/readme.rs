//! The README's tour is taken word for word, in a terminal.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::terminal::Terminal;
use super::{Folder, command};

/// Set to anything, it writes what the commands print into the README instead of comparing it.
const WRITE: &str = "TOOLPOST_WRITE_README";

#[test]
fn every_transcript_of_the_readme_is_true() {
    let file = root().join("README.md");
    let readme = std::fs::read_to_string(&file).unwrap();
    let mut tour = Tour::begin();
    let _spoke = Spoke::start(&tour.gateway);
    let (mut written, mut commands) = (String::new(), 0);
    for (position, part) in readme.split("```").enumerate() {
        let fence = if position == 0 { "" } else { "```" };
        written.push_str(fence);
        let Some(block) = part.strip_prefix("console\n") else {
            written.push_str(part);
            continue;
        };
        written.push_str("console\n");
        for (typed, expected) in transcript(block) {
            let printed = tour.run(&typed);
            if std::env::var_os(WRITE).is_none() {
                assert_eq!(blur(&printed), blur(&expected), "$ {typed}");
            }
            let printed = printed.trim_end();
            let end = if printed.is_empty() { "" } else { "\n" };
            written.push_str(&format!("$ {typed}\n{printed}{end}"));
            commands += 1;
        }
    }
    assert!(commands >= 8, "the README shows commands at all: {commands}");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(file, written).unwrap();
    }
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

/// Somebody who reads the README at a terminal, with a gateway in another one.
struct Tour {
    gateway: Server,
    terminal: Terminal,
    /// Gone in the end; the last, because the others use it.
    folder: Folder,
}

impl Tour {
    /// The folder has what a reader of the README finds beside it.
    fn begin() -> Self {
        let folder = Folder::new("tour");
        std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples"))
            .unwrap();
        let gateway = Server::start(&folder);
        let terminal = Terminal::open(&folder);
        Self { gateway, terminal, folder }
    }

    /// What stands on the terminal after a command.
    fn run(&mut self, typed: &str) -> String {
        if typed == "toolpost serve" {
            let data = self.folder.path().join("data").display().to_string();
            return self.gateway.offer.replace(&self.gateway.address, USUAL).replace(&data, HOME);
        }
        let typed = typed.replace(USUAL, &self.gateway.address);
        // Where a reader has the usual address, this gateway has one of its own.
        let words = ["log", "reload", "approv", "workspace join"];
        let is_about_gateway = words.map(|word| format!("toolpost {word}"));
        let is_about_gateway = is_about_gateway.iter().any(|words| typed.contains(words));
        if is_about_gateway {
            self.terminal.run(&format!("export TOOLPOST_URL=ws://{}", self.gateway.address));
        }
        let printed = self.terminal.run(&typed).replace(&self.gateway.address, USUAL);
        if is_about_gateway {
            self.terminal.run("unset TOOLPOST_URL");
        }
        printed
    }
}

/// Where a reader's programs keep their data.
const HOME: &str = "/home/ada/.local/share";

/// Where the gateway of the README is.
const USUAL: &str = "127.0.0.1:7411";

/// Times, numbers of records and ids are different every time; everything else is not. How wide a
/// column is follows from them.
fn blur(text: &str) -> String {
    let is_elapsed = |line: &&str| !line.contains("elapsedMs");
    let lines = text.trim_end().lines().filter(is_elapsed);
    lines.map(blur_line).collect::<Vec<_>>().join("\n")
}

fn blur_line(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_record = line.contains(" records, ") || words.get(1).is_some_and(|word| is_time(word));
    let waits = words.get(1) == Some(&"demo.note");
    let blurred = words.iter().enumerate().map(|(position, word)| {
        let next = words.get(position + 1).copied().unwrap_or_default();
        let is_first = position == 0 && (waits || is_record);
        let is_number = word.trim_end_matches(',').parse::<f64>().is_ok();
        // A shell tells the number of a process that it has started beside itself.
        let is_counted =
            is_number && (is_record || words[0] == "[1]" || matches!(next, "µs" | "ms" | "s"));
        if is_first || is_time(word) || is_counted || is_left(word) {
            "…".to_owned()
        } else {
            blur_ids(word)
        }
    });
    let units = ["µs", "ms", "s"];
    let kept: Vec<String> = blurred.filter(|word| !units.contains(&word.as_str())).collect();
    let indent = if is_record || waits { 0 } else { indent };
    format!("{}{}", " ".repeat(indent), kept.join(" "))
}

/// `20:26:07.758Z` or `20:26:07`.
fn is_time(word: &str) -> bool {
    let is_long = word.len() == 13 && word.ends_with('Z');
    let is_short = word.len() == 8 && word.bytes().all(|b| b == b':' || b.is_ascii_digit());
    (is_long || is_short) && word.matches(':').count() == 2
}

/// `9m` or `58s`.
fn is_left(word: &str) -> bool {
    let number = word.strip_suffix(['m', 's']).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn blur_ids(text: &str) -> String {
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
    let folder = Path::new(env!("CARGO_BIN_EXE_toolpost")).parent().unwrap().to_owned();
    let example = folder.join("examples/spoke");
    if !example.exists() {
        let arguments =
            ["build", "--quiet", "-p", "toolpost", "--features", "ws", "--example", "spoke"];
        let built = Command::new(env!("CARGO")).current_dir(root()).args(arguments).status();
        assert!(built.unwrap().success(), "the example does not build");
    }
    example
}

struct Server {
    child: Child,
    address: String,
    /// What it says at its start.
    offer: String,
}

impl Server {
    fn start(folder: &Folder) -> Self {
        let mut child = command(&["serve", "--listen", "127.0.0.1:0"])
            .env("XDG_DATA_HOME", folder.path().join("data"))
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let first = lines.next().unwrap();
        let address = first.trim().rsplit_once("http://").unwrap().1.to_owned();
        let mut offer = format!("{first}\n");
        for line in lines {
            offer.push_str(&format!("{line}\n"));
            if line.contains("curl") {
                break;
            }
        }
        Self { child, address, offer }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
