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

use super::parse::{self, COMMANDS, ParsedLine};
use super::room_view::{NameKind, RoomView};
use crate::output;

/// How many lines may wait; whoever types or pipes more waits as well.
const INPUT_QUEUE: usize = 16;

/// The lines of somebody who types, or of a script.
pub(super) type InputLines = mpsc::Receiver<String>;

/// Where what is heard is shown.
pub(super) enum Screen {
    /// For programs: a line of JSON for each message.
    Json,
    /// For people who do not type here.
    Lines,
    /// Above the line that is being typed.
    Prompt { printer: Box<dyn ExternalPrinter + Send>, terminal: SavedTerminal },
}

impl Screen {
    /// Begins to read lines; with a prompt where somebody can see one.
    pub(super) fn open(
        is_json: bool,
        view: &Arc<Mutex<RoomView>>,
    ) -> std::io::Result<(Self, InputLines)> {
        let (sender, lines) = mpsc::channel(INPUT_QUEUE);
        if !is_json && std::io::stdin().is_terminal() {
            let terminal = SavedTerminal::capture();
            if let Ok((editor, printer)) = create_prompt(view) {
                let thread = std::thread::Builder::new().name("prompt".to_owned());
                thread.spawn(move || read_prompt(editor, &sender))?;
                return Ok((Self::Prompt { printer, terminal }, lines));
            }
        }
        let thread = std::thread::Builder::new().name("input".to_owned());
        thread.spawn(move || read_input(&sender))?;
        Ok((if is_json { Self::Json } else { Self::Lines }, lines))
    }

    pub(super) fn is_prompt(&self) -> bool {
        matches!(self, Self::Prompt { .. })
    }

    pub(super) fn is_json(&self) -> bool {
        matches!(self, Self::Json)
    }

    /// Shows a line to a person.
    pub(super) fn print_line(&mut self, line: &str) -> std::io::Result<()> {
        match self {
            Self::Json => Ok(()),
            Self::Lines => output::print_line(line),
            Self::Prompt { printer, .. } => {
                let line = match output::supports_color(&std::io::stdout()) {
                    true => line.to_owned(),
                    false => anstream::adapter::strip_str(line).to_string(),
                };
                printer.print(format!("{line}\n")).map_err(std::io::Error::other)
            }
        }
    }

    /// Shows a program what it can read.
    pub(super) fn print_json(&mut self, value: &Value) -> std::io::Result<()> {
        if self.is_json() { output::print_json_line(value) } else { Ok(()) }
    }

