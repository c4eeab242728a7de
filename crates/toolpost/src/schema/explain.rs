//! Describes why a value is invalid: the errors are those of our own verdict, bounded in number and
//! size.

use std::collections::HashSet;
use std::fmt::Write;

use serde_json::Value;

use super::Issue;
use super::budget::Budget;
use super::dialect;
use super::issue::{MISSING_PROPERTY, truncate};
use super::program::{
    AdditionalProperties, Applicators, ArrayRules, Bound, MAX_DEPTH, NodeId, ObjectRules,
    SchemaNode, SchemaProgram, StringRules, TypeSet, Union,
};
use super::repair::Extras;
use super::validate::{EvaluatedSet, Evaluator, address};
use crate::json::{JsonObject, ValuePath};

/// Maximum number of errors that are reported for a value.
pub(super) const MAX_ISSUES: usize = 20;

/// Maximum number of characters of a value, a name list or a pattern in a message.
const MAX_QUOTE: usize = 200;

/// Memory of an entry of the described nodes and values.
const EXPLAINED_MEMORY: usize = 48;

/// Maximum number of bytes of a path.
const MAX_PATH: usize = 1_000;

/// Describes the errors of an invalid value, at most [`MAX_ISSUES`]; never empty.
///
/// If the budget is exceeded, the errors found so far are returned.
pub(super) fn explain(program: &SchemaProgram, value: &Value, budget: &Budget<'_>) -> Vec<Issue> {
    let mut explainer = Explainer {
        evaluator: Evaluator::with_budget(program, Extras::Keep, budget),
        explained: HashSet::default(),
        issues: Vec::new(),
    };
    explainer.visit(program.root, value, &ValuePath::ROOT);
    if explainer.issues.is_empty() {
        explainer.issues.push(Issue::new("", "the value does not match its schema"));
    }
    explainer.issues
}

/// Returns the error of a value that nests too deeply to be validated.
pub(super) fn depth_issue(value: &Value) -> Issue {
    match dialect::first_path_too_deep(value) {
        Some(path) => {
            let message = format!("nests deeper than {MAX_DEPTH} levels");
            Issue::new(truncate(&path, MAX_PATH), message)
        }
        None => Issue::new("", "value and schema nest too deeply together to be validated"),
    }
}

struct Explainer<'p> {
    evaluator: Evaluator<'p>,
    /// Nodes and values described so far.
    explained: HashSet<(NodeId, usize), foldhash::fast::FixedState>,
    issues: Vec<Issue>,
}

impl<'p> Explainer<'p> {
    fn is_full(&self) -> bool {
        self.issues.len() >= MAX_ISSUES || self.evaluator.budget.is_exceeded()
    }

    fn push(&mut self, at: &ValuePath<'_>, message: String) {
        if !self.is_full() {
            let path = at.pointer();
            self.issues.push(Issue::new(truncate(path.as_str(), MAX_PATH), message));
        }
    }

    /// Describes the errors of a value under a node, if it is invalid.
    fn visit(&mut self, id: NodeId, value: &Value, at: &ValuePath<'_>) {
        if self.is_full() {
            return;
        }
        let node = self.evaluator.program.node(id);
        // Where one schema applies, each value is visited once. Elsewhere only invalid parts are.
        if (node.applicators.is_some() || node.memoize)
            && (self.evaluator.check_valid(id, value)
                || !self.evaluator.budget.allocate(EXPLAINED_MEMORY)
                || !self.explained.insert((id, address(value))))
        {
            return;
        }
        if self.evaluator.enter() {
            self.describe(id, value, at);
            self.evaluator.leave();
        }
    }

