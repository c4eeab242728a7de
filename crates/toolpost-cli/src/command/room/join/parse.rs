//! Parses input lines: plain text is a chat message, a line that starts with `/` is a command.

use serde_json::{Map, Value};

/// The commands: name, arguments and description.
pub(super) const COMMANDS: [(&str, &str, &str); 15] = [
    ("/call", "[@WHO] NAME [JSON | key=value …]", "call a tool"),
    ("/propose", "[@WHO] NAME [JSON | key=value …]", "propose a call for others to approve"),
    ("/approve", "ID", "approve a proposal and run its call"),
    ("/reject", "ID [REASON]", "reject a proposal"),
    ("/withdraw", "ID [REASON]", "withdraw your proposal"),
    ("/tools", "[WHO]", "list tools"),
    ("/who", "", "list participants"),
    ("/history", "[N]", "show earlier messages"),
    ("/grant", "WHO CAPABILITY", "grant a capability that you have"),
    ("/revoke", "WHO CAPABILITY", "revoke a capability"),
    ("/invite", "WHO [CAPABILITY …]", "invite a participant and print the token"),
    ("/kick", "WHO [REASON]", "remove a participant"),
    ("/to", "WHO TEXT", "address a message to a participant; everyone sees it"),
    ("/help", "", "this list"),
    ("/quit", "", "leave"),
];

/// Number of messages shown by `/history` without an argument.
const DEFAULT_HISTORY: usize = 20;
/// Maximum number of messages that a gateway returns at once.
const MAX_HISTORY: usize = 1_000;

/// A parsed line of input.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ParsedLine {
    Chat { to: Option<String>, text: String },
    Call(RoomToolCall),
    Propose(RoomToolCall),
    Approve { id: String },
    Reject { id: String, reason: Option<String> },
    Withdraw { id: String, reason: Option<String> },
    Tools { participant: Option<String> },
    Participants,
    History { max: usize },
    Grant { participant: String, capability: Value },
    Revoke { participant: String, capability: Value },
    Invite { participant: String, capabilities: Vec<Value> },
    Kick { participant: String, reason: Option<String> },
    Help,
    Quit,
}

/// A tool call to send to a participant.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RoomToolCall {
    /// The participant; if absent, the one that provides the tool.
    pub(super) target: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// Parses a line. An empty line is `None`. `//` starts a chat message with a literal `/`.
///
/// # Errors
///
/// Returns what is wrong with the line and the expected syntax.
pub(super) fn parse_line(line: &str) -> Result<Option<ParsedLine>, String> {
    let line = line.trim();
    if line.is_empty() {
        return Ok(None);
    }
    if !line.starts_with('/') || line.starts_with("//") {
        let text = line.strip_prefix('/').unwrap_or(line).to_owned();
        return Ok(Some(ParsedLine::Chat { to: None, text }));
    }
    let (command, rest) = split_first_word(line);
    parse_command(command, rest).map(Some)
}

fn parse_command(command: &str, rest: &str) -> Result<ParsedLine, String> {
    let usage = || usage_error(command);
    let (first, after) = split_first_word(rest);
    let needed = || Some(first.to_owned()).filter(|word| !word.is_empty()).ok_or_else(usage);
    let reason = Some(after.to_owned()).filter(|text| !text.is_empty());
    Ok(match command {
        "/call" => {
            ParsedLine::Call(parse_tool_call(rest).map_err(|error| error.unwrap_or_else(usage))?)
        }
        "/propose" => {
            ParsedLine::Propose(parse_tool_call(rest).map_err(|error| error.unwrap_or_else(usage))?)
        }
        "/approve" => ParsedLine::Approve { id: needed()? },
        "/reject" => ParsedLine::Reject { id: needed()?, reason },
        "/withdraw" => ParsedLine::Withdraw { id: needed()?, reason },
        "/tools" => ParsedLine::Tools { participant: needed().ok() },
        "/who" => ParsedLine::Participants,
        "/history" => ParsedLine::History { max: parse_history(rest).ok_or_else(usage)? },
        "/grant" => ParsedLine::Grant {
            participant: needed()?,
            capability: parse_capability(after).ok_or_else(usage)?,
        },
        "/revoke" => ParsedLine::Revoke {
            participant: needed()?,
            capability: parse_capability(after).ok_or_else(usage)?,
        },
        "/invite" => {
            ParsedLine::Invite { participant: needed()?, capabilities: parse_capabilities(after) }
        }
        "/kick" => ParsedLine::Kick { participant: needed()?, reason },
        "/to" => ParsedLine::Chat { to: Some(needed()?), text: reason.ok_or_else(usage)? },
        "/help" => ParsedLine::Help,
        "/quit" => ParsedLine::Quit,
        other => return Err(unknown_command(other)),
    })
}

