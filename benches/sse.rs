//! The speed of decoding server-sent events, compared with two other crates.
//!
//! All decoders read the same bytes in chunks of 16 KiB, in alternating batches on one core, after a
//! check that they decode the same amount of data. `feed` borrows events that lie within one chunk;
//! the streams own theirs. Run it with `cargo bench -p toolpost --features mcp --bench sse`.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

#[path = "harness/mod.rs"]
mod harness;

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Instant;

use eventsource_stream::Eventsource;
use futures::{FutureExt, Stream, StreamExt};
use harness::{Cost, claim, measure, measure_together};
use sse_stream::SseByteStream;
use toolpost::sse::{SseDecoder, SseStream};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CHUNK: usize = 16 << 10;

fn main() {
    println!(
        "{:<26}{:>10}{:>12}{:>14}{:>22}",
        "MB/s, chunks of 16 KiB", "feed", "SseStream", "sse-stream", "eventsource-stream"
    );
    let kilobyte = report("1 KB, ASCII", &repeated(&event(r#"{"name":"value","n":12345},"#, 1024)));
    report("1 KB, a fifth not ASCII", &repeated(&event(r#"{"größe":"Ærøskøbing é€😀"},"#, 1024)));
    report("1 KB in 16 lines", &repeated(&lines(&"x".repeat(57), 16)));
    report("64 B", &repeated(&event("token ", 24)));
    large_events();
    claim("1 KB events, ASCII, feed", kilobyte, "ns per byte", 2.0);
}

/// An event as MCP servers send it, with `bytes` bytes of data.
fn event(piece: &str, bytes: usize) -> String {
    let mut data = piece.repeat(bytes / piece.len() + 1);
    data.truncate((0..=bytes).rev().find(|at| data.is_char_boundary(*at)).unwrap_or_default());
    format!("event: message\nid: 4711_42\ndata: {data}\n\n")
}

fn lines(line: &str, count: usize) -> String {
    format!("{}\n", format!("data: {line}\n").repeat(count))
}

/// About one megabyte of repetitions of an event.
fn repeated(event: &str) -> Vec<u8> {
    event.repeat((1 << 20) / event.len() + 1).into_bytes()
}

/// Prints the speeds and returns the nanoseconds per byte of `feed`.
fn report(name: &str, bytes: &[u8]) -> f64 {
    let lengths = [feed(bytes), stream(bytes), sse_stream(bytes), eventsource(bytes)];
    assert!(lengths.iter().all(|length| *length == lengths[0]), "{name}: {lengths:?}");
    let costs = measure_together([
        &mut || _ = black_box(feed(black_box(bytes))),
        &mut || _ = black_box(stream(black_box(bytes))),
        &mut || _ = black_box(sse_stream(black_box(bytes))),
        &mut || _ = black_box(eventsource(black_box(bytes))),
    ]);
    let [ours, owned, first, second] = costs.map(|cost| speed(bytes, cost));
    let times =
        |theirs: f64| format!("{theirs:.0} ({:.1}x, {:.1}x)", ours / theirs, owned / theirs);
    println!("{name:<26}{ours:>10.0}{owned:>12.0}{:>22}{:>22}", times(first), times(second));
    costs[0].nanos / bytes.len() as f64
}

fn speed(bytes: &[u8], cost: Cost) -> f64 {
    bytes.len() as f64 / cost.nanos * 1e3
}

/// Measures the cost per byte of large events. `eventsource-stream` is excluded, because it scans the
/// whole event again with every chunk.
fn large_events() {
    let bytes = event("x", 10 << 20).into_bytes();
    let ours = measure(|| _ = black_box(stream(black_box(&bytes))));
    let theirs = measure(|| _ = black_box(sse_stream(black_box(&bytes))));
    println!(
        "one event of 10 MiB: SseStream {:.0} MB/s, sse-stream {:.0} MB/s",
        speed(&bytes, ours),
        speed(&bytes, theirs)
    );
    for mebibytes in [1, 10] {
        let bytes = event("x", mebibytes << 20).into_bytes();
        let start = Instant::now();
        assert_eq!(feed_chunks(bytes.chunks(1)), mebibytes << 20);
        let nanos = start.elapsed().as_nanos() as f64 / bytes.len() as f64;
        println!("one event of {mebibytes:>2} MiB, fed byte by byte: {nanos:.1} ns per byte");
    }
}

/// The total length of the data of all events.
fn feed(bytes: &[u8]) -> usize {
    feed_chunks(bytes.chunks(CHUNK))
}

fn feed_chunks<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> usize {
    let mut decoder = SseDecoder::new();
    let mut length = 0;
    for chunk in chunks {
        let result = decoder.feed(chunk, |event| length += black_box(event).data.len());
        result.expect("no event is over the limit");
    }
    length
}

fn stream(bytes: &[u8]) -> usize {
    sum(SseStream::new(chunks(bytes)).map(|event| event.map_or(0, |event| event.data.len())))
}

fn sse_stream(bytes: &[u8]) -> usize {
    let length = |event: sse_stream::Sse| event.data.map_or(0, |data| data.len());
    sum(SseByteStream::new(chunks(bytes)).map(move |event| event.map_or(0, length)))
}

fn eventsource(bytes: &[u8]) -> usize {
    sum(chunks(bytes).eventsource().map(|event| event.map_or(0, |event| event.data.len())))
}

fn chunks(bytes: &[u8]) -> impl Stream<Item = Result<&[u8], Infallible>> + Unpin {
    futures::stream::iter(bytes.chunks(CHUNK).map(Ok))
}

/// Never waits: all chunks are available.
fn sum(lengths: impl Stream<Item = usize>) -> usize {
    let total = lengths.fold(0, async |total, length| total + length).now_or_never();
    total.expect("a stream over a slice is always ready")
}
