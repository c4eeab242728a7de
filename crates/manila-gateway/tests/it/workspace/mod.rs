//! The workspace as those see it who are in it: a real gateway, real WebSockets, real HTTP.
//!
//! | file | holds |
//! |---|---|
//! | `world` | a gateway with rooms, people and operations |
//! | `client` | a participant of each family |
//! | `script` | a room in which an agent proposes and a person approves, and who comes late |

mod client;
mod script;
mod world;
