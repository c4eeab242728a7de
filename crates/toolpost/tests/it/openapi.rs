//! HTTP services as sources: results that the caller receives through the registry and pipeline,
//! and requests that the services receive.
//!
//! | file | contains |
//! |---|---|
//! | `fixture` | a scripted service, its document, and a pipeline |
//! | `responses` | bodies, statuses and headers |
//! | `retries` | retries and the circuit breaker |
//! | `hosts` | allowed hosts and redirects |
//! | `size_limits` | oversized responses, compressed or not |
//! | `source_lifecycle` | documents that load, change and disappear |
//! | `streams` | server-sent events and JSON sequences |
//! | `peer_gateways` | services that are Toolpost gateways |
//! | `deadlines` | deadlines and cancellation |
//! | `redaction` | secrets in errors and logs |

mod deadlines;
mod fixture;
mod hosts;
mod peer_gateways;
mod redaction;
mod responses;
mod retries;
mod size_limits;
mod source_lifecycle;
mod streams;
