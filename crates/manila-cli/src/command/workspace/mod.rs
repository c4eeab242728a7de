//! `workspace`: about the rooms of a gateway.

mod allows;

pub(crate) use allows::allows;
