//! The JSON Schema of the configuration file.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::Value;

use super::file::ConfigFile;

/// Marks a key whose change takes effect after a restart.
const RESTART: &str = "x-toolpost-restart";

pub(super) fn json_schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(WithoutNull);
    settings.into_generator().into_root_schema_for::<ConfigFile>().to_value()
}

/// Returns the JSON pointers of the keys whose changes take effect after a restart.
pub(super) fn restart_keys() -> Vec<String> {
    let schema = json_schema();
    let properties = |schema: &Value| {
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        properties.into_iter()
    };
    let mut keys = Vec::new();
    for (table, property) in properties(&schema) {
        if property.get(RESTART).is_some() {
            keys.push(format!("/{table}"));
            continue;
        }
        let definition = property["$ref"].as_str().and_then(|path| schema.pointer(&path[1..]));
        let marked = properties(definition.unwrap_or(&Value::Null))
            .filter(|(_, property)| property.get(RESTART).is_some());
        keys.extend(marked.map(|(key, _)| format!("/{table}/{key}")));
    }
    keys
}

/// Removes `null`, which TOML does not have, from types and defaults, and the defaults of required
/// keys.
#[derive(Debug, Clone)]
struct WithoutNull;

impl Transform for WithoutNull {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        if let Some(Value::Object(default)) = object.get_mut("default") {
            default.retain(|_, value| !value.is_null());
        }
        if object.get("default").is_some_and(Value::is_null) {
            object.remove("default");
        }
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = &types[..] {
                let only = only.clone();
                object.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(alternatives)) = object.get_mut("anyOf") {
            alternatives.retain(|alternative| alternative["type"] != "null");
            if let [Value::Object(only)] = &alternatives[..] {
                let only = only.clone();
                object.remove("anyOf");
                object.extend(only);
            }
        }
        let required = object.get("required").and_then(Value::as_array).cloned();
        for key in required.iter().flatten().filter_map(Value::as_str) {
            let property = object.get_mut("properties").and_then(|known| known.get_mut(key));
            if let Some(Value::Object(property)) = property {
                property.remove("default");
            }
        }
    }
}
