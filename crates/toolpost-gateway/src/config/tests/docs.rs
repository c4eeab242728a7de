//! The tables of keys in the guide, which are generated from the JSON Schema.

use serde_json::Value;

use super::super::Config;

/// Rewrites the guide with `TOOLPOST_UPDATE_DOCS=1`.
#[test]
fn configuration_guide_lists_every_key() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let guide = std::fs::read_to_string(file).unwrap();
    let schema = Config::json_schema();
    let mut expected = String::new();
    let mut tables = 0;
    let mut lines = guide.lines();
    while let Some(line) = lines.next() {
        expected.push_str(line);
        expected.push('\n');
        let Some(names) = line.strip_prefix("<!-- keys of ") else { continue };
        let names = names.strip_suffix(" -->").unwrap();
        let (definition, without) = names.split_once(" without ").unwrap_or((names, ""));
        let without: Vec<&str> = without.split(", ").collect();
        expected.push_str(&key_table(&schema["$defs"][definition], &without));
        expected.push('\n');
        tables += 1;
        // The old table ends with a blank line.
        lines.by_ref().find(|line| line.is_empty());
    }
    assert_eq!(tables, 6);
    if std::env::var_os("TOOLPOST_UPDATE_DOCS").is_some() {
        std::fs::write(file, &expected).unwrap();
    } else {
        assert!(
            guide == expected,
            "run the test with TOOLPOST_UPDATE_DOCS=1 and look at the changes"
        );
    }
}

fn key_table(definition: &Value, without: &[&str]) -> String {
    let mut table = "| key | default | meaning |\n|---|---|---|\n".to_owned();
    for (key, property) in definition["properties"].as_object().unwrap() {
        if without.contains(&key.as_str()) {
            continue;
        }
        let default = property.get("default").map(|default| format!("`{}` ", to_toml(default)));
        let default = default.unwrap_or_default();
        let description = property["description"].as_str().unwrap().replace('\n', " ");
        let description = description.strip_suffix('.').unwrap_or(&description);
        table.push_str(&format!("| `{key}` | {default}| {description} |\n"));
    }
    table
}

fn to_toml(value: &Value) -> String {
    match value {
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{key} = {}", to_toml(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(to_toml).collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}
