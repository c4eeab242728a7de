//! Administration of a running gateway: operations in their own namespace, which require the scopes
//! in [`scope`]. They are called like any other operation and are not listed as tools.

pub mod scope;

use toolpost::{Identity, IdentityKind};

/// Namespace of the administration operations.
pub const NAMESPACE: &str = "gateway";

/// Id of the operator, the identity of the token in the data folder.
pub const OPERATOR: &str = "operator";

/// Returns the operator's identity. It has every administration scope and no other scopes.
pub fn operator() -> Identity {
    let scopes = [scope::READ, scope::APPROVE, scope::ADMIN];
    Identity::new(OPERATOR).with_kind(IdentityKind::Operator).with_scopes(scopes)
}
