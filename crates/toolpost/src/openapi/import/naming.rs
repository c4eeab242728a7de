//! What operations are called.
//!
//! An operation goes by its `operationId`. One without, or with one that is no name, goes by its
//! method and path: `get_users_id` for GET `/users/{id}`. Where several share an `operationId` it
//! names none of them, and each goes by it, its method and its path: `list_get_users`. What is still
//! taken by another gets a short digest of method and path behind it. So a name depends on which
//! other operations there are, but never on their order.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::path_item::PathOperation;
use crate::spec::MAX_NAME_LENGTH;

/// What an operation calls itself.
pub(super) struct NameRequest<'f, 'l> {
    pub(super) operation: &'f PathOperation<'l>,
    /// Trimmed, and `None` if it is no name.
    pub(super) operation_id: Option<&'l str>,
    /// The name that it has in any case, because another gateway says so.
    pub(super) fixed_name: Option<&'f str>,
}

/// The names of all operations, in their order.
pub(super) fn assign_names(requests: &[NameRequest<'_, '_>]) -> Vec<String> {
    let strategies: [fn(&NameRequest<'_, '_>) -> String; 3] =
        [qualified_name, name_with_digest, digest_name];
    let mut names: Vec<Option<String>> = vec![None; requests.len()];
    let mut taken: HashMap<String, usize> = HashMap::new();
    for (at, request) in requests.iter().enumerate() {
        if let Some(name) = request.fixed_name {
            taken.insert(name.to_owned(), at);
            names[at] = Some(name.to_owned());
        }
    }
    // An `operationId` is meant as a name, so it goes before what only looks like one.
    let open_id = |request: &NameRequest<'_, '_>| {
        request.operation_id.filter(|_| request.fixed_name.is_none()).map(str::to_owned)
    };
    for (at, id) in unique_names(requests, open_id) {
        if !taken.contains_key(&id) {
            taken.insert(id.clone(), at);
            names[at] = Some(id);
        }
    }
    for strategy in strategies {
        let open = |at: usize| names[at].is_none();
        let mut requested: HashMap<String, Vec<usize>> = HashMap::new();
        for at in (0..requests.len()).filter(|at| open(*at)) {
            requested.entry(strategy(&requests[at])).or_default().push(at);
        }
        for (name, indices) in requested {
            if let [at] = indices[..]
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
fn unique_names(
    requests: &[NameRequest<'_, '_>],
    name: impl Fn(&NameRequest<'_, '_>) -> Option<String>,
) -> Vec<(usize, String)> {
    let mut requested: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, request) in requests.iter().enumerate() {
        if let Some(name) = name(request) {
            requested.entry(name).or_default().push(at);
        }
    }
    let is_unique =
        |(name, indices): (String, Vec<usize>)| (indices.len() == 1).then(|| (indices[0], name));
    requested.into_iter().filter_map(is_unique).collect()
}

/// Method and path; behind the `operationId`, if that did not do.
fn qualified_name(request: &NameRequest<'_, '_>) -> String {
    let derived = method_and_path_name(request.operation);
    truncated_name(
        request,
        request.operation_id.map_or_else(|| derived.clone(), |id| format!("{id}_{derived}")),
    )
}

fn name_with_digest(request: &NameRequest<'_, '_>) -> String {
    truncated_name(request, format!("{}_{}", qualified_name(request), digest(request.operation, 8)))
}

fn digest_name(request: &NameRequest<'_, '_>) -> String {
    digest(request.operation, 64)
}

fn method_and_path_name(operation: &PathOperation<'_>) -> String {
    let mut name = operation.method.to_ascii_lowercase();
    for character in operation.path.chars() {
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
fn truncated_name(request: &NameRequest<'_, '_>, name: String) -> String {
    if name.chars().count() <= MAX_NAME_LENGTH {
        return name;
    }
    let prefix: String = name.chars().take(MAX_NAME_LENGTH - 9).collect();
    format!("{prefix}_{}", digest(request.operation, 8))
}

fn digest(operation: &PathOperation<'_>, length: usize) -> String {
    let text = format!("{} {}", operation.method, operation.path);
    let mut digest = data_encoding::HEXLOWER.encode(&Sha256::digest(text));
    digest.truncate(length);
    digest
}
