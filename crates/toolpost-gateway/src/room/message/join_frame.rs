//! The first frame of clients that send the room and their token in it.

use serde_json::value::RawValue;
use toolpost::json::RawObject;

use super::base_kind::BaseKind;
use super::draft::{self, MessageParseError};
use super::protocol::Protocol;
use crate::auth::Token;

/// Maximum size of a name, in bytes.
const MAX_NAME_BYTES: usize = 256;
/// Maximum size of a token, in bytes. JWTs are long.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The parsed join frame of a client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JoinFrame {
    /// Protocol of the client.
    pub protocol: Option<Protocol>,
    /// The room.
    pub space: Option<Box<str>>,
    /// Access token.
    pub token: Option<Token>,
    /// Requested participant name.
    pub participant: Option<Box<str>>,
    /// Number of recent messages that the client requests.
    pub history: Option<usize>,
}

/// Parses a first frame: `{"type":"join", space, token, participantId}` or `{"kind":"system/join",
/// "payload":{…}}`. Each form accepts members at the position of the other one as well. Returns
/// `None` if the text is not a join frame.
///
/// The room is `space` or `topic`, the participant `participantId` or `participant_id`. Other
/// members, such as `capabilities`, are ignored.
///
/// # Errors
///
/// `invalid_message` or `unsupported_protocol`, as for messages.
pub fn parse_join(text: &str) -> Option<Result<JoinFrame, MessageParseError>> {
    draft::check_json(text).ok()?;
    let mut members = draft::parse_object(text).ok()?;
    let string_member = |raw: Option<&RawValue>| raw.and_then(draft::parse_string);
    let (form, kind) = (string_member(members.take("type")), string_member(members.take("kind")));
    match (form.as_deref(), kind.as_deref()) {
        (_, Some(kind)) if kind == BaseKind::SystemJoin.as_str() => {}
        (Some("join"), None) => {}
        _ => return None,
    }
    let kind = Some(BaseKind::SystemJoin.as_str().to_owned());
    Some(parse_members(members).map_err(|error| MessageParseError { kind, ..error }))
}

fn parse_members(mut members: RawObject<'_>) -> Result<JoinFrame, MessageParseError> {
    let payload = members.take("payload").and_then(|raw| draft::parse_object(raw.get()).ok());
    if let Some(mut payload) = payload {
        // Members beside the payload take precedence.
        payload.0.append(&mut members.0);
        members = payload;
    }
    // Clients without a token send an empty string.
    members.0.retain(|(_, raw)| raw.get() != r#""""#);
    let mut take = |name: &str, max_bytes| draft::take_name(&mut members, name, max_bytes);
    let mut take_either = |name: &str, alias: &str| match take(name, MAX_NAME_BYTES)? {
        None => take(alias, MAX_NAME_BYTES),
        found => Ok(found),
    };
    let space = take_either("space", "topic")?;
    let participant = take_either("participantId", "participant_id")?;
    let token = take("token", MAX_TOKEN_BYTES)?;
    let invalid_history =
        |_| MessageParseError::invalid("`history` must be a non-negative integer");
    let history = members.take("history").map(|raw| serde_json::from_str(raw.get()));
    Ok(JoinFrame {
        space,
        token: token.map(|text| Token::from(String::from(text))),
        participant,
        protocol: members.take("protocol").map(draft::parse_protocol).transpose()?,
        history: history.transpose().map_err(invalid_history)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_frame_parses_both_forms() {
        for text in [
            r#"{"type":"join","space":"s","token":"t","participantId":"p","capabilities":[{}]}"#,
            r#"{"kind":"system/join","payload":{"space":"s","token":"t","participantId":"p"}}"#,
            r#"{"type":"join","topic":"s","token":"t","participant_id":"p"}"#,
            r#"{"type":"join","kind":"system/join","space":"s","payload":
                {"space":"other","token":"t","participant_id":"p"}}"#,
            r#"{"type":"join","space":"s","token":"t","participantId":"p","payload":7}"#,
        ] {
            let join = parse_join(text).unwrap().unwrap();
            assert_eq!(join.space.as_deref(), Some("s"), "{text}");
            assert_eq!(join.token.as_ref().map(Token::reveal), Some("t"), "{text}");
            assert_eq!(join.participant.as_deref(), Some("p"), "{text}");
            assert!(join.protocol.is_none() && join.history.is_none(), "{text}");
            assert!(!format!("{join:?}").contains("\"t\""), "a token is not shown");
        }
        for token in ["null", r#""""#] {
            let text =
                format!(r#"{{"type":"join","history":5,"protocol":"mcpx/v0.1","token":{token}}}"#);
            let join = parse_join(&text).unwrap().unwrap();
            assert_eq!((join.history, join.protocol), (Some(5), Some(Protocol::Mcpx01)));
            assert!(join.token.is_none() && join.space.is_none() && join.participant.is_none());
        }
    }

    #[test]
    fn other_frames_are_not_joins_and_bad_joins_report_error() {
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
            assert!(parse_join(text).is_none(), "{text}");
        }
        let long = format!(r#"{{"type":"join","space":"{}"}}"#, "x".repeat(257));
        for (text, error, expected) in [
            (r#"{"type":"join","space":7}"#, "invalid_message", "`space` must be a string"),
            (&*long, "invalid_message", "`space` has more than 256 bytes"),
            (r#"{"type":"join","history":-1}"#, "invalid_message", "`history` must be"),
            (r#"{"type":"join","protocol":"x"}"#, "unsupported_protocol", "`x` is not supported"),
        ] {
            let rejected = parse_join(text).unwrap().unwrap_err();
            assert_eq!(rejected.code.as_str(), error, "{text}");
            assert!(rejected.message.contains(expected), "{text}: {rejected}");
        }
    }
}
