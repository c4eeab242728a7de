//! Edge cases of event streams, each decoded with many different chunk boundaries.

use std::borrow::Cow;
use std::io;
use std::time::{Duration, Instant};

use futures::StreamExt;

use super::*;

/// Result of decoding a stream: events as `type|data|id|retry`, then the id and retry to reconnect
/// with.
#[derive(Debug, Clone, PartialEq)]
struct DecodedStream {
    events: Vec<String>,
    last_id: String,
    retry: Option<u64>,
    end: Result<(), SseError>,
}

fn decode<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> DecodedStream {
    let mut decoder = SseDecoder::with_limit(limit);
    let mut events = Vec::new();
    let mut end = Ok(());
    for chunk in chunks {
        end = decoder.feed(chunk, |event| events.push(format_event(&event)));
    }
    let retry = decoder.retry().map(|retry| u64::try_from(retry.as_millis()).unwrap());
    DecodedStream { events, last_id: decoder.last_event_id().to_owned(), retry, end }
}

fn format_event(event: &SseEvent<'_>) -> String {
    let retry = event.retry.map(|retry| retry.to_string()).unwrap_or_default();
    format!("{}|{}|{}|{retry}", event.event, event.data, event.id)
}

/// Decodes a stream whole, byte by byte, split in two at every position, and split at random. All
/// results must be equal.
fn decode_all_chunkings(limit: usize, stream: &[u8]) -> DecodedStream {
    let expected = decode(limit, [stream]);
    assert_eq!(decode(limit, stream.chunks(1)), expected, "byte by byte: {stream:?}");
    for at in 0..=stream.len() {
        let (left, right) = stream.split_at(at);
        assert_eq!(decode(limit, [left, right]), expected, "split at {at}: {stream:?}");
    }
    for seed in 1..=20 {
        let chunks = random_chunks(stream, seed);
        assert_eq!(decode(limit, chunks.iter().copied()), expected, "seed {seed}: {chunks:?}");
    }
    expected
}

/// Splits the stream into chunks of zero to seven bytes.
fn random_chunks(mut stream: &[u8], mut seed: u64) -> Vec<&[u8]> {
    let mut chunks = Vec::new();
    while !stream.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let length = usize::try_from(seed >> 61).unwrap().min(stream.len());
        let (chunk, rest) = stream.split_at(length);
        chunks.push(chunk);
        stream = rest;
    }
    chunks
}

/// Each row: the name, the stream, the expected events, and the final `id|retry`.
type StreamCase = (&'static str, &'static [u8], &'static [&'static str], &'static str);

