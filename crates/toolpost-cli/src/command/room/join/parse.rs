//! Parses input lines: plain text is a chat message, a line that starts with `/` is a command.

use serde_json::{Map, Value, json};

use super::compose::{ComposedMessage, close_proposal, list_tools};
use super::room_view::{GATEWAY_PARTICIPANT, RoomView};

/// The commands: name, arguments and description.
pub(super) const COMMANDS: [(&str, &str, &str); 15] = [
    ("/call", "[@PARTICIPANT] TOOL [JSON | key=value …]", "call a tool"),
    (
        "/propose",
        "[@PARTICIPANT] TOOL [JSON | key=value …]",
        "propose a call for others to approve",
    ),
    ("/approve", "ID", "approve a proposal and run its call"),
    ("/reject", "ID [REASON]", "reject a proposal"),
    ("/withdraw", "ID [REASON]", "withdraw your proposal"),
    ("/tools", "[PARTICIPANT]", "list tools"),
    ("/who", "", "list participants"),
    ("/history", "[N]", "show earlier messages"),
    ("/grant", "PARTICIPANT CAPABILITY", "grant a capability that you have"),
    ("/revoke", "PARTICIPANT CAPABILITY", "revoke a capability"),
    ("/invite", "PARTICIPANT [CAPABILITY …]", "invite a participant and print the token"),
    ("/kick", "PARTICIPANT [REASON]", "remove a participant"),
    (
        "/to",
        "PARTICIPANT TEXT",
        "send a message addressed to a participant; all participants receive it",
    ),
    ("/help", "", "list the commands"),
    ("/quit", "", "leave"),
];

const DEFAULT_HISTORY: usize = 20;
/// Maximum number of messages that a gateway returns at once.
const MAX_HISTORY: usize = 1_000;

#[derive(Debug)]
pub(super) enum ParsedLine {
    Send(ComposedMessage),
    Participants,
    History { max: usize },
    Help,
    Quit,
}

/// Parses a line. An empty line is `None`. `//` starts a chat message with a literal `/`.
///
/// # Errors
///
/// Returns what is wrong with the line and the expected syntax.
pub(super) fn parse_line(line: &str, view: &RoomView) -> Result<Option<ParsedLine>, String> {
    let line = line.trim();
    if line.is_empty() {
        return Ok(None);
    }
    if !line.starts_with('/') || line.starts_with("//") {
        let text = line.strip_prefix('/').unwrap_or(line);
        return Ok(Some(ParsedLine::Send(chat(text))));
    }
    let (command, rest) = split_first_word(line);
    parse_command(command, rest, view).map(Some)
}

pub(super) fn is_quit(line: &str) -> bool {
    split_first_word(line.trim()).0 == "/quit"
}

fn parse_command(command: &str, rest: &str, view: &RoomView) -> Result<ParsedLine, String> {
    let usage = || {
        let found = COMMANDS.iter().find(|(name, _, _)| *name == command);
        format!("usage: {command} {}", found.map_or("", |(_, rest, _)| rest))
    };
    let (first, after) = split_first_word(rest);
    let word = || Some(first).filter(|word| !word.is_empty()).ok_or_else(usage);
    let text = Some(after).filter(|text| !text.is_empty());
    Ok(ParsedLine::Send(match command {
        "/call" => tool_call("mcp/request", rest, view)?.ok_or_else(usage)?,
        "/propose" => tool_call("mcp/proposal", rest, view)?.ok_or_else(usage)?,
        "/approve" => ComposedMessage::approval(view.find_proposal(word()?)?),
        "/reject" => close_proposal("mcp/reject", word()?, text.unwrap_or("disagree"), view),
        "/withdraw" => {
            close_proposal("mcp/withdraw", word()?, text.unwrap_or("no_longer_needed"), view)
        }
        "/tools" => list_tools(word().unwrap_or(GATEWAY_PARTICIPANT), None),
        "/grant" => change_capability("capability/grant", word()?, after).ok_or_else(usage)?,
        "/revoke" => change_capability("capability/revoke", word()?, after).ok_or_else(usage)?,
        "/invite" => {
            let capabilities = parse_capabilities(after);
            let payload = json!({"participant_id": word()?, "initial_capabilities": capabilities});
            ComposedMessage::new("space/invite", &payload)
        }
        "/kick" => {
            let mut payload = json!({"participant_id": word()?});
            if let Some(reason) = text {
                payload["reason"] = reason.into();
            }
            ComposedMessage::new("space/kick", &payload)
        }
        "/to" => chat(text.ok_or_else(usage)?).to([word()?.to_owned()]),
        "/who" => return Ok(ParsedLine::Participants),
        "/history" => {
            return Ok(ParsedLine::History { max: parse_history(rest).ok_or_else(usage)? });
        }
        "/help" => return Ok(ParsedLine::Help),
        "/quit" => return Ok(ParsedLine::Quit),
        other => return Err(unknown_command(other)),
    }))
}

