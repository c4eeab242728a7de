//! How fast server-sent events are decoded, beside two crates that do the same.
//!
//! All of them read the same bytes in the same chunks of 16 KiB, turn by turn, on one core, and the
//! lengths of what they read are compared first. `feed` lends its events, as far as they lie in one
//! piece; the streams own theirs. Run it with `cargo bench -p toolpost --features mcp --bench sse`.

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

/// As in the binary.
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
    claim("1 KB events, ASCII, fed", kilobyte, "ns a byte", 2.0);
}

/// An event as MCP servers send it, with so many bytes of data.
fn event(piece: &str, bytes: usize) -> String {
    let mut data = piece.repeat(bytes / piece.len() + 1);
    data.truncate((0..=bytes).rev().find(|at| data.is_char_boundary(*at)).unwrap_or_default());
    format!("event: message\nid: 4711_42\ndata: {data}\n\n")
}

fn lines(line: &str, count: usize) -> String {
    format!("{}\n", format!("data: {line}\n").repeat(count))
}

/// About a megabyte of it.
fn repeated(event: &str) -> Vec<u8> {
    event.repeat((1 << 20) / event.len() + 1).into_bytes()
}

/// Prints the speeds, and gives what a byte costs ours.
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

/// Whether a large event costs more for each byte than a small one; `eventsource-stream` is left
/// out, because it looks at all of it again with every chunk.
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
        let began = Instant::now();
        assert_eq!(fed(bytes.chunks(1)), mebibytes << 20);
        let nanos = began.elapsed().as_nanos() as f64 / bytes.len() as f64;
        println!("one event of {mebibytes:>2} MiB, fed byte by byte: {nanos:.1} ns a byte");
    }
}

/// How much data there is in all events: what every way of reading comes down to.
fn feed(bytes: &[u8]) -> usize {
    fed(bytes.chunks(CHUNK))
}

fn fed<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> usize {
    let mut decoder = SseDecoder::new();
    let mut length = 0;
    for chunk in chunks {
        let end = decoder.feed(chunk, |event| length += black_box(event).data.len());
        end.expect("no event is over the limit");
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

/// Nothing is waited for: the chunks are all there.
fn sum(lengths: impl Stream<Item = usize>) -> usize {
    let total = lengths.fold(0, async |total, length| total + length).now_or_never();
    total.expect("a stream over a slice is always ready")
}
