//! JSON values for property tests.

use proptest::prelude::*;
use serde_json::Value;

/// Generates a JSON value that is neither an array nor an object.
pub(crate) fn any_scalar(text: impl Strategy<Value = String>) -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no NaN", |n| n.is_finite()).prop_map(Value::from),
        text.prop_map(Value::from),
    ]
}
