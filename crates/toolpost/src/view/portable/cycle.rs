//! References that lead back to themselves without taking a step into the value.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::PortableError;

/// Through how many references one place may lead: some clients follow them by recursion.
pub(super) const MAX_REF_CHAIN: usize = 32;

/// Refuses a schema that a client would follow for ever.
pub(super) fn check_ref_cycles(
    root: &Map<String, Value>,
    definitions: &Map<String, Value>,
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

/// The references that are followed for the very value that the schema is asked about.
fn collect_in_place_refs<'a>(body: &'a Map<String, Value>, references: &mut Vec<&'a str>) {
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
