//! The speed and memory of reading API documents, compared with common parsers.
//!
//! All readers take the same bytes in alternating rounds on one thread. Memory is the increase of the
//! peak of a separate process that loads the file and reads it once. Run it with
//! `cargo bench -p toolpost --features openapi --bench openapi_import`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "openapi_import/documents.rs"]
mod documents;
#[path = "harness/claim.rs"]
mod harness;
#[path = "openapi_import/readers.rs"]
mod readers;
#[path = "harness/stats.rs"]
#[allow(dead_code, reason = "no latencies are printed here")]
mod stats;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use documents::Document;
use harness::claim;
use readers::Reader;
use stats::median;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs this program as a process that reads a file once and prints the memory it used.
const MEMORY: &str = "--memory";

/// Number of measured rounds of each reader.
const ROUNDS: usize = 15;

/// Maximum time, relative to the parser.
const MAX_TIME_RATIO: f64 = 3.0;

/// Maximum memory, relative to the size of the document.
const MAX_MEMORY_RATIO: f64 = 6.0;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [MEMORY, reader, file] => print_memory(reader, Path::new(file)),
        // An argument that is not a flag selects documents by name.
        others => {
            let filter = others.iter().find(|argument| !argument.starts_with('-')).unwrap_or(&"");
            for document in documents::all().iter().filter(|it| it.name.contains(filter)) {
                bench(document);
            }
        }
    }
}

/// The first reader of a document is the parser that ours are compared with.
fn bench(document: &Document) {
    let bytes = std::fs::read(&document.path).unwrap();
    let size = bytes.len() as f64;
    println!("{}, {:.1} MB:", document.name, size / 1e6);
    let readers = readers::for_format(document.format);
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
            claim(&what("time"), time / times[0], "times the parser's", MAX_TIME_RATIO);
            claim(&what("memory"), memory, "times the size", MAX_MEMORY_RATIO);
        }
    }
}

/// The median duration of each reader, in seconds.
fn times(readers: &[Reader], bytes: &[u8]) -> Vec<f64> {
    let mut samples = vec![Vec::new(); readers.len()];
    for round in 0..=ROUNDS {
        for (reader, samples) in readers.iter().zip(&mut samples) {
            let start = Instant::now();
            let imported = (reader.read)(bytes);
            // The time to drop the result is not measured.
            let took = start.elapsed().as_secs_f64();
            drop(imported);
            // The first round includes one-time initialization.
            if round > 0 {
                samples.push(took);
            }
        }
    }
    samples.into_iter().map(median).collect()
}

/// The peak memory of a process that reads a file, in bytes.
fn memory(reader: &Reader, file: &Path) -> f64 {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args([MEMORY, reader.name]).arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

fn print_memory(reader: &str, file: &Path) {
    let reader = readers::by_name(reader);
    let before = peak();
    let bytes = std::fs::read(file).unwrap();
    let imported = (reader.read)(&bytes);
    println!("{}", peak() - before);
    drop(imported);
}

/// The peak memory of this process so far, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1_024
}
