//! The keywords that apply further schemas to the same place.

use referencing::Draft;
use serde_json::{Map, Value};

use super::super::program::{Condition, Dependent, Discriminator, Logic, NodeId, Union};
use super::object::members;
use super::reference::{reference_in, replaces_siblings};
use super::{ANY, Compiler, SchemaError, Scope};

impl<'r> Compiler<'r> {
    pub(super) fn logic(
        &mut self,
        schema: &'r Map<String, Value>,
        scope: &Scope<'r>,
    ) -> Result<Option<Logic>, SchemaError> {
        let all = self.all(schema, scope)?;
        if replaces_siblings(schema, scope.draft) {
            return Ok(Some(Logic { all, ..Logic::default() }));
        }
        let recent =
            matches!(scope.draft, Draft::Draft201909 | Draft::Draft202012 | Draft::Unknown);
        let mut logic = Logic {
            all,
            unions: self.unions(schema, scope)?,
            not: self.optional(schema, "not", scope)?,
            condition: self.condition(schema, scope)?,
            dependents: self.dependents(schema, scope)?,
            ..Logic::default()
        };
        if recent {
            logic.unevaluated_properties = self.optional(schema, "unevaluatedProperties", scope)?;
            logic.unevaluated_items = self.optional(schema, "unevaluatedItems", scope)?;
        }
        let says = !logic.all.is_empty()
            || logic.decides()
            || logic.not.is_some()
            || !logic.dependents.is_empty()
            || logic.unevaluated_properties.is_some()
            || logic.unevaluated_items.is_some();
        Ok(says.then_some(logic))
    }

    /// `$ref` and its kin, then `allOf`; what asks nothing, or has been asked, is left out.
    fn all(
        &mut self,
        schema: &'r Map<String, Value>,
        scope: &Scope<'r>,
    ) -> Result<Box<[NodeId]>, SchemaError> {
        let mut all = Vec::new();
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = reference_in(schema, keyword, scope.draft) {
                let (target, inside) = self.resolve(keyword, reference, scope)?;
                all.push(self.node(target, &inside)?);
            }
        }
        if !replaces_siblings(schema, scope.draft)
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
        schema: &'r Map<String, Value>,
        scope: &Scope<'r>,
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

    /// OpenAPI's `discriminator`: each variant goes by the last part of its reference, and by
    /// what `mapping` calls it.
    fn discriminator(
        &mut self,
        schema: &'r Map<String, Value>,
        schemas: &'r [Value],
        variants: &[NodeId],
        scope: &Scope<'r>,
    ) -> Result<Option<Discriminator>, SchemaError> {
        let Some(Value::Object(keyword)) = schema.get("discriminator") else {
            return Ok(None);
        };
        let Some(property) = keyword.get("propertyName").and_then(Value::as_str) else {
            return Ok(None);
        };
        let mut named: Vec<(Box<str>, NodeId)> = Vec::new();
        for (name, target) in members(keyword, "mapping") {
            if let Some(node) = self.mapped(target.as_str(), schemas, variants, scope) {
                named.push((name.as_str().into(), node));
            }
        }
        for (variant, node) in schemas.iter().zip(variants) {
            if let Some(reference) = variant.get("$ref").and_then(Value::as_str) {
                named.push((last_segment(reference).into(), *node));
            }
        }
        Ok(Some(Discriminator { property: property.into(), variants: named.into() }))
    }

    /// The variant a `mapping` entry means: by its reference, or by its bare name.
    fn mapped(
        &mut self,
        target: Option<&str>,
        schemas: &'r [Value],
        variants: &[NodeId],
        scope: &Scope<'r>,
    ) -> Option<NodeId> {
        let target = target?;
        let references = schemas.iter().map(|variant| variant.get("$ref").and_then(Value::as_str));
        let by_text = references.zip(variants).find(|(reference, _)| {
            reference.is_some_and(|found| found == target || last_segment(found) == target)
        });
        if let Some((_, node)) = by_text {
            return Some(*node);
        }
        let (schema, inside) = self.resolve("$ref", target, scope).ok()?;
        self.node(schema, &inside).ok().filter(|node| variants.contains(node))
    }

    fn condition(
        &mut self,
        schema: &'r Map<String, Value>,
        scope: &Scope<'r>,
    ) -> Result<Option<Condition>, SchemaError> {
        if matches!(scope.draft, Draft::Draft4 | Draft::Draft6) {
            return Ok(None);
        }
        let Some(test) = self.optional(schema, "if", scope)? else {
            return Ok(None);
        };
        let then = self.optional(schema, "then", scope)?;
        let otherwise = self.optional(schema, "else", scope)?;
        Ok(Some(Condition { test, then, otherwise }))
    }

    fn dependents(
        &mut self,
        schema: &'r Map<String, Value>,
        scope: &Scope<'r>,
    ) -> Result<Box<[Dependent]>, SchemaError> {
        let recent = !matches!(scope.draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7);
        members(schema, "dependentSchemas")
            .filter(|_| recent)
            .chain(members(schema, "dependencies").filter(|(_, value)| !value.is_array()))
            .map(|(trigger, schema)| Ok((trigger.as_str().into(), self.node(schema, scope)?)))
            .collect()
    }
}

fn last_segment(reference: &str) -> &str {
    reference.rsplit(['/', '#']).next().unwrap_or(reference)
}
