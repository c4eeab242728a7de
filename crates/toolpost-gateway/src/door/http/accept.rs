//! What a client wants to read: `Accept` and `Accept-Encoding`, by the rules of RFC 9110.

use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use toolpost::Kind;

use super::super::problem::Problem;
use super::Form;

pub(super) const JSON: &str = "application/json";
pub(super) const ENVELOPE: &str = "application/vnd.toolpost.envelope+json";
pub(super) const EVENTS: &str = "text/event-stream";

/// The form of an answer that the client reads; `envelope` is what the query says about it.
pub(super) fn form(
    headers: &HeaderMap,
    kind: Kind,
    envelope: Option<bool>,
) -> Result<Form, Problem> {
    let of = |is_wrapped| if is_wrapped { Form::Envelope } else { Form::Data };
    // Most clients say nothing, or that they read anything.
    if headers.get_all(header::ACCEPT).iter().all(|range| range == "*/*") {
        return Ok(of(envelope == Some(true)));
    }
    if kind == Kind::Subscription {
        let is_wrapped = || is_named(headers, ENVELOPE);
        return match quality(headers, EVENTS) {
            0 => Err(not_acceptable("a subscription answers with text/event-stream", "it")),
            _ => Ok(of(envelope.unwrap_or_else(is_wrapped))),
        };
    }
    match (quality(headers, JSON), quality(headers, ENVELOPE)) {
        (0, 0) => Err(not_acceptable(
            "the answer is application/json or application/vnd.toolpost.envelope+json",
            "either",
        )),
        (json, wrapped) => Ok(of(envelope.unwrap_or(wrapped > json))),
    }
}

/// Whether the client prefers an answer that is packed.
pub(in crate::door) fn takes_gzip(headers: &HeaderMap) -> bool {
    let of = |coding: &str| weight(headers, header::ACCEPT_ENCODING, |name| name == coding);
    let gzip = of("gzip").or_else(|| of("x-gzip")).or_else(|| of("*")).unwrap_or(0);
    gzip > 0 && gzip >= of("identity").unwrap_or(0)
}

fn not_acceptable(words: &str, which: &str) -> Problem {
    let words = format!("{words}, and the Accept header does not allow {which}; add it, or */*");
    Problem::new(StatusCode::NOT_ACCEPTABLE, words)
}

/// How much a media type is wanted, in thousandths; the range that says the most decides.
fn quality(headers: &HeaderMap, media_type: &str) -> u16 {
    let group = media_type.split('/').next().unwrap_or_default();
    let of = |wanted: &dyn Fn(&str) -> bool| weight(headers, header::ACCEPT, wanted);
    of(&|range| range == media_type)
        .or_else(|| of(&|range| range.strip_suffix("/*") == Some(group)))
        .or_else(|| of(&|range| range == "*/*"))
        .unwrap_or(0)
}

fn is_named(headers: &HeaderMap, media_type: &str) -> bool {
    weight(headers, header::ACCEPT, |range| range == media_type).is_some_and(|weight| weight > 0)
}

/// The largest weight that the header gives to such an item; items that cannot be read are none.
fn weight(headers: &HeaderMap, header: HeaderName, is_it: impl Fn(&str) -> bool) -> Option<u16> {
    let values = headers.get_all(header).iter().filter_map(|value| value.to_str().ok());
    let items = values.flat_map(|value| value.split(',')).filter_map(item);
    items.filter(|(name, _)| is_it(name)).map(|(_, weight)| weight).max()
}

/// A name in lower case, and its weight in thousandths.
fn item(text: &str) -> Option<(String, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let given = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let weight = match given {
        Some(text) => {
            let share: f32 = text.parse().ok().filter(|share| (0.0..=1.0).contains(share))?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 0 and 1,000"
            )]
            let weight = (share * 1_000.0).round() as u16;
            weight
        }
        None => 1_000,
    };
    Some((name.to_ascii_lowercase(), weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, values: &[&str]) -> HeaderMap {
        let values = values.iter().map(|value| (name.clone(), value.parse().unwrap()));
        values.collect()
    }

    /// Each row: what is accepted, what the query says about the envelope, and the form of an answer
    /// and of the events of a stream.
    #[test]
    #[expect(clippy::type_complexity, reason = "a row is a tuple")]
    fn the_most_wanted_form_is_chosen() {
        let (data, wrapped, asked) = (Some(Form::Data), Some(Form::Envelope), Some(true));
        let both = "application/json;q=0.5, application/vnd.toolpost.envelope+json";
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let rows: [(&[&str], Option<bool>, Option<Form>, Option<Form>); 22] = [
            (&[], None, data, data),
            (&[], asked, wrapped, wrapped),
            (&["*/*"], None, data, data),
            (&["*/*"], asked, wrapped, wrapped),
            (&[browser], None, data, data),
            (&["application/json"], None, data, None),
            (&["application/json"], asked, wrapped, None),
            (&["Application/JSON; charset=utf-8"], None, data, None),
            (&["application/*"], None, data, None),
            (&[ENVELOPE], None, wrapped, None),
            (&[both], None, wrapped, None),
            (&[ENVELOPE, "application/json"], None, data, None),
            (&["application/json;q=0, */*"], None, wrapped, data),
            (&["text/event-stream"], None, None, data),
            (&["text/event-stream", ENVELOPE], None, wrapped, wrapped),
            (&["text/*, application/json"], asked, wrapped, wrapped),
            (&["text/html"], asked, None, None),
            (&[], Some(false), data, data),
            (&[both], Some(false), data, None),
            (&["text/event-stream", ENVELOPE], Some(false), data, data),
            (&["*/*;q=0"], None, None, None),
            (&["application/json;q=much"], None, None, None),
        ];
        for (accept, envelope, answer, events) in rows {
            let headers = headers(&header::ACCEPT, accept);
            let of = |kind| form(&headers, kind, envelope).ok();
            assert_eq!(of(Kind::Query), answer, "{accept:?} {envelope:?}");
            assert_eq!(of(Kind::Subscription), events, "{accept:?} {envelope:?} as events");
        }
    }

    #[test]
    fn answers_are_packed_for_those_who_say_so() {
        for (accept, expected) in [
            (&[][..], false),
            (&["gzip"], true),
            (&["br, GZIP;q=0.5"], true),
            (&["*"], true),
            (&["gzip;q=0, *"], false),
            (&["gzip;q=0.5, identity"], false),
            (&["identity"], false),
            (&["br"], false),
        ] {
            let headers = headers(&header::ACCEPT_ENCODING, accept);
            assert_eq!(takes_gzip(&headers), expected, "{accept:?}");
        }
    }
}
