//! Operations as short text, for models.

use std::fmt::Write;

use crate::operation::Operation;
use crate::prose::{first_sentence, one_line};
use crate::spec::OperationKind;

/// Maximum length of a sentence about an operation, and of its description, in characters.
const MAX_SENTENCE: usize = 120;
const MAX_DESCRIPTION: usize = 400;

/// Maximum number of required properties in a search result.
const MAX_REQUIRED: usize = 8;

/// Approximate maximum size of an input type in bytes.
const MAX_TYPE: usize = 3_000;

/// Approximate maximum size of a page of names in bytes.
const MAX_PAGE: usize = 3_500;

/// Maximum number of namespaces that are counted before the names.
const MAX_NAMESPACES: usize = 50;

/// Returns one page of names, grouped by namespace.
///
/// `operations` are the remaining ones. If they need more than one page, the page begins with
/// `counts`, the number of operations of each namespace.
pub(super) fn list_text<'o>(
    operations: impl Iterator<Item = &'o Operation>,
    counts: impl FnOnce() -> Vec<(&'o str, usize)>,
) -> String {
    let mut operations = operations.peekable();
    let (mut page, mut last) = (String::new(), None::<&Operation>);
    while let Some(operation) = operations.next_if(|_| page.len() < MAX_PAGE) {
        let namespace = operation.id().namespace();
        if last.is_none_or(|last| last.id().namespace() != namespace) {
            writeln!(page, "{namespace}:").expect("text can be written");
        }
        writeln!(page, "{}", operation.id().name()).expect("text can be written");
        last = Some(operation);
    }
    let Some(last) = last else { return "no operations".to_owned() };
    if operations.peek().is_some() {
        page = counts_line(&counts()) + &page;
        write!(page, "for more, call again with cursor {:?}", last.id().as_str())
            .expect("text can be written");
    }
    page.truncate(page.trim_end().len());
    page
}

fn counts_line(counts: &[(&str, usize)]) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let shown = counts.iter().take(MAX_NAMESPACES);
    let mut shown: Vec<String> = shown.map(|(name, count)| format!("{name} {count}")).collect();
    if counts.len() > MAX_NAMESPACES {
        shown.push(format!("and {} more", counts.len() - MAX_NAMESPACES));
    }
    format!("operations by namespace: {}\n", shown.join(", "))
}

/// Returns one line per hit.
pub(super) fn search_text<'o>(
    hits: impl ExactSizeIterator<Item = &'o Operation>,
    total: usize,
) -> String {
    let more = total - hits.len();
    let mut lines: Vec<String> = hits.map(search_line).collect();
    match (lines.is_empty(), more) {
        (true, 0) => lines.push("no operations found".to_owned()),
        (_, 0) => {}
        _ => lines.push(format!("{more} more; use more specific terms or a higher limit")),
    }
    lines.join("\n")
}

/// Adds a line about sources that are still starting.
pub(super) fn with_starting(mut text: String, starting: &[String]) -> String {
    if !starting.is_empty() {
        let names = starting.join(", ");
        write!(text, "\nstill starting, call again for their operations: {names}")
            .expect("text can be written");
    }
    text
}

fn search_line(operation: &Operation) -> String {
    let names = operation.spec().input_schema.property_names().required;
    let mut required = names.iter().take(MAX_REQUIRED).cloned().collect::<Vec<_>>();
    if names.len() > MAX_REQUIRED {
        required.push("…".to_owned());
    }
    let required = match required.as_slice() {
        [] => String::new(),
        names => format!(" ({})", names.join(", ")),
    };
    let sentence = sentence(operation);
    let separator = if sentence.is_empty() { "" } else { ": " };
    format!("{}{separator}{sentence}{required}{}", operation.id(), remarks(operation))
}

/// Returns the description of an operation and its input type.
pub(super) fn schema_text(operation: &Operation) -> String {
    let (id, spec) = (operation.id(), operation.spec());
    let description = one_line(&spec.description, MAX_DESCRIPTION);
    let input = spec.input_schema.type_text(MAX_TYPE);
    let kind = match spec.kind {
        OperationKind::Subscription => "",
        kind => &format!(" [{}]", kind.as_str()),
    };
    let mut text = format!("{id}{kind}{}\n", remarks(operation));
    if !description.is_empty() {
        text += &format!("{description}\n");
    }
    text += &format!("input: {}", input.text);
    if input.is_shortened {
        text += "\nparts marked … are omitted; call again with full = true for the complete schema";
    }
    text
}