fn unknown_command(command: &str) -> String {
    let names = COMMANDS.iter().map(|(name, _, _)| *name);
    match toolpost::suggest_name(command, names) {
        Some(nearest) => format!("there is no {command}; did you mean {nearest}?"),
        None => format!("there is no {command}; /help lists the commands"),
    }
}

fn usage_error(command: &str) -> String {
    let found = COMMANDS.iter().find(|(name, _, _)| *name == command);
    let (name, rest, what) = found.unwrap_or(&("/help", "", "lists the commands"));
    format!("write {name} {rest}: {what}")
}

fn parse_history(rest: &str) -> Option<usize> {
    match rest {
        "" => Some(DEFAULT_HISTORY),
        number => number.parse().ok().filter(|max| (1..=MAX_HISTORY).contains(max)),
    }
}

/// Parses `[@WHO] NAME [JSON | key=value …]`.
///
/// # Errors
///
/// Returns what is wrong with the arguments, or `None` if the name is missing.
fn parse_tool_call(rest: &str) -> Result<RoomToolCall, Option<String>> {
    let (first, after) = split_first_word(rest);
    let (participant, name, text) = match first.strip_prefix('@') {
        Some(participant) => {
            let (name, text) = split_first_word(after);
            (Some(participant.to_owned()), name, text)
        }
        None => (None, first, after),
    };
    if name.is_empty() {
        return Err(None);
    }
    Ok(RoomToolCall {
        target: participant,
        name: name.to_owned(),
        arguments: parse_arguments(text).map_err(Some)?,
    })
}

fn parse_arguments(text: &str) -> Result<Value, String> {
    if text.starts_with('{') {
        return serde_json::from_str(text)
            .map_err(|error| format!("the arguments are not JSON: {error}"));
    }
    let mut members = Map::new();
    for word in split_words(text)? {
        let (key, value) =
            word.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
                format!("`{word}` is no key=value; arguments can be written as JSON, too")
            })?;
        members.insert(key.to_owned(), parse_value(value));
    }
    Ok(Value::Object(members))
}

/// Parses a value as JSON, or as a string if it is not valid JSON. A quoted value is always a
/// string.
fn parse_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Splits a text at whitespace, except inside double quotes.
fn split_words(text: &str) -> Result<Vec<String>, String> {
    let mut words = vec![String::new()];
    let (mut is_quoted, mut is_escaped) = (false, false);
    for character in text.chars() {
        if character.is_whitespace() && !is_quoted {
            words.push(String::new());
            continue;
        }
        is_quoted ^= character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        if let Some(word) = words.last_mut() {
            word.push(character);
        }
    }
    if is_quoted {
        return Err("a quotation mark is not closed".to_owned());
    }
    words.retain(|word| !word.is_empty());
    Ok(words)
}

/// Parses one capability: a JSON pattern or a string.
fn parse_capability(text: &str) -> Option<Value> {
    match text {
        "" => None,
        json if json.starts_with('{') => serde_json::from_str(json).ok(),
        text if text.contains(char::is_whitespace) => None,
        text => Some(text.into()),
    }
}

fn parse_capabilities(text: &str) -> Vec<Value> {
    match parse_capability(text) {
        Some(one) => vec![one],
        None => text.split_whitespace().map(Into::into).collect(),
    }
}

