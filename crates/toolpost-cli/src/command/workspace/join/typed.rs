//! What is typed in a room: plain text is said, and a line that begins with `/` does something.

use serde_json::{Map, Value};

/// The commands, with what follows each and what it does.
pub(super) const COMMANDS: [(&str, &str, &str); 15] = [
    ("/call", "[@WHO] NAME [JSON | key=value …]", "call a tool"),
    ("/propose", "[@WHO] NAME [JSON | key=value …]", "propose a call to those who may make it"),
    ("/approve", "ID", "make the call that was proposed"),
    ("/reject", "ID [REASON]", "refuse a proposal"),
    ("/withdraw", "ID [REASON]", "take your own proposal back"),
    ("/tools", "[WHO]", "ask which tools there are"),
    ("/who", "", "who is here"),
    ("/history", "[N]", "what was said before"),
    ("/grant", "WHO CAPABILITY", "let somebody do what you may do"),
    ("/revoke", "WHO CAPABILITY", "take that back"),
    ("/invite", "WHO [CAPABILITY …]", "make a place and a token for somebody"),
    ("/kick", "WHO [REASON]", "send somebody away"),
    ("/to", "WHO TEXT", "say something to somebody, heard by everybody"),
    ("/help", "", "this list"),
    ("/quit", "", "leave"),
];

/// How many messages are shown where no number is typed.
const USUAL_HISTORY: usize = 20;
/// How many a gateway gives at once.
const MOST_HISTORY: usize = 1_000;

/// A line that was understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Typed {
    Chat { to: Option<String>, text: String },
    Call(Asking),
    Propose(Asking),
    Approve { id: String },
    Reject { id: String, reason: Option<String> },
    Withdraw { id: String, reason: Option<String> },
    Tools { who: Option<String> },
    Who,
    History { most: usize },
    Grant { who: String, capability: Value },
    Revoke { who: String, capability: Value },
    Invite { who: String, capabilities: Vec<Value> },
    Kick { who: String, reason: Option<String> },
    Help,
    Quit,
}

/// A tool that somebody is asked to run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asking {
    /// Whom; the one who offers it where nobody is named.
    pub(super) who: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// Reads a line; an empty one says nothing. `//` begins a text with a `/`.
///
/// # Errors
///
/// What is wrong with it, and how it is written.
pub(super) fn read(line: &str) -> Result<Option<Typed>, String> {
    let line = line.trim();
    if line.is_empty() {
        return Ok(None);
    }
    if !line.starts_with('/') || line.starts_with("//") {
        let text = line.strip_prefix('/').unwrap_or(line).to_owned();
        return Ok(Some(Typed::Chat { to: None, text }));
    }
    let (command, rest) = first_word(line);
    command_of(command, rest).map(Some)
}

fn command_of(command: &str, rest: &str) -> Result<Typed, String> {
    let usage = || usage(command);
    let (first, after) = first_word(rest);
    let needed = || Some(first.to_owned()).filter(|word| !word.is_empty()).ok_or_else(usage);
    let reason = Some(after.to_owned()).filter(|text| !text.is_empty());
    Ok(match command {
        "/call" => Typed::Call(asking(rest).map_err(|error| error.unwrap_or_else(usage))?),
        "/propose" => Typed::Propose(asking(rest).map_err(|error| error.unwrap_or_else(usage))?),
        "/approve" => Typed::Approve { id: needed()? },
        "/reject" => Typed::Reject { id: needed()?, reason },
        "/withdraw" => Typed::Withdraw { id: needed()?, reason },
        "/tools" => Typed::Tools { who: needed().ok() },
        "/who" => Typed::Who,
        "/history" => Typed::History { most: history(rest).ok_or_else(usage)? },
        "/grant" => {
            Typed::Grant { who: needed()?, capability: one_capability(after).ok_or_else(usage)? }
        }
        "/revoke" => {
            Typed::Revoke { who: needed()?, capability: one_capability(after).ok_or_else(usage)? }
        }
        "/invite" => Typed::Invite { who: needed()?, capabilities: capabilities(after) },
        "/kick" => Typed::Kick { who: needed()?, reason },
        "/to" => Typed::Chat { to: Some(needed()?), text: reason.ok_or_else(usage)? },
        "/help" => Typed::Help,
        "/quit" => Typed::Quit,
        other => return Err(unknown(other)),
    })
}

fn unknown(command: &str) -> String {
    let names = COMMANDS.iter().map(|(name, _, _)| *name);
    match toolpost::nearest(command, names) {
        Some(nearest) => format!("there is no {command}; did you mean {nearest}?"),
        None => format!("there is no {command}; /help lists the commands"),
    }
}

fn usage(command: &str) -> String {
    let found = COMMANDS.iter().find(|(name, _, _)| *name == command);
    let (name, rest, what) = found.unwrap_or(&("/help", "", "lists the commands"));
    format!("write {name} {rest}: {what}")
}

