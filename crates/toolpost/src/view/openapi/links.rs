//! OpenAPI links: responses that list operations link to the schema of each.

use serde_json::{Map, Value, json};

/// Path of the operation that returns the schema of another operation.
const DESCRIBE_PATH: &str = "/api/hub/schema";
/// Paths whose responses list operations.
const LIST_PATHS: [&str; 2] = ["/api/hub/list", "/api/hub/search"];
const FIRST_OPERATION_ID: &str = "$response.body#/operations/0/id";

/// Adds links from list responses to the schema operation, if both are in the document.
pub(super) fn add(paths: &mut Map<String, Value>) {
    let describes = paths.get(DESCRIBE_PATH).and_then(|item| item.pointer("/get/operationId"));
    let Some(describes) = describes.cloned() else { return };
    let link = json!({
        "operationId": describes,
        "parameters": {"id": FIRST_OPERATION_ID},
        "description": "The schemas of the first operation in the list.",
    });
    for path in LIST_PATHS {
        let Some(Value::Object(methods)) = paths.get_mut(path) else { continue };
        for described in methods.values_mut() {
            if let Some(Value::Object(response)) = described.pointer_mut("/responses/200") {
                response.insert("links".to_owned(), json!({"schema": link}));
            }
        }
    }
}
