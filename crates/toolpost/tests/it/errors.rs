//! Checks that `docs/errors.md` matches the error code table.

use std::fmt::Write;
use std::path::Path;

use toolpost::{ErrorCode, ErrorCodeInfo, ErrorOrigin};

const HEAD: &str = "\
# Errors

Error codes mean the same on every endpoint. This page is generated from the table that the endpoints use;
`TOOLPOST_BLESS=1 cargo test -p toolpost errors` regenerates it.

An error is `{code, message, details?, retryable}`. The call protocol sends it in `call.error`, the HTTP API in `error`
of a problem document, MCP as the text of a tool result with `isError: true`. The command line prints it.

| code | description | origin | HTTP | MCP, except tools | exit code | transient | may have executed |
|---|---|---|---|---|---|---|---|
";

const TAIL: &str = "
A declared error has the `httpStatus` that its operation declares. 429 and 503 have `Retry-After`, and so has every error
with `details.retryAfterMs`, such as that of a rate-limited upstream service. For resources and prompts, an MCP client gets a
JSON-RPC error with the code in the table and the error as its data. Exit code 2 means an invalid command line or
configuration, 3 an unreachable gateway.

*Transient* means that the same call may succeed later. `retryable` is true only if repeating the call is also safe:
nothing was sent yet, or the operation is a query or declared idempotent. *May have executed* means that a mutation may
have taken effect; `details.mayHaveRun` is then true.

A tool result with `isError` is an envelope, not a call error. If only its data is requested, it is a problem document
with status 502 over HTTP, and exit code 1 on the command line. MCP clients get the result of the tool.

Data that does not match its output schema is an error only with the output policy `enforce`: `OUTPUT_VALIDATION_FAILED`,
with the mismatches in `details.issues` and the data in `details.data`. Otherwise the call succeeds with
[warnings](normalize.md#outputs).
";

#[test]
fn errors_page_matches_error_table() {
    let mut page = HEAD.to_owned();
    for code in ErrorCode::INFRASTRUCTURE {
        row(&mut page, &format!("`{code}`"), code.info());
    }
    row(&mut page, "a declared code", ErrorCode::from("DECLARED").info());
    page.push_str(TAIL);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    if std::env::var_os("TOOLPOST_BLESS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == page,
        "docs/errors.md does not match the error table; TOOLPOST_BLESS=1 rewrites it"
    );
}

fn row(page: &mut String, name: &str, meaning: ErrorCodeInfo) {
    let origin = match meaning.origin {
        ErrorOrigin::Caller => "the caller",
        ErrorOrigin::Operation => "the operation",
        _ => "infrastructure",
    };
    let mark = |is: bool| if is { "yes" } else { "" };
    writeln!(
        page,
        "| {name} | {} | {origin} | {} | {} | {} | {} | {} |",
        meaning.description,
        meaning.http_status,
        meaning.json_rpc_code,
        meaning.exit_code,
        mark(meaning.transient),
        mark(meaning.may_have_executed)
    )
    .unwrap();
}
