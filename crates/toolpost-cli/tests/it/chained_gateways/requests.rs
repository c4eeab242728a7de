//! The requests sent to the servers, in order.

/// A method and its parameters as JSON text.
pub(super) type Request = (&'static str, &'static str);

const CALL: &str = "tools/call";
const READ: &str = "resources/read";
const GET: &str = "prompts/get";
const COMPLETE: &str = "completion/complete";

/// Requests to the `everything` server that need neither a network nor client capabilities.
/// `get-env` is excluded, because the environment differs between direct and chained runs.
pub(super) const EVERYTHING: &[Request] = &[
    // Adds a resource, which the lists contain from then on.
    (
        CALL,
        r#"{"name":"gzip-file-as-resource","arguments":{"name":"a.gz","data":"data:text/plain,hello","outputType":"resource"}}"#,
    ),
    ("tools/list", "{}"),
    (CALL, r#"{"name":"echo","arguments":{"message":"Grüße \u0000 😀"}}"#),
    (
        CALL,
        r#"{"name":"get-annotated-message","arguments":{"messageType":"error","includeImage":true}}"#,
    ),
    (CALL, r#"{"name":"get-annotated-message","arguments":{"messageType":"debug"}}"#),
    (CALL, r#"{"name":"get-resource-links","arguments":{"count":4}}"#),
    (CALL, r#"{"name":"get-resource-links"}"#),
    (
        CALL,
        r#"{"name":"get-resource-reference","arguments":{"resourceType":"Text","resourceId":1}}"#,
    ),
    (CALL, r#"{"name":"get-resource-reference","arguments":{"resourceId":-1}}"#),
    (CALL, r#"{"name":"get-structured-content","arguments":{"location":"Chicago"}}"#),
    (CALL, r#"{"name":"get-sum","arguments":{"a":0.1,"b":0.2}}"#),
    (CALL, r#"{"name":"get-tiny-image","arguments":{}}"#),
    (CALL, r#"{"name":"toggle-simulated-logging","arguments":{}}"#),
    (CALL, r#"{"name":"toggle-simulated-logging","arguments":{}}"#),
    (CALL, r#"{"name":"toggle-subscriber-updates","arguments":{}}"#),
    (CALL, r#"{"name":"toggle-subscriber-updates","arguments":{}}"#),
    (CALL, r#"{"name":"trigger-long-running-operation","arguments":{"duration":0.1,"steps":2}}"#),
    (CALL, r#"{"name":"simulate-research-query","arguments":{"topic":"tea"}}"#),
    ("resources/list", "{}"),
    ("resources/templates/list", "{}"),
    (READ, r#"{"uri":"demo://resource/static/document/features.md"}"#),
    (READ, r#"{"uri":"demo://resource/session/a.gz"}"#),
    (READ, r#"{"uri":"demo://resource/dynamic/text/1"}"#),
    ("prompts/list", "{}"),
    (GET, r#"{"name":"simple-prompt"}"#),
    (GET, r#"{"name":"args-prompt","arguments":{"city":"Bern"}}"#),
    (GET, r#"{"name":"resource-prompt","arguments":{"resourceType":"Text","resourceId":"1"}}"#),
    (
        COMPLETE,
        r#"{"ref":{"type":"ref/prompt","name":"completable-prompt"},"argument":{"name":"department","value":"E"}}"#,
    ),
    (
        COMPLETE,
        r#"{"ref":{"type":"ref/prompt","name":"completable-prompt"},"argument":{"name":"name","value":""},"context":{"arguments":{"department":"Sales"}}}"#,
    ),
    (
        COMPLETE,
        r#"{"ref":{"type":"ref/resource","uri":"demo://resource/dynamic/text/{resourceId}"},"argument":{"name":"resourceId","value":"1"}}"#,
    ),
    // Errors.
    (READ, r#"{"uri":"demo://none"}"#),
    (GET, r#"{"name":"none"}"#),
    (CALL, r#"{"name":"echo","arguments":{}}"#),
    (CALL, r#"{"name":"none","arguments":{}}"#),
];

/// Requests to the `fidelity` server, whose responses are all unusual.
pub(super) const FIDELITY: &[Request] = &[
    ("tools/list", "{}"),
    (CALL, r#"{"name":"every_block"}"#),
    (CALL, r#"{"name":"unknown_blocks","arguments":{}}"#),
    (CALL, r#"{"name":"failing","arguments":{}}"#),
    (CALL, r#"{"name":"structured","arguments":{}}"#),
    (CALL, r#"{"name":"structured_more","arguments":{}}"#),
    (CALL, r#"{"name":"structured_failing","arguments":{}}"#),
    (CALL, r#"{"name":"unlike_its_text","arguments":{}}"#),
    (CALL, r#"{"name":"numbers","arguments":{}}"#),
    (CALL, r#"{"name":"empty","arguments":{}}"#),
    (CALL, r#"{"name":"empty_text","arguments":{}}"#),
    (CALL, r#"{"name":"escapes","arguments":{}}"#),
    (CALL, r#"{"name":"lone_surrogates","arguments":{}}"#),
    (CALL, r#"{"name":"beyond_64_bits","arguments":{}}"#),
    (CALL, r#"{"name":"nothing","arguments":{}}"#),
    (CALL, r#"{"name":"nulls","arguments":{}}"#),
    (CALL, r#"{"name":"refuse","arguments":{}}"#),
    // Arguments are passed through unchanged.
    (CALL, r#"{"name":"echo","arguments":{"é":"😀 \u0001","more":{"deep":[null,true,{"":""}]}}}"#),
    (
        CALL,
        r#"{"name":"echo","arguments":{"n":[18446744073709551615,-9223372036854775808,9007199254740993,0.1,5e-324,1.0]}}"#,
    ),
    (CALL, r#"{"name":"echo"}"#),
    ("resources/list", "{}"),
    ("resources/templates/list", "{}"),
    (READ, r#"{"uri":"fidelity://held"}"#),
    (READ, r#"{"uri":"fidelity://nowhere"}"#),
    ("prompts/list", "{}"),
    (GET, r#"{"name":"greet","arguments":{"a":"é"}}"#),
    (
        COMPLETE,
        r#"{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"a","value":""}}"#,
    ),
    (
        COMPLETE,
        r#"{"ref":{"type":"ref/resource","uri":"fidelity://{name}"},"argument":{"name":"name","value":"h"}}"#,
    ),
];
