//! Room, token and participant of a join request, from the URL, a header or the join frame.

use axum::http::{HeaderMap, StatusCode};
use toolpost::shares::Holder;
use url::form_urlencoded;

use crate::auth::Token;
use crate::endpoint::bearer::{self, PeerCertificate};
use crate::endpoint::problem::ProblemDetails;
use crate::kind_filter::KindFilter;
use crate::room::message::{JoinFrame, Protocol};

#[derive(Debug)]
pub(super) struct JoinParams {
    pub(super) room: Option<String>,
    pub(super) token: Option<Token>,
    pub(super) certificate: PeerCertificate,
    pub(super) participant: Option<String>,
    pub(super) protocol: Protocol,
    /// Number of past messages to send.
    pub(super) history: Option<usize>,
    /// The kinds that the participant receives; all if absent.
    pub(super) kinds: Option<KindFilter>,
    /// Whether the client sends no join frame before the welcome.
    pub(super) skips_join_frame: bool,
    /// Whose share the request uses before the participant is identified.
    pub(super) client: Holder,
}

impl JoinParams {
    pub(super) fn parse(
        headers: &HeaderMap,
        query: Option<&str>,
        client: Holder,
        certificate: PeerCertificate,
    ) -> Result<Self, ProblemDetails> {
        let bad = |message: &str| ProblemDetails::new(StatusCode::BAD_REQUEST, message);
        let mut params = Self {
            client,
            room: None,
            token: None,
            certificate,
            participant: None,
            protocol: Protocol::Mew04,
            history: None,
            kinds: None,
            skips_join_frame: false,
        };
        let mut kinds = Vec::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let value = value.into_owned();
            match &*name {
                "topic" => {
                    (params.protocol, params.skips_join_frame) = (Protocol::Mcpx01, true);
                    params.room = Some(value);
                }
                "space" => params.room = Some(value),
                "kind" => kinds.push(value),
                "token" => params.token = Some(Token::from(value)),
                "participant" | "participantId" | "participant_id" => {
                    params.participant = Some(value);
                }
                "history" => {
                    let max = value.parse().map_err(|_| bad("`history` must be a number"))?;
                    params.history = Some(max);
                }
                _ => {}
            }
        }
        params.kinds = KindFilter::parse(&kinds).map_err(bad)?;
        let header_token = bearer::bearer_token(headers).map_err(bad)?;
        params.token = header_token.map(|token| Token::from(token.to_owned())).or(params.token);
        params.token.take_if(|token| token.reveal().is_empty());
        Ok(params)
    }

    /// Applies a join frame. Its members override earlier values.
    pub(super) fn apply_join_frame(&mut self, join: JoinFrame) {
        self.room = join.space.map(Into::into).or(self.room.take());
        let token = join.token.filter(|token| !token.reveal().is_empty());
        self.token = token.or(self.token.take());
        self.participant = join.participant.map(Into::into).or(self.participant.take());
        self.protocol = join.protocol.unwrap_or(self.protocol);
        self.history = join.history.or(self.history);
    }
}
