//! Where lines come from and where they go: a prompt at a terminal, plain lines elsewhere.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, ExternalPrinter, Helper};
use serde_json::Value;
use tokio::sync::mpsc;

use super::scene::{Names, Scene};
use super::typed::{self, COMMANDS, Typed};
use crate::output;

/// How many lines may wait; whoever types or pipes more waits as well.
const WAITING: usize = 16;

/// The lines of somebody who types, or of a script.
pub(super) type Lines = mpsc::Receiver<String>;

/// Where what is heard is shown.
pub(super) enum Screen {
    /// For programs: a line of JSON for each message.
    Plain,
    /// For people who do not type here.
    Lines,
    /// Above the line that is being typed.
    Prompt { printer: Box<dyn ExternalPrinter + Send>, terminal: Terminal },
}

impl Screen {
    /// Begins to read lines; with a prompt where somebody can see one.
    pub(super) fn open(
        is_plain: bool,
        scene: &Arc<Mutex<Scene>>,
    ) -> std::io::Result<(Self, Lines)> {
        let (sender, lines) = mpsc::channel(WAITING);
        if !is_plain && std::io::stdin().is_terminal() {
            let terminal = Terminal::look();
            if let Ok((editor, printer)) = prompt(scene) {
                let thread = std::thread::Builder::new().name("prompt".to_owned());
                thread.spawn(move || read_prompt(editor, &sender))?;
                return Ok((Self::Prompt { printer, terminal }, lines));
            }
        }
        let thread = std::thread::Builder::new().name("input".to_owned());
        thread.spawn(move || read_input(&sender))?;
        Ok((if is_plain { Self::Plain } else { Self::Lines }, lines))
    }

    pub(super) fn is_prompt(&self) -> bool {
        matches!(self, Self::Prompt { .. })
    }

    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }

    /// Shows a line to a person.
    pub(super) fn line(&mut self, line: &str) -> std::io::Result<()> {
        match self {
            Self::Plain => Ok(()),
            Self::Lines => output::print_line(line),
            Self::Prompt { printer, .. } => {
                let line = match output::shows_colors(&std::io::stdout()) {
                    true => line.to_owned(),
                    false => anstream::adapter::strip_str(line).to_string(),
                };
                printer.print(format!("{line}\n")).map_err(std::io::Error::other)
            }
        }
    }

    /// Shows a program what it can read.
    pub(super) fn json(&mut self, value: &Value) -> std::io::Result<()> {
        if self.is_plain() { output::print_plain(value) } else { Ok(()) }
    }

    /// Shows a program a message to the letter, on one line.
    pub(super) fn as_it_came(&mut self, json: &str) -> std::io::Result<()> {
        if !self.is_plain() {
            return Ok(());
        }
        // A break between two parts of JSON is a blank; in texts there is none.
        let mut line = json.replace(['\n', '\r'], " ");
        line.push('\n');
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes())?;
        out.flush()
    }

    /// Gives the terminal back as it was: whoever is asked for a line may never answer.
    pub(super) fn close(self, asked: &Lines) {
        let Self::Prompt { terminal, .. } = self else { return };
        terminal.restore();
        if !asked.is_closed() {
            // The prompt still stands there, and pasted text would be marked for nobody.
            let _ = output::print_line("\u{1b}[?2004l");
        }
    }
}

/// How a terminal was before a prompt changed it.
pub(super) struct Terminal {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Terminal {
    fn look() -> Self {
        Self {
            #[cfg(unix)]
            before: rustix::termios::tcgetattr(std::io::stdin()).ok(),
        }
    }

    fn restore(self) {
        #[cfg(unix)]
        if let Some(before) = self.before {
            let now = rustix::termios::OptionalActions::Now;
            // A terminal that has gone needs nothing.
            let _ = rustix::termios::tcsetattr(std::io::stdin(), now, &before);
        }
    }
}

type Prompt = Editor<Known, MemHistory>;

fn prompt(
    scene: &Arc<Mutex<Scene>>,
) -> rustyline::Result<(Prompt, Box<dyn ExternalPrinter + Send>)> {
    let config = Config::builder().completion_type(CompletionType::List).build();
    let history = MemHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history)?;
    editor.set_helper(Some(Known(Arc::clone(scene))));
    let printer = editor.create_external_printer()?;
    Ok((editor, Box::new(printer)))
}