const STREAM_CASES: &[StreamCase] = &[
    ("nothing", b"", &[], "|"),
    ("plain", b"data: x\n\n", &["message|x||"], "|"),
    ("all fields", b"event: e\nid: 1\nretry: 5\ndata: x\n\n", &["e|x|1|5"], "1|5"),
    ("the order of fields is free", b"data: x\nretry: 5\nid: 1\nevent: e\n\n", &["e|x|1|5"], "1|5"),
    // Start of the stream.
    ("byte order mark", b"\xEF\xBB\xBFdata: x\n\n", &["message|x||"], "|"),
    ("byte order mark alone", b"\xEF\xBB\xBF", &[], "|"),
    ("byte order mark twice", b"\xEF\xBB\xBF\xEF\xBB\xBFdata: x\n\n", &[], "|"),
    ("byte order mark later", b"data: x\n\n\xEF\xBB\xBFdata: y\n\n", &["message|x||"], "|"),
    ("byte order mark in a value", b"data: \xEF\xBB\xBFx\n\n", &["message|\u{FEFF}x||"], "|"),
    ("two thirds of a byte order mark", b"\xEF\xBBdata: x\ndata: y\n\n", &["message|y||"], "|"),
    ("a third of a byte order mark", b"\xEF\n\ndata: y\n\n", &["message|y||"], "|"),
    ("wrong end of a byte order mark", b"\xEF\xBB\xBE:\ndata: y\n\n", &["message|y||"], "|"),
    ("byte order mark, blank lines", b"\xEF\xBB\xBF\n\r\ndata: y\n\n", &["message|y||"], "|"),
    ("blank lines first", b"\n\r\r\n\ndata: x\n\n", &["message|x||"], "|"),
    // Line endings.
    ("CR", b"data: x\rdata: y\r\r", &["message|x\ny||"], "|"),
    ("CRLF", b"data: x\r\ndata: y\r\n\r\n", &["message|x\ny||"], "|"),
    ("all three", b"data: x\rdata: y\ndata: z\r\n\n", &["message|x\ny\nz||"], "|"),
    ("an event at CR, before its LF", b"data: x\r\n\r", &["message|x||"], "|"),
    ("LF after such an event", b"data: x\r\n\r\ndata: y\r\n\r\n", &["message|x||", "message|y||"], "|"),
    ("LF CR ends two lines", b"data: x\n\rdata: y\n\r", &["message|x||", "message|y||"], "|"),
    ("CR CRLF ends two lines", b"data: x\r\r\ndata: y\r\r\n", &["message|x||", "message|y||"], "|"),
    ("CRLF LF ends two lines", b"data: x\r\n\ndata: y\n\n", &["message|x||", "message|y||"], "|"),
    ("other breaks are text", b"data: a\x0bb\x0cc\xC2\x85d\xE2\x80\xA8e\n\n", &["message|a\x0bb\x0cc\u{85}d\u{2028}e||"], "|"),
    // End of the stream.
    ("no blank line", b"data: x\n", &[], "|"),
    ("no end of line", b"data: x\n\ndata: y", &["message|x||"], "|"),
    ("an id without a blank line", b"id: 1\n\nid: 2\n", &[], "1|"),
    ("an id without an end of line", b"id: 1\n\nid: 2", &[], "1|"),
    ("retry without a blank line", b"retry: 7\n", &[], "|7"),
    ("retry without an end of line", b"retry: 7", &[], "|"),
    // UTF-8.
    ("several bytes", "data: é€😀\n\n".as_bytes(), &["message|é€😀||"], "|"),
    ("several bytes elsewhere", "event: é\nid: 😀\ndata\n\n".as_bytes(), &["é||😀|"], "😀|"),
    ("an invalid byte", b"data: a\xFFb\n\n", &["message|a\u{FFFD}b||"], "|"),
    ("a sequence interrupted by text", b"data: \xE2\x82b\n\n", &["message|\u{FFFD}b||"], "|"),
    ("a sequence interrupted by an end of line", b"data: \xF0\x9F\x98\ndata: \x80\n\n", &["message|\u{FFFD}\n\u{FFFD}||"], "|"),
    ("overlong", b"data: \xC0\xAF\n\n", &["message|\u{FFFD}\u{FFFD}||"], "|"),
    ("a surrogate", b"data: \xED\xA0\x80\n\n", &["message|\u{FFFD}\u{FFFD}\u{FFFD}||"], "|"),
    ("malformed type and id", b"event: \xFF\nid: \xFE\ndata: x\n\n", &["\u{FFFD}|x|\u{FFFD}|"], "\u{FFFD}|"),
    ("malformed name of a field", b"data\xFF: x\n\xFFdata: x\n\n", &[], "|"),
    // Comments.
    ("comment", b": hello\n\n", &[], "|"),
    ("comment inside", b"data: x\n: hello\n:\n:data: no\ndata: y\n\n", &["message|x\ny||"], "|"),
    ("colon alone", b":\n\n:\n\ndata: x\n\n", &["message|x||"], "|"),
    ("colons", b"::\n: :\ndata::\n\n", &["message|:||"], "|"),
    ("space before a comment", b" : x\ndata: x\n\n", &["message|x||"], "|"),
    // Field names and values.
    ("no colon", b"data\n\n", &["message|||"], "|"),
    ("no colon, twice", b"data\ndata\n\n", &["message|\n||"], "|"),
    ("no colon elsewhere", b"event\nid\nretry\ndata\n\n", &["message|||"], "|"),
    ("no space", b"data:x\nevent:e\nid:1\nretry:5\n\n", &["e|x|1|5"], "1|5"),
    ("two spaces", b"data:  x\n\n", &["message| x||"], "|"),
    ("space behind", b"data: x \n\n", &["message|x ||"], "|"),
    ("a tab is not a space", b"data:\tx\n\n", &["message|\tx||"], "|"),
    ("space before the colon", b"data : x\n\n", &[], "|"),
    ("space before the name", b" data: x\n\n", &[], "|"),
    ("colons in a value", b"data: a:b: c\n\n", &["message|a:b: c||"], "|"),
    ("case counts", b"Data: x\nDATA: x\nEvent: x\n\n", &[], "|"),
    ("a name longer than one that is known", b"datas: x\ndata2: x\nevents: x\nids: 1\nretrying: 5\n\n", &[], "|"),
    ("a name shorter than one that is known", b"dat: x\nd: x\neven: x\ni: 1\nretr: 5\n\n", &[], "|"),
    ("long name without colon", b"datadatadata\neventevent\nretryretry\nidididid\n\n", &[], "|"),
    ("unknown field", b"foo: x\nlonger-than-any: data: y\ndata: x\n\n", &["message|x||"], "|"),
    ("NUL in data", b"data: a\0b\n\n", &["message|a\0b||"], "|"),
    ("NUL in a name", b"da\0ta: x\n\n", &[], "|"),
    // Data.
    ("empty data", b"data:\n\n", &["message|||"], "|"),
    ("empty data with space", b"data: \n\n", &["message|||"], "|"),
    ("empty data with an id", b"id: 1\ndata: \n\n", &["message||1|"], "1|"),
    ("empty lines of data", b"data:\ndata:\ndata:\n\n", &["message|\n\n||"], "|"),
    ("an empty line of data first", b"data:\ndata: x\n\n", &["message|\nx||"], "|"),
    ("an empty line of data last", b"data: x\ndata:\n\n", &["message|x\n||"], "|"),
    ("data apart", b"data: x\nevent: e\ndata: y\n\n", &["e|x\ny||"], "|"),
    ("no data, no event", b"event: e\n\ndata: x\n\n", &["message|x||"], "|"),
    // Types.
    ("empty type", b"event:\ndata: x\n\n", &["message|x||"], "|"),
    ("the last type counts", b"event: a\nevent: b\ndata: x\n\n", &["b|x||"], "|"),
    ("the last type counts, empty", b"event: a\nevent\ndata: x\n\n", &["message|x||"], "|"),
    ("a type is for one event", b"event: a\ndata: x\n\ndata: y\n\n", &["a|x||", "message|y||"], "|"),
    // Ids.
    ("an id stays", b"id: 1\ndata: x\n\ndata: y\n\n", &["message|x|1|", "message|y|1|"], "1|"),
    ("the last id counts", b"id: 1\nid: 2\ndata: x\n\n", &["message|x|2|"], "2|"),
    ("id without data", b"id: 1\n\ndata: x\n\n", &["message|x|1|"], "1|"),
    ("id and retry without data", b"id: 1\nretry: 500\n\n", &[], "1|500"),
    ("an empty id resets", b"id: 1\ndata: x\n\nid:\ndata: y\n\n", &["message|x|1|", "message|y||"], "|"),
    ("an id without colon resets", b"id: 1\n\nid\n\n", &[], "|"),
    ("NUL in an id", b"id: a\0b\ndata: x\n\n", &["message|x||"], "|"),
    ("NUL in a later id", b"id: 1\ndata: x\n\nid: 2\0\ndata: y\n\n", &["message|x|1|", "message|y|1|"], "1|"),
    ("NUL in the second id of a block", b"id: 1\nid: \0\ndata: x\n\n", &["message|x|1|"], "1|"),
    ("an id with spaces", b"id:  a b \ndata: x\n\n", &["message|x| a b |"], " a b |"),
    // Retry.
    ("retry stays for the decoder only", b"retry: 5\ndata: x\n\ndata: y\n\n", &["message|x||5", "message|y||"], "|5"),
    ("retry of a block without data", b"retry: 5\n\ndata: y\n\n", &["message|y||"], "|5"),
    ("the last retry counts", b"retry: 5\nretry: 6\ndata: x\n\n", &["message|x||6"], "|6"),
    ("an invalid retry keeps the previous one", b"retry: 5\nretry: 6s\ndata: x\n\n", &["message|x||5"], "|5"),
    ("retry nought", b"retry: 0\ndata: x\n\n", &["message|x||0"], "|0"),
    ("retry with leading zeros", b"retry: 0007\n\n", &[], "|7"),
    ("empty retry", b"retry:\nretry: \nretry\n\n", &[], "|"),
    ("retry with a sign", b"retry: -1\nretry: +1\n\n", &[], "|"),
    ("retry with a fraction", b"retry: 1.5\nretry: 1e3\n\n", &[], "|"),
    ("retry with spaces", b"retry:  1\nretry: 1 \n\n", &[], "|"),
    ("retry in hexadecimal", b"retry: 0x10\nretry: ff\n\n", &[], "|"),
    ("retry in other digits", "retry: ١\n\n".as_bytes(), &[], "|"),
    ("the largest retry", b"retry: 18446744073709551615\n\n", &[], "|18446744073709551615"),
    ("retry that overflows", b"retry: 18446744073709551616\nretry: 99999999999999999999999999\ndata: x\n\n", &["message|x||18446744073709551615"], "|18446744073709551615"),
    // Examples from the standard.
    ("stocks", b"data: YHOO\ndata: +2\ndata: 10\n\n", &["message|YHOO\n+2\n10||"], "|"),
    (
        "four blocks",
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        &["message|first event|1|", "message|second event||", "message| third event||"],
        "|",
    ),
    ("two and a half", b"data\n\ndata\ndata\n\ndata:", &["message|||", "message|\n||"], "|"),
    ("the same event twice", b"data:test\n\ndata: test\n\n", &["message|test||", "message|test||"], "|"),
];