fn split_first_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn line_is_parsed_as_text_or_command() {
        let text = |text: &str| ParsedLine::Chat { to: None, text: text.to_owned() };
        let tool_call = |target_id: Option<&str>, arguments: Value| RoomToolCall {
            target: target_id.map(ToOwned::to_owned),
            name: "demo__add".to_owned(),
            arguments,
        };
        let owned = |text: &str| text.to_owned();
        for (line, expected) in [
            ("  hello /there ", text("hello /there")),
            ("//slash", text("/slash")),
            (
                "/to bob come here",
                ParsedLine::Chat { to: Some(owned("bob")), text: owned("come here") },
            ),
            ("/call demo__add", ParsedLine::Call(tool_call(None, json!({})))),
            (
                "/call demo__add {\"a\": [1, 2]}",
                ParsedLine::Call(tool_call(None, json!({"a": [1, 2]}))),
            ),
            (
                "/call @files  demo__add a=1 b=two c=\"a b\" d=\"5\" e={\"x\":1} f=a=b",
                ParsedLine::Call(tool_call(
                    Some("files"),
                    json!({"a": 1, "b": "two", "c": "a b", "d": "5", "e": {"x": 1}, "f": "a=b"}),
                )),
            ),
            ("/propose demo__add a=1", ParsedLine::Propose(tool_call(None, json!({"a": 1})))),
            ("/approve P-1", ParsedLine::Approve { id: owned("P-1") }),
            (
                "/reject P-1 too  risky",
                ParsedLine::Reject { id: owned("P-1"), reason: Some(owned("too  risky")) },
            ),
            ("/withdraw P-1", ParsedLine::Withdraw { id: owned("P-1"), reason: None }),
            ("/tools", ParsedLine::Tools { participant: None }),
            ("/tools files", ParsedLine::Tools { participant: Some(owned("files")) }),
            ("/who", ParsedLine::Participants),
            ("/history", ParsedLine::History { max: 20 }),
            ("/history 5", ParsedLine::History { max: 5 }),
            (
                "/grant bob chat/*",
                ParsedLine::Grant { participant: owned("bob"), capability: json!("chat/*") },
            ),
            (
                "/revoke bob {\"kind\": \"chat\"}",
                ParsedLine::Revoke {
                    participant: owned("bob"),
                    capability: json!({"kind": "chat"}),
                },
            ),
            ("/invite eve", ParsedLine::Invite { participant: owned("eve"), capabilities: vec![] }),
            (
                "/invite eve chat mcp/*",
                ParsedLine::Invite {
                    participant: owned("eve"),
                    capabilities: vec![json!("chat"), json!("mcp/*")],
                },
            ),
            ("/kick eve", ParsedLine::Kick { participant: owned("eve"), reason: None }),
            ("/help", ParsedLine::Help),
            ("/quit", ParsedLine::Quit),
        ] {
            assert_eq!(parse_line(line), Ok(Some(expected)), "{line}");
        }
        assert_eq!(parse_line(" \t"), Ok(None));
    }

    #[test]
    fn invalid_line_returns_usage_error() {
        for (line, expected) in [
            ("/cal x", "did you mean /call?"),
            ("/xyzzyxyzzy", "/help"),
            ("/call", "write /call [@WHO] NAME"),
            ("/call @bob", "write /call [@WHO] NAME"),
            ("/call add {", "not JSON"),
            ("/call add 5", "`5` is no key=value"),
            ("/call add =5", "no key=value"),
            ("/call add a=\"b", "not closed"),
            ("/approve", "write /approve ID"),
            ("/history many", "write /history"),
            ("/history 0", "write /history"),
            ("/history 1001", "write /history"),
            ("/grant bob", "write /grant WHO CAPABILITY"),
            ("/grant bob {", "write /grant WHO CAPABILITY"),
            ("/to bob", "write /to WHO TEXT"),
        ] {
            let error = parse_line(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