    /// Shows a program a message to the letter, on one line.
    pub(super) fn print_raw_json(&mut self, json: &str) -> std::io::Result<()> {
        if !self.is_json() {
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
    pub(super) fn close(self, input_lines: &InputLines) {
        let Self::Prompt { terminal, .. } = self else { return };
        terminal.restore();
        if !input_lines.is_closed() {
            // The prompt still stands there, and pasted text would be marked for nobody.
            let _ = output::print_line("\u{1b}[?2004l");
        }
    }
}

/// How a terminal was before a prompt changed it.
pub(super) struct SavedTerminal {
    #[cfg(unix)]
    termios: Option<rustix::termios::Termios>,
}

impl SavedTerminal {
    fn capture() -> Self {
        Self {
            #[cfg(unix)]
            termios: rustix::termios::tcgetattr(std::io::stdin()).ok(),
        }
    }

    fn restore(self) {
        #[cfg(unix)]
        if let Some(before) = self.termios {
            let now = rustix::termios::OptionalActions::Now;
            // A terminal that has gone needs nothing.
            let _ = rustix::termios::tcsetattr(std::io::stdin(), now, &before);
        }
    }
}

type PromptEditor = Editor<RoomCompleter, MemHistory>;

fn create_prompt(
    view: &Arc<Mutex<RoomView>>,
) -> rustyline::Result<(PromptEditor, Box<dyn ExternalPrinter + Send>)> {
    let config = Config::builder().completion_type(CompletionType::List).build();
    let history = MemHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history)?;
    editor.set_helper(Some(RoomCompleter(Arc::clone(view))));
    let printer = editor.create_external_printer()?;
    Ok((editor, Box::new(printer)))
}

/// Reads until somebody leaves: the end of input and Ctrl-C mean it as well.
fn read_prompt(mut editor: PromptEditor, lines: &mpsc::Sender<String>) {
    loop {
        let line = match editor.readline("> ") {
            Ok(line) => line,
            Err(ReadlineError::Signal(_)) => continue,
            Err(_) => return,
        };
        // Without a history the arrow keys find nothing, which is no reason to stop.
        let _ = editor.add_history_entry(&line);
        // Whoever leaves is not asked once more: the terminal is given back meanwhile.
        let is_last = parse::parse_line(&line) == Ok(Some(ParsedLine::Quit));
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
struct RoomCompleter(Arc<Mutex<RoomView>>);

impl Completer for RoomCompleter {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let view = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(completions(&view, &line[..position]))
    }
}

impl Helper for RoomCompleter {}
impl Highlighter for RoomCompleter {}
impl Validator for RoomCompleter {}
impl Hinter for RoomCompleter {
    type Hint = String;
}

/// Where the last word begins, and what it may become.
fn completions(view: &RoomView, line: &str) -> (usize, Vec<String>) {
    let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let (before, prefix) = line.split_at(start);
    let mut typed_words = before.split_whitespace();
    let (command, position_in_line) =
        (typed_words.next().unwrap_or_default(), typed_words.clone().count());
    if before.trim().is_empty() {
        let commands = COMMANDS.iter().map(|(name, _, _)| (*name).to_owned());
        return (start, matching_names(commands, prefix));
    }
    let names = |kind: NameKind| view.names(kind).into_iter().map(ToOwned::to_owned);
    let has_target = typed_words.next().is_some_and(|first| first.starts_with('@'));
    let found = match (command, position_in_line) {
        ("/call" | "/propose", 0) if prefix.starts_with('@') => {
            matching_names(names(NameKind::Participants).map(|name| format!("@{name}")), prefix)
        }
        ("/call" | "/propose", 0) => matching_names(names(NameKind::Tools), prefix),
        ("/call" | "/propose", 1) if has_target => matching_names(names(NameKind::Tools), prefix),
        ("/approve" | "/reject" | "/withdraw", 0) => {
            matching_names(names(NameKind::Proposals), prefix)
        }
        ("/tools" | "/grant" | "/revoke" | "/kick" | "/to", 0) => {
            matching_names(names(NameKind::Participants), prefix)
        }
        _ => Vec::new(),
    };
    (start, found)
}

/// Names that begin like the word, with a blank behind one that is certain; none that a terminal would obey, and none that are several words.
fn matching_names(names: impl Iterator<Item = String>, prefix: &str) -> Vec<String> {
    let is_printable =
        |name: &String| !name.contains(|c: char| c.is_control() || c.is_whitespace());
    let mut found: Vec<String> =
        names.filter(|name| name.starts_with(prefix)).filter(is_printable).collect();
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
    fn completion_offers_names_valid_at_position() {
        let mut view = RoomView::default();
        for message in [
            json!({"kind": "system/welcome", "payload": {"you": {"id": "me"},
                "participants": [{"id": "bob"}, {"id": "b\u{1b}x"}, {"id": "toolpost"}]}}),
            json!({"kind": "mcp/response", "from": "toolpost",
                "payload": {"result": {"tools": [{"name": "demo__add"}, {"name": "demo__note"}]}}}),
            json!({"kind": "mcp/proposal", "id": "P-1", "from": "bob", "payload": {}}),
        ] {
            view.apply(&message.to_string(), &message);
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
            let (found_start, found) = completions(&view, line);
            assert_eq!(
                (found_start, found),
                (start, expected.iter().map(|it| (*it).to_owned()).collect()),
                "{line}"
            );
        }
    }
}
