//! A client of packets: visits a web server from the wire itself, with a TCP of its own that is as small as the
//! protocol allows, so that the server and the link are what limits and not the client.
//!
//! | file | what is in it |
//! |---|---|
//! | `connection` | one client's TCP: the states it goes through, without I/O |
//! | `early` | segments that came before their turn |
//! | `response` | what the server must answer, and the comparison with what it does |
//! | `tuples` | which local address and port a connection has |
//! | `steering` | which queue of the wire it uses |
//! | `frames` | segments from and to the wire, and ARP for our addresses |
//! | `schedule` | when requests are meant to begin, at a given rate |
//! | `visitors` | which connection asks next: one request after the other, or at that rate; slow readers |
//! | `settings` | what it is told |
//! | `visit` | the loop |
//! | `visited` | what was seen |
//! | `beside` | the server in the same loop, where both ends of something are wanted |
//!
//! What it says cannot flatter a server: a request counts when its answer came whole, in order, with right checksums,
//! and byte for byte what was asked for; everything else is counted as what it is. How long the client itself had
//! something to do is measured, so that one sees who was waiting for whom.
//!
//! What it leaves out: selective acknowledgement, window scaling, and congestion control (its requests are one segment
//! each).

mod beside;
mod connection;
mod early;
mod frames;
mod response;
mod schedule;
mod segment;
mod settings;
mod steering;
mod tuples;
mod visit;
mod visited;
mod visitors;

pub(crate) use settings::{BesideSettings, Visit};
pub use visited::Visited;
