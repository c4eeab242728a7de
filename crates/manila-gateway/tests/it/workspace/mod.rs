//! The workspace as those see it who are in it: a real gateway, real WebSockets, real HTTP.
//!
//! | file | holds |
//! |---|---|
//! | `world` | a gateway with rooms, people and operations |
//! | `cast` | some of them in one room |
//! | `client` | a participant of each family |
//! | `script` | a room in which an agent proposes and a person approves, and who comes late |
//! | `door` | who is not let in |
//! | `refused` | what is refused in a room |

mod cast;
mod client;
mod door;
mod refused;
mod script;
mod world;
