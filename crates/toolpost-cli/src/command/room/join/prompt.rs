//! Input and output of a room: a prompt at a terminal, plain lines otherwise.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, ExternalPrinter, Helper};
use serde_json::Value;
use tokio::sync::mpsc;

use super::parse::{self, COMMANDS};
use super::room_view::RoomView;
use crate::output;

/// Maximum number of queued input lines. Reading pauses when the queue is full.
const INPUT_QUEUE: usize = 16;

pub(super) type InputLines = mpsc::Receiver<String>;

pub(super) enum Screen {
    /// One line of JSON per message.
    Json,
    /// Rendered lines without a prompt.
    Lines,
    /// Text above the line being edited.
    Prompt {
        printer: Box<dyn ExternalPrinter + Send>,
        /// Terminal settings from before the prompt changed them.
        terminal: Option<Termios>,
    },
}

impl Screen {
    /// Starts reading lines, with a prompt if standard input is a terminal and output is not JSON.
    pub(super) fn open(
        is_json: bool,
        view: &Arc<Mutex<RoomView>>,
    ) -> std::io::Result<(Self, InputLines)> {
        let (sender, lines) = mpsc::channel(INPUT_QUEUE);
        if !is_json && std::io::stdin().is_terminal() {
            let terminal = tcgetattr(std::io::stdin()).ok();
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

    /// Prints a line of text. Does nothing in JSON mode.
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

    /// Prints a value as a line of JSON; does nothing in the other modes.
    pub(super) fn print_json(&mut self, value: &Value) -> std::io::Result<()> {
        if self.is_json() { output::print_json_line(value) } else { Ok(()) }
    }

    /// Prints the exact JSON of a message on one line. Does nothing outside of JSON mode.
    pub(super) fn print_raw_json(&mut self, json: &str) -> std::io::Result<()> {
        if !self.is_json() {
            return Ok(());
        }
        // Line breaks in JSON occur only between tokens; strings escape them.
        let mut line = json.replace(['\n', '\r'], " ");
        line.push('\n');
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes())?;
        out.flush()
    }

    /// Restores the terminal, even while the prompt thread is still reading a line.
    pub(super) fn close(self, input_lines: &InputLines) {
        let Self::Prompt { terminal, .. } = self else { return };
        if let Some(terminal) = terminal {
            // Fails only if the terminal is gone.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &terminal);
        }
        if !input_lines.is_closed() {
            // The prompt is still shown. The escape sequence turns off bracketed paste.
            let _ = output::print_line("\u{1b}[?2004l");
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

fn read_prompt(mut editor: PromptEditor, lines: &mpsc::Sender<String>) {
    loop {
        let line = match editor.readline("> ") {
            Ok(line) => line,
            Err(ReadlineError::Signal(_)) => continue,
            Err(_) => return,
        };
        // Input works without history, so an error is ignored.
        let _ = editor.add_history_entry(&line);
        // After `/quit` no further line is read, because the terminal is being restored.
        let is_last = parse::is_quit(&line);
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

struct RoomCompleter(Arc<Mutex<RoomView>>);

impl Completer for RoomCompleter {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let view = self.0.lock();
        Ok(completions(&view, &line[..position]))
    }
}

impl Helper for RoomCompleter {}
impl Highlighter for RoomCompleter {}
impl Validator for RoomCompleter {}
impl Hinter for RoomCompleter {
    type Hint = String;
}

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
    let has_target = typed_words.next().is_some_and(|first| first.starts_with('@'));
    let participants = || view.participant_names().into_iter().map(ToOwned::to_owned);
    let names: Vec<String> = match (command, position_in_line) {
        ("/call" | "/propose", 0) if prefix.starts_with('@') => {
            participants().map(|name| format!("@{name}")).collect()
        }
        ("/call" | "/propose", 0) => view.tools.keys().cloned().collect(),
        ("/call" | "/propose", 1) if has_target => view.tools.keys().cloned().collect(),
        ("/approve" | "/reject" | "/withdraw", 0) => view.proposals.keys().cloned().collect(),
        ("/tools" | "/grant" | "/revoke" | "/kick" | "/to", 0) => participants().collect(),
        _ => Vec::new(),
    };
    (start, matching_names(names.into_iter(), prefix))
}

/// Returns the names that start with the prefix. A single match gets a trailing space. Names with
/// control characters or whitespace are skipped.
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