#[test]
fn decoder_matches_sse_standard() {
    for (name, stream, events, end) in STREAM_CASES {
        let seen = decode_all_chunkings(DEFAULT_LIMIT, stream);
        assert_eq!(seen.events, *events, "{name}");
        let retry = seen.retry.map(|retry| retry.to_string()).unwrap_or_default();
        assert_eq!(format!("{}|{retry}", seen.last_id), *end, "{name}");
        assert_eq!(seen.end, Ok(()), "{name}");
    }
}

#[test]
fn decoder_handles_concatenated_streams() {
    // Rows that end in an unfinished block or begin with a byte order mark cannot be concatenated.
    let rows = STREAM_CASES.iter().filter(|(_, stream, ..)| {
        !stream.starts_with(b"\xEF") && (stream.ends_with(b"\n\n") || stream.ends_with(b"\n\r\n"))
    });
    let (mut stream, mut expected) = (Vec::new(), Vec::new());
    for (_, row, events, _) in rows {
        stream.extend_from_slice(b"id\n\n");
        stream.extend_from_slice(row);
        expected.extend(events.iter().copied());
    }
    assert!(expected.len() > 60, "most rows are included");
    assert_eq!(decode(DEFAULT_LIMIT, [&*stream]).events, expected);
    for seed in 1..=50 {
        assert_eq!(
            decode(DEFAULT_LIMIT, random_chunks(&stream, seed)).events,
            expected,
            "seed {seed}"
        );
    }
}