    fn describe(&mut self, id: NodeId, value: &Value, at: &ValuePath<'_>) {
        let program = self.evaluator.program;
        let node = program.node(id);
        if node.type_only && node.types == TypeSet::NONE {
            return self.push(at, format!("False schema does not allow {}", quote(value)));
        }
        if !node.declared_types.overlaps(program.type_of(value)) {
            self.push(at, type_message(node.declared_types, value));
        }
        if let Some(literals) = &node.literals
            && !self.evaluator.admits_literal(node, value)
        {
            self.push(at, literal_message(literals, value));
        }
        match value {
            Value::Number(_) | Value::String(_) => self.describe_scalar(node, value, at),
            Value::Array(items) => {
                if let Some(rules) = node.array.as_deref() {
                    self.describe_array(rules, items, value, at);
                }
            }
            Value::Object(map) => {
                if let Some(rules) = node.object.as_deref() {
                    self.describe_object(rules, map, value, at);
                }
            }
            _ => {}
        }
        if let Some(applicators) = node.applicators.as_deref() {
            self.describe_applicators(id, applicators, value, at);
        }
    }

    fn describe_scalar(&mut self, node: &SchemaNode, value: &Value, at: &ValuePath<'_>) {
        if let (Value::Number(number), Some(rules)) = (value, node.number.as_deref()) {
            for bound in rules.bounds.iter().filter(|bound| !bound.admits(number)) {
                self.push(at, bound_message(bound, value));
            }
            if let Some(multiple) = rules.multiple.as_ref().filter(|it| !it.divides(number)) {
                let divisor = &multiple.divisor;
                self.push(at, format!("{} is not a multiple of {divisor}", quote(value)));
            }
        }
        if let (Value::String(text), Some(rules)) = (value, node.string.as_deref()) {
            self.describe_string(rules, text, value, at);
        }
    }

    fn describe_string(
        &mut self,
        rules: &StringRules,
        text: &str,
        value: &Value,
        at: &ValuePath<'_>,
    ) {
        if !rules.admits_length(text) {
            let length = text.chars().count();
            let bounds = Lengths { length, min: rules.min, max: rules.max };
            self.push(
                at,
                bounds.message(value, ["longer", "shorter"], ["character", "characters"]),
            );
        }
        if let Some(pattern) = &rules.pattern
            && !pattern.matches(text, self.evaluator.budget)
        {
            let source = truncate(pattern.source(), MAX_QUOTE);
            self.push(at, format!("{} does not match \"{source}\"", quote(value)));
        }
        if let Some(expected) = rules.content.as_ref().and_then(|content| content.violation(text)) {
            self.push(at, format!("{} is not compliant with {expected}", quote(value)));
        }
    }

    fn describe_array(
        &mut self,
        rules: &'p ArrayRules,
        items: &[Value],
        value: &Value,
        at: &ValuePath<'_>,
    ) {
        if !rules.admits_length(items.len()) {
            let bounds = Lengths { length: items.len(), min: rules.min, max: rules.max };
            self.push(at, bounds.message(value, ["more", "less"], ["item", "items"]));
        }
        if rules.unique && !super::equality::are_unique(items, self.evaluator.budget) {
            self.push(at, format!("{} has non-unique elements", quote(value)));
        }
        for (index, item) in items.iter().enumerate() {
            let Some(node) = rules.item(index) else { break };
            if self.is_full() {
                return;
            }
            self.visit(node, item, &at.item(index));
        }
        if let Some(contains) = &rules.contains {
            let matching =
                items.iter().filter(|item| self.evaluator.check_valid(contains.node, item));
            let matching = matching.count();
            if matching < contains.min {
                self.push(at, format!("None of {} are valid under the given schema", quote(value)));
            } else if contains.max.is_some_and(|max| matching > max) {
                let message = format!("{} has too many items that match 'contains'", quote(value));
                self.push(at, message);
            }
        }
    }

    fn describe_object(
        &mut self,
        rules: &'p ObjectRules,
        map: &JsonObject,
        value: &Value,
        at: &ValuePath<'_>,
    ) {
        if !rules.admits_size(map.len()) {
            let bounds = Lengths { length: map.len(), min: rules.min, max: rules.max };
            self.push(at, bounds.message(value, ["more", "less"], ["property", "properties"]));
        }
        let required = rules.properties.entries().iter().filter(|property| property.required);
        for property in required.filter(|property| !map.contains_key(&*property.name)) {
            self.push(&at.member(&property.name), MISSING_PROPERTY.to_owned());
        }
        for (_, names) in
            rules.dependent_required.iter().filter(|(name, _)| map.contains_key(&**name))
        {
            for name in names.iter().filter(|name| !map.contains_key(&***name)) {
                self.push(&at.member(name), MISSING_PROPERTY.to_owned());
            }
        }
        self.describe_members(rules, map, at);
        if let Some(names) = rules.property_names {
            for name in map.keys() {
                if self.is_full() {
                    return;
                }
                let name = Value::String(name.clone());
                if !self.evaluator.check_valid_detached(names, &name) {
                    self.push(at, format!("{} is not a valid property name", quote(&name)));
                }
            }
        }
    }

