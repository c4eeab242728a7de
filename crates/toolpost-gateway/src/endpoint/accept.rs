//! Content negotiation with `Accept` and `Accept-Encoding` (RFC 9110).

use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use toolpost::OperationKind;

use super::problem::ProblemDetails;

pub(super) const JSON: &str = "application/json";
pub(super) const ENVELOPE: &str = "application/vnd.toolpost.envelope+json";
pub(super) const EVENTS: &str = "text/event-stream";

/// The form of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseForm {
    /// Only the data.
    Data,
    /// The envelope (data and meta) with repairs and warnings.
    Envelope,
}

/// Selects the response form. `envelope` is the query option of that name. If `may_be_raw`, the
/// result may have another media type that the client accepts.
pub(super) fn negotiate_form(
    headers: &HeaderMap,
    kind: OperationKind,
    envelope: Option<bool>,
    may_be_raw: impl FnOnce() -> bool,
) -> Result<ResponseForm, ProblemDetails> {
    let of = |is_wrapped| if is_wrapped { ResponseForm::Envelope } else { ResponseForm::Data };
    // Fast path: most clients send no `Accept` header, or `*/*`.
    if headers.get_all(header::ACCEPT).iter().all(|range| range == "*/*") {
        return Ok(of(envelope == Some(true)));
    }
    if kind == OperationKind::Subscription {
        let is_wrapped = || is_listed(headers, ENVELOPE);
        return match quality(headers, EVENTS) {
            0 => Err(not_acceptable(
                "a subscription returns text/event-stream; add it or */* to the Accept header",
            )),
            _ => Ok(of(envelope.unwrap_or_else(is_wrapped))),
        };
    }
    match (quality(headers, JSON), quality(headers, ENVELOPE)) {
        (0, 0) if envelope != Some(true) && may_be_raw() => Ok(ResponseForm::Data),
        (0, 0) => Err(not_acceptable(
            "the response types are application/json and application/vnd.toolpost.envelope+json; \
             add one of them or */* to the Accept header",
        )),
        (json, wrapped) => Ok(of(envelope.unwrap_or(wrapped > json))),
    }
}

/// Whether the client prefers a media type to JSON.
pub(super) fn prefers(headers: &HeaderMap, media_type: &str) -> bool {
    quality(headers, media_type) > quality(headers, JSON)
}

/// Whether the client accepts gzip and does not prefer `identity`.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let weight_of = |coding: &str| weight(headers, header::ACCEPT_ENCODING, |name| name == coding);
    let gzip =
        weight_of("gzip").or_else(|| weight_of("x-gzip")).or_else(|| weight_of("*")).unwrap_or(0);
    gzip > 0 && gzip >= weight_of("identity").unwrap_or(0)
}

fn not_acceptable(problem: &str) -> ProblemDetails {
    ProblemDetails::new(StatusCode::NOT_ACCEPTABLE, problem)
}

/// Returns the quality of a media type in thousandths. The most specific range decides. Without
/// `Accept`, every type is accepted.
pub(super) fn quality(headers: &HeaderMap, media_type: &str) -> u16 {
    if !headers.contains_key(header::ACCEPT) {
        return 1_000;
    }
    let group = media_type.split('/').next().unwrap_or_default();
    let weight_of = |predicate: &dyn Fn(&str) -> bool| weight(headers, header::ACCEPT, predicate);
    weight_of(&|range| range == media_type)
        .or_else(|| weight_of(&|range| range.strip_suffix("/*") == Some(group)))
        .or_else(|| weight_of(&|range| range == "*/*"))
        .unwrap_or(0)
}

fn is_listed(headers: &HeaderMap, media_type: &str) -> bool {
    weight(headers, header::ACCEPT, |range| range == media_type).is_some_and(|weight| weight > 0)
}

/// Returns the highest weight of the matching items in a header. Invalid items are ignored.
fn weight(headers: &HeaderMap, header: HeaderName, matches: impl Fn(&str) -> bool) -> Option<u16> {
    let items = list_items(headers, header).filter_map(parse_item);
    items.filter(|(name, _)| matches(name)).map(|(_, weight)| weight).max()
}

/// Returns the items of a comma-separated header.
pub(super) fn list_items(headers: &HeaderMap, header: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Parses one item into its lowercase name and its weight in thousandths.
fn parse_item(text: &str) -> Option<(String, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let given = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let share: f32 = given.unwrap_or("1").parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 1,000"
    )]
    let weight = (0.0..=1.0).contains(&share).then(|| (share * 1_000.0).round() as u16)?;
    Some((name.to_ascii_lowercase(), weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, values: &[&str]) -> HeaderMap {
        let values = values.iter().map(|value| (name.clone(), value.parse().unwrap()));
        values.collect()
    }

    /// Each row: the `Accept` headers, the `envelope` option, and the expected form for a call and
    /// for a subscription.
    #[test]
    #[expect(clippy::type_complexity, reason = "a row is a tuple")]
    fn accept_header_selects_highest_quality_form() {
        let (data, wrapped, requested) =
            (Some(ResponseForm::Data), Some(ResponseForm::Envelope), Some(true));
        let both = "application/json;q=0.5, application/vnd.toolpost.envelope+json";
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let rows: [(&[&str], Option<bool>, Option<ResponseForm>, Option<ResponseForm>); 22] = [
            (&[], None, data, data),
            (&[], requested, wrapped, wrapped),
            (&["*/*"], None, data, data),
            (&["*/*"], requested, wrapped, wrapped),
            (&[browser], None, data, data),
            (&["application/json"], None, data, None),
            (&["application/json"], requested, wrapped, None),
            (&["Application/JSON; charset=utf-8"], None, data, None),
            (&["application/*"], None, data, None),
            (&[ENVELOPE], None, wrapped, None),
            (&[both], None, wrapped, None),
            (&[ENVELOPE, "application/json"], None, data, None),
            (&["application/json;q=0, */*"], None, wrapped, data),
            (&["text/event-stream"], None, None, data),
            (&["text/event-stream", ENVELOPE], None, wrapped, wrapped),
            (&["text/*, application/json"], requested, wrapped, wrapped),
            (&["text/html"], requested, None, None),
            (&[], Some(false), data, data),
            (&[both], Some(false), data, None),
            (&["text/event-stream", ENVELOPE], Some(false), data, data),
            (&["*/*;q=0"], None, None, None),
            (&["application/json;q=much"], None, None, None),
        ];
        for (accept, envelope, response, events) in rows {
            let headers = headers(&header::ACCEPT, accept);
            let of = |kind| negotiate_form(&headers, kind, envelope, || false).ok();
            assert_eq!(of(OperationKind::Query), response, "{accept:?} {envelope:?}");
            assert_eq!(
                of(OperationKind::Subscription),
                events,
                "{accept:?} {envelope:?} as events"
            );
        }
    }

    #[test]
    fn accept_encoding_enables_gzip() {
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
            assert_eq!(accepts_gzip(&headers), expected, "{accept:?}");
        }
    }
}
