//! Running a gateway from outside: operations in a namespace of their own, for those who hold the
//! scopes. They are called like every other operation, and are not listed as tools.

pub mod scope;

use toolpost::Identity;

/// The namespace of the operations that are about the gateway itself.
pub const NAMESPACE: &str = "gateway";

/// Who runs this gateway; known by the token in its data folder.
pub const OPERATOR: &str = "operator";

/// The operator, who may do everything that is about the gateway, and no more of the rest than
/// anybody else.
pub fn operator() -> Identity {
    Identity::new(OPERATOR).with_scopes([scope::READ, scope::APPROVE, scope::ADMIN])
}
