//! What a client wants to read: `Accept` and `Accept-Encoding`, by the rules of RFC 9110.

use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use manila::Kind;

use super::super::problem::Problem;
use super::Form;

pub(super) const JSON: &str = "application/json";
pub(super) const ENVELOPE: &str = "application/vnd.manila.envelope+json";
pub(super) const EVENTS: &str = "text/event-stream";

/// The form of an answer that the client reads; `envelope` is whether the query asks for one.
pub(super) fn form(headers: &HeaderMap, kind: Kind, envelope: bool) -> Result<Form, Problem> {
    // Most clients say nothing, or that they read anything.
    if headers.get_all(header::ACCEPT).iter().all(|range| range == "*/*") {
        return Ok(if envelope { Form::Envelope } else { Form::Data });
    }
    let (json, wrapped) = (quality(headers, JSON), quality(headers, ENVELOPE));
    if kind == Kind::Subscription {
        let is_wrapped = envelope || is_named(headers, ENVELOPE);
        return match quality(headers, EVENTS) {
            0 => Err(not_acceptable("a subscription answers with text/event-stream")),
            _ if is_wrapped => Ok(Form::Envelope),
            _ => Ok(Form::Data),
        };
    }
    match (json, wrapped) {
        (0, 0) => Err(not_acceptable(
            "the answer is application/json or application/vnd.manila.envelope+json",
        )),
        _ if envelope || wrapped > json => Ok(Form::Envelope),
        _ => Ok(Form::Data),
    }
}

/// Whether the client prefers an answer that is packed.
pub(in crate::door) fn takes_gzip(headers: &HeaderMap) -> bool {
    let of = |coding: &str| weight(headers, header::ACCEPT_ENCODING, |name| name == coding);
    let gzip = of("gzip").or_else(|| of("x-gzip")).or_else(|| of("*")).unwrap_or(0);
    gzip > 0 && gzip >= of("identity").unwrap_or(0)
}

fn not_acceptable(words: &str) -> Problem {
    Problem::new(
        StatusCode::NOT_ACCEPTABLE,
        format!("{words}, and the Accept header allows neither"),
    )
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

    /// Each row: what is accepted, whether the query asks for the envelope, and the form of an answer
    /// and of the events of a stream.
    #[test]
    #[expect(clippy::type_complexity, reason = "a row is a tuple")]
    fn the_most_wanted_form_is_chosen() {
        let (data, wrapped) = (Some(Form::Data), Some(Form::Envelope));
        let both = "application/json;q=0.5, application/vnd.manila.envelope+json";
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let rows: [(&[&str], bool, Option<Form>, Option<Form>); 19] = [
            (&[], false, data, data),
            (&[], true, wrapped, wrapped),
            (&["*/*"], false, data, data),
            (&["*/*"], true, wrapped, wrapped),
            (&[browser], false, data, data),
            (&["application/json"], false, data, None),
            (&["application/json"], true, wrapped, None),
            (&["Application/JSON; charset=utf-8"], false, data, None),
            (&["application/*"], false, data, None),
            (&[ENVELOPE], false, wrapped, None),
            (&[both], false, wrapped, None),
            (&[ENVELOPE, "application/json"], false, data, None),
            (&["application/json;q=0, */*"], false, wrapped, data),
            (&["text/event-stream"], false, None, data),
            (&["text/event-stream", ENVELOPE], false, wrapped, wrapped),
            (&["text/*, application/json"], true, wrapped, wrapped),
            (&["text/html"], true, None, None),
            (&["*/*;q=0"], false, None, None),
            (&["application/json;q=much"], false, None, None),
        ];
        for (accept, envelope, answer, events) in rows {
            let headers = headers(&header::ACCEPT, accept);
            let of = |kind| form(&headers, kind, envelope).ok();
            assert_eq!(of(Kind::Query), answer, "{accept:?} {envelope}");
            assert_eq!(of(Kind::Subscription), events, "{accept:?} {envelope} as events");
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
