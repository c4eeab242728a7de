//! What administration asks for.

/// To see sources, journal and approvals.
pub const READ: &str = "manila:read";

/// To approve or reject the calls of others.
pub const APPROVE: &str = "manila:approve";

/// To change what the gateway does.
pub const ADMIN: &str = "manila:admin";