/// Returns the first sentence of the description, or the title if the description has none or
/// begins with a note.
fn sentence(operation: &Operation) -> String {
    let spec = operation.spec();
    let sentence = first_sentence(&spec.description, MAX_SENTENCE);
    match &spec.title {
        Some(title) if sentence.is_empty() || is_note(&sentence) => one_line(title, MAX_SENTENCE),
        _ => sentence,
    }
}

fn is_note(sentence: &str) -> bool {
    let first_word =
        sentence.trim_start_matches('*').split(|one: char| !one.is_alphabetic()).next();
    first_word.is_some_and(|word| ["note", "warning"].contains(&word.to_lowercase().as_str()))
}

/// Returns what prevents calls with `hub.call`.
fn remarks(operation: &Operation) -> &'static str {
    if operation.spec().input_schema.over_budget().is_some() {
        return " [unavailable]";
    }
    match (operation.spec().kind, operation.is_offline()) {
        (OperationKind::Subscription, false) => " [subscription]",
        (OperationKind::Subscription, true) => " [subscription, offline]",
        (_, false) => "",
        (_, true) => " [offline]",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Schema;
    use crate::spec::OperationSpec;

    fn operation(id: &str, description: &str, required: &[&str]) -> Operation {
        let mut spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Mutation);
        spec.description = description.to_owned();
        spec.title = Some("The title".to_owned());
        let properties =
            required.iter().map(|name| ((*name).to_owned(), json!({"type": "string"})));
        let properties: crate::json::JsonObject = properties.collect();
        let schema = json!({"type": "object", "properties": properties, "required": required});
        spec.input_schema = Schema::new(schema).unwrap();
        Operation::from_spec(spec).build().unwrap()
    }

    /// Each row: an operation with its required properties, and its line.
    #[test]
    fn search_line_has_id_sentence_and_required_inputs() {
        let many = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        for (id, description, required, expected) in [
            ("a.b/c", "Does it. Or not.", &["x", "y"][..], "a.b/c: Does it. (x, y)"),
            ("a.b", "", &[], "a.b: The title"),
            ("a.b", "**Note**: It is old. Does it.", &[], "a.b: The title"),
            ("a.b", "Notes it down", &[], "a.b: Notes it down"),
            ("a.b", "Does\nit", &many, "a.b: Does it (a, b, c, d, e, f, g, h, …)"),
        ] {
            assert_eq!(search_line(&operation(id, description, required)), expected);
        }
        let long = search_line(&operation("a.b", &"word ".repeat(100), &[]));
        assert!(long.len() < 140 && long.ends_with("word…"), "{long}");
    }

    #[test]
    fn search_text_counts_hits_beyond_the_limit() {
        let hit = operation("a.b", "Does it", &[]);
        let hint = "use more specific terms or a higher limit";
        for (total, expected) in
            [(1, "a.b: Does it".to_owned()), (9, format!("a.b: Does it\n8 more; {hint}"))]
        {
            assert_eq!(search_text([&hit].into_iter(), total), expected);
        }
        assert_eq!(search_text([].into_iter(), 0), "no operations found");
    }

    #[test]
    fn schema_text_has_description_and_input_type() {
        let text = schema_text(&operation("a.b", "Does it.\n\nTwice.", &["x"]));
        assert_eq!(text, "a.b [mutation]\nDoes it. Twice.\ninput: {\n  x: string\n}");
    }

    #[test]
    fn list_text_pages_names_by_namespace() {
        let name = "x".repeat(80);
        let ids = (0..100).map(|number| format!("b.{number:03}{name}"));
        let operations: Vec<Operation> =
            ["a.one".to_owned()].into_iter().chain(ids).map(|id| operation(&id, "", &[])).collect();
        let counts = || vec![("a", 1), ("b", 100)];
        assert_eq!(list_text(operations[..1].iter(), counts), "a:\none");
        assert_eq!(list_text([].iter(), counts), "no operations");
        let page = list_text(operations.iter(), counts);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines[..4], ["operations by namespace: a 1, b 100", "a:", "one", "b:"]);
        let last = lines[lines.len() - 2];
        let hint = format!(r#"for more, call again with cursor "b.{last}""#);
        assert_eq!(*lines.last().unwrap(), hint);
        assert!(page.len() < MAX_PAGE + 200, "{}", page.len());
    }
}