#[test]
fn event_over_limit_ends_stream() {
    // Each row: the limit, the stream, the events before the end, and whether an event exceeds the
    // limit.
    let rows: [(usize, &[u8], &[&str], bool); 18] = [
        (4, b"data: 1234\n\n", &["message|1234||"], false),
        (4, b"data: 12345\n\n", &[], true),
        (4, b"data: 12345", &[], true),
        (4, b"data: 1\n\ndata: 12345\n\ndata: 2\n\n", &["message|1||"], true),
        (4, b"data: 12\ndata: 3\n\n", &["message|12\n3||"], false),
        (4, b"data: 12\ndata: 34\n\n", &[], true),
        (4, b"data\ndata\ndata\ndata\ndata\n\n", &["message|\n\n\n\n||"], false),
        (4, b"data\ndata\ndata\ndata\ndata\ndata\n\n", &[], true),
        (4, b"data: 12\nevent: ab\n\n", &["ab|12||"], false),
        (4, b"data: 12\nevent: abc\n\n", &[], true),
        (4, b"event: abc\nevent: a\ndata: 123\n\n", &["a|123||"], false),
        (4, b"id: 12\ndata: 12\n\ndata: 123\n\n", &["message|12|12|"], true),
        (4, b"id: 123\nid: 1\ndata: 123\n\n", &["message|123|1|"], false),
        (4, b"id: 1\x00345\n\n", &[], true),
        (
            4,
            b": 1234567890\nunknown: 1234567890\nunknown\ndata: 1234\n\n",
            &["message|1234||"],
            false,
        ),
        (4, b"retry: 00000000000000000000000000001\ndata: 1234\n\n", &["message|1234||1"], false),
        // The limit counts malformed bytes as received, not their replacement characters, also when
        // the next event inherits the id.
        (2, b"id: \xFF\n\n:\ndata: 1\n\n", &["message|1|\u{FFFD}|"], false),
        (0, b"data\n\ndata: 1\n\n", &["message|||"], true),
    ];
    for (limit, stream, events, is_over) in rows {
        let seen = decode_all_chunkings(limit, stream);
        assert_eq!(seen.events, events, "{stream:?}");
        let end = if is_over { Err(SseError::TooLarge { limit }) } else { Ok(()) };
        assert_eq!(seen.end, end, "{stream:?}");
    }
    let text = SseError::TooLarge { limit: 4 }.to_string();
    assert_eq!(text, "stream event is larger than 4 bytes");
}

