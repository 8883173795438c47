//! Connections that slots share, each with a stream of its own (HTTP/2, HTTP/3).
//!
//! Slots come in groups of as many as a connection has streams. A group asks on one connection at a time: where that takes no
//! more requests, because as many were asked as are to be or because the server goes away, it ends with what is under way on it,
//! and the group opens another. A request for which there is no stream waits on its group's connection, and its time runs.
//!
//! | file | what is in it |
//! |---|---|
//! | `connections` | the connections, and which slot is on which |
//! | `begin` | connections that are opened, and requests that are asked on them |
//! | `take` | what comes |
//! | `end` | connections that are over |

mod begin;
mod connections;
mod end;
mod take;

pub(super) use connections::SharedConnections;
pub(super) use take::Outcome;
