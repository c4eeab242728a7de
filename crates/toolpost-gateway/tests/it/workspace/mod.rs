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
//! | `forms` | what is said in one form, seen in the others |
//! | `presence` | coming, going, and coming again |
//! | `grants` | what somebody is given, and what is taken from him |
//! | `streams` | who opens, writes and reads them |
//! | `orders` | pauses, acknowledgements, reasoning |
//! | `calls` | the operations of the registry as a participant |
//! | `console` | those who read and decide without being there |
//! | `crowd` | a thousand of them, and some who do not read |

mod calls;
mod cast;
mod client;
mod console;
mod crowd;
mod door;
mod forms;
mod grants;
mod orders;
mod presence;
mod refused;
mod script;
mod streams;
mod world;
