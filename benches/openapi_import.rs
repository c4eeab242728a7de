//! How fast API documents are read, and how much memory that takes, beside the parsers that others
//! would begin with.
//!
//! All readers take the same bytes, turn by turn, on one thread. Memory is the peak of a process of
//! its own that has the text and reads it once, above what it held before it had either. Run it
//! with `cargo bench -p toolpost --features openapi --bench openapi_import`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "openapi_import/documents.rs"]
mod documents;
#[path = "harness/claim.rs"]
mod harness;
#[path = "openapi_import/readers.rs"]
mod readers;
#[path = "harness/spread.rs"]
#[allow(dead_code, reason = "no latencies are printed here")]
mod spread;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use documents::Document;
use harness::claim;
use readers::Reader;
use spread::median;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Makes this program one that reads a file once, and prints what that took.
const MEMORY: &str = "--memory";

/// How often each reader has its turn.
const ROUNDS: usize = 15;

/// The most time, as a multiple of the parser's.
const MOST_TIME: f64 = 3.0;

/// The most memory, as a multiple of the document's size.
const MOST_MEMORY: f64 = 6.0;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [MEMORY, reader, file] => print_memory(reader, Path::new(file)),
        // What is no flag of cargo's picks documents by their names.
        others => {
            let wanted = others.iter().find(|word| !word.starts_with('-')).unwrap_or(&"");
            for document in documents::all().iter().filter(|it| it.name.contains(wanted)) {
                bench(document);
            }
        }
    }
}

/// The first reader of a document is the parser that ours are measured by.
fn bench(document: &Document) {
    let bytes = std::fs::read(&document.path).unwrap();
    let size = bytes.len() as f64;
    println!("{}, {:.1} MB:", document.name, size / 1e6);
    let readers = readers::of(document.format);
    let times = times(readers, &bytes);
    for (reader, time) in readers.iter().zip(&times) {
        let memory = memory(reader, &document.path) / size;
        println!(
            "  {:<28}{:8.1} ms {:6.0} MB/s {:6.2} times the parser {memory:6.2} times the size",
            reader.name,
            time * 1e3,
            size / time / 1e6,
            time / times[0],
        );
        if reader.is_ours {
            let what = |of: &str| format!("{}, {}, {of}", document.name, reader.name);
            claim(&what("time"), time / times[0], "times the parser's", MOST_TIME);
            claim(&what("memory"), memory, "times the size", MOST_MEMORY);
        }
    }
}

/// The median of each, in seconds.
fn times(readers: &[Reader], bytes: &[u8]) -> Vec<f64> {
    let mut samples = vec![Vec::new(); readers.len()];
    for round in 0..=ROUNDS {
        for (reader, samples) in readers.iter().zip(&mut samples) {
            let began = Instant::now();
            let kept = (reader.read)(bytes);
            // What is thrown away is thrown away by nobody's reader.
            let took = began.elapsed().as_secs_f64();
            drop(kept);
            // The first turn pays for what is made on first use.
            if round > 0 {
                samples.push(took);
            }
        }
    }
    samples.into_iter().map(median).collect()
}

/// The peak of a process that reads a file, in bytes.
fn memory(reader: &Reader, file: &Path) -> f64 {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args([MEMORY, reader.name]).arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

fn print_memory(reader: &str, file: &Path) {
    let reader = readers::named(reader);
    let before = peak();
    let bytes = std::fs::read(file).unwrap();
    let kept = (reader.read)(&bytes);
    println!("{}", peak() - before);
    drop(kept);
}

/// The most memory that this process has held so far, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1_024
}