    fn describe_members(&mut self, rules: &'p ObjectRules, map: &JsonObject, at: &ValuePath<'_>) {
        let mut unexpected = NameList::default();
        for (name, child) in map {
            if self.is_full() {
                return;
            }
            let declared = rules.properties.get(name).and_then(|property| property.node);
            let budget = self.evaluator.budget;
            let matching =
                rules.patterns.iter().filter(|(pattern, _)| pattern.matches(name, budget));
            let mut is_known = false;
            for node in declared.into_iter().chain(matching.map(|found| found.1)) {
                is_known = true;
                self.visit(node, child, &at.member(name));
            }
            match rules.additional {
                _ if is_known => {}
                AdditionalProperties::Forbidden => unexpected.push(name),
                AdditionalProperties::Schema(node) => self.visit(node, child, &at.member(name)),
                _ => {}
            }
        }
        if let Some(names) = unexpected.finish() {
            self.push(at, format!("Additional properties are not allowed ({names} unexpected)"));
        }
    }

    fn describe_applicators(
        &mut self,
        id: NodeId,
        applicators: &'p Applicators,
        value: &Value,
        at: &ValuePath<'_>,
    ) {
        let before = self.issues.len();
        for part in &applicators.all {
            self.visit(*part, value, at);
        }
        for union in &applicators.unions {
            self.describe_union(union, value, at);
        }
        if let Some(not) = applicators.not
            && self.evaluator.check_valid(not, value)
        {
            self.push(at, format!("{} is not allowed by the 'not' keyword", quote(value)));
        }
        if let Some(condition) = &applicators.condition {
            let holds = self.evaluator.check_valid(condition.test, value);
            let branch = if holds { condition.then } else { condition.otherwise };
            if let Some(branch) = branch {
                self.visit(branch, value, at);
            }
        }
        if let Value::Object(map) = value {
            for (_, node) in
                applicators.dependents.iter().filter(|(name, _)| map.contains_key(&**name))
            {
                self.visit(*node, value, at);
            }
        }
        // What these keywords see is known only if everything else is valid.
        if self.issues.len() == before {
            self.describe_unevaluated(id, applicators, value, at);
        }
    }

    fn describe_union(&mut self, union: &'p Union, value: &Value, at: &ValuePath<'_>) {
        self.evaluator.budget.spend(union.variants.len());
        let mut valid =
            union.variants.iter().filter(|node| self.evaluator.check_valid(**node, value));
        let keyword = if union.exactly_one { "oneOf" } else { "anyOf" };
        if valid.next().is_none() {
            let list = format!("of the schemas listed in the '{keyword}' keyword");
            self.push(at, format!("{} is not valid under any {list}", quote(value)));
        } else if union.exactly_one && valid.next().is_some() {
            let list = "of the schemas listed in the 'oneOf' keyword";
            self.push(at, format!("{} is valid under more than one {list}", quote(value)));
        }
    }

