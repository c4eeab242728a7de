//! Scopes that the administration operations require.

/// Permits reading sources, journal and approvals.
pub const READ: &str = "toolpost:read";

/// Permits approving and rejecting calls by other callers.
pub const APPROVE: &str = "toolpost:approve";

/// Permits changing the gateway.
pub const ADMIN: &str = "toolpost:admin";