#[test]
fn finished_decoder_repeats_error() {
    let mut decoder = SseDecoder::with_limit(4);
    decoder.feed(b"id: 1\nretry: 9\n\n", |_| panic!("no event")).unwrap();
    for chunk in [&b"data: 12345\n\n"[..], b"data: 1\n\n", b""] {
        let end = decoder.feed(chunk, |event| panic!("{event:?}"));
        assert_eq!(end, Err(SseError::TooLarge { limit: 4 }));
    }
    assert_eq!(decoder.last_event_id(), "1");
    assert_eq!(decoder.retry(), Some(Duration::from_millis(9)));
}

#[test]
fn contiguous_event_is_borrowed() {
    // Each row: the chunks, and whether the type and the data of the last event are borrowed.
    let rows: [(&[&[u8]], bool, bool); 5] = [
        (&[b"event: e\ndata: x\n\n"], true, true),
        (&[b"data: x\n\n"], true, true),
        (&[b"event: e\nda", b"ta: x\n\n"], false, false),
        (&[b"event: e\ndata: x\ndata: y\n\n"], true, false),
        (&[b"event: e\n", b"data: x\n\n"], false, true),
    ];
    for (chunks, event_is_lent, data_is_lent) in rows {
        let mut decoder = SseDecoder::new();
        let mut borrowed = None;
        for chunk in chunks {
            let is_borrowed = |text: &Cow<'_, str>| matches!(text, Cow::Borrowed(_));
            let each =
                |it: SseEvent<'_>| borrowed = Some((is_borrowed(&it.event), is_borrowed(&it.data)));
            decoder.feed(chunk, each).unwrap();
        }
        assert_eq!(borrowed, Some((event_is_lent, data_is_lent)), "{chunks:?}");
    }
}

#[test]
fn large_event_decodes_in_linear_time() {
    let length = 10 << 20;
    let mut stream = b"data: ".to_vec();
    stream.resize(stream.len() + length, b'x');
    stream.extend_from_slice(b"\n\n");
    for size in [stream.len(), 16 << 10, 1] {
        let began = Instant::now();
        let mut decoder = SseDecoder::new();
        let mut lengths = Vec::new();
        for chunk in stream.chunks(size) {
            decoder.feed(chunk, |event| lengths.push(event.data.len())).unwrap();
        }
        assert_eq!(lengths, [length]);
        // A decoder that rescans the event for each byte would take hours.
        assert!(began.elapsed() < Duration::from_secs(60), "{size}: {:?}", began.elapsed());
    }
}

