//! What operations are called.
//!
//! An operation goes by its `operationId`. One without, or with one that is no name, goes by its
//! method and path: `get_users_id` for GET `/users/{id}`. Where several share an `operationId` it
//! names none of them, and each goes by it, its method and its path: `list_get_users`. What is still
//! taken by another gets a short digest of method and path behind it. So a name depends on which
//! other operations there are, but never on their order.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::path::Found;
use crate::spec::MAX_NAME_LENGTH;

/// What an operation calls itself.
pub(super) struct Wish<'f, 'l> {
    pub(super) found: &'f Found<'l>,
    /// Trimmed, and `None` if it is no name.
    pub(super) id: Option<&'l str>,
    /// The name that it has in any case, because another gateway says so.
    pub(super) settled: Option<&'f str>,
}

/// The names of all operations, in their order.
pub(super) fn settle(wishes: &[Wish<'_, '_>]) -> Vec<String> {
    let steps: [fn(&Wish<'_, '_>) -> String; 3] = [first, second, third];
    let mut names: Vec<Option<String>> = vec![None; wishes.len()];
    let mut taken: HashMap<String, usize> = HashMap::new();
    for (at, wish) in wishes.iter().enumerate() {
        if let Some(name) = wish.settled {
            taken.insert(name.to_owned(), at);
            names[at] = Some(name.to_owned());
        }
    }
    // An `operationId` is meant as a name, so it goes before what only looks like one.
    let open_id =
        |wish: &Wish<'_, '_>| wish.id.filter(|_| wish.settled.is_none()).map(str::to_owned);
    for (at, id) in unique(wishes, open_id) {
        if !taken.contains_key(&id) {
            taken.insert(id.clone(), at);
            names[at] = Some(id);
        }
    }
    for step in steps {
        let open = |at: usize| names[at].is_none();
        let mut asked: HashMap<String, Vec<usize>> = HashMap::new();
        for at in (0..wishes.len()).filter(|at| open(*at)) {
            asked.entry(step(&wishes[at])).or_default().push(at);
        }
        for (name, who) in asked {
            if let [at] = who[..]
                && !taken.contains_key(&name)
            {
                taken.insert(name.clone(), at);
                names[at] = Some(name);
            }
        }
    }
    let number = |at: usize| format!("operation_{at}");
    names.into_iter().enumerate().map(|(at, name)| name.unwrap_or_else(|| number(at))).collect()
}

/// Those that ask for a name that nobody else asks for.
fn unique(
    wishes: &[Wish<'_, '_>],
    name: impl Fn(&Wish<'_, '_>) -> Option<String>,
) -> Vec<(usize, String)> {
    let mut asked: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, wish) in wishes.iter().enumerate() {
        if let Some(name) = name(wish) {
            asked.entry(name).or_default().push(at);
        }
    }
    let alone = |(name, who): (String, Vec<usize>)| (who.len() == 1).then(|| (who[0], name));
    asked.into_iter().filter_map(alone).collect()
}

/// Method and path; behind the `operationId`, if that did not do.
fn first(wish: &Wish<'_, '_>) -> String {
    let derived = derived(wish.found);
    fitted(wish, wish.id.map_or_else(|| derived.clone(), |id| format!("{id}_{derived}")))
}

fn second(wish: &Wish<'_, '_>) -> String {
    fitted(wish, format!("{}_{}", first(wish), digest(wish.found, 8)))
}

fn third(wish: &Wish<'_, '_>) -> String {
    digest(wish.found, 64)
}

fn derived(found: &Found<'_>) -> String {
    let mut name = found.method.to_ascii_lowercase();
    for character in found.path.chars() {
        match character {
            _ if character.is_alphanumeric() || matches!(character, '-' | '.') => {
                name.push(character);
            }
            '}' => {}
            _ if name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    name.trim_end_matches('_').to_owned()
}

/// A name of the allowed length; the digest tells apart what was cut alike.
fn fitted(wish: &Wish<'_, '_>, name: String) -> String {
    if name.chars().count() <= MAX_NAME_LENGTH {
        return name;
    }
    let kept: String = name.chars().take(MAX_NAME_LENGTH - 9).collect();
    format!("{kept}_{}", digest(wish.found, 8))
}

fn digest(found: &Found<'_>, length: usize) -> String {
    let text = format!("{} {}", found.method, found.path);
    let mut digest = data_encoding::HEXLOWER.encode(&Sha256::digest(text));
    digest.truncate(length);
    digest
}
