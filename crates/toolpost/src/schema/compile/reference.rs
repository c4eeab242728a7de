//! Resolves references, and finds the defaults of a schema through them.

use std::collections::{HashMap, HashSet};

use referencing::{Draft, Resolver};
use serde_json::Value;

use super::super::budget::{Budget, ValueSize};
use super::super::program::NodeId;
use super::defaults::DefaultCandidate;
use super::{CompileScope, SchemaCompiler, SchemaError, resolve_error};
use crate::json::JsonObject;

/// Maximum length of a reference chain; longer chains count as cyclic.
const MAX_REF_CHAIN: usize = 256;

/// Annotations and identifiers: keywords that add no constraint next to `$ref`.
const ANNOTATION_KEYWORDS: [&str; 18] = [
    "$schema",
    "$id",
    "id",
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$comment",
    "$defs",
    "definitions",
    "$vocabulary",
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
];

/// Whether the schema has a `$ref` and the draft ignores all keywords next to it.
pub(super) fn ignores_ref_siblings(schema: &JsonObject, draft: Draft) -> bool {
    matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7)
        && matches!(schema.get("$ref"), Some(Value::String(_)))
}

/// The dynamic scopes in which schemas are compiled.
///
/// Where `$dynamicRef` and `$recursiveRef` lead depends on the resources entered before. A schema is
/// therefore compiled once for each list of resources, unless every reference has the same target
/// in all of them.
pub(super) struct DynamicScopes {
    /// Whether a reference can have several targets.
    are_relevant: bool,
    ids: HashMap<Vec<Box<str>>, u32>,
}

/// Memory of a scope, without its resources.
const SCOPE_MEMORY: usize = 256;

impl DynamicScopes {
    pub(super) fn of(document: &Value) -> Self {
        let mut anchors = DynamicAnchors::default();
        anchors.collect(document);
        let are_relevant = anchors.recursive > 0
            || anchors.refers_to_metaschema
            || anchors.names.values().any(|count| *count > 1);
        Self { are_relevant, ids: HashMap::new() }
    }

    /// Returns the id of the current scope: its resources in the order in which they were entered
    /// first.
    pub(super) fn id(&mut self, resolver: &Resolver<'_>, budget: &Budget<'_>) -> u32 {
        if !self.are_relevant {
            return 0;
        }
        let mut entered: Vec<Box<str>> =
            resolver.dynamic_scope().iter().map(|uri| uri.as_str().into()).collect();
        let lengths: usize = entered.iter().map(|uri| uri.len()).sum();
        budget.spend(entered.len() + lengths / 16);
        entered.reverse();
        let mut seen = HashSet::new();
        entered.retain(|uri| seen.insert(uri.clone()));
        entered.push(resolver.base_uri().as_str().into());
        let next = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        *self.ids.entry(entered).or_insert_with(|| {
            budget.allocate(lengths + SCOPE_MEMORY);
            next
        })
    }
}

/// Occurrences of dynamic anchors. A `$dynamicAnchor` that occurs once acts as a plain anchor.
#[derive(Default)]
struct DynamicAnchors {
    names: HashMap<String, usize>,
    recursive: usize,
    /// The metaschemas of JSON Schema consist of several resources with dynamic anchors.
    refers_to_metaschema: bool,
}

impl DynamicAnchors {
    fn collect(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(members) => {
                if let Some(Value::String(name)) = members.get("$dynamicAnchor") {
                    *self.names.entry(name.clone()).or_default() += 1;
                }
                self.recursive += usize::from(members.contains_key("$recursiveAnchor"));
                self.refers_to_metaschema |= ["$ref", "$dynamicRef"].into_iter().any(|keyword| {
                    let reference = members.get(keyword).and_then(Value::as_str);
                    reference.is_some_and(|text| text.contains("json-schema.org/"))
                });
                members.values().for_each(|member| self.collect(member));
            }
            _ => {}
        }
    }
}

impl<'r> SchemaCompiler<'r> {
    /// Follows references while the schema is only a reference; `None` if they are cyclic.
    pub(super) fn follow_refs(
        &mut self,
        mut schema: &'r Value,
        mut scope: CompileScope<'r>,
    ) -> Result<Option<(&'r Value, CompileScope<'r>)>, SchemaError> {
        for _ in 0..MAX_REF_CHAIN {
            self.spend(1)?;
            scope = enter_scope(schema, scope)?;
            match sole_reference(schema, scope.draft) {
                Some((keyword, reference)) => {
                    (schema, scope) = self.resolve_ref(keyword, reference, &scope)?;
                }
                None => return Ok(Some((schema, scope))),
            }
        }
        Ok(None)
    }

