//! The first frame of those who say in it where they go and who they are.

use serde_json::value::RawValue;

use super::draft::{self, ReadError};
use super::member::{self, Members};
use super::protocol::Protocol;
use crate::auth::Token;

/// How many bytes a name may have.
const LONGEST_NAME: usize = 256;
/// How many bytes a token may have; signed ones are long.
const LONGEST_TOKEN: usize = 16 * 1024;

/// What somebody says who comes in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Join {
    /// What he speaks.
    pub protocol: Option<Protocol>,
    /// The room.
    pub space: Option<Box<str>>,
    /// Who he is, for the gateway.
    pub token: Option<Token>,
    /// Who he wants to be, for the others.
    pub participant: Option<Box<str>>,
    /// How many of the last messages he wants to see.
    pub history: Option<usize>,
}

/// Reads a first frame: `{"type":"join", space, token, participantId}` or `{"kind":"system/join",
/// "payload":{…}}`, each member where the other form has it as well; nothing where it is no such frame.
///
/// The room is `space` or `topic`, the participant `participantId` or `participant_id`. What else is
/// said there is not looked at, capabilities least of all.
///
/// # Errors
///
/// `invalid_message` or `unsupported_protocol`, as for messages.
pub fn join(text: &str) -> Option<Result<Join, ReadError>> {
    member::check(text).ok()?;
    let mut members = Members::read(text).ok()?;
    let said = |raw: Option<&RawValue>| raw.and_then(member::text);
    let (form, kind) = (said(members.take("type")), said(members.take("kind")));
    match (form.as_deref(), kind.as_deref()) {
        (_, Some("system/join")) | (Some("join"), None) => {}
        _ => return None,
    }
    let join = read(members).map_err(|(error, message)| ReadError {
        error,
        kind: Some("system/join".to_owned()),
        ..ReadError::invalid(message)
    });
    Some(join)
}

fn read(mut members: Members<'_>) -> Result<Join, (&'static str, String)> {
    let payload = members.take("payload").and_then(|raw| Members::read(raw.get()).ok());
    // What stands beside the payload comes first and is found first.
    members.0.extend(payload.into_iter().flat_map(|payload| payload.0));
    // Clients without a token say that it is empty.
    members.0.retain(|(_, raw)| raw.get() != r#""""#);
    let mut one_of = |names: [&str; 2], longest| {
        let first = draft::name(&mut members, names[0], longest)?;
        first.map_or_else(|| draft::name(&mut members, names[1], longest), |name| Ok(Some(name)))
    };
    Ok(Join {
        space: one_of(["space", "topic"], LONGEST_NAME)?,
        token: one_of(["token", "token"], LONGEST_TOKEN)?
            .map(|text| Token::from(String::from(text))),
        participant: one_of(["participantId", "participant_id"], LONGEST_NAME)?,
        protocol: members.take("protocol").map(draft::protocol).transpose()?,
        history: members.take("history").map(history).transpose()?,
    })
}

fn history(raw: &RawValue) -> Result<usize, (&'static str, String)> {
    serde_json::from_str(raw.get())
        .map_err(|_| ("invalid_message", "`history` must be a whole number".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_in_says_it_in_one_of_two_ways() {
        for text in [
            r#"{"type":"join","space":"s","token":"t","participantId":"p","capabilities":[{}]}"#,
            r#"{"kind":"system/join","payload":{"space":"s","token":"t","participantId":"p"}}"#,
            r#"{"type":"join","topic":"s","token":"t","participant_id":"p"}"#,
            r#"{"type":"join","kind":"system/join","space":"s","payload":
                {"space":"other","token":"t","participant_id":"p"}}"#,
            r#"{"type":"join","space":"s","token":"t","participantId":"p","payload":7}"#,
        ] {
            let join = join(text).unwrap().unwrap();
            assert_eq!(join.space.as_deref(), Some("s"), "{text}");
            assert_eq!(join.token.as_ref().map(Token::reveal), Some("t"), "{text}");
            assert_eq!(join.participant.as_deref(), Some("p"), "{text}");
            assert!(join.protocol.is_none() && join.history.is_none(), "{text}");
            assert!(!format!("{join:?}").contains("\"t\""), "a token is not shown");
        }
        for token in ["null", r#""""#] {
            let text =
                format!(r#"{{"type":"join","history":5,"protocol":"mcpx/v0.1","token":{token}}}"#);
            let join = join(&text).unwrap().unwrap();
            assert_eq!((join.history, join.protocol), (Some(5), Some(Protocol::Mcpx01)));
            assert!(join.token.is_none() && join.space.is_none() && join.participant.is_none());
        }
    }

    #[test]
    fn other_frames_are_no_join_and_wrong_ones_are_told() {
        for text in [
            "",
            "#a#b",
            "[]",
            r#"{"kind":"chat"}"#,
            r#"{"type":"join","kind":"chat"}"#,
            r#"{"type":"joined"}"#,
            r#"{"type":["join"]}"#,
            r#"{"type":"join","token":"a","token":"b"}"#,
        ] {
            assert!(join(text).is_none(), "{text}");
        }
        let long = format!(r#"{{"type":"join","space":"{}"}}"#, "x".repeat(257));
        for (text, error, said) in [
            (r#"{"type":"join","space":7}"#, "invalid_message", "`space` must be a text"),
            (&*long, "invalid_message", "`space` has more than 256 bytes"),
            (r#"{"type":"join","history":-1}"#, "invalid_message", "`history` must be"),
            (r#"{"type":"join","protocol":"x"}"#, "unsupported_protocol", "`x` is not spoken"),
        ] {
            let refused = join(text).unwrap().unwrap_err();
            assert_eq!(refused.error, error, "{text}");
            assert!(refused.message.contains(said), "{text}: {refused}");
        }
    }
}