    fn describe_unevaluated(
        &mut self,
        id: NodeId,
        applicators: &'p Applicators,
        value: &Value,
        at: &ValuePath<'_>,
    ) {
        let (rest, kind) = match value {
            Value::Object(_) => (applicators.unevaluated_properties, "properties"),
            Value::Array(_) => (applicators.unevaluated_items, "items"),
            _ => return,
        };
        let Some(rest) = rest else { return };
        let mut evaluated = EvaluatedSet::default();
        if !self.evaluator.evaluated_by_others(id, value, &mut evaluated) {
            return;
        }
        let mut unexpected = NameList::default();
        let mut judge = |at: usize, name: &dyn Fn() -> String, child: &Value| {
            if !evaluated.contains(at) && !self.evaluator.check_valid(rest, child) {
                unexpected.push(&name());
            }
        };
        match value {
            Value::Object(map) => map
                .iter()
                .enumerate()
                .for_each(|(at, (name, child))| judge(at, &|| name.clone(), child)),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, item)| judge(at, &|| at.to_string(), item));
            }
            _ => {}
        }
        if let Some(names) = unexpected.finish() {
            self.push(at, format!("Unevaluated {kind} are not allowed ({names} unexpected)"));
        }
    }
}

fn type_message(types: TypeSet, value: &Value) -> String {
    let names: Vec<String> = types.names().map(|name| format!("\"{name}\"")).collect();
    let noun = if names.len() == 1 { "type" } else { "types" };
    format!("{} is not of {noun} {}", quote(value), names.join(", "))
}

fn literal_message(literals: &[Value], value: &Value) -> String {
    if let [only] = literals {
        return format!("{} was expected", quote(only));
    }
    let mut list = NameList { is_quoted: false, ..NameList::default() };
    literals.iter().for_each(|literal| list.push(&quote(literal)));
    format!("{} is not one of {}", quote(value), list.text)
}

fn bound_message(bound: &Bound, value: &Value) -> String {
    let is_minimum = bound.side.is_gt();
    let (relation, limit) =
        if is_minimum { ("less than", "minimum") } else { ("greater than", "maximum") };
    let equal = if bound.inclusive { "" } else { " or equal to" };
    format!("{} is {relation}{equal} the {limit} of {}", quote(value), bound.limit)
}

/// A length and its limits.
struct Lengths {
    length: usize,
    min: usize,
    max: Option<usize>,
}

impl Lengths {
    fn message(&self, value: &Value, [above, below]: [&str; 2], [one, many]: [&str; 2]) -> String {
        let is_short = self.length < self.min;
        let limit = if is_short { self.min } else { self.max.unwrap_or(usize::MAX) };
        let relation = if is_short { below } else { above };
        let verb = if value.is_string() { "is" } else { "has" };
        let unit = if limit == 1 { one } else { many };
        format!("{} {verb} {relation} than {limit} {unit}", quote(value))
    }
}

/// A list of names in a message, of bounded length.
struct NameList {
    text: String,
    count: usize,
    is_quoted: bool,
}

impl Default for NameList {
    fn default() -> Self {
        Self { text: String::new(), count: 0, is_quoted: true }
    }
}

impl NameList {
    fn push(&mut self, name: &str) {
        self.count += 1;
        if self.text.len() > MAX_QUOTE {
            return;
        }
        if self.count > 1 {
            self.text.push_str(", ");
        }
        match self.is_quoted {
            true => _ = write!(self.text, "'{}'", truncate(name, MAX_QUOTE)),
            false => self.text.push_str(name),
        }
        if self.text.len() > MAX_QUOTE {
            self.text.push_str(", …");
        }
    }

    fn finish(self) -> Option<String> {
        let verb = if self.count == 1 { "was" } else { "were" };
        (self.count > 0).then(|| format!("{} {verb}", self.text))
    }
}

/// Writes the start of a value as JSON. The rest of a large value is not visited.
fn quote(value: &Value) -> String {
    let mut writer = QuoteWriter { bytes: Vec::new() };
    let is_complete = serde_json::to_writer(&mut writer, value).is_ok();
    let text = String::from_utf8_lossy(&writer.bytes);
    match is_complete {
        true => truncate(&text, MAX_QUOTE).into_owned(),
        false => {
            let text = truncate(&text, MAX_QUOTE);
            format!("{}…", text.trim_end_matches(['…', char::REPLACEMENT_CHARACTER]))
        }
    }
}

struct QuoteWriter {
    bytes: Vec<u8>,
}

impl std::io::Write for QuoteWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = (4 * MAX_QUOTE).saturating_sub(self.bytes.len());
        if room == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(room);
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
