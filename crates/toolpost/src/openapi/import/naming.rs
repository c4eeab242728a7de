//! Operation names.
//!
//! The name of an operation is its `operationId`. Without a valid `operationId`, the name is the
//! method and path: `get_users_id` for GET `/users/{id}`. If several operations have the same
//! `operationId`, method and path are appended for each of them: `list_get_users`. If that name is
//! taken as well, a short digest of method and path is appended. A name depends on the other
//! operations of the document, but not on their order.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use super::path_item::PathOperation;
use crate::spec::MAX_NAME_LENGTH;

/// The data that the name of an operation is derived from.
pub(super) struct NameRequest<'f, 'l> {
    pub(super) operation: &'f PathOperation<'l>,
    /// The trimmed `operationId`, or `None` if there is no usable one.
    pub(super) operation_id: Option<&'l str>,
    /// Name that another gateway has assigned.
    pub(super) fixed_name: Option<&'f str>,
}

/// Assigns a name to each operation and returns the names in the same order.
pub(super) fn assign_names(requests: &[NameRequest<'_, '_>]) -> Vec<String> {
    // An `operationId` takes precedence over a derived name.
    let strategies: [fn(&NameRequest<'_, '_>) -> Option<String>; 4] = [
        |request| request.operation_id.map(str::to_owned),
        |request| Some(qualified_name(request)),
        |request| {
            let name = format!("{}_{}", qualified_name(request), digest(request.operation, 8));
            Some(truncated_name(request, name))
        },
        |request| Some(digest(request.operation, 64)),
    ];
    let fixed = requests.iter().map(|request| request.fixed_name.map(str::to_owned));
    let mut names: Vec<Option<String>> = fixed.collect();
    let mut taken: HashSet<String> = names.iter().flatten().cloned().collect();
    for strategy in strategies {
        let mut requested: HashMap<String, Vec<usize>> = HashMap::new();
        for at in (0..requests.len()).filter(|at| names[*at].is_none()) {
            if let Some(name) = strategy(&requests[at]) {
                requested.entry(name).or_default().push(at);
            }
        }
        for (name, indices) in requested {
            if let [at] = indices[..]
                && taken.insert(name.clone())
            {
                names[at] = Some(name);
            }
        }
    }
    let number = |at: usize| format!("operation_{at}");
    names.into_iter().enumerate().map(|(at, name)| name.unwrap_or_else(|| number(at))).collect()
}

/// Returns the method and path as a name, after the `operationId` if there is one.
fn qualified_name(request: &NameRequest<'_, '_>) -> String {
    let derived = method_and_path_name(request.operation);
    let name = request.operation_id.map_or_else(|| derived.clone(), |id| format!("{id}_{derived}"));
    truncated_name(request, name)
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

/// Truncates a name to the maximum length. A digest keeps truncated names distinct.
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
