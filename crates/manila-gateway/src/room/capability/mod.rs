//! Which messages somebody may send.
