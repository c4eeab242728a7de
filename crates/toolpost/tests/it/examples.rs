//! The examples print the expected output.

use std::process::Command;

/// Runs an example and returns its output. Cargo builds the examples before it runs the tests, in
/// the folder next to that of the test binary.
fn run(name: &str) -> String {
    let deps = std::env::current_exe().unwrap();
    let example = deps.ancestors().nth(2).unwrap().join("examples").join(name);
    let output = Command::new(&example).output().unwrap_or_else(|error| {
        panic!(
            "{}: {error}; `cargo test` builds it, `cargo test --test it` does not",
            example.display()
        )
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn operations_example_prints_expected_output() {
    let expected = "total 10 from local\nNOT_SOLD: we do not sell hats\n2\n1\n0\n";
    assert_eq!(run("operations"), expected);
}

#[cfg(feature = "openapi")]
#[test]
fn openapi_example_prints_expected_output() {
    let expected = "Pets 1.0.0: 1 query\n\
        {\"id\":1,\"name\":\"Rex\"} from http\n\
        HTTP_404: HTTP 404 Not Found: no such pet\n\
        VALIDATION_ERROR\n";
    assert_eq!(run("openapi"), expected);
}
