//! The room protocol end to end: a real gateway, WebSockets and HTTP.
//!
//! | file | contains |
//! |---|---|
//! | `fixture` | a gateway with rooms, identities and operations |
//! | `room_clients` | several clients in one room |
//! | `client` | a client of each protocol family |
//! | `proposals` | the life of a proposal, live and in the history |
//! | `join_rejections` | rejected joins |
//! | `rejected_messages` | rejected messages |
//! | `protocol_translation` | one message in every protocol family |
//! | `presence` | join, leave and rejoin |
//! | `closing` | the closing handshake |
//! | `grants` | grants, revocations and invitations |
//! | `guests` | invited participants as identities of their own kind |
//! | `streams` | owners, writers and readers of streams |
//! | `participant_control` | pauses, acknowledgments, reasoning |
//! | `registry_calls` | the operations of the registry as a participant |
//! | `kind_filters` | filters by kind and operation |
//! | `short_kinds` | the deprecation of short kinds |
//! | `http_api` | reading rooms and deciding proposals over HTTP |
//! | `load` | a thousand participants, and slow readers |

mod client;
mod closing;
mod fixture;
mod grants;
mod guests;
mod http_api;
mod join_rejections;
mod kind_filters;
mod load;
mod participant_control;
mod presence;
mod proposals;
mod protocol_translation;
mod registry_calls;
mod rejected_messages;
mod room_clients;
mod short_kinds;
mod streams;
