//! Object and array keywords, whose subschemas apply to children of the value.

use std::collections::HashMap;

use referencing::Draft;
use serde_json::Value;

use super::super::program::{
    AdditionalProperties, ArrayRules, Contains, DependentRequired, NodeId, ObjectRules,
    PatternMatcher, Property, PropertyTable,
};
use super::super::validate::address;
use super::defaults::DefaultChoice;
use super::keyword::size;
use super::{ANY, CompileScope, NEVER, SchemaCompiler, SchemaError};
use crate::json::JsonObject;

/// Keywords that constrain objects. A schema without any of them has no object rules.
const OBJECT_KEYWORDS: [&str; 9] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "required",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependencies",
];

/// Memory of a property in the table, without its name.
const PROPERTY_MEMORY: usize = 192;

const ARRAY_KEYWORDS: [&str; 6] =
    ["prefixItems", "items", "contains", "minItems", "maxItems", "uniqueItems"];

impl<'r> SchemaCompiler<'r> {
    pub(super) fn object(
        &mut self,
        id: NodeId,
        schema: &'r JsonObject,
        scope: &CompileScope<'r>,
    ) -> Result<Option<ObjectRules>, SchemaError> {
        if !OBJECT_KEYWORDS.iter().any(|keyword| schema.contains_key(*keyword)) {
            return Ok(None);
        }
        let names = self.properties(id, schema, scope)?;
        let patterns = self.patterns(schema, scope)?;
        let additional = match schema.get("additionalProperties") {
            None => AdditionalProperties::Unspecified,
            Some(schema) => match self.node(schema, scope)? {
                ANY => AdditionalProperties::Allowed,
                NEVER => AdditionalProperties::Forbidden,
                node => AdditionalProperties::Schema(node),
            },
        };
        let dependent_required = dependent_required(schema, scope.draft);
        let has_property_schemas = names.iter().any(|property| property.node.is_some());
        Ok(Some(ObjectRules {
            required: names.iter().filter(|property| property.required).count(),
            defaults: names.iter().filter(|property| property.default.is_some()).count(),
            declares_properties: has_property_schemas
                || !patterns.is_empty()
                || additional == AdditionalProperties::Forbidden,
            properties: PropertyTable::new(names),
            tags: Box::default(),
            patterns: patterns.into(),
            additional,
            property_names: self.optional_schema(schema, "propertyNames", scope)?,
            min: size(schema, "minProperties").unwrap_or(0),
            max: size(schema, "maxProperties"),
            dependent_steps: dependent_required.iter().map(|(_, names)| 1 + names.len()).sum(),
            dependent_required,
        }))
    }

    fn properties(
        &mut self,
        id: NodeId,
        schema: &'r JsonObject,
        scope: &CompileScope<'r>,
    ) -> Result<Vec<Property>, SchemaError> {
        let mut names = Vec::new();
        for (name, property) in entries(schema, "properties") {
            self.spend(1)?;
            self.budget.allocate(PROPERTY_MEMORY + 2 * name.len());
            let candidates = self.default_candidates(property, scope)?;
            if !candidates.is_empty() {
                let (index, schema) = (names.len(), address(property));
                self.defaults.push(DefaultChoice { owner: id, index, schema, candidates });
            }
            let node = Some(self.node(property, scope)?);
            names.push(Property { name: name.as_str().into(), node, ..Property::default() });
        }
        let mut index_by_name: HashMap<Box<str>, usize> =
            names.iter().enumerate().map(|(at, entry)| (entry.name.clone(), at)).collect();
        for name in strings(schema.get("required")) {
            let at = *index_by_name.entry(name.into()).or_insert_with(|| {
                names.push(Property { name: name.into(), ..Property::default() });
                names.len() - 1
            });
            names[at].required = true;
        }
        Ok(names)
    }

    fn patterns(
        &mut self,
        schema: &'r JsonObject,
        scope: &CompileScope<'r>,
    ) -> Result<Vec<(PatternMatcher, NodeId)>, SchemaError> {
        let mut patterns = Vec::new();
        for (pattern, property) in entries(schema, "patternProperties") {
            patterns.push((self.pattern(pattern)?, self.node(property, scope)?));
        }
        Ok(patterns)
    }

    pub(super) fn array(
        &mut self,
        schema: &'r JsonObject,
        scope: &CompileScope<'r>,
    ) -> Result<Option<ArrayRules>, SchemaError> {
        if !ARRAY_KEYWORDS.iter().any(|keyword| schema.contains_key(*keyword)) {
            return Ok(None);
        }
        let modern = matches!(scope.draft, Draft::Draft202012 | Draft::Unknown);
        let (prefix, rest) = match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(prefix)), rest) if modern => (prefix.as_slice(), rest),
            (_, Some(Value::Array(prefix))) => (prefix.as_slice(), schema.get("additionalItems")),
            (_, rest) => (&[][..], rest),
        };
        let prefix =
            prefix.iter().map(|item| self.node(item, scope)).collect::<Result<Box<[_]>, _>>()?;
        let rest = rest.map(|rest| self.node(rest, scope)).transpose()?;
        Ok(Some(ArrayRules {
            min: size(schema, "minItems").unwrap_or(0),
            max: size(schema, "maxItems"),
            unique: schema.get("uniqueItems") == Some(&Value::Bool(true)),
            prefix,
            rest,
            contains: self.contains(schema, scope)?,
        }))
    }

    fn contains(
        &mut self,
        schema: &'r JsonObject,
        scope: &CompileScope<'r>,
    ) -> Result<Option<Contains>, SchemaError> {
        let counted = !matches!(scope.draft, Draft::Draft6 | Draft::Draft7);
        let Some(node) = self.optional_schema(schema, "contains", scope)? else {
            return Ok(None);
        };
        if scope.draft == Draft::Draft4 {
            return Ok(None);
        }
        Ok(Some(Contains {
            node,
            min: size(schema, "minContains").filter(|_| counted).unwrap_or(1),
            max: size(schema, "maxContains").filter(|_| counted),
            evaluates: matches!(scope.draft, Draft::Draft202012 | Draft::Unknown),
        }))
    }

    /// Returns the node of a keyword that holds one schema.
    pub(super) fn optional_schema(
        &mut self,
        schema: &'r JsonObject,
        keyword: &str,
        scope: &CompileScope<'r>,
    ) -> Result<Option<NodeId>, SchemaError> {
        schema.get(keyword).map(|schema| self.node(schema, scope)).transpose()
    }
}

/// Returns the entries of a keyword whose value is a map.
pub(super) fn entries<'r>(
    schema: &'r JsonObject,
    keyword: &str,
) -> impl Iterator<Item = (&'r String, &'r Value)> {
    schema.get(keyword).and_then(Value::as_object).into_iter().flatten()
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Compiles `dependentRequired`, and the name lists of `dependencies` in every draft.
fn dependent_required(schema: &JsonObject, draft: Draft) -> Box<[DependentRequired]> {
    let modern = matches!(draft, Draft::Draft201909 | Draft::Draft202012 | Draft::Unknown);
    entries(schema, "dependentRequired")
        .filter(|_| modern)
        .chain(entries(schema, "dependencies").filter(|(_, value)| value.is_array()))
        .map(|(trigger, names)| {
            (trigger.as_str().into(), strings(Some(names)).map(Box::from).collect())
        })
        .collect()
}