fn history(rest: &str) -> Option<usize> {
    match rest {
        "" => Some(USUAL_HISTORY),
        number => number.parse().ok().filter(|most| (1..=MOST_HISTORY).contains(most)),
    }
}

/// `[@WHO] NAME [JSON | key=value …]`
///
/// # Errors
///
/// What is wrong with the arguments; nothing where there is no name.
fn asking(rest: &str) -> Result<Asking, Option<String>> {
    let (first, after) = first_word(rest);
    let (who, name, text) = match first.strip_prefix('@') {
        Some(who) => {
            let (name, text) = first_word(after);
            (Some(who.to_owned()), name, text)
        }
        None => (None, first, after),
    };
    if name.is_empty() {
        return Err(None);
    }
    Ok(Asking { who, name: name.to_owned(), arguments: arguments(text).map_err(Some)? })
}

fn arguments(text: &str) -> Result<Value, String> {
    if text.starts_with('{') {
        return serde_json::from_str(text)
            .map_err(|error| format!("the arguments are not JSON: {error}"));
    }
    let mut members = Map::new();
    for word in words(text)? {
        let (key, value) =
            word.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
                format!("`{word}` is no key=value; arguments can be written as JSON, too")
            })?;
        members.insert(key.to_owned(), value_of(value));
    }
    Ok(Value::Object(members))
}

/// JSON where it is JSON, which quotes make a text of anything; else a text.
fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Words between blanks, except for those in double quotes.
fn words(text: &str) -> Result<Vec<String>, String> {
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

/// One capability: the JSON of a pattern, or a text.
fn one_capability(text: &str) -> Option<Value> {
    match text {
        "" => None,
        json if json.starts_with('{') => serde_json::from_str(json).ok(),
        text if text.contains(char::is_whitespace) => None,
        text => Some(text.into()),
    }
}

fn capabilities(text: &str) -> Vec<Value> {
    match one_capability(text) {
        Some(one) => vec![one],
        None => text.split_whitespace().map(Into::into).collect(),
    }
}

fn first_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_text_or_a_command() {
        let text = |text: &str| Typed::Chat { to: None, text: text.to_owned() };
        let asking = |who: Option<&str>, arguments: Value| Asking {
            who: who.map(ToOwned::to_owned),
            name: "demo__add".to_owned(),
            arguments,
        };
        let owned = |text: &str| text.to_owned();
        for (line, expected) in [
            ("  hello /there ", text("hello /there")),
            ("//slash", text("/slash")),
            ("/to bob come here", Typed::Chat { to: Some(owned("bob")), text: owned("come here") }),
            ("/call demo__add", Typed::Call(asking(None, json!({})))),
            ("/call demo__add {\"a\": [1, 2]}", Typed::Call(asking(None, json!({"a": [1, 2]})))),
            (
                "/call @files  demo__add a=1 b=two c=\"a b\" d=\"5\" e={\"x\":1} f=a=b",
                Typed::Call(asking(
                    Some("files"),
                    json!({"a": 1, "b": "two", "c": "a b", "d": "5", "e": {"x": 1}, "f": "a=b"}),
                )),
            ),
            ("/propose demo__add a=1", Typed::Propose(asking(None, json!({"a": 1})))),
            ("/approve P-1", Typed::Approve { id: owned("P-1") }),
            (
                "/reject P-1 too  risky",
                Typed::Reject { id: owned("P-1"), reason: Some(owned("too  risky")) },
            ),
            ("/withdraw P-1", Typed::Withdraw { id: owned("P-1"), reason: None }),
            ("/tools", Typed::Tools { who: None }),
            ("/tools files", Typed::Tools { who: Some(owned("files")) }),
            ("/who", Typed::Who),
            ("/history", Typed::History { most: 20 }),
            ("/history 5", Typed::History { most: 5 }),
            ("/grant bob chat/*", Typed::Grant { who: owned("bob"), capability: json!("chat/*") }),
            (
                "/revoke bob {\"kind\": \"chat\"}",
                Typed::Revoke { who: owned("bob"), capability: json!({"kind": "chat"}) },
            ),
            ("/invite eve", Typed::Invite { who: owned("eve"), capabilities: vec![] }),
            (
                "/invite eve chat mcp/*",
                Typed::Invite {
                    who: owned("eve"),
                    capabilities: vec![json!("chat"), json!("mcp/*")],
                },
            ),
            ("/kick eve", Typed::Kick { who: owned("eve"), reason: None }),
            ("/help", Typed::Help),
            ("/quit", Typed::Quit),
        ] {
            assert_eq!(read(line), Ok(Some(expected)), "{line}");
        }
        assert_eq!(read(" \t"), Ok(None));
    }

    #[test]
    fn what_is_not_understood_is_explained() {
        for (line, said) in [
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
            let error = read(line).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
