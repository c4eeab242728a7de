//! Where somebody wants to go, and who he says he is: in the address, in a header, or in a first frame.

use axum::http::{HeaderMap, StatusCode};
use url::form_urlencoded;

use crate::auth::Token;
use crate::door::bearer;
use crate::door::problem::Problem;
use crate::room::message::{Join, Protocol};

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) room: Option<String>,
    pub(super) token: Option<Token>,
    pub(super) participant: Option<String>,
    pub(super) protocol: Protocol,
    /// How many of the last messages he wants to see.
    pub(super) history: Option<usize>,
    /// Whether nothing more is said before the welcome.
    pub(super) is_final: bool,
}

impl Asked {
    pub(super) fn read(headers: &HeaderMap, query: Option<&str>) -> Result<Self, Problem> {
        let bad = |words: &str| Problem::new(StatusCode::BAD_REQUEST, words);
        let mut asked = Self {
            room: None,
            token: None,
            participant: None,
            protocol: Protocol::Mew04,
            history: None,
            is_final: false,
        };
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let value = value.into_owned();
            match &*name {
                "topic" => {
                    (asked.protocol, asked.is_final) = (Protocol::Mcpx01, true);
                    asked.room = Some(value);
                }
                "space" => asked.room = Some(value),
                "token" => asked.token = Some(Token::from(value)),
                "participant" | "participantId" | "participant_id" => {
                    asked.participant = Some(value);
                }
                "history" => {
                    let most = value.parse().map_err(|_| bad("`history` must be a number"))?;
                    asked.history = Some(most);
                }
                _ => {}
            }
        }
        let shown = bearer::presented(headers).map_err(bad)?;
        asked.token = shown.map(|token| Token::from(token.to_owned())).or(asked.token);
        asked.token.take_if(|token| token.reveal().is_empty());
        Ok(asked)
    }

    /// What a first frame adds. What was said before stays, unless the frame says it too.
    pub(super) fn joined(&mut self, join: Join) {
        self.room = join.space.map(Into::into).or(self.room.take());
        let token = join.token.filter(|token| !token.reveal().is_empty());
        self.token = token.or(self.token.take());
        self.participant = join.participant.map(Into::into).or(self.participant.take());
        self.protocol = join.protocol.unwrap_or(self.protocol);
        self.history = join.history.or(self.history);
    }
}
