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