fn chat(text: &str) -> ComposedMessage {
    ComposedMessage::new("chat", &json!({"text": text}))
}

fn change_capability(kind: &'static str, participant: &str, text: &str) -> Option<ComposedMessage> {
    let payload = json!({"recipient": participant, "capabilities": [parse_capability(text)?]});
    Some(ComposedMessage::new(kind, &payload).to([participant.to_owned()]))
}

fn unknown_command(command: &str) -> String {
    let names = COMMANDS.iter().map(|(name, _, _)| *name);
    match toolpost::suggest_name(command, names) {
        Some(nearest) => format!("unknown command {command}; did you mean {nearest}?"),
        None => format!("unknown command {command}; /help lists the commands"),
    }
}

fn parse_history(rest: &str) -> Option<usize> {
    match rest {
        "" => Some(DEFAULT_HISTORY),
        number => number.parse().ok().filter(|max| (1..=MAX_HISTORY).contains(max)),
    }
}

/// Parses `[@PARTICIPANT] TOOL [JSON | key=value …]`. Without a participant, the one that provides
/// the tool is called. Returns `None` if the name is missing.
///
/// # Errors
///
/// Returns what is wrong with the arguments.
fn tool_call(
    kind: &'static str,
    rest: &str,
    view: &RoomView,
) -> Result<Option<ComposedMessage>, String> {
    let (first, after) = split_first_word(rest);
    let (participant, (name, text)) = match first.strip_prefix('@') {
        Some(participant) => (Some(participant), split_first_word(after)),
        None => (None, (first, after)),
    };
    if name.is_empty() {
        return Ok(None);
    }
    let params = json!({"name": name, "arguments": parse_arguments(text)?});
    let message = ComposedMessage::new(kind, &json!({"method": "tools/call", "params": params}));
    let participant = participant.unwrap_or_else(|| view.provider_of(name));
    Ok(Some(message.to([participant.to_owned()])))
}