#[test]
fn comments_and_unknown_fields_are_not_buffered() {
    let mut decoder = SseDecoder::with_limit(16);
    for start in [&b": "[..], b"unknown: ", b"unknown", b"retry: "] {
        decoder.feed(start, |_| panic!("no event")).unwrap();
        for _ in 0..1000 {
            decoder.feed(&[b'x'; 1000], |_| panic!("no event")).unwrap();
        }
        decoder.feed(b"\n", |_| panic!("no event")).unwrap();
    }
    let mut seen = Vec::new();
    decoder.feed(b"data: x\n\n", |event| seen.push(format_event(&event))).unwrap();
    assert_eq!(seen, ["message|x||"]);
}

#[tokio::test]
async fn sse_stream_decodes_chunks() {
    // Each row: the chunks, where `!` is a read error, and the expected result.
    let rows: [(&[&str], &[&str], &str); 6] = [
        (&[], &[], "|"),
        (&["data: x\n\nda", "ta: y\n\n"], &["message|x||", "message|y||"], "|"),
        (&["data: x\n\ndata: y\n\nid: 1", "", "\n\n"], &["message|x||", "message|y||"], "1|"),
        (&["data: x\n\ndata: y"], &["message|x||"], "|"),
        (
            &["id: 1\nretry: 3\ndata: x\n\ndata: y\n\n", "!", "data: z\n\n"],
            &["message|x|1|3", "message|y|1|", "event stream disconnected"],
            "1|3",
        ),
        (
            &["data: x\n\ndata: 12345678\n\n", "data: z\n\n"],
            &["message|x||", "stream event is larger than 7 bytes"],
            "|",
        ),
    ];
    for (chunks, expected, end) in rows {
        let chunks = chunks.iter().map(|chunk| match *chunk {
            "!" => Err(io::Error::other("gone")),
            chunk => Ok(chunk),
        });
        let decoder = SseDecoder::with_limit(7);
        let mut events = SseStream::with_decoder(futures::stream::iter(chunks), decoder);
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            seen.push(event.map_or_else(|error| error.to_string(), |event| format_event(&event)));
        }
        assert_eq!(seen, expected);
        assert!(events.next().await.is_none(), "no event follows the end");
        let retry = events.decoder().retry().map(|retry| retry.as_millis().to_string());
        let last_id = events.decoder().last_event_id();
        assert_eq!(format!("{last_id}|{}", retry.unwrap_or_default()), end);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn sse_stream_skips_oversized_events() {
    let large = "x".repeat(20);
    let rows = [
        ("data: a\n\ndata: LARGE\nid: 7\nretry: 5\n\ndata: b\n\n", "a|!|b"),
        ("data: LARGE\ndata: LARGE\ndata: c\n\ndata: b\n\n", "!|b"),
        ("event: LARGE\r\ndata: a\r\n\r\ndata: b\r\n\r\n", "!|b"),
        ("data: LARGE\n\ndata: LARGE\n\n", "!|!"),
        ("data: LARGE\n\n: LARGE\n\ndata: b\n\n", "!|b"),
        ("data: LARGE", "!"),
    ];
    for (text, expected) in rows {
        let text = text.replace("LARGE", &large);
        for size in [text.len(), 1, 2, 3, 7] {
            let chunks: Vec<_> = text.as_bytes().chunks(size).map(Ok::<_, io::Error>).collect();
            let decoder = SseDecoder::with_limit(10);
            let events = SseStream::with_decoder(futures::stream::iter(chunks), decoder);
            let mut events = events.skip_oversized();
            let mut seen = Vec::new();
            while let Some(event) = events.next().await {
                seen.push(event.map_or_else(|_| "!".to_owned(), |event| event.data.into_owned()));
            }
            assert_eq!(seen.join("|"), expected, "{text:?} in pieces of {size}");
            assert_eq!((events.decoder().last_event_id(), events.decoder().retry()), ("", None));
        }
    }
}
