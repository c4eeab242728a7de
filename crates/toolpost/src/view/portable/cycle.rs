//! Detects reference cycles that apply to the same value.

use std::collections::HashMap;

use serde_json::Value;

use super::PortableError;
use crate::json::JsonObject;

/// Maximum length of a reference chain for one value. Some clients follow references recursively.
pub(super) const MAX_REF_CHAIN: usize = 32;

/// Rejects a schema whose references form a cycle or too long a chain for the same value.
pub(super) fn check_ref_cycles(
    root: &JsonObject,
    definitions: &JsonObject,
    base_pointer: &str,
) -> Result<(), PortableError> {
    let targets: HashMap<String, usize> = std::iter::once(base_pointer.to_owned())
        .chain(definitions.keys().map(|name| format!("#/$defs/{name}")))
        .zip(0..)
        .collect();
    let bodies = std::iter::once(root).chain(definitions.values().filter_map(Value::as_object));
    let edges: Vec<Vec<usize>> = bodies
        .map(|body| {
            let mut references = Vec::new();
            collect_in_place_refs(body, &mut references);
            references.iter().filter_map(|target| targets.get(*target).copied()).collect()
        })
        .collect();
    check_acyclic(&edges)
}

/// Topological sort: fails on a cycle, or on a chain longer than [`MAX_REF_CHAIN`].
fn check_acyclic(edges: &[Vec<usize>]) -> Result<(), PortableError> {
    let mut in_degrees = vec![0_usize; edges.len()];
    edges.iter().flatten().for_each(|target| in_degrees[*target] += 1);
    let mut round: Vec<usize> = (0..edges.len()).filter(|node| in_degrees[*node] == 0).collect();
    let mut unvisited = edges.len();
    for _ in 0..=MAX_REF_CHAIN {
        unvisited -= round.len();
        let mut next = Vec::new();
        for target in round.iter().flat_map(|node| &edges[*node]) {
            in_degrees[*target] -= 1;
            if in_degrees[*target] == 0 {
                next.push(*target);
            }
        }
        round = next;
    }
    if unvisited == 0 { Ok(()) } else { Err(PortableError::Cycle) }
}

/// Collects the references that apply to the value itself, not to its children.
fn collect_in_place_refs<'a>(body: &'a JsonObject, references: &mut Vec<&'a str>) {
    for (keyword, value) in body {
        match (keyword.as_str(), value) {
            ("$ref", Value::String(reference)) => references.push(reference),
            ("not" | "if" | "then" | "else", Value::Object(body)) => {
                collect_in_place_refs(body, references);
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(bodies)) => {
                for body in bodies.iter().filter_map(Value::as_object) {
                    collect_in_place_refs(body, references);
                }
            }
            _ => {}
        }
    }
}