fn parse_arguments(text: &str) -> Result<Value, String> {
    if text.starts_with('{') {
        return serde_json::from_str(text)
            .map_err(|error| format!("the arguments are not JSON: {error}"));
    }
    let mut members = Map::new();
    for word in split_words(text)? {
        let (key, value) = word
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| format!("`{word}` is not key=value; use key=value or JSON"))?;
        // A quoted value is always a string.
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        members.insert(key.to_owned(), value);
    }
    Ok(Value::Object(members))
}

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
        return Err("missing closing quotation mark".to_owned());
    }
    words.retain(|word| !word.is_empty());
    Ok(words)
}

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
    use super::*;

    fn view() -> RoomView {
        let mut view = RoomView::default();
        for written in [
            r#"{"kind":"mcp/proposal","id":"P-1","from":"bob","to":["fs"],"payload":{"method":"x","n":123456789012345678901}}"#,
            r#"{"kind":"mcp/response","from":"fs","payload":{"result":{"tools":[{"name":"read"}]}}}"#,
        ] {
            view.apply(written, &serde_json::from_str(written).unwrap());
        }
        view
    }

    /// Each row: a line, and its message without protocol and id.
    #[test]
    fn input_lines_compose_expected_messages() {
        let view = view();
        let call = |kind: &str, to: &str, name: &str, arguments: &str| {
            format!(
                r#""kind":"{kind}","to":["{to}"],"payload":{{"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}}}"#
            )
        };
        for (line, expected) in [
            ("  hello /there ", r#""kind":"chat","payload":{"text":"hello /there"}}"#),
            ("//slash", r#""kind":"chat","payload":{"text":"/slash"}}"#),
            ("/to bob come here", r#""kind":"chat","to":["bob"],"payload":{"text":"come here"}}"#),
            ("/call add a=1", &call("mcp/request", "toolpost", "add", r#"{"a":1}"#)),
            (
                "/call add {\"a\": [1, 2]}",
                &call("mcp/request", "toolpost", "add", r#"{"a":[1,2]}"#),
            ),
            ("/call read", &call("mcp/request", "fs", "read", "{}")),
            (
                "/call @files  add a=1 b=two c=\"a b\" d=\"5\" e={\"x\":1} f=a=b",
                &call(
                    "mcp/request",
                    "files",
                    "add",
                    r#"{"a":1,"b":"two","c":"a b","d":"5","e":{"x":1},"f":"a=b"}"#,
                ),
            ),
            ("/propose @bob read", &call("mcp/proposal", "bob", "read", "{}")),
            (
                "/approve P",
                r#""kind":"mcp/request","to":["fs"],"correlation_id":["P-1"],"payload":{"method":"x","n":123456789012345678901}}"#,
            ),
            (
                "/reject P-1 too  risky",
                r#""kind":"mcp/reject","to":["bob"],"correlation_id":["P-1"],"payload":{"reason":"too  risky"}}"#,
            ),
            (
                "/withdraw Q",
                r#""kind":"mcp/withdraw","correlation_id":["Q"],"payload":{"reason":"no_longer_needed"}}"#,
            ),
            (
                "/tools",
                r#""kind":"mcp/request","to":["toolpost"],"payload":{"method":"tools/list"}}"#,
            ),
            (
                "/tools files",
                r#""kind":"mcp/request","to":["files"],"payload":{"method":"tools/list"}}"#,
            ),
            (
                "/grant bob chat/*",
                r#""kind":"capability/grant","to":["bob"],"payload":{"recipient":"bob","capabilities":["chat/*"]}}"#,
            ),
            (
                "/revoke bob {\"kind\": \"chat\"}",
                r#""kind":"capability/revoke","to":["bob"],"payload":{"recipient":"bob","capabilities":[{"kind":"chat"}]}}"#,
            ),
            (
                "/invite eve",
                r#""kind":"space/invite","payload":{"participant_id":"eve","initial_capabilities":[]}}"#,
            ),
            (
                "/invite eve chat mcp/*",
                r#""kind":"space/invite","payload":{"participant_id":"eve","initial_capabilities":["chat","mcp/*"]}}"#,
            ),
            ("/kick eve", r#""kind":"space/kick","payload":{"participant_id":"eve"}}"#),
            (
                "/kick eve noise",
                r#""kind":"space/kick","payload":{"participant_id":"eve","reason":"noise"}}"#,
            ),
        ] {
            let Some(ParsedLine::Send(outgoing)) = parse_line(line, &view).unwrap() else {
                panic!("{line}")
            };
            let expected = format!(r#"{{"protocol":"mew/v0.4","id":"",{expected}"#);
            assert_eq!(outgoing.to_json(), expected, "{line}");
        }
        let parsed = |line| parse_line(line, &view).unwrap();
        assert!(parsed(" \t").is_none());
        assert!(matches!(parsed("/who"), Some(ParsedLine::Participants)));
        assert!(matches!(parsed("/history"), Some(ParsedLine::History { max: 20 })));
        assert!(matches!(parsed("/history 5"), Some(ParsedLine::History { max: 5 })));
        assert!(matches!(parsed("/help"), Some(ParsedLine::Help)));
        assert!(matches!(parsed("/quit"), Some(ParsedLine::Quit)) && is_quit(" /quit "));
    }

    #[test]
    fn invalid_line_returns_usage_error() {
        for (line, expected) in [
            ("/cal x", "did you mean /call?"),
            ("/xyzzyxyzzy", "/help"),
            ("/call", "usage: /call [@PARTICIPANT] TOOL"),
            ("/call @bob", "usage: /call [@PARTICIPANT] TOOL"),
            ("/call add {", "not JSON"),
            ("/call add 5", "`5` is not key=value"),
            ("/call add =5", "not key=value"),
            ("/call add a=\"b", "missing closing"),
            ("/approve", "usage: /approve ID"),
            ("/approve Q", "`Q`"),
            ("/history many", "usage: /history"),
            ("/history 0", "usage: /history"),
            ("/history 1001", "usage: /history"),
            ("/grant bob", "usage: /grant PARTICIPANT CAPABILITY"),
            ("/grant bob {", "usage: /grant PARTICIPANT CAPABILITY"),
            ("/to bob", "usage: /to PARTICIPANT TEXT"),
        ] {
            let error = parse_line(line, &view()).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
