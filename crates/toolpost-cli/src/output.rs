//! Output: colors and tables for people, plain JSON for programs.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, ContentArrangement, Table};
use serde::Serialize;
use serde_json::Value;
use toolpost_gateway::config::Access;

static MODE: OnceLock<OutputMode> = OnceLock::new();

/// How a command prints its result.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OutputMode {
    pub(crate) json: bool,
    pub(crate) format: Option<OutputFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
// Not documentation comments, which would make the help of every command long.
pub(crate) enum OutputFormat {
    Data,
    // Plain JSON on one line, also on a terminal.
    Json,
    // The envelope of a call.
    Envelope,
    Table,
}

/// Sets how to print. The first call wins.
pub(crate) fn set_mode(mode: OutputMode) {
    let _ = MODE.set(mode);
}

fn mode() -> OutputMode {
    MODE.get().copied().unwrap_or_default()
}

/// Returns the requested format.
pub(crate) fn format() -> Option<OutputFormat> {
    mode().format
}

/// Whether plain JSON was requested.
pub(crate) fn json_requested() -> bool {
    mode().json || mode().format == Some(OutputFormat::Json)
}

/// Whether to print JSON instead of text: requested, or the default for an output that is not a
/// terminal.
pub(crate) fn is_json() -> bool {
    json_requested()
        || match format() {
            None => !std::io::stdout().is_terminal(),
            Some(format) => format != OutputFormat::Table,
        }
}

/// Whether to use colors: the stream is a terminal and the environment does not disable them.
pub(crate) fn supports_color(stream: &impl anstream::stream::RawStream) -> bool {
    anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never
}

/// Prints a JSON document on one line. Serializes directly to the output, because the text may be
/// larger than the value.
pub(crate) fn print_json_line(value: &impl Serialize) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::with_capacity(64 * 1024, std::io::stdout().lock());
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Prints JSON: indented and colored on a terminal, on one line otherwise.
pub(crate) fn print_json(value: &impl Serialize) -> std::io::Result<()> {
    if json_requested() || !std::io::stdout().is_terminal() {
        return print_json_line(value);
    }
    let mut text = String::new();
    write_colored_json(&mut text, &serde_json::to_value(value)?, 0);
    print_line(&text)
}

/// Prints a value as JSON, or on a terminal the lines of text that describe it.
pub(crate) fn print_value(
    value: &impl Serialize,
    text: impl FnOnce() -> String,
) -> std::io::Result<()> {
    if is_json() { print_json(value) } else { print_text(&text()) }
}

/// Prints a line of text. Colors are dropped if the output does not support them.
pub(crate) fn print_line(text: &str) -> std::io::Result<()> {
    writeln!(anstream::stdout().lock(), "{text}")
}

/// Prints a line of text that may contain text from others.
pub(crate) fn print_text(text: &str) -> std::io::Result<()> {
    print_line(&sanitize(text))
}

/// Formats a table without borders that fits the terminal.
pub(crate) fn table<R: IntoIterator<Item = String>>(
    header: impl IntoIterator<Item: Into<Cell>>,
    rows: impl IntoIterator<Item = R>,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(terminal_width(&table));
    table.set_header(header);
    for cells in rows {
        table.add_row(cells.into_iter().map(|cell| sanitize(&cell).into_owned()));
    }
    table.trim_fmt()
}

/// Formats data as a table: a row for each item of a list, or for each member of an object.
pub(crate) fn data_table(data: &Value) -> String {
    let cell = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    match data {
        Value::Array(items) if items.iter().any(Value::is_object) => {
            let mut columns: Vec<&String> = Vec::new();
            for name in items.iter().filter_map(Value::as_object).flat_map(|item| item.keys()) {
                if !columns.contains(&name) {
                    columns.push(name);
                }
            }
            let row = |item: &Value| -> Vec<String> {
                columns.iter().map(|name| item.get(*name).map(cell).unwrap_or_default()).collect()
            };
            table(columns.iter().map(|name| name.to_uppercase()), items.iter().map(row))
        }
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join("\n"),
        Value::Object(members) => {
            let row = |(name, value): (&String, &Value)| [name.clone(), cell(value)];
            table(["NAME", "VALUE"], members.iter().map(row))
        }
        scalar => cell(scalar),
    }
}

/// Some terminals report a width of zero.
fn terminal_width(table: &Table) -> u16 {
    table.width().filter(|width| *width >= 40).unwrap_or(100)
}

/// Formats operations as a table of one line each. Descriptions are truncated.
pub(crate) fn operation_table<'a>(
    header: &str,
    operations: impl Iterator<Item = (&'a str, &'a str, &'a str)> + Clone,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let longest = operations.clone().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    // Reserves the TYPE column and the space between columns.
    let other_columns = longest + "subscription".len() + 6;
    let width = usize::from(terminal_width(&table)).saturating_sub(other_columns).max(20);
    table.set_header([header, "TYPE", "DESCRIPTION"]);
    for (name, kind, description) in operations {
        let cells = [name, kind, &truncate_line(description, width)];
        table.add_row(cells.map(|cell| sanitize(cell).into_owned()));
    }
    table.trim_fmt()
}

/// Returns a text member of a JSON object, or an empty string.
pub(crate) fn text_of<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