    /// Resolves a reference to its schema and scope.
    pub(super) fn resolve_ref(
        &mut self,
        keyword: &str,
        reference: &str,
        scope: &CompileScope<'r>,
    ) -> Result<(&'r Value, CompileScope<'r>), SchemaError> {
        // Each segment of the reference is looked up.
        self.spend(1 + reference.len() / 4)?;
        let resolved = match keyword {
            "$recursiveRef" => scope.resolver.lookup_recursive_ref(),
            _ => scope.resolver.lookup(reference),
        };
        let (schema, resolver, draft) = resolved.map_err(resolve_error)?.into_inner();
        Ok((schema, CompileScope { resolver, draft }))
    }

    /// Returns the defaults that a value with this schema can take, best first: the schema's own,
    /// then those of schemas applied with it, then those of union variants. A default of a variant
    /// counts only if it is valid for that variant.
    pub(super) fn default_candidates(
        &mut self,
        schema: &'r Value,
        scope: &CompileScope<'r>,
    ) -> Result<Vec<DefaultCandidate>, SchemaError> {
        let mut found = Vec::new();
        let mut pending = vec![(schema, scope.clone(), None)];
        for _ in 0..MAX_REF_CHAIN {
            let Some((schema, scope, variant)) = pending.pop() else {
                break;
            };
            let Value::Object(members) = schema else {
                continue;
            };
            self.spend(1)?;
            if let Some(default) = members.get("default") {
                let size = ValueSize::of(default);
                self.budget.allocate(size.bytes);
                self.spend(size.nodes)?;
                found.push(DefaultCandidate { value: default.clone(), variant });
                if variant.is_none() {
                    break;
                }
                continue;
            }
            let scope = enter_scope(schema, scope)?;
            self.push_applied_schemas(members, &scope, variant, &mut pending)?;
        }
        Ok(found)
    }

    /// Pushes the schemas that apply together with this one, the first last.
    fn push_applied_schemas(
        &mut self,
        members: &'r JsonObject,
        scope: &CompileScope<'r>,
        variant: Option<NodeId>,
        pending: &mut Vec<(&'r Value, CompileScope<'r>, Option<NodeId>)>,
    ) -> Result<(), SchemaError> {
        if !ignores_ref_siblings(members, scope.draft) {
            for keyword in ["oneOf", "anyOf"] {
                for part in subschemas(members, keyword).rev() {
                    let node = self.node(part, scope)?;
                    pending.push((part, scope.clone(), Some(variant.unwrap_or(node))));
                }
            }
            let parts = subschemas(members, "allOf").rev();
            pending.extend(parts.map(|part| (part, scope.clone(), variant)));
        }
        for keyword in ["$dynamicRef", "$recursiveRef", "$ref"] {
            if let Some(reference) = reference_in(members, keyword, scope.draft) {
                let (schema, inside) = self.resolve_ref(keyword, reference, scope)?;
                pending.push((schema, inside, variant));
            }
        }
        Ok(())
    }
}

fn subschemas<'r>(
    schema: &'r JsonObject,
    keyword: &str,
) -> impl DoubleEndedIterator<Item = &'r Value> {
    schema.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the value of a reference keyword if the draft supports the keyword.
pub(super) fn reference_in<'s>(
    schema: &'s JsonObject,
    keyword: &str,
    draft: Draft,
) -> Option<&'s str> {
    let known = match keyword {
        "$dynamicRef" => matches!(draft, Draft::Draft202012 | Draft::Unknown),
        "$recursiveRef" => draft == Draft::Draft201909,
        _ => true,
    };
    schema.get(keyword).filter(|_| known)?.as_str()
}

/// Returns the scope inside a schema, which can have its own identifier and dialect.
fn enter_scope<'r>(
    schema: &'r Value,
    scope: CompileScope<'r>,
) -> Result<CompileScope<'r>, SchemaError> {
    if !schema.is_object() {
        return Ok(scope);
    }
    let draft = scope.draft.detect(schema);
    let resource = draft.create_resource_ref(schema);
    let resolver = scope.resolver.in_subresource(resource).map_err(resolve_error)?;
    Ok(CompileScope { resolver, draft })
}

/// Returns the reference if the schema contains nothing else that constrains a value.
fn sole_reference(schema: &Value, draft: Draft) -> Option<(&'static str, &str)> {
    let members = schema.as_object()?;
    let (keyword, reference) = ["$ref", "$dynamicRef", "$recursiveRef"]
        .into_iter()
        .find_map(|keyword| Some((keyword, reference_in(members, keyword, draft)?)))?;
    let is_lone_reference = ignores_ref_siblings(members, draft)
        || members
            .keys()
            .all(|name| name == keyword || ANNOTATION_KEYWORDS.contains(&name.as_str()));
    is_lone_reference.then_some((keyword, reference))
}
