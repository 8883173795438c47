//! `exos forward --splice`: the forwarder that joins sockets, to be measured against (*Fast and Flexible*, section 7), and
//! for servers that are to be told of the client by the PROXY protocol.
//!
//! One thread, epoll, sockets that do not block; bytes go from one to the other through pipes, by splice(2), without being
//! copied to us. What that cannot do is the paper's point: our kernel acknowledges to the client what the server may never get, and
//! each side has its own window, congestion control and options. So nothing of this is end to end but the bytes.
//!
//! | file | what is in it |
//! |---|---|
//! | `choice` | listeners, servers, and which server a client belongs to |
//! | `pipe` | one direction: what is moved, and when a pipe is needed |
//! | `connection` | two sockets and two directions: how that begins and ends |
//! | `splicer` | all of them, epoll, and what is due |
//! | `proxy` | the header that tells a server of its client |
//! | `report` | what it says of itself |
//! | `run` | the program: its start and its loop |

mod choice;
mod connection;
mod counters;
mod pipe;
pub(crate) mod proxy;
mod report;
mod run;
mod splicer;
#[cfg(test)]
mod tests;

pub use report::Report;
pub(crate) use run::run;
