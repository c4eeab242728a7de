//! What administration asks for.

/// To see sources, journal and approvals.
pub const READ: &str = "toolpost:read";

/// To approve or reject the calls of others.
pub const APPROVE: &str = "toolpost:approve";

/// To change what the gateway does.
pub const ADMIN: &str = "toolpost:admin";
