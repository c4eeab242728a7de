//! `room`: commands for the rooms of a gateway.

mod allows;
mod join;

pub(crate) use allows::allows;
pub(crate) use join::join;
