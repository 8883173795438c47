//! What all the rest is said in: states, events, segments, four-tuples, options, and their form between stacks. None of it
//! knows of a connection.

pub mod agreed;
pub mod codec;
pub mod ecn;
pub mod event;
pub mod flow;
pub mod id;
pub mod ip;
pub mod local;
pub mod options;
pub mod outgoing;
pub mod segment;
pub mod state;
