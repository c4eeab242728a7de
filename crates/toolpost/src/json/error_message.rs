//! Messages of JSON errors, in the terms of JSON.

/// Returns the message of an error, with JSON types in place of Rust types.
///
/// ```
/// #[derive(Debug, serde::Deserialize)]
/// struct Point {
///     x: u8,
/// }
///
/// let error = serde_json::from_str::<Point>("[]").unwrap_err();
/// assert!(error.to_string().starts_with("invalid length 0, expected struct Point"));
/// let message = toolpost::json::error_message(&error);
/// assert_eq!(message, "invalid length 0, expected an object at line 1 column 2");
/// ```
pub fn error_message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.starts_with("data did not match any variant of untagged enum") {
        return format!("it has none of the accepted forms{}", position(&text));
    }
    // The part before the expected type quotes the document.
    let Some((found, expected)) = text.rsplit_once(", expected ") else { return text };
    let position = position(expected);
    let expected = &expected[..expected.len() - position.len()];
    let found = match found {
        "invalid type: map" => "invalid type: object",
        "invalid type: sequence" => "invalid type: array",
        found => found,
    };
    let expected = json_type(expected).unwrap_or(expected);
    format!("{found}, expected {expected}{position}")
}

/// Returns the position at the end of a message, or an empty string.
fn position(text: &str) -> &str {
    text.rfind(" at line ").map_or("", |start| &text[start..])
}

/// Returns the JSON type for a Rust type, as Serde describes it; `None` for other descriptions.
fn json_type(expected: &str) -> Option<&'static str> {
    let is_object = ["struct ", "internally tagged enum ", "adjacently tagged enum "]
        .iter()
        .any(|start| expected.starts_with(start));
    let is_array = ["tuple ", "a tuple ", "an array of length "]
        .iter()
        .any(|start| expected.starts_with(start));
    Some(match expected {
        "map" | "a map" => "an object",
        "a sequence" => "an array",
        "string or map" => "a string or an object",
        "unit" => "null",
        "f32" | "f64" => "a number",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "an integer",
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a non-negative integer",
        "variant identifier" | "field identifier" => "a string",
        _ if is_object => "an object",
        _ if is_array => "an array of another length",
        _ if expected.starts_with("unit struct ") => "null",
        _ if expected.starts_with("enum ") => "a string or an object",
        _ if expected.starts_with("a nonzero ") => "a positive integer",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only errors are of interest")]
    struct Object {
        size: u8,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only errors are of interest")]
    enum Choice {
        A,
        B(u8),
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "kind")]
    #[expect(dead_code, reason = "only errors are of interest")]
    enum Tagged {
        A { size: u8 },
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only errors are of interest")]
    enum Either {
        A(u8),
        B(bool),
    }

    fn message<T: DeserializeOwned>(value: &Value) -> String {
        error_message(&serde_json::from_value::<T>(value.clone()).err().unwrap())
    }

    #[test]
    fn error_message_names_json_types() {
        let rows = [
            (message::<Object>(&json!(5)), "invalid type: integer `5`, expected an object"),
            (
                message::<Object>(&json!("expected struct Object")),
                "invalid type: string \"expected struct Object\", expected an object",
            ),
            (message::<Object>(&json!({})), "missing field `size`"),
            (
                message::<Object>(&json!({"size": -1})),
                "invalid value: integer `-1`, expected a non-negative integer",
            ),
            (message::<i32>(&json!([])), "invalid type: array, expected an integer"),
            (message::<f64>(&json!({})), "invalid type: object, expected a number"),
            (message::<()>(&json!(1)), "invalid type: integer `1`, expected null"),
            (message::<Vec<u8>>(&json!(null)), "invalid type: null, expected an array"),
            (
                message::<(u8, u8)>(&json!([1])),
                "invalid length 1, expected an array of another length",
            ),
            (
                message::<NonZeroU32>(&json!(0)),
                "invalid value: integer `0`, expected a positive integer",
            ),
            (message::<String>(&json!(1)), "invalid type: integer `1`, expected a string"),
            (message::<String>(&json!({})), "invalid type: object, expected a string"),
            (
                message::<Choice>(&json!(1)),
                "invalid type: integer `1`, expected a string or an object",
            ),
            (message::<Choice>(&json!("C")), "unknown variant `C`, expected `A` or `B`"),
            (message::<Tagged>(&json!(true)), "invalid type: boolean `true`, expected an object"),
            (message::<Either>(&json!("x")), "it has none of the accepted forms"),
        ];
        for (found, expected) in rows {
            assert_eq!(found, expected);
        }
        let error = serde_json::from_str::<Object>("\n 7").err().unwrap();
        let expected = "invalid type: integer `7`, expected an object at line 2 column 2";
        assert_eq!(error_message(&error), expected);
    }
}
