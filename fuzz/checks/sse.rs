//! Invariants that hold for any input; shared by the fuzz target and the tests.

use toolpost::sse::{DEFAULT_LIMIT, SseDecoder, SseError};

/// The result of decoding a stream.
#[derive(Debug, Default, PartialEq)]
struct DecodedStream {
    events: Vec<DecodedEvent>,
    last_id: String,
    retry: Option<u64>,
    is_too_large: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct DecodedEvent {
    event: String,
    data: String,
    id: String,
    retry: Option<u64>,
}

/// Decodes a stream in different chunks. The first two bytes are the limit and the chunk seed; the
/// rest is the stream.
pub(crate) fn check(bytes: &[u8]) {
    let [limit, seed, stream @ ..] = bytes else { return };
    let expected = decode(DEFAULT_LIMIT, [stream]);
    assert_eq!(expected, reference_decode(stream));
    assert_eq!(decode(DEFAULT_LIMIT, stream.chunks(1)), expected);
    assert_eq!(decode(DEFAULT_LIMIT, split_chunks(stream, *seed)), expected);

    let limited = decode(usize::from(*limit), [stream]);
    assert_eq!(decode(usize::from(*limit), stream.chunks(1)), limited);
    assert_eq!(decode(usize::from(*limit), split_chunks(stream, *seed)), limited);
    // A limit can end the stream earlier, but does not change the events before that.
    assert!(expected.events.starts_with(&limited.events));
    assert!(limited.is_too_large || limited == expected);
}

fn decode<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> DecodedStream {
    let mut decoder = SseDecoder::with_limit(limit);
    let mut decoded = DecodedStream::default();
    for chunk in chunks {
        let end = decoder.feed(chunk, |event| {
            decoded.events.push(DecodedEvent {
                event: event.event.into_owned(),
                data: event.data.into_owned(),
                id: event.id.into_owned(),
                retry: event.retry,
            });
        });
        assert!(!decoded.is_too_large || end.is_err(), "a finished decoder stays finished");
        match end {
            Ok(()) => {}
            Err(SseError::TooLarge { limit: message }) => {
                assert_eq!(message, limit);
                decoded.is_too_large = true;
            }
            Err(error) => panic!("{error}"),
        }
    }
    decoded.last_id = decoder.last_event_id().to_owned();
    let millis = |retry: std::time::Duration| u64::try_from(retry.as_millis()).ok();
    decoded.retry = decoder.retry().and_then(millis);
    decoded
}

/// Splits a stream into chunks of 0 to 10 bytes.
fn split_chunks(mut stream: &[u8], seed: u8) -> Vec<&[u8]> {
    let mut state = u32::from(seed);
    let mut chunks = Vec::new();
    while !stream.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (chunk, rest) = stream.split_at(stream.len().min((state >> 24) as usize % 11));
        chunks.push(chunk);
        stream = rest;
    }
    chunks
}

/// Reference implementation of the algorithm in the standard, not optimized.
fn reference_decode(stream: &[u8]) -> DecodedStream {
    let text = String::from_utf8_lossy(stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream));
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    // An incomplete last line is discarded.
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.pop();

    let mut decoded = DecodedStream::default();
    let mut id = String::new();
    let mut block = DecodedEvent::default();
    for line in lines {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => block.event = value.to_owned(),
            "data" => block.data += &format!("{value}\n"),
            "id" if !value.contains('\0') => id = value.to_owned(),
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                block.retry = Some(value.parse().unwrap_or(u64::MAX));
                decoded.retry = block.retry;
            }
            _ => {}
        }
        if line.is_empty() {
            decoded.last_id.clone_from(&id);
            let mut event = std::mem::take(&mut block);
            if event.data.pop().is_some() {
                event.id.clone_from(&id);
                if event.event.is_empty() {
                    event.event = "message".to_owned();
                }
                decoded.events.push(event);
            }
        }
    }
    decoded
}
