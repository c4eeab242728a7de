//! Replaces the connection keys of a source and preserves everything else.

use toml_edit::{InlineTable, Item, RawString, TableLike, Value};

use super::set_value;

/// Sets the keys of `new` in the table at `key` and removes those of `ours` that `new` does not
/// have. A value that is not a table is replaced. Comments above a removed key move above the first
/// written key.
pub(super) fn merge_into(table: &mut dyn TableLike, key: &str, new: &InlineTable, ours: &[&str]) {
    match table.get_mut(key) {
        Some(Item::Value(Value::InlineTable(old))) => {
            replace_keys(old, new, |key| ours.contains(&key));
            old.fmt();
        }
        Some(Item::Table(old)) => replace_keys(old, new, |key| ours.contains(&key)),
        _ => set_value(table, key, new.clone()),
    }
}

fn replace_keys(old: &mut dyn TableLike, new: &InlineTable, is_ours: impl Fn(&str) -> bool) {
    let mut homeless = String::new();
    let removed: Vec<String> = old
        .iter()
        .map(|(key, _)| key.to_owned())
        .filter(|key| is_ours(key) && !new.contains_key(key))
        .collect();
    for key in removed {
        homeless.push_str(&leading_comments(old, &key));
        old.remove(&key);
    }
    for (key, value) in new {
        set_or_merge(old, key, value);
    }
    if let Some((first, _)) = new.iter().next().filter(|_| !homeless.is_empty())
        && let Some(mut key) = old.key_mut(first)
    {
        let decor = key.leaf_decor_mut();
        let own = decor.prefix().and_then(RawString::as_str).unwrap_or_default();
        let all = format!("{homeless}{own}");
        decor.set_prefix(all);
    }
}

/// Sets a value. An existing table stays a table if the new value is one.
fn set_or_merge(old: &mut dyn TableLike, key: &str, value: &Value) {
    match (old.get_mut(key), value) {
        (Some(Item::Table(table)), Value::InlineTable(new)) => replace_keys(table, new, |_| true),
        (Some(Item::Value(Value::InlineTable(table))), Value::InlineTable(new)) => {
            replace_keys(table, new, |_| true);
            table.fmt();
        }
        (Some(item @ Item::Table(_)), _) => *item = Item::Value(value.clone()),
        _ => set_value(old, key, value.clone()),
    }
}

fn leading_comments(table: &dyn TableLike, key: &str) -> String {
    let key = table.key(key);
    let above = key.and_then(|key| key.leaf_decor().prefix()).and_then(RawString::as_str);
    above.filter(|above| above.contains('#')).unwrap_or_default().to_owned()
}
