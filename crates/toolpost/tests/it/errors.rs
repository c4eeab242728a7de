//! `docs/errors.md` is written from the table of errors.

use std::fmt::Write;
use std::path::Path;

use toolpost::{ErrorCode, ErrorMeaning, Origin};

const HEAD: &str = "\
# Errors

Why a call fails is the same at every door. This page is written from the table in the code, which the doors
look at, too; `TOOLPOST_BLESS=1 cargo test -p toolpost errors` writes it again.

An error is `{code, message, details?, retryable}`. `call.error` of the call protocol carries it as it is, a problem
over HTTP has it in `error`, the result of an MCP tool has it in words and says `isError: true`, and the command
line prints it.

| code | what happened | who can mend it | HTTP | MCP beside tools | exit code | may help to retry | leaves doubt |
|---|---|---|---|---|---|---|---|
";

const TAIL: &str = "
A declared error has the `httpStatus` that its operation declares. 429 and 503 come with `Retry-After`. Beside
tools (resources, prompts) an MCP client gets a JSON-RPC error of the code in the table, with the error as its data.
Exit code 2 is a command line or a configuration that makes no sense, 3 a gateway that is not there.

*May help to retry* is about the error alone. `retryable` is true only if repeating is safe as well: nothing was
sent yet, or the operation is a query or declared idempotent. *Leaves doubt* means that a mutation that was begun
may have had its effect; then `details.mayHaveRun` is true.

A tool that answers with `isError` has not failed to be called: it is an envelope. Where only its data is asked for it
is a problem with status 502 over HTTP, exit code 1 on the command line, and the tool's own result for MCP clients.
";

#[test]
fn the_page_of_errors_says_what_the_doors_do() {
    let mut page = HEAD.to_owned();
    for code in ErrorCode::INFRASTRUCTURE {
        row(&mut page, &format!("`{code}`"), code.meaning());
    }
    row(&mut page, "a declared code", ErrorCode::from("DECLARED").meaning());
    page.push_str(TAIL);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    if std::env::var_os("TOOLPOST_BLESS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == page,
        "docs/errors.md is not what the table says; TOOLPOST_BLESS=1 rewrites it"
    );
}

fn row(page: &mut String, name: &str, meaning: ErrorMeaning) {
    let origin = match meaning.origin {
        Origin::Caller => "the caller",
        Origin::Operation => "the operation",
        _ => "whoever runs it",
    };
    let mark = |is: bool| if is { "yes" } else { "" };
    writeln!(
        page,
        "| {name} | {} | {origin} | {} | {} | {} | {} | {} |",
        meaning.words,
        meaning.http_status,
        meaning.json_rpc_code,
        meaning.exit_code,
        mark(meaning.transient),
        mark(meaning.leaves_doubt)
    )
    .unwrap();
}
