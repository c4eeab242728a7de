//! Keywords that apply further schemas to the same value.

use referencing::Draft;
use serde_json::Value;

use super::super::program::{
    Applicators, Condition, DependentSchema, Discriminator, NodeId, Union,
};
use super::object::entries;
use super::reference::{ignores_ref_siblings, reference_in};
use super::{ANY, CompileScope, SchemaCompiler, SchemaError};
use crate::json::JsonObject;

impl<'r> SchemaCompiler<'r> {
    pub(super) fn applicators(
        &mut self,
        schema: &'r JsonObject,
        scope: &CompileScope<'r>,
    ) -> Result<Option<Applicators>, SchemaError> {
        let all = self.all(schema, scope)?;
        if ignores_ref_siblings(schema, scope.draft) {
            return Ok(Some(Applicators { all, ..Applicators::default() }));
        }
        let recent =
            matches!(scope.draft, Draft::Draft201909 | Draft::Draft202012 | Draft::Unknown);
        let mut compiled = Applicators {
            all,
            unions: self.unions(schema, scope)?,
            not: self.optional_schema(schema, "not", scope)?,
            condition: self.condition(schema, scope)?,
            dependents: self.dependents(schema, scope)?,
            ..Applicators::default()
        };
        if recent {
            compiled.unevaluated_properties =
                self.optional_schema(schema, "unevaluatedProperties", scope)?;
            compiled.unevaluated_items = self.optional_schema(schema, "unevaluatedItems", scope)?;
        }
        let has_applicators = !compiled.all.is_empty()
            || compiled.has_choices()
            || compiled.not.is_some()
            || !compiled.dependents.is_empty()
            || compiled.unevaluated_properties.is_some()
            || compiled.unevaluated_items.is_some();
        Ok(has_applicators.then_some(compiled))
    }

    /// Compiles references and `allOf`, without unconstrained and duplicate nodes.
    fn all(
        &mut self,
        schema: &'r JsonObject,
        scope: &CompileScope<'r>,
    ) -> Result<Box<[NodeId]>, SchemaError> {
        let mut all = Vec::new();
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = reference_in(schema, keyword, scope.draft) {
                let (target, inside) = self.resolve_ref(keyword, reference, scope)?;
                all.push(self.node(target, &inside)?);
            }
        }
        if !ignores_ref_siblings(schema, scope.draft)
            && let Some(Value::Array(parts)) = schema.get("allOf")
        {
            for part in parts {
                all.push(self.node(part, scope)?);
            }
        }
        let mut seen = std::collections::HashSet::new();
        all.retain(|node| *node != ANY && seen.insert(*node));
        Ok(all.into())
    }

    fn unions(
        &mut self,
        schema: &'r JsonObject,
        scope: &CompileScope<'r>,
    ) -> Result<Box<[Union]>, SchemaError> {
        let mut unions = Vec::new();
        for (keyword, exactly_one) in [("anyOf", false), ("oneOf", true)] {
            let Some(Value::Array(schemas)) = schema.get(keyword) else {
                continue;
            };
            let variants = schemas
                .iter()
                .map(|variant| self.node(variant, scope))
                .collect::<Result<Box<[_]>, _>>()?;
            let discriminator = self.discriminator(schema, schemas, &variants, scope)?;
            unions.push(Union { variants, exactly_one, discriminator });
        }
        Ok(unions.into())
    }

    /// Compiles `discriminator`. Tags are the last segment of a reference and names in `mapping`.
    fn discriminator(
        &mut self,
        schema: &'r JsonObject,
        schemas: &'r [Value],
        variants: &[NodeId],
        scope: &CompileScope<'r>,
    ) -> Result<Option<Discriminator>, SchemaError> {
        let Some(Value::Object(keyword)) = schema.get("discriminator") else {
            return Ok(None);
        };
        let Some(property) = keyword.get("propertyName").and_then(Value::as_str) else {
            return Ok(None);
        };
        let mut tagged_variants: Vec<(Box<str>, NodeId)> = Vec::new();
        for (name, target) in entries(keyword, "mapping") {
            if let Some(node) = self.mapped_variant(target.as_str(), schemas, variants, scope) {
                tagged_variants.push((name.as_str().into(), node));
            }
        }
        for (variant, node) in schemas.iter().zip(variants) {
            if let Some(reference) = variant.get("$ref").and_then(Value::as_str) {
                tagged_variants.push((last_segment(reference).into(), *node));
            }
        }
        Ok(Some(Discriminator { property: property.into(), variants: tagged_variants.into() }))
    }

    /// Returns the variant of a `mapping` entry, found by its reference or by its bare name.
    fn mapped_variant(
        &mut self,
        target: Option<&str>,
        schemas: &'r [Value],
        variants: &[NodeId],
        scope: &CompileScope<'r>,
    ) -> Option<NodeId> {
        let target = target?;
        let references = schemas.iter().map(|variant| variant.get("$ref").and_then(Value::as_str));
        let by_text = references.zip(variants).find(|(reference, _)| {
            reference.is_some_and(|found| found == target || last_segment(found) == target)
        });
        if let Some((_, node)) = by_text {
            return Some(*node);
        }
        let (schema, inside) = self.resolve_ref("$ref", target, scope).ok()?;
        self.node(schema, &inside).ok().filter(|node| variants.contains(node))
    }

    fn condition(
        &mut self,
        schema: &'r JsonObject,
        scope: &CompileScope<'r>,
    ) -> Result<Option<Condition>, SchemaError> {
        if matches!(scope.draft, Draft::Draft4 | Draft::Draft6) {
            return Ok(None);
        }
        let Some(test) = self.optional_schema(schema, "if", scope)? else {
            return Ok(None);
        };
        let then = self.optional_schema(schema, "then", scope)?;
        let otherwise = self.optional_schema(schema, "else", scope)?;
        Ok(Some(Condition { test, then, otherwise }))
    }

    fn dependents(
        &mut self,
        schema: &'r JsonObject,
        scope: &CompileScope<'r>,
    ) -> Result<Box<[DependentSchema]>, SchemaError> {
        let recent = !matches!(scope.draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7);
        entries(schema, "dependentSchemas")
            .filter(|_| recent)
            .chain(entries(schema, "dependencies").filter(|(_, value)| !value.is_array()))
            .map(|(trigger, schema)| Ok((trigger.as_str().into(), self.node(schema, scope)?)))
            .collect()
    }
}

fn last_segment(reference: &str) -> &str {
    reference.rsplit(['/', '#']).next().unwrap_or(reference)
}
