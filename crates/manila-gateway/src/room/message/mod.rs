//! Messages of both protocol families.