/// Reads until somebody leaves: the end of input and Ctrl-C mean it as well.
fn read_prompt(mut editor: Prompt, lines: &mpsc::Sender<String>) {
    loop {
        let line = match editor.readline("> ") {
            Ok(line) => line,
            Err(ReadlineError::Signal(_)) => continue,
            Err(_) => return,
        };
        // Without a history the arrow keys find nothing, which is no reason to stop.
        let _ = editor.add_history_entry(&line);
        // Whoever leaves is not asked once more: the terminal is given back meanwhile.
        let is_last = typed::read(&line) == Ok(Some(Typed::Quit));
        if lines.blocking_send(line).is_err() || is_last {
            return;
        }
    }
}

fn read_input(lines: &mpsc::Sender<String>) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Completes the words of a line by what is known of the room.
struct Known(Arc<Mutex<Scene>>);

impl Completer for Known {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let scene = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(completions(&scene, &line[..position]))
    }
}

impl Helper for Known {}
impl Highlighter for Known {}
impl Validator for Known {}
impl Hinter for Known {
    type Hint = String;
}

/// Where the last word begins, and what it may become.
fn completions(scene: &Scene, line: &str) -> (usize, Vec<String>) {
    let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let (before, word) = line.split_at(start);
    let mut said = before.split_whitespace();
    let (command, place) = (said.next().unwrap_or_default(), said.clone().count());
    if before.trim().is_empty() {
        let commands = COMMANDS.iter().map(|(name, _, _)| (*name).to_owned());
        return (start, fitting(commands, word));
    }
    let names = |of: Names| scene.names(of).into_iter().map(ToOwned::to_owned);
    let has_target = said.next().is_some_and(|first| first.starts_with('@'));
    let found = match (command, place) {
        ("/call" | "/propose", 0) if word.starts_with('@') => {
            fitting(names(Names::Everybody).map(|name| format!("@{name}")), word)
        }
        ("/call" | "/propose", 0) => fitting(names(Names::Tools), word),
        ("/call" | "/propose", 1) if has_target => fitting(names(Names::Tools), word),
        ("/approve" | "/reject" | "/withdraw", 0) => fitting(names(Names::Proposals), word),
        ("/tools" | "/grant" | "/revoke" | "/kick" | "/to", 0) => {
            fitting(names(Names::Everybody), word)
        }
        _ => Vec::new(),
    };
    (start, found)
}

/// Names that begin like the word, with a blank behind one that is certain; none that a terminal would obey, and none that are several words.
fn fitting(names: impl Iterator<Item = String>, word: &str) -> Vec<String> {
    let is_plain = |name: &String| !name.contains(|c: char| c.is_control() || c.is_whitespace());
    let mut found: Vec<String> =
        names.filter(|name| name.starts_with(word)).filter(is_plain).collect();
    if let [only] = &mut found[..] {
        only.push(' ');
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_completed_where_they_can_stand() {
        let mut scene = Scene::default();
        for message in [
            json!({"kind": "system/welcome", "payload": {"you": {"id": "me"},
                "participants": [{"id": "bob"}, {"id": "b\u{1b}x"}, {"id": "toolpost"}]}}),
            json!({"kind": "mcp/response", "from": "toolpost",
                "payload": {"result": {"tools": [{"name": "demo__add"}, {"name": "demo__note"}]}}}),
            json!({"kind": "mcp/proposal", "id": "P-1", "from": "bob", "payload": {}}),
        ] {
            scene.hear(&message.to_string(), &message);
        }
        for (line, start, expected) in [
            ("/ca", 0, &["/call "][..]),
            ("/re", 0, &["/reject", "/revoke"]),
            ("/call demo__a", 6, &["demo__add "]),
            ("/call ", 6, &["demo__add", "demo__note"]),
            ("/call @", 6, &["@bob", "@toolpost"]),
            ("/call @bob demo__n", 11, &["demo__note "]),
            ("/call demo__add de", 16, &[]),
            ("/approve P", 9, &["P-1 "]),
            ("/to b", 4, &["bob "]),
            ("hello b", 6, &[]),
        ] {
            let (found_start, found) = completions(&scene, line);
            assert_eq!(
                (found_start, found),
                (start, expected.iter().map(|it| (*it).to_owned()).collect()),
                "{line}"
            );
        }
    }
}
