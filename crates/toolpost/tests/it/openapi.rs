//! HTTP services as sources: what a caller sees of them through registry and pipeline, and what the
//! services see.
//!
//! | file | holds |
//! |---|---|
//! | `rig` | a service that does as it is told, its document, and a pipeline |
//! | `answers` | bodies, statuses and heads |
//! | `losses` | what is sent again, and what is left alone |
//! | `hosts` | where requests go and where they do not |
//! | `sizes` | answers that are too large, packed or not |
//! | `sources` | documents that are read, appear, change and are gone |
//! | `streams` | events and other values in a row |
//! | `natives` | services that are gateways like this one |
//! | `patience` | deadlines and cancellation |
//! | `secrets` | what nobody may see |

mod answers;
mod hosts;
mod losses;
mod natives;
mod patience;
mod rig;
mod secrets;
mod sizes;
mod sources;
mod streams;
