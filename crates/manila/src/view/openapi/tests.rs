use serde_json::json;

use super::*;

#[test]
fn nothing_is_a_document_too() {
    let document = HttpApi::new("1.0.0").document([]);
    assert_eq!(document["paths"], json!({}));
}
