//! What can be asked about an answer: lists of operations lead to the description of each.

use serde_json::{Map, Value, json};

/// The operation that describes another one.
const DESCRIBES: &str = "/api/hub/schema";
/// Those whose answers name operations, and where the first one stands in them.
const LISTS: [&str; 2] = ["/api/hub/list", "/api/hub/search"];
const FIRST: &str = "$response.body#/operations/0/id";

/// Says which answers lead where, as far as both ends are in the document.
pub(super) fn add(paths: &mut Map<String, Value>) {
    let describes = paths.get(DESCRIBES).and_then(|item| item.pointer("/get/operationId"));
    let Some(describes) = describes.cloned() else { return };
    let link = json!({
        "operationId": describes,
        "parameters": {"id": FIRST},
        "description": "What the first of them takes and gives.",
    });
    for path in LISTS {
        let Some(Value::Object(methods)) = paths.get_mut(path) else { continue };
        for described in methods.values_mut() {
            if let Some(Value::Object(answer)) = described.pointer_mut("/responses/200") {
                answer.insert("links".to_owned(), json!({"schema": link}));
            }
        }
    }
}
