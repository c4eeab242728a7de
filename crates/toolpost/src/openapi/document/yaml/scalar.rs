//! Resolves scalars by the YAML 1.2 core schema, except where that would lose information.

use saphyr_parser::{ScalarStyle, Tag};
use serde_json::Number;

use super::super::tree::CompactValue;
use super::super::tree_builder::{BuildError, TreeBuilder};

const CORE_TAG_PREFIX: &str = "tag:yaml.org,2002:";

pub(super) fn resolve_scalar(
    builder: &mut TreeBuilder,
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
) -> Result<CompactValue, BuildError> {
    let meaning = match tag.and_then(core_tag_name) {
        Some("str") => None,
        Some("float") => parse_float(text),
        Some("bool" | "int" | "null") => resolve_plain(text),
        _ if style == ScalarStyle::Plain => resolve_plain(text),
        _ => None,
    };
    match meaning {
        None => builder.intern(text).map(CompactValue::Text),
        Some(ScalarValue::Null) => Ok(CompactValue::Null),
        Some(ScalarValue::Bool(is)) => Ok(CompactValue::Bool(is)),
        Some(ScalarValue::Number(number)) => builder.push_number(number),
    }
}

/// The value of a scalar that is not a string.
#[derive(Debug, PartialEq)]
enum ScalarValue {
    Null,
    Bool(bool),
    Number(Number),
}

/// Returns the name of a YAML core tag. The non-specific tag `!` counts as `str`.
fn core_tag_name(tag: &Tag) -> Option<&str> {
    if tag.handle == CORE_TAG_PREFIX {
        return Some(&tag.suffix);
    }
    match (tag.handle.as_str(), tag.suffix.as_str()) {
        ("", "!") | ("!", "") => Some("str"),
        (_, suffix) => suffix.strip_prefix(CORE_TAG_PREFIX),
    }
}

fn resolve_plain(text: &str) -> Option<ScalarValue> {
    match text.as_bytes() {
        [] | b"~" | b"null" | b"Null" | b"NULL" => Some(ScalarValue::Null),
        b"true" | b"True" | b"TRUE" => Some(ScalarValue::Bool(true)),
        b"false" | b"False" | b"FALSE" => Some(ScalarValue::Bool(false)),
        [b'0'..=b'9' | b'+' | b'-' | b'.', ..] => parse_number(text),
        _ => None,
    }
}

fn parse_number(text: &str) -> Option<ScalarValue> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(hex) = text.strip_prefix("0x") {
        return parse_radix(hex, 16);
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return parse_radix(octal, 8);
    }
    if digits.starts_with(['+', '-']) {
        return None;
    }
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse_integer(text, digits);
    }
    parse_float(text)
}

/// Parses a decimal integer. Digits with a leading zero, such as postal codes, stay strings.
fn parse_integer(text: &str, digits: &str) -> Option<ScalarValue> {
    if digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    if text == "-0" {
        // JSON has a negative zero, which only a float can represent.
        return parse_float(text);
    }
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let number = unsigned.parse::<u64>().map(Number::from);
    let number = number.or_else(|_| unsigned.parse::<i64>().map(Number::from));
    number.map_or_else(|_| parse_float(text), |number| Some(ScalarValue::Number(number)))
}

/// Parses a hexadecimal or octal integer. Digits beyond 64 bits, such as hashes, stay strings.
fn parse_radix(digits: &str, radix: u32) -> Option<ScalarValue> {
    if digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, radix).ok().map(|number| ScalarValue::Number(number.into()))
}

fn parse_float(text: &str) -> Option<ScalarValue> {
    match text.strip_prefix(['+', '-']).unwrap_or(text) {
        // JSON cannot represent these numbers.
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN" => return Some(ScalarValue::Null),
        digits if digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') => {}
        _ => return None,
    }
    let number = text.parse::<f64>().ok()?;
    Number::from_f64(number).map(ScalarValue::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn plain_scalars_resolve_by_core_schema() {
        let rows = [
            ("", json!(null)),
            ("~", json!(null)),
            ("NULL", json!(null)),
            ("nUll", json!("nUll")),
            ("True", json!(true)),
            ("yes", json!("yes")),
            ("on", json!("on")),
            ("200", json!(200)),
            ("+7", json!(7)),
            ("-7", json!(-7)),
            ("0", json!(0)),
            ("-0", json!(-0.0)),
            ("007", json!("007")),
            ("-07", json!("-07")),
            ("0x1F", json!(31)),
            ("0o17", json!(15)),
            ("0b1", json!("0b1")),
            ("0xdeadbeefdeadbeefdeadbeef", json!("0xdeadbeefdeadbeefdeadbeef")),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("18446744073709551616", json!(18446744073709551616_f64)),
            ("-9223372036854775809", json!(-9223372036854775809_f64)),
            ("1.5", json!(1.5)),
            ("-.5", json!(-0.5)),
            ("1.", json!(1.0)),
            ("1e3", json!(1000.0)),
            ("+1.5", json!(1.5)),
            ("1e999", json!("1e999")),
            (".inf", json!(null)),
            ("-.INF", json!(null)),
            (".nan", json!(null)),
            ("inf", json!("inf")),
            ("nan", json!("nan")),
            (".", json!(".")),
            ("-", json!("-")),
            ("+-1", json!("+-1")),
            ("1_000", json!("1_000")),
            ("1.2.3", json!("1.2.3")),
            ("2020-01-01", json!("2020-01-01")),
            ("12:30", json!("12:30")),
            ("é", json!("é")),
        ];
        for (text, expected) in rows {
            assert_eq!(resolve(text, ScalarStyle::Plain, None), expected, "{text}");
        }
    }

    #[test]
    fn quotes_and_tags_decide_scalar_type() {
        let core = |suffix: &str| Some((CORE_TAG_PREFIX, suffix.to_owned()));
        let rows = [
            ("1", ScalarStyle::SingleQuoted, None, json!("1")),
            ("true\n", ScalarStyle::Literal, None, json!("true\n")),
            ("1", ScalarStyle::Plain, core("str"), json!("1")),
            ("1", ScalarStyle::DoubleQuoted, core("int"), json!(1)),
            ("1", ScalarStyle::Plain, core("float"), json!(1.0)),
            ("true", ScalarStyle::DoubleQuoted, core("bool"), json!(true)),
            ("", ScalarStyle::Plain, core("str"), json!("")),
            ("x", ScalarStyle::Plain, core("int"), json!("x")),
            ("1", ScalarStyle::Plain, Some(("", "!".to_owned())), json!("1")),
            ("1", ScalarStyle::Plain, Some(("", format!("{CORE_TAG_PREFIX}str"))), json!("1")),
            ("1", ScalarStyle::Plain, Some(("!", "mine".to_owned())), json!(1)),
        ];
        for (text, style, tag, expected) in rows {
            let tag = tag.map(|(handle, suffix)| Tag { handle: handle.to_owned(), suffix });
            assert_eq!(resolve(text, style, tag.as_ref()), expected, "{text} {tag:?}");
        }
    }

    fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
        let mut builder = TreeBuilder::default();
        let root = resolve_scalar(&mut builder, text, style, tag).unwrap();
        builder.finish(root).tree.root().to_value()
    }
}
