//! What the tools of the MCP server answer, from the file that the server itself reads.

use serde::Deserialize;
use serde_json::{Value, json};

use super::calls::{Call, Expect};
use super::odd::Stands;

/// The namespace of the server's tools.
pub(crate) const NAME: &str = "up";

#[derive(Deserialize)]
struct Entry {
    tool: Value,
    answers: Vec<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    how: String,
    /// `success`, `failure`, `invalid`, or `error` for one of the protocol.
    is: String,
    /// What a client must be able to read, whatever the dialect.
    says: String,
    #[serde(default)]
    result: Value,
    /// How the result goes on in the dialect `data`, where it cannot go on as it is.
    sent: Option<Value>,
    /// The data, where it is neither the structured content nor the blocks.
    data: Option<Value>,
    #[serde(default)]
    wrapped: bool,
}

fn table() -> Vec<Entry> {
    serde_json::from_str(include_str!("../upstream.json")).expect("the table of the server")
}

/// The ids of its tools.
pub(crate) fn ids() -> Vec<String> {
    let name = |entry: Entry| format!("{NAME}.{}", entry.tool["name"].as_str().unwrap_or_default());
    table().into_iter().map(name).collect()
}

pub(crate) fn calls() -> Vec<Call> {
    let entries = table().into_iter().zip(ids());
    let calls = entries.flat_map(|(entry, id)| {
        entry.answers.into_iter().map(move |answer| {
            let arguments = json!({"how": answer.how});
            Call::new(&id, arguments, answer.expect())
        })
    });
    calls.collect()
}

/// A call of the tool `sized` through another.
pub(crate) fn through_the_hub(arguments: Value) -> Call {
    let how = arguments["input"]["how"].clone();
    let direct =
        calls().into_iter().find(|call| call.tool == "up__sized" && call.arguments["how"] == how);
    Call::new("hub.call", arguments, direct.expect("it is in the table").expect)
}

impl Answer {
    fn expect(self) -> Expect {
        let found = || self.result.get("structuredContent").or_else(|| self.result.get("content"));
        let data = self.data.clone().or_else(|| found().cloned()).unwrap_or_default();
        let stands = if self.wrapped { Stands::WrappedBefore } else { Stands::Alone };
        match self.is.as_str() {
            "error" => Expect::Fails { code: "EXECUTION_ERROR", words: self.says },
            "invalid" => Expect::DoesNotFit { data, words: self.says },
            is => {
                let is_error = is == "failure";
                let result = self.sent.unwrap_or(self.result);
                Expect::Relays { result, data, stands, is_error, words: self.says }
            }
        }
    }
}
