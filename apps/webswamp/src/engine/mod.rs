//! The core: many web clients, each a connection and a request under way.
//!
//! It performs nothing: a [`Transport`](crate::transport::Transport) opens and sends, and anyone who owns the loop hands in the time and the
//! connections' events. In each turn:
//!
//! 1. [`Engine::handle_event`] for each event of a connection, [`Engine::handle_handshake`] when it is secured or will not be;
//! 2. [`Engine::handle_due`] for requests whose time has come, and for deadlines;
//! 3. send; sleep until [`Engine::poll_timeout`] or the next event.
//!
//! In a **closed loop** each client has a slot for good: it thinks, asks, and takes in the response. In an **open loop**
//! requests begin by the [`Schedule`](crate::schedule::Schedule), on whatever slot is free, a new one if need be; what finds none waits, and its
//! time runs. What goes wrong with a request is counted and the connection given up, and the slot goes on.
//!
//! | file | what is in it |
//! |---|---|
//! | `behaviour` | what clients do |
//! | `clients` | the engine itself |
//! | `slot` | a client's place |
//! | `order` | whose deadline comes first |
//! | `begin` | requests that begin |
//! | `secure` | connections that are secured first |
//! | `behind` | what was sent on a connection behind its first request |
//! | `pipeline` | requests sent behind others |
//! | `shared` | connections that several slots share |
//! | `take` | responses that come |

mod begin;
mod behaviour;
mod behind;
mod clients;
mod order;
mod pipeline;
mod secure;
mod shared;
mod slot;
mod take;
#[cfg(test)]
mod tests;

pub use behaviour::{Behaviour, Shape};
pub use clients::Engine;
