//! References that lead back to themselves without taking a step into the value.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::Unsayable;

/// Through how many references one place may lead: some clients follow them by recursion.
pub(super) const LONGEST: usize = 32;

/// Refuses a schema that a client would follow for ever.
pub(super) fn check(
    root: &Map<String, Value>,
    definitions: &Map<String, Value>,
    place: &str,
) -> Result<(), Unsayable> {
    let targets: HashMap<String, usize> = std::iter::once(place.to_owned())
        .chain(definitions.keys().map(|name| format!("#/$defs/{name}")))
        .zip(0..)
        .collect();
    let bodies = std::iter::once(root).chain(definitions.values().filter_map(Value::as_object));
    let leads: Vec<Vec<usize>> = bodies
        .map(|body| {
            let mut references = Vec::new();
            members(body, &mut references);
            references.iter().filter_map(|target| targets.get(*target).copied()).collect()
        })
        .collect();
    peel(&leads)
}

/// Takes away, round by round, what nothing leads to; a cycle is never taken away.
fn peel(leads: &[Vec<usize>]) -> Result<(), Unsayable> {
    let mut led_to = vec![0_usize; leads.len()];
    leads.iter().flatten().for_each(|target| led_to[*target] += 1);
    let mut round: Vec<usize> = (0..leads.len()).filter(|node| led_to[*node] == 0).collect();
    let mut left = leads.len();
    for _ in 0..=LONGEST {
        left -= round.len();
        let mut next = Vec::new();
        for target in round.iter().flat_map(|node| &leads[*node]) {
            led_to[*target] -= 1;
            if led_to[*target] == 0 {
                next.push(*target);
            }
        }
        round = next;
    }
    if left == 0 { Ok(()) } else { Err(Unsayable::Cycle) }
}

/// The references that are followed for the very value that the schema is asked about.
fn members<'a>(body: &'a Map<String, Value>, references: &mut Vec<&'a str>) {
    for (keyword, value) in body {
        match (keyword.as_str(), value) {
            ("$ref", Value::String(reference)) => references.push(reference),
            ("not" | "if" | "then" | "else", Value::Object(body)) => members(body, references),
            ("allOf" | "anyOf" | "oneOf", Value::Array(bodies)) => {
                for body in bodies.iter().filter_map(Value::as_object) {
                    members(body, references);
                }
            }
            _ => {}
        }
    }
}