pub(crate) fn pluralize(count: usize, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

pub(crate) const RELOAD_NOTICE: &str = "A running gateway reloads the configuration automatically.";

pub(crate) fn error(message: &str) {
    to_stderr("error", AnsiColor::Red, message);
}

pub(crate) fn warning(message: &str) {
    to_stderr("warning", AnsiColor::Yellow, message);
}

/// Prints an unlabeled message to standard error. A closed standard error is ignored.
pub(crate) fn notice(message: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", sanitize(message));
}

pub(crate) fn detail(message: &str) {
    notice(&format!("  {message}"));
}

fn to_stderr(label: &str, color: AnsiColor, message: &str) {
    let label = styled(colored(color).bold(), label);
    let _ = writeln!(anstream::stderr().lock(), "{label}: {}", sanitize(message));
}

/// Replaces control characters in text from others, and escapes bidirectional ones. Escape sequences
/// can set titles, write to the clipboard and hide text; bidirectional characters reorder it.
pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_bidirectional) {
        return match text.contains(is_control) {
            true => text.replace(is_control, "\u{fffd}").into(),
            false => text.into(),
        };
    }
    escape_characters(&text.replace(is_control, "\u{fffd}"), is_bidirectional).into()
}

/// Whether a character changes the direction of the text around it.
fn is_bidirectional(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes matching characters as in JSON, such as `\u202e`.
fn escape_characters(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match is_escaped(c) {
            true => drop(write!(escaped, "\\u{:04x}", u32::from(c))),
            false => escaped.push(c),
        }
    }
    escaped
}

/// Formats a scalar or a key as JSON without characters that a terminal obeys.
fn json_text(value: &Value) -> String {
    escape_characters(&value.to_string(), |c| c.is_control() || is_bidirectional(c))
}

/// Returns the first line, truncated to `max_chars` characters.
pub(crate) fn truncate_line(text: &str, max_chars: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    if line.chars().count() <= max_chars {
        return line.to_owned();
    }
    let prefix: String = line.chars().take(max_chars.saturating_sub(1)).collect();
    format!("{}…", prefix.trim_end())
}

pub(crate) fn describe_access(access: &Access, has_identities: bool) -> String {
    match access {
        Access::Scopes(scopes) => {
            let noun = if scopes.len() == 1 { "scope" } else { "scopes" };
            format!(
                "callable with the {noun} `{}` (`toolpost token new NAME --scope {}`)",
                scopes.join("`, `"),
                scopes.join(" --scope ")
            )
        }
        _ if has_identities => "callable with any token".to_owned(),
        _ => "callable by every local program, because no identities are configured".to_owned(),
    }
}

pub(crate) fn access_json(access: &Access) -> Value {
    match access {
        Access::Scopes(scopes) => serde_json::json!({"scopes": scopes}),
        _ => "open".into(),
    }
}

fn write_colored_json(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let entries = members.iter().map(|(key, value)| (Some(key.as_str()), value));
            write_entries(out, entries, ('{', '}'), depth);
        }
        Value::Array(items) if !items.is_empty() => {
            write_entries(out, items.iter().map(|item| (None, item)), ('[', ']'), depth);
        }
        scalar => out.push_str(&styled(colored(scalar_color(scalar)), &json_text(scalar))),
    }
}

fn write_entries<'a>(
    out: &mut String,
    entries: impl Iterator<Item = (Option<&'a str>, &'a Value)>,
    (open, close): (char, char),
    depth: usize,
) {
    out.push(open);
    for (position, (key, value)) in entries.enumerate() {
        out.push_str(if position == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(depth + 1));
        if let Some(key) = key {
            out.push_str(&styled(colored(AnsiColor::Blue), &json_text(&Value::from(key))));
            out.push_str(": ");
        }
        write_colored_json(out, value, depth + 1);
    }
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
    out.push(close);
}

fn scalar_color(scalar: &Value) -> AnsiColor {
    match scalar {
        Value::String(_) => AnsiColor::Green,
        Value::Number(_) => AnsiColor::Cyan,
        Value::Bool(_) => AnsiColor::Yellow,
        _ => AnsiColor::BrightBlack,
    }
}

pub(crate) fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

pub(crate) fn colored(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(color.into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sanitize_removes_escape_sequences() {
        assert_eq!(sanitize("a\n\tb ✓"), "a\n\tb ✓");
        assert_eq!(
            sanitize("\u{1b}]52;c;AA\u{7}\r\u{9b}x"),
            "\u{fffd}]52;c;AA\u{fffd}\u{fffd}\u{fffd}x"
        );
        assert_eq!(sanitize("a\u{202e}b\u{7}\u{2066}"), "a\\u202eb\u{fffd}\\u2066");
        assert_eq!(json_text(&json!("\u{9b}\u{200f}✓")), r#""\u009b\u200f✓""#);
    }

    #[test]
    fn truncate_line_keeps_first_line_within_width() {
        for (text, room, expected) in [
            ("short", 20, "short"),
            ("\n  first line\nsecond", 20, "first line"),
            ("exactly five", 12, "exactly five"),
            ("one two three", 8, "one two…"),
            ("✓✓✓✓✓", 3, "✓✓…"),
            ("", 3, ""),
        ] {
            assert_eq!(truncate_line(text, room), expected, "{text}");
        }
    }

    #[test]
    fn colored_json_without_escapes_equals_pretty_json() {
        let value = json!({"a": [1, "x", null, {}, []], "b": {"c": true, "d\"": -1.5}});
        let mut text = String::new();
        write_colored_json(&mut text, &value, 0);
        assert!(text.contains('\u{1b}'));
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(plain, serde_json::to_string_pretty(&value).unwrap());
    }
}
